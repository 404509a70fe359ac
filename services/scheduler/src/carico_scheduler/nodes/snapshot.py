"""The cluster as one scheduling cycle sees it: read-only columns, one row per node.

A snapshot copies nothing: its arrays are read-only views of the fleet's columns, valid until the fleet's next change.
A cycle runs to its end without giving way to other tasks, so the columns cannot change under it; what the cycle itself
adds is kept beside them, as changed rows (`board.Draft`). At 10,000 nodes a copy of the columns would cost more than a
decision.
"""

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster
from carico_scheduler.nodes import headroom, node_labels, storage
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts
from carico_scheduler.rules import policy as policies

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_NODE = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """Columns by node slot. NaN and infinities as said; every array has one entry per slot."""

    now_s: float
    policy: policies.Policy
    # Changes of node facts (labels, taints, conditions) so far, and which of them was the last of each slot.
    facts_version: int
    facts_changed: Ints
    nodes: Sequence[cluster.Node | None]
    present: Bools
    ready: Bools
    schedulable: Bools
    tainted: Bools
    # Nodes with a PreferNoSchedule taint.
    disliking: Bools
    allocatable_cores: Floats
    allocatable_bytes: Floats
    pod_limit: Ints
    # All Pods on the node that have not ended, bound or about to be; and those of them that are no baseline.
    placed: Ints
    workloads: Ints
    used_cores: Floats
    used_bytes: Floats
    # As advertised; NaN where nothing was.
    capacity: Floats
    pods: Ints
    limit: Floats
    seq: Ints
    # When the newest sample of the advertisement was taken, on the receiver's clock; -inf where there is none.
    sampled_s: Floats
    reserved: Ints
    # Since when the longest uncovered Pod is uncovered; +inf where all are covered.
    uncovered_since_s: Floats
    # What each slot offers, what its reserved Pods will take of it, and within what the node is believed.
    offers: Sequence[headroom.Offer | None]
    taken: Sequence[headroom.Vector]
    caps: Callable[[int], headroom.Caps]
    # Of a class of Pods, how many each slot is believed to take now; -inf where nothing is advertised.
    free: Callable[[str], Floats]
    # What is left of another resource, by its name.
    left: Callable[[str], Floats]
    # What is requested of other resources, by slot.
    used_others: Sequence[Mapping[str, float]]
    facts: node_labels.NodeLabels
    census: pod_counts.PodCounts
    storage: storage.Storage

    @property
    def count(self) -> int:
        """The number of nodes present."""
        return int(np.count_nonzero(self.present))

    @property
    def goes_by_requests(self) -> bool:
        """True where no advertisement can be gone by, and the policy says to go by requests then."""
        if self.policy.fallback is policies.Fallback.WAIT:
            return False
        return not bool((self.present & (self.sampled_s >= self.now_s - self.policy.ageing_s)).any())

    def row(self, slot: int) -> "NodeRow":
        """The columns of one slot as plain Python numbers."""
        node = self.nodes[slot]
        assert node is not None, f"slot {slot} holds no node"
        return NodeRow(
            slot=slot,
            node=node,
            pod_limit=self.pod_limit.item(slot),
            placed=self.placed.item(slot),
            workloads=self.workloads.item(slot),
            used_cores=self.used_cores.item(slot),
            used_bytes=self.used_bytes.item(slot),
            capacity=self.capacity.item(slot),
            pods=self.pods.item(slot),
            limit=self.limit.item(slot),
            seq=self.seq.item(slot),
            sampled_s=self.sampled_s.item(slot),
            reserved=self.reserved.item(slot),
            uncovered_since_s=self.uncovered_since_s.item(slot),
            offer=self.offers[slot],
            taken=self.taken[slot],
            caps=self.caps(slot),
            used_others=self.used_others[slot],
            most_per_core=self.policy.max_pods_per_core,
        )


class NodeRow(NamedTuple):
    """One node of a snapshot; the fields are the snapshot's columns.

    A named tuple and not a dataclass: two are made for every decision, and a frozen dataclass takes five times as long.
    """

    slot: int
    node: cluster.Node
    pod_limit: int
    placed: int
    workloads: int
    used_cores: float
    used_bytes: float
    capacity: float
    pods: int
    limit: float
    seq: int
    sampled_s: float
    reserved: int
    uncovered_since_s: float
    offer: headroom.Offer | None
    # What the reserved Pods will take, per dimension of the offer.
    taken: headroom.Vector
    caps: headroom.Caps
    used_others: Mapping[str, float]
    # The policy's cap on Pods per core.
    most_per_core: float

    @property
    def is_advertised(self) -> bool:
        """True where an advertisement of the node is known, whatever its age."""
        return self.sampled_s > -math.inf

    def free_for(self, pod_class: str) -> float:
        """Pods of a class that the node is believed to take now, reservations subtracted; -inf: nothing advertised."""
        offer = self.offer
        if offer is None:
            return -math.inf
        return headroom.believed(headroom.pods_left(offer.headroom, self.taken, offer.cost(pod_class)), self.caps)

    def typical_free(self) -> float:
        """The same for the typical Pod that the headline capacity is in: for people."""
        return -math.inf if self.offer is None else headroom.believed(self.capacity - self.reserved, self.caps)

    def left(self, resource: str) -> float:
        """What is left of another resource than cores and memory."""
        return self.node.allocatable_others.get(resource, 0.0) - self.used_others.get(resource, 0.0)

    def with_pod(self, demand: demands.Demand) -> "NodeRow":
        """The row with one more reserved Pod of this demand."""
        taken, others = self.taken, demand.request_others
        if self.offer is not None:
            taken = tuple(map(operator.add, taken, self.offer.cost(demand.pod_class)))
        return self._replace(
            placed=self.placed + 1,
            workloads=self.workloads + 1,
            used_cores=self.used_cores + demand.request_cores,
            used_bytes=self.used_bytes + demand.request_bytes,
            reserved=self.reserved + 1,
            taken=taken,
            caps=self.caps.with_pod(),
            used_others=_sum(self.used_others, others) if others else self.used_others,
        )


def _sum(used: Mapping[str, float], more: tuple[tuple[str, float], ...]) -> Mapping[str, float]:
    return {**used, **{name: used.get(name, 0.0) + amount for name, amount in more}}
