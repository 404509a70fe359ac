"""The life of each Pod, from the API's events and from decisions; nodes are in `node_state`.

Pure: events in, changed state out. All of it can be rebuilt from the API's lists of Pods and Nodes and the newest
advertisements, which is what happens at a start.
"""

import random
from collections.abc import Callable, Iterable, Iterator

from carico_core.domain import cluster
from carico_scheduler.gangs import table as gang_table
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import record as records
from carico_scheduler.preempt import budgets, evictable, nominations
from carico_scheduler.rules import admission
from carico_scheduler.rules import policy as policies
from carico_scheduler.state import node_state, placements, pod_demands, waiting_gangs

# Pods in these states may change hands between schedulers that share the work.
_UNDECIDED = (records.WAITING, records.OTHERS)


class State(node_state.NodeState):
    """The nodes' state, and a record for each Pod, whose state decides whether it is in the queue or has a booking."""

    def __init__(self, policy: policies.Policy, rng: random.Random) -> None:
        super().__init__(policy, rng, self.demand_of)
        self.reservations.on_covered = self._covered
        self.reservations.on_uncovered = self._uncovered
        self.records = records.Records()
        self.baseline = admission.Baseline(policy.baseline_namespaces)
        # Called with each waiting Pod that is now known to be bound, its node, and since when it was in the queue, if
        # it was.
        self.on_bound: Callable[[cluster.Pod, str, float | None], None] = lambda pod, node, since_s: None
        # Called with each placed Pod that is newly shown as failed, and its node.
        self.on_failed: Callable[[cluster.Pod, str], None] = lambda pod, node: None
        # Called with the UID of each Pod that its node's advertisement newly covers, and since when it was reserved.
        self.on_covered: Callable[[str, float], None] = lambda uid, since_s: None
        # Whether this scheduler decides on a Pod that names it, if several share the work.
        self.is_mine: Callable[[cluster.Pod], bool] = lambda pod: True
        # True if the rules of other Pods have changed since Pods were shared out: some may be another scheduler's now.
        self.is_share_stale = False
        self._attempts = 0
        self.gangs = gang_table.Gangs()
        self.waiting_gangs = waiting_gangs.WaitingGangs(
            self, self.gangs, node_of=self.node_of, on_change=self._note_stale
        )
        self.placements = placements.Placements(self, self.baseline)
        self.demands = pod_demands.PodDemands(
            self, self.records, self.placements, baseline=self.baseline, gangs=self.gangs, on_change=self._note_stale
        )
        self.budgets = budgets.Budgets()
        self.nominations = nominations.Nominations()
        self.evictable = evictable.Evictable(self)
        self.fleet.on_load = self.evictable.touch

    def pod(self, uid: str) -> cluster.Pod | None:
        """Return the Pod as the API last showed it; None once it has ended or is gone."""
        record = self.records.find(uid)
        return None if record is None else record.pod

    def pods(self) -> list[cluster.Pod]:
        """Return every Pod of the API that has not ended, as last shown, in no order."""
        return [record.pod for record in self.records if record.pod is not None]

    def demand_of(self, pod: cluster.Pod) -> demands.Demand:
        """Return what the Pod asks of a node, including what other Pods' anti-affinity asks."""
        return self.demands.of(pod)

    def put_pods(self, pods: Iterable[cluster.Pod], now_s: float, unix_s: float) -> None:
        """Take in the list of all Pods: those that the watch has shown and that are not in it are gone.

        New ones have waited since they were created: for a scheduler that has ended, or before the watch began.
        """
        listed = {pod.uid: pod for pod in pods}
        for record in [each for each in self.records if each.is_shown and each.uid not in listed]:
            self._end(record)
        for pod in listed.values():
            self.records.unbury(pod.uid)
            if not pod.is_terminal and self.records.find(pod.uid) is None:
                self.records.add(pod.uid).before_s = max(unix_s - pod.created_at_s, 0.0)
            self.put_pod(pod, now_s)

    def put_pod(self, pod: cluster.Pod, now_s: float) -> None:
        """Take in a Pod as the watch shows it; an event of a Pod that is gone changes nothing."""
        if pod.has_failed:
            self._note_failed(pod)
        if pod.containers:
            self._note_containers(pod)
        if pod.is_terminal:
            self.remove_pod(pod.uid, is_done=pod.phase == "Succeeded")
        elif not self.records.is_gone(pod.uid):
            record = self.records.add(pod.uid)
            self.records.show(record)
            self._take_in(record, pod, now_s)

    def see_pod(self, pod: cluster.Pod, now_s: float) -> None:
        """Take in a Pod from an answer of the API, which may be ahead of the watch."""
        record = self.records.find(pod.uid)
        if record is not None and pod.is_terminal:
            self._end(record, is_done=pod.phase == "Succeeded")
        elif record is not None:
            self._take_in(record, pod, now_s)

    def remove_pod(self, uid: str, *, is_done: bool = False) -> None:
        """Forget a Pod that has ended or is gone; this may free room. `is_done`: it ended well."""
        record = self.records.find(uid)
        if record is None:
            self.records.bury(uid)
        else:
            self._end(record, is_done=is_done)

    def forget_pod(self, uid: str) -> None:
        """Forget a Pod that an answer of the API lacks; if the watch shows it later, it is taken in again."""
        record = self.records.find(uid)
        if record is not None:
            self._step(record, records.GONE)
            self._drop(record)

    def node_of(self, uid: str) -> str | None:
        """Return the node on which a Pod counts; None if it counts on none."""
        record = self.records.find(uid)
        return None if record is None or record.booking is None else record.booking.node

    def is_bound_to(self, uid: str, node: str) -> bool:
        """Return True if the API has bound the Pod to this node."""
        record = self.records.find(uid)
        return record is not None and record.is_bound and record.booking is not None and record.booking.node == node

    def is_binding(self, uid: str) -> bool:
        """Return True if a node is chosen for the Pod and the API has not confirmed it yet."""
        record = self.records.find(uid)
        return record is not None and record.is_placed and not record.is_bound

    def of_others(self) -> Iterator[cluster.Pod]:
        """Yield the Pods that wait for schedulers with which this one shares the work; it looks at every Pod."""
        ours = self.fleet.policy.names
        for record in self.records:
            if record.state is records.OTHERS and record.pod is not None and records.is_ours(record.pod, ours):
                yield record.pod

    def is_undecided(self, uid: str) -> bool:
        """Return True while the Pod has no node and this scheduler has chosen none, its own or another's."""
        record = self.records.find(uid)
        return record is not None and record.state in _UNDECIDED and record.pod is not None and not record.pod.deleting

    def has_no_node(self, uid: str) -> bool:
        """Return True for a Pod that the API shows without a node."""
        pod = self.pod(uid)
        return pod is not None and pod.node_name is None

    @property
    def may_evict(self) -> bool:
        """True if it is known which Pods belong to their node, and which budgets there are."""
        return self.budgets.lacking is None and self.baseline.lacking is None

    def waits(self, uid: str) -> bool:
        """Return True while the Pod waits for a node."""
        record = self.records.find(uid)
        return record is not None and record.state is records.WAITING

    def nominated_on(self, node: str, pod: cluster.Pod) -> list[demands.Demand]:
        """Return the demands for which room is held on a node against a Pod."""
        return [
            each.demand
            for each in self.nominations.on(node)
            if queues.key_of(each.pod) < queues.key_of(pod) and self.node_of(each.pod.uid) is None
        ]

    def assume(self, waiting: queues.Waiting, node: str, now_s: float) -> int:
        """Reserve `node` for a Pod and return the number of this decision. The bind follows: `send`.

        The Pod was taken from the queue, or kube-scheduler chose its node.
        """
        pod = waiting.pod
        record = self.records.add(pod.uid)
        self._step(record, records.ASSUMED)
        record.waiting = waiting
        self._attempts += 1
        record.attempt = self._attempts
        self._note_pod(record, record.pod or pod, now_s)
        self.placements.place(record, pod, node, now_s)
        self.nominations.exchange(pod.uid, node, node_of=self.node_of)
        return record.attempt

    def is_open(self, uid: str, attempt: int) -> bool:
        """True while the outcome of this decision is not known."""
        return self._open(uid, attempt) is not None

    def send(self, uid: str, attempt: int) -> bool:
        """Note that the bind is about to be sent. Return False if it must not be: the Pod is gone or bound by now."""
        record = self._open(uid, attempt)
        if record is None:
            return False
        if record.state is records.ASSUMED:
            self._step(record, records.BINDING)
        return True

    def confirm(self, uid: str, attempt: int) -> None:
        """Take in that the API accepted the bind; the booking stays until the Pod has ended."""
        record = self._open(uid, attempt)
        if record is not None:
            self._step(record, records.BOUND)
            self._note_cover(record)

    def refuse(self, uid: str, attempt: int, now_s: float) -> bool:
        """Take in that the Pod was not bound, and end its booking. Return True if it waits again, after a backoff."""
        record = self._open(uid, attempt)
        if record is None:
            return False
        pod, waiting = record.pod, record.waiting
        if not record.is_shown or pod is None or waiting is None:
            # It is not ours, or the watch has not shown it yet: as if kube-scheduler had never asked for it.
            self._step(record, records.UNSEEN)
            self._drop(record)
            return False
        if not self._is_ours(pod):
            self._step(record, records.OTHERS)
            return False
        self._step(record, records.WAITING)
        waiting.pod, waiting.demand = pod, self.demand_of(pod)
        self.queue.retry(waiting, now_s)
        return True

    def _note_leaving(self, node: str) -> None:
        slot = self.fleet.slot_of(node)
        if slot is not None:
            self.evictable.touch(slot)

    def _note_failed(self, pod: cluster.Pod) -> None:
        """Pass on that a Pod has failed, once."""
        record = self.records.find(pod.uid)
        if record is not None and record.booking is not None and record.pod is not None and not record.pod.has_failed:
            self.on_failed(pod, record.booking.node)

    def _note_containers(self, pod: cluster.Pod) -> None:
        """Pass on that the ids of a Pod's containers have become known, or have changed."""
        record = self.records.find(pod.uid)
        if record is None or record.booking is None or record.pod is None:
            return
        if record.pod.containers != pod.containers:
            self.placements.on_placed(record.booking.node)

    def _is_ours(self, pod: cluster.Pod) -> bool:
        return records.is_ours(pod, self.fleet.policy.names) and self.is_mine(pod)

    def _note_stale(self) -> None:
        self.is_share_stale = True

    def share_out(self, now_s: float) -> None:
        """Queue the Pods that are ours now, and leave those to others that are not: `is_mine` has changed."""
        self.is_share_stale = False
        for record in list(self.records):
            self._share(record, now_s)

    def share(self, uid: str, since_s: float, now_s: float) -> None:
        """Do the same with one Pod, which has waited since then at least."""
        record = self.records.find(uid)
        if record is None:
            return
        record.since_s = since_s if record.since_s is None else min(record.since_s, since_s)
        self._share(record, now_s)

    def _share(self, record: records.Record, now_s: float) -> None:
        if record.pod is None or record.pod.node_name is not None or record.state not in _UNDECIDED:
            return
        before = record.waiting
        self._enqueue(record, record.pod, now_s)
        if record.waiting is not None and record.waiting is not before:
            record.waiting.late_s = now_s - record.waiting.since_s

    def _open(self, uid: str, attempt: int) -> records.Record | None:
        """Return the record of a Pod while the outcome of this decision is not known."""
        record = self.records.find(uid)
        if record is None or record.attempt != attempt or not record.is_placed or record.is_bound:
            return None
        return record

    def _take_in(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        """Bring a record up to date with the Pod as the API shows it."""
        if pod.node_name is None and record.is_bound:
            # From before the bind: the bind's answer was faster than the watch.
            return
        self._note_pod(record, pod, now_s)
        if pod.node_name is not None:
            if not record.is_bound:
                self._step(record, records.BOUND)
            self.placements.place(record, pod, pod.node_name, now_s)
            self._note_cover(record)
        elif not record.is_placed:
            self._enqueue(record, pod, now_s)

    def _note_pod(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        before, record.pod = record.pod, pod
        if before is not None and before.gang != pod.gang:
            self.gangs.move(record.uid, before.gang, pod.gang)
        if before is not None and before.deleting is not pod.deleting and record.booking is not None:
            self._note_leaving(record.booking.node)
            if pod.deleting:
                self.nominations.note_deleting(record.uid, self.budgets.writes)
        self.waiting_gangs.note(record)
        if before is not None and before.constraints != pod.constraints:
            # Labels that matchLabelKeys names have changed, where the API server does not resolve it.
            self.demands.remove_pod(before)
        if before is None or before.constraints != pod.constraints:
            self.demands.add_pod(pod, now_s)

    def _enqueue(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        """Queue a Pod of ours that has no node, or update it there; remove it from the queue if it is not ours."""
        wanted = records.WAITING if self._is_ours(pod) else records.OTHERS
        if record.state is not wanted:
            self._step(record, wanted)
        is_waiting = records.is_ours(pod, self.fleet.policy.names)
        record.since_s = (now_s if record.since_s is None else record.since_s) if is_waiting else None
        record.before_s = record.before_s if is_waiting else 0.0
        if wanted is records.WAITING and self.queue.offer(pod, now_s if record.since_s is None else record.since_s):
            record.waiting = self.queue.find(pod.uid)
            if record.waiting is not None:
                record.waiting.before_s = record.before_s

    def _step(self, record: records.Record, after: records.PodState) -> None:
        """Change a Pod's state; leave the queue or end the booking that belonged to the state before."""
        before = record.step(after)
        if before is records.WAITING:
            self.queue.forget(record.uid)
        if record.booking is not None and not record.is_placed:
            self.placements.release(record, record.booking)
        if after is records.BOUND and before in records.HAS_NO_NODE and record.pod is not None:
            node = record.pod.node_name if record.booking is None else record.booking.node
            self.on_bound(record.pod, node or "", None if record.waiting is None else record.waiting.began_s)
        if after not in records.UNBOUND:
            record.waiting = None
        if after is not records.GONE:
            self.waiting_gangs.note(record)

    def _end(self, record: records.Record, *, is_done: bool = False) -> None:
        """Take in that a Pod is gone for good."""
        self._step(record, records.GONE)
        self._drop(record, is_done=is_done)
        self.records.bury(record.uid)

    def _drop(self, record: records.Record, *, is_done: bool = False) -> None:
        self.records.drop(record)
        self.nominations.note_gone(record.uid)
        if record.pod is not None:
            self.gangs.forget(record.pod, is_done=is_done)
            self.demands.remove_pod(record.pod)

    def _note_cover(self, record: records.Record) -> None:
        """Make a bound Pod COVERED if its node accounts for it, else BOUND."""
        is_reserved = record.booking is not None and self.reservations.is_reserved(record.booking)
        wanted = records.BOUND if is_reserved else records.COVERED
        if record.state is not wanted:
            self._step(record, wanted)

    def _covered(self, uid: str, since_s: float) -> None:
        self._uncovered(uid)
        self.on_covered(uid, since_s)

    def _uncovered(self, uid: str) -> None:
        record = self.records.find(uid)
        if record is not None and record.is_bound:
            self._note_cover(record)
