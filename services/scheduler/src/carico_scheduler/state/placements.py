"""Enters and ends the bookings by which Pods count on nodes, and wakes the waiting Pods that this may help. Pure."""

import collections
import functools
from collections.abc import Callable

from carico_core.domain import cluster
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_questions, reservations
from carico_scheduler.pods import record as records
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
        counted = nodes.fleet.pod_counts.find(record.uid)
        if (
            record.pod is not None
            and nodes.fleet.pod_counts.put(record.pod, booking.node)
            and nodes.fleet.pod_counts.is_asked
            and nodes.queue.parked_classes()
        ):
            nodes.queue.unpark_if(self._opened_by(record.pod, booking.node, counted))
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
        counted = nodes.fleet.pod_counts.find(record.uid)
        nodes.fleet.pod_counts.remove(record.uid)
        nodes.reservations.remove(booking)
        nodes.fleet.put_load(booking.node, nodes.reservations.load(booking.node))
        if counted is None:
            nodes.queue.unpark_if(nodes.helped_by(booking.node))
        else:
            labels = nodes.fleet.pod_counts.namespace_labels(counted[0].namespace)
            freed = functools.partial(_is_freed, gone=counted[0], namespace_labels=labels)
            nodes.queue.unpark_if(nodes.helped_by(booking.node, freed))

    def _opened_by(
        self, pod: cluster.Pod, node: str, before: tuple[cluster.Pod, str] | None
    ) -> Callable[[demands.Demand], bool]:
        """Return which demands a Pod may open nodes to that was placed, or changed since `before`.

        A tenant may place Pods and change labels all the time, and others may have many Pods that wait near or apart
        from Pods of their own: only what asks about it is tried again.
        """
        labels = self._nodes.fleet.pod_counts.namespace_labels(pod.namespace)
        if before is None:
            return lambda demand: demand.follows_peers and pod_questions.concern(demand.constraints, pod, labels)
        old = before[0]
        if before[1] != node or old.deleting != pod.deleting or old.constraints != pod.constraints:
            return lambda demand: demand.is_limited_by_peers
        return lambda demand: (
            pod_questions.concern(demand.constraints, old, labels)
            or pod_questions.concern(demand.constraints, pod, labels)
        )

    def _count_priority(self, priority: int, change: int) -> None:
        self._priorities[priority] += change
        if not self._priorities[priority]:
            del self._priorities[priority]


def _is_freed(demand: demands.Demand, *, gone: cluster.Pod, namespace_labels: pod_questions.Labels) -> bool:
    """Return whether a Pod that is gone may have kept nodes from a demand by other things than room."""
    own, its = demand.constraints, gone.constraints
    if its is not None and any(term in demand.repelled_by for term in its.anti_affinity):
        return True
    if its is not None and own is not None:
        shared = (its.host_ports, own.host_ports), (its.disks, own.disks), (its.volume_claims, own.volume_claims)
        if any(all(pair) for pair in shared):
            return True
    return pod_questions.concern(own, gone, namespace_labels)


def may_preempt(pod: cluster.Pod, lowest: int | None) -> bool:
    """Return True if others may be evicted for a Pod; `lowest`: as `Placements.lowest_priority` returns it."""
    return pod.preempts and lowest is not None and pod.priority > lowest
