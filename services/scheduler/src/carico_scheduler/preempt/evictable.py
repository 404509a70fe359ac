"""Per node, what all Pods that may go would free: nodes where even that is too little need not be searched.

Examining a node for victims reads each of its Pods. The sums here change only with Pods, not with advertisements, so
that most nodes are ruled out in a few operations on whole columns.
"""

import collections
import dataclasses
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from carico_core.domain import cluster
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations

# Priorities whose sums are kept; each costs 24 bytes a node, and a set entry for each change of a node.
PRIORITIES_MOST = 16
# Nodes read at once; other work runs in between. A node takes about 1 us for each of its Pods.
READ_AT_ONCE = 256
# For rounding in sums; far below what a request may be.
_SLACK = 1e-6


class Pods(Protocol):
    """Which Pods count on which node."""

    def pod(self, uid: str) -> cluster.Pod | None:
        """Return the Pod as the API last showed it."""

    @property
    def reservations(self) -> reservations.Reservations:
        """The bookings of all Pods."""


@dataclasses.dataclass(slots=True, eq=False)
class _Sums:
    """Rows: how many Pods may go, and the cores and bytes that they request. `stale`: slots to be read again."""

    of: snapshot.Floats
    stale: set[int]


class Evictable:
    """Sums over the Pods that leave anyway, or are of lower priority than some Pod."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self._kept: collections.OrderedDict[int, _Sums] = collections.OrderedDict()

    def touch(self, slot: int) -> None:
        """Note that the Pods of a node, or the node of a slot, have changed."""
        for each in self._kept.values():
            each.stale.add(slot)

    def read_some(self, priority: int, view: snapshot.Snapshot) -> bool:
        """Read some of what has changed; return True if more is left than should be read at once."""
        stale = self._sums(priority, view).stale
        if len(stale) <= READ_AT_ONCE:
            return False
        self._read(priority, view, [stale.pop() for _ in range(READ_AT_ONCE)])
        return True

    def may_give_way(
        self, demand: demands.Demand, priority: int, view: snapshot.Snapshot, *, by_capacity: bool
    ) -> snapshot.Bools:  # fmt: skip
        """Return the nodes on which a Pod might fit if all of these Pods left; all others keep too little."""
        sums = self._sums(priority, view)
        stale, sums.stale = sums.stale, set()
        self._read(priority, view, stale)
        count, cores, size_bytes = sums.of[:, : len(view.present)]
        mask: snapshot.Bools = (count > 0) & (view.placed - count < view.pod_limit)
        if demand.request_cores > 0.0:
            mask &= view.allocatable_cores - view.used_cores + cores >= demand.request_cores * (1.0 - _SLACK) - _SLACK
        if demand.request_bytes > 0.0:
            mask &= view.allocatable_bytes - view.used_bytes + size_bytes >= demand.request_bytes * (1.0 - _SLACK)
        if by_capacity:
            # The caps of `headroom.NodeRoom`.
            least, policy = view.policy.threshold - _SLACK, view.policy
            mask &= view.limit - view.pods - view.reserved + count >= least
            mask &= policy.max_pods_per_core * view.allocatable_cores - view.workloads + count >= least
        return mask

    def _sums(self, priority: int, view: snapshot.Snapshot) -> _Sums:
        slots = len(view.present)
        found = self._kept.get(priority)
        if found is None:
            found = self._kept[priority] = _Sums(np.zeros((3, 0)), set())
            if len(self._kept) > PRIORITIES_MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(priority)
        known = found.of.shape[1]
        if known < slots:
            found.of = np.concatenate([found.of, np.zeros((3, slots - known))], axis=1)
            found.stale.update(range(known, slots))
        return found

    def _read(self, priority: int, view: snapshot.Snapshot, slots: Iterable[int]) -> None:
        read = list(slots)
        if not read:
            return
        nodes = [view.nodes[slot] for slot in read]
        sums = [(0.0, 0.0, 0.0) if node is None else self._sum(node.name, priority) for node in nodes]
        self._sums(priority, view).of[:, read] = np.array(sums).T

    def _sum(self, node: str, priority: int) -> tuple[float, float, float]:
        count, cores, size_bytes = 0, 0.0, 0.0
        for booking in self._pods.reservations.on(node):
            pod = self._pods.pod(booking.uid)
            if pod is not None and (pod.deleting or (pod.priority < priority and not booking.is_baseline)):
                count += 1
                cores += booking.cores
                size_bytes += booking.size_bytes
        return (float(count), cores, size_bytes)
