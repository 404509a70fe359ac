"""Enters and ends the bookings by which Pods count on nodes, and wakes the waiting Pods that this may help. Pure."""

import collections
from collections.abc import Callable

from carico_core.domain import cluster
from carico_scheduler.pods import record as records
from carico_scheduler.pods import reservations
from carico_scheduler.rules import admission
from carico_scheduler.state import node_state


class Placements:
    """The bookings of all Pods, in step with the load of their nodes."""

    def __init__(self, nodes: node_state.NodeState, baseline: admission.Baseline) -> None:
        self._nodes = nodes
        self._baseline = baseline
        # Called with the name of each node on which a Pod was placed, has become or ceased to be baseline, or has new
        # containers.
        self.on_placed: Callable[[str], None] = lambda node: None
        # The number of placed Pods by priority, without those of the baseline, which are never evicted.
        self._priorities: collections.Counter[int] = collections.Counter()

    def lowest_priority(self) -> int | None:
        """Return the lowest priority of a placed Pod that may be evicted; None if there is none."""
        return min(self._priorities, default=None)

    def place(self, record: records.Record, pod: cluster.Pod, node: str, now_s: float) -> None:
        """Enter a Pod's booking on a node in place of the one that it has."""
        booking = reservations.booking_of(pod, node=node, now_s=now_s, is_baseline=self._baseline.includes(pod))
        nodes, old = self._nodes, record.booking
        was_reserved = old is not None and nodes.reservations.is_reserved(old)
        if (
            record.pod is not None
            and nodes.fleet.pod_counts.put(record.pod, booking.node)
            and nodes.fleet.pod_counts.is_asked
            and nodes.queue.parked_classes()
        ):
            # A new Pod can open nodes only to demands that follow peers; changed labels can open nodes in any way.
            nodes.queue.unpark_if(lambda demand: demand.follows_peers if old is None else demand.is_limited_by_peers)
        was_counted, is_counted = old is not None and not old.is_baseline, not booking.is_baseline
        if record.pod is not None and is_counted is not was_counted:
            self._count_priority(record.pod.priority, 1 if is_counted else -1)
        record.booking = booking = nodes.reservations.place(booking, old)
        if booking is old:
            return
        nodes.fleet.put_load(booking.node, nodes.reservations.load(booking.node))
        if old is None or old.node != booking.node or old.is_baseline != booking.is_baseline:
            self.on_placed(booking.node)
        if old is None:
            return
        if old.node != booking.node:
            nodes.fleet.put_load(old.node, nodes.reservations.load(old.node))
        # Few changes give room: the Pod moved, asks for less, or (paper) left Pending. Scanning the whole queue is
        # expensive where the cluster is full.
        is_released = was_reserved and not nodes.reservations.is_reserved(booking)
        if is_released or reservations.is_lighter(booking, old):
            nodes.queue.unpark_if(nodes.helped_by(old.node))

    def release(self, record: records.Record, booking: reservations.Booking) -> None:
        """End the booking of a Pod."""
        nodes, record.booking = self._nodes, None
        if record.pod is not None and not booking.is_baseline:
            self._count_priority(record.pod.priority, -1)
        nodes.fleet.pod_counts.remove(record.uid)
        nodes.reservations.remove(booking)
        nodes.fleet.put_load(booking.node, nodes.reservations.load(booking.node))
        nodes.queue.unpark_if(nodes.helped_by(booking.node))

    def _count_priority(self, priority: int, change: int) -> None:
        self._priorities[priority] += change
        if not self._priorities[priority]:
            del self._priorities[priority]
