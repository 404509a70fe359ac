"""The cluster as one scheduling cycle sees it: read-only columns, one row per node.

A snapshot copies nothing: its arrays are read-only views of the fleet's columns, valid until the fleet's next change.
A cycle runs to its end without yielding to other tasks, so the columns cannot change during it; what the cycle itself
places is kept apart, as changed rows (`scores.Draft`). At 10,000 nodes a copy of the columns would cost more than a
decision.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster
from carico_core.wire import freshness
from carico_scheduler.nodes import headroom, images, node_labels, storage
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts as counting
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy as policies

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.signedinteger[Any]]

NO_NODE = -1
_NO_OTHERS: Mapping[str, float] = {}


class Free(Protocol):
    """How much room each slot has."""

    def __call__(self, pod_class: str, offset: float = 0.0) -> Floats:
        """Return how many more Pods of a class each slot takes; -inf if nothing is advertised.

        `offset`: by how much of a node the ceiling is higher than advertised.
        """


# Not frozen: each cycle creates one, and 33 fields of a frozen dataclass take 5 us.
@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Snapshot:
    """Columns with one entry per slot, never changed; comments state where NaN and infinities occur."""

    now_s: float
    # Times that `sampled_s` and `uncovered_since_s` of no node are before: rules about age need not look at each node.
    first_sampled_s: float
    first_uncovered_s: float
    policy: policies.Policy
    # Number of changes of Nodes (labels, taints, conditions) so far.
    nodes_version: int
    nodes: Sequence[cluster.Node | None]
    # Returns the slot of a node by its name, or None.
    slot_of: Callable[[str], int | None]
    present: Bools
    ready: Bools
    # Neither cordoned nor being deleted.
    schedulable: Bools
    deleting: Bools
    tainted: Bools
    allocatable_cores: Floats
    # 1 / allocatable_cores: for all of many nodes, a division takes four times as long as a product.
    per_core: Floats
    allocatable_bytes: Floats
    pod_limit: Counts
    # All Pods on the node that have not ended, bound or assumed; and those of them that are not baseline.
    placed: Counts
    workloads: Ints
    used_cores: Floats
    used_bytes: Floats
    # As advertised; NaN if nothing was.
    capacity: Floats
    pods: Ints
    limit: Floats
    # Pods of a class run there of which no node has measured one.
    guessing: Bools
    seq: Ints
    # When the newest sample of the advertisement was taken, on our monotonic clock; -inf if there is none.
    sampled_s: Floats
    reserved: Ints
    # Since when the longest uncovered Pod is uncovered; +inf if all are covered.
    uncovered_since_s: Floats
    # Returns the room of a slot.
    room: Callable[[int], headroom.NodeRoom]
    free: Free
    # Returns what is left of a resource other than CPU and memory, by its name.
    left: Callable[[str], Floats]
    labels: node_labels.NodeLabels
    pod_counts: counting.PodCounts
    storage: storage.Storage
    images: images.Images

    @property
    def count(self) -> int:
        """The number of nodes present."""
        return int(np.count_nonzero(self.present))

    @property
    def goes_by_requests(self) -> bool:
        """True if no advertisement is usable, and the policy is to place by requests then."""
        if self.policy.fallback is policies.Fallback.WAIT:
            return False
        return not bool((self.present & (self.sampled_s >= self.now_s - freshness.AGEING_S)).any())

    def row(self, slot: int, now_s: float | None = None) -> "NodeRow":
        """Return one node, at `now_s` instead of the snapshot's time."""
        node = self.nodes[slot]
        assert node is not None, f"slot {slot} holds no node"
        return NodeRow(
            self, slot, node, self.room(slot), self.now_s if now_s is None else now_s, 0, 0, 0.0, 0.0, _NO_OTHERS
        )  # fmt: skip


class NodeRow(NamedTuple):
    """One node of a snapshot, with the Pods that a cycle has reserved on it since. Valid as long as the snapshot.

    Its properties have the names of the snapshot's columns, so that a stage is written once for both (`Nodes`). They
    are read on access, since most rows are asked for few of them.
    """

    view: Snapshot
    slot: int
    node: cluster.Node
    room: headroom.NodeRoom
    now_s: float
    # The Pods added to those of the snapshot, those of them that are not baseline, and what they request.
    more: int
    more_workloads: int
    more_cores: float
    more_bytes: float
    more_others: Mapping[str, float]

    @property
    def policy(self) -> policies.Policy:
        """The rules of the cycle."""
        return self.view.policy

    @property
    def is_advertised(self) -> bool:
        """True if an advertisement of the node is known, whatever its age."""
        return self.sampled_s > -math.inf

    @property
    def allocatable_cores(self) -> float:
        """Allocatable cores."""
        return self.view.allocatable_cores.item(self.slot)

    @property
    def per_core(self) -> float:
        """1 / allocatable cores."""
        return self.view.per_core.item(self.slot)

    @property
    def allocatable_bytes(self) -> float:
        """Allocatable memory."""
        return self.view.allocatable_bytes.item(self.slot)

    @property
    def pod_limit(self) -> int:
        """The maximum Pods that the kubelet takes."""
        return self.view.pod_limit.item(self.slot)

    @property
    def placed(self) -> int:
        """The Pods on the node that have not ended, bound or assumed."""
        return self.view.placed.item(self.slot) + self.more

    @property
    def workloads(self) -> int:
        """Those of them that are not baseline."""
        return self.view.workloads.item(self.slot) + self.more_workloads

    @property
    def used_cores(self) -> float:
        """Requested cores."""
        return self.view.used_cores.item(self.slot) + self.more_cores

    @property
    def used_bytes(self) -> float:
        """Requested memory."""
        return self.view.used_bytes.item(self.slot) + self.more_bytes

    @property
    def capacity(self) -> float:
        """The advertised capacity; NaN if nothing was advertised."""
        return self.view.capacity.item(self.slot)

    @property
    def pods(self) -> int:
        """The Pods that the advertisement accounts for."""
        return self.view.pods.item(self.slot)

    @property
    def limit(self) -> float:
        """The maximum Pods that the node allows for now; +inf without a limit."""
        return self.view.limit.item(self.slot)

    @property
    def seq(self) -> int:
        """The sequence number of the advertisement."""
        return self.view.seq.item(self.slot)

    @property
    def sampled_s(self) -> float:
        """When the newest sample of the advertisement was taken; -inf if there is none."""
        return self.view.sampled_s.item(self.slot)

    @property
    def reserved(self) -> int:
        """The Pods that no advertisement accounts for yet."""
        return self.view.reserved.item(self.slot) + self.more_workloads

    @property
    def uncovered_since_s(self) -> float:
        """Since when the longest uncovered Pod is uncovered; +inf if all are covered."""
        return self.view.uncovered_since_s.item(self.slot)

    @property
    def first_sampled_s(self) -> float:
        """The same as `sampled_s`: of a single node."""
        return self.sampled_s

    @property
    def first_uncovered_s(self) -> float:
        """The same as `uncovered_since_s`: of a single node."""
        return self.uncovered_since_s

    def free(self, pod_class: str, offset: float = 0.0) -> float:
        """Return how many more Pods of a class the node takes; -inf if nothing is advertised."""
        return self.room_under(offset).free(pod_class)

    def room_under(self, offset: float) -> headroom.NodeRoom:
        """Return the node's room under a ceiling that is higher by `offset` of the node."""
        if not offset:
            return self.room
        return self.room.shifted(offset, cores=self.allocatable_cores, size_bytes=self.allocatable_bytes)

    def typical_free(self) -> float:
        """Return the same for the typical Pod, the unit of advertised capacity, for display."""
        return self.room.capped(self.capacity - self.reserved) if self.room.offer is not None else -math.inf

    def left(self, resource: str) -> float:
        """Return what is left of a resource other than CPU and memory."""
        return self.view.left(resource).item(self.slot) - self.more_others.get(resource, 0.0)

    def with_pod(self, demand: demands.Demand) -> "NodeRow":
        """Return the row with one more reserved Pod of this demand."""
        view, slot, node, room, now_s, more, workloads, cores, size_bytes, others = self
        if demand.request_others:
            others = {**others, **{name: others.get(name, 0.0) + amount for name, amount in demand.request_others}}
        if demand.fills_node:
            # As if as many Pods came as the kubelet takes.
            limit = self.pod_limit
            more, room = more + limit, room._replace(pod_limit=room.pod_limit - limit)
        # A Pod that belongs to its node takes nothing of what is advertised for others.
        if demand.is_baseline:
            after = room._replace(pod_limit=room.pod_limit - 1.0)
        else:
            after, workloads = room.with_pod(demand.pod_class), workloads + 1
        return NodeRow(
            view, slot, node, after, now_s, more + 1, workloads, cores + demand.request_cores,
            size_bytes + demand.request_bytes, others,
        )  # fmt: skip

    def counting(self, bookings: Iterable[tuple[reservations.Booking, bool]], sign: int) -> "NodeRow":
        """Return the row with bookings counted in addition (1) or taken away (-1); each with whether it is reserved."""
        view, slot, node, room, now_s, more, workloads, cores, size_bytes, others = self
        for each, is_reserved in bookings:
            room = room.counting(each.pod_class, sign, is_reserved=is_reserved, is_baseline=each.is_baseline)
            more += sign
            workloads += 0 if each.is_baseline else sign
            cores += sign * each.cores
            size_bytes += sign * each.size_bytes
            if each.others:
                others = {**others, **{name: others.get(name, 0.0) + sign * amount for name, amount in each.others}}
        return NodeRow(view, slot, node, room, now_s, more, workloads, cores, size_bytes, others)


# All nodes of a snapshot, or one of them: a stage takes either.
Nodes: TypeAlias = Snapshot | NodeRow
