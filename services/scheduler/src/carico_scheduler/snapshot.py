"""The cluster as one scheduling cycle sees it: read-only columns, one row per node.

A snapshot copies nothing: its arrays are read-only views of the fleet's columns, valid for the fleet's `version` it
was taken at. A cycle runs to its end without giving way to other tasks, so the columns cannot change under it; what
the cycle itself adds is kept beside them, as changed rows (`cycle.Draft`). At 10,000 nodes a copy of the columns
would cost more than a decision.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster
from carico_scheduler import headroom
from carico_scheduler import policy as policies

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_NODE = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """Columns by node slot. NaN and infinities as said; every array has one entry per slot."""

    version: int
    now_s: float
    policy: policies.Policy
    # Changes of node facts (labels, taints, conditions) so far, and the slots they touched, oldest first.
    facts_version: int
    facts_changed: Sequence[int]
    facts_epoch: int
    nodes: Sequence[cluster.Node | None]
    present: Bools
    ready: Bools
    schedulable: Bools
    tainted: Bools
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
    headroom: Floats  # nodes x dimensions
    cost: Floats
    # When the newest sample of the advertisement was taken, on the receiver's clock; -inf where there is none.
    sampled_s: Floats
    reserved: Ints
    # Since when the longest uncovered Pod is uncovered; +inf where all are covered.
    uncovered_since_s: Floats
    free: Floats

    @property
    def count(self) -> int:
        """The number of nodes present."""
        return int(np.count_nonzero(self.present))

    def row(self, slot: int) -> "NodeRow":
        """The columns of one slot as plain Python numbers."""
        node = self.nodes[slot]
        assert node is not None, f"slot {slot} holds no node"
        return NodeRow(
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
            headroom=self.headroom[slot].tolist(),
            cost=self.cost[slot].tolist(),
            sampled_s=self.sampled_s.item(slot),
            reserved=self.reserved.item(slot),
            uncovered_since_s=self.uncovered_since_s.item(slot),
            free=self.free.item(slot),
        )


class NodeRow(NamedTuple):
    """One node of a snapshot; the fields are the snapshot's columns.

    A named tuple and not a dataclass: two are made for every decision, and a frozen dataclass takes five times as long.
    """

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
    headroom: list[float]
    cost: list[float]
    sampled_s: float
    reserved: int
    uncovered_since_s: float
    # Pods that the node is believed to take now, reservations subtracted; -inf where nothing is advertised.
    free: float

    @property
    def is_advertised(self) -> bool:
        """True where an advertisement of the node is known, whatever its age."""
        return self.sampled_s > -math.inf

    def with_pod(self, *, cores: float, size_bytes: float, policy: policies.Policy) -> "NodeRow":
        """The row with one more reserved Pod of these requests."""
        reserved, placed, workloads = self.reserved + 1, self.placed + 1, self.workloads + 1
        free = self.free
        if self.is_advertised:
            free = headroom.believed(
                headroom.pods_left(self.headroom, self.cost, reserved),
                capacity=self.capacity,
                pods=self.pods,
                reserved=reserved,
                pod_slots=self.pod_limit - placed,
                core_slots=policy.max_pods_per_core * self.node.allocatable_cores - workloads,
                limit=self.limit,
            )
        return self._replace(
            placed=placed,
            workloads=workloads,
            used_cores=self.used_cores + cores,
            used_bytes=self.used_bytes + size_bytes,
            reserved=reserved,
            free=free,
        )
