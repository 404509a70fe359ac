"""What the scheduler knows, kept in step with the API and the advertisements: nodes, Pods and queue together.

Pure: events in, changed state out. Everything in it can be rebuilt from the API's lists of Pods and Nodes and the
newest advertisements, which is what happens at a start.
"""

import dataclasses
import random
from collections.abc import Callable, Iterable, Mapping, Set

from carico_core.domain import cluster, constraints, messages
from carico_scheduler.nodes import fleet as fleets
from carico_scheduler.pods import anti_affinity_index, reservations
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import record as records
from carico_scheduler.rules import admission
from carico_scheduler.rules import policy as policies

# Advertisements kept of nodes that the API has not shown yet: the lists may come in any order.
_STRANGERS_MAX = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The newest advertisement of a node, and when its newest sample was taken on our monotonic clock."""

    advertisement: messages.Advertisement
    sampled_s: float


class State:
    """Fleet, ledger, queue and the record of each Pod, by whose state it is in the queue or has a claim (`record`)."""

    def __init__(self, policy: policies.Policy, rng: random.Random) -> None:
        self.fleet = fleets.Fleet(policy)
        self.ledger = reservations.Reservations(policy.release)
        self.ledger.on_covered = self._covered
        self.ledger.on_uncovered = self._uncovered
        self._repellers = anti_affinity_index.AntiAffinityIndex(self.fleet.pod_counts)
        self.queue = queues.Queue(rng, self.demand_of)
        self.records = records.Records()
        self.baseline = admission.Baseline(policy.baseline_namespaces)
        self.heard: dict[str, Heard] = {}
        # Called when something about claims or volumes has changed.
        self.on_volumes: Callable[[], None] = lambda: None
        # Called with each Pod that its node comes to account for, and since when it was reserved.
        self.on_covered: Callable[[str, float], None] = lambda uid, since_s: None
        self._attempts = 0
        self._strangers: dict[str, None] = {}

    def pod(self, uid: str) -> cluster.Pod | None:
        """Return the Pod as the API last showed it; None once it has ended or gone."""
        record = self.records.find(uid)
        return None if record is None else record.pod

    def pods(self) -> list[cluster.Pod]:
        """Return every Pod of the API that has not ended, as last shown, in no order."""
        return [record.pod for record in self.records if record.pod is not None]

    def demand_of(self, pod: cluster.Pod) -> demands.Demand:
        """Return what the Pod asks of a node, by all that is known of other Pods."""
        return demands.demand_of(pod, self._repellers.of(pod))

    def put_pods(self, pods: Iterable[cluster.Pod], now_s: float) -> None:
        """Take in the list of all Pods: those that the watch has shown and that are not in it are gone."""
        listed = {pod.uid: pod for pod in pods}
        for record in [each for each in self.records if each.is_shown and each.uid not in listed]:
            self._end(record)
        for pod in listed.values():
            self.records.unbury(pod.uid)
            self.put_pod(pod, now_s)

    def put_pod(self, pod: cluster.Pod, now_s: float) -> None:
        """Take in a Pod as the watch shows it; an event of a Pod that is gone changes nothing."""
        if pod.is_terminal:
            self.remove_pod(pod.uid)
        elif not self.records.is_gone(pod.uid):
            record = self.records.add(pod.uid)
            self.records.show(record)
            self._take_in(record, pod, now_s)

    def see_pod(self, pod: cluster.Pod, now_s: float) -> None:
        """Take in a Pod as an answer of the API has it, which may be ahead of the watch."""
        record = self.records.find(pod.uid)
        if record is not None and pod.is_terminal:
            self._end(record)
        elif record is not None:
            self._take_in(record, pod, now_s)

    def remove_pod(self, uid: str) -> None:
        """Forget a Pod that has ended or gone; room may have come free."""
        record = self.records.find(uid)
        if record is None:
            self.records.bury(uid)
        else:
            self._end(record)

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
        self._place(record, self._claim_of(pod, node, now_s))
        return record.attempt

    def is_open(self, uid: str, attempt: int) -> bool:
        """True while it is not known what became of this decision."""
        return self._open(uid, attempt) is not None

    def send(self, uid: str, attempt: int) -> bool:
        """Note that the bind is about to be sent. False where it must not be: the Pod is gone or bound by now."""
        record = self._open(uid, attempt)
        if record is None:
            return False
        if record.state is records.ASSUMED:
            self._step(record, records.BINDING)
        return True

    def confirm(self, uid: str, attempt: int) -> None:
        """Take in that the API accepted the bind; the claim stays until the Pod has ended."""
        record = self._open(uid, attempt)
        if record is not None:
            self._step(record, records.BOUND)
            self._note_cover(record)

    def refuse(self, uid: str, attempt: int, now_s: float) -> bool:
        """Take in that the Pod was not bound: its claim ends. True where it waits again, after a backoff."""
        record = self._open(uid, attempt)
        if record is None:
            return False
        pod, waiting = record.pod, record.waiting
        if not record.is_shown or pod is None or waiting is None:
            # It is not ours, or the watch has yet to show it: then it is as if it was never asked for.
            self._step(record, records.UNSEEN)
            self._drop(record)
            return False
        if not _is_ours(pod):
            self._step(record, records.OTHERS)
            return False
        self._step(record, records.WAITING)
        waiting.pod, waiting.demand = pod, self.demand_of(pod)
        self.queue.retry(waiting, now_s)
        return True

    def put_nodes(self, nodes: Iterable[cluster.Node]) -> None:
        """Take in the list of all Nodes: those not in it are gone."""
        listed = {node.name: node for node in nodes}
        for name in [name for name in self.fleet.names() if name not in listed]:
            self.remove_node(name)
        for node in listed.values():
            self.put_node(node)

    def put_node(self, node: cluster.Node) -> None:
        """Take in a Node as the API shows it."""
        is_new = self.fleet.slot_of(node.name) is None
        if not self.fleet.put_node(node, self.ledger.load(node.name)):
            return
        self._strangers.pop(node.name, None)
        heard = self.heard.get(node.name)
        if is_new and heard is not None:
            self.fleet.put_advertisement(heard.advertisement, heard.sampled_s)
        self.queue.unpark_if(self._helped_by(node.name))

    def remove_node(self, name: str) -> None:
        """Forget a Node and what it advertised; Pods that the API still shows on it keep their claims."""
        self.fleet.remove_node(name)
        self.heard.pop(name, None)
        self._strangers.pop(name, None)
        self.ledger.forget_node(name)
        self.queue.unpark_if(self._helped_by(name))

    def put_advertisement(self, heard: Heard, now_s: float) -> None:
        """Take in a newer advertisement of a node, and releases the reservations that it covers."""
        node = heard.advertisement.node
        self.heard[node] = heard
        if self.fleet.slot_of(node) is None:
            self._bound_strangers(node)
            self.ledger.cover(node, heard.advertisement.covers, now_s)
            return
        # Only Pods that found no room are worth asking for; it is the dearest part of taking one in.
        parked = self.queue.parked_classes()
        before = self._admitted(node, parked, now_s)
        if self.ledger.cover(node, heard.advertisement.covers, now_s):
            self.fleet.put_load(node, self.ledger.load(node))
        self.fleet.put_advertisement(heard.advertisement, heard.sampled_s)
        gained = self._admitted(node, parked, now_s) - before
        if gained:
            # Where there was room already, something else stood in a Pod's way, which no advertisement moves.
            self.queue.unpark_if(lambda demand: demand.pod_class in gained)

    def put_daemon_sets(self, found: Iterable[cluster.DaemonSet], now_s: float) -> None:
        """Take in the list of all DaemonSets."""
        if self.baseline.put_all(found):
            self._renew_claims(now_s)

    def put_daemon_set(self, found: cluster.DaemonSet, now_s: float) -> None:
        """Take in a DaemonSet: Pods that name it belong to their node from now on."""
        if self.baseline.put(found):
            self._renew_claims(now_s)

    def remove_daemon_set(self, uid: str, now_s: float) -> None:
        """Forget a DaemonSet: Pods that still name it are workloads from now on."""
        if self.baseline.remove(uid):
            self._renew_claims(now_s)

    def put_namespaces(self, labels: Mapping[str, Mapping[str, str]], now_s: float) -> None:
        """Take in the labels of all namespaces, which some terms select Pods by."""
        if self.fleet.pod_counts.put_namespaces(labels):
            self._renew_demands(now_s)
            self.queue.unpark_if(lambda demand: demand.looks_at_peers)

    def put_namespace(self, name: str, labels: Mapping[str, str], now_s: float) -> None:
        """Take in the labels of one namespace."""
        self.put_namespaces({**self.fleet.pod_counts.namespaces, name: labels}, now_s)

    def remove_namespace(self, name: str, now_s: float) -> None:
        """Forget a namespace."""
        known = self.fleet.pod_counts.namespaces
        self.put_namespaces({key: value for key, value in known.items() if key != name}, now_s)

    def note_namespaces(self, lacking: str | None, now_s: float) -> None:
        """Note why the labels of namespaces are not known; None: they are."""
        if self.fleet.pod_counts.lacking != lacking:
            self.fleet.pod_counts.lacking = lacking
            self._renew_demands(now_s)
            self.queue.unpark_if(lambda demand: demand.looks_at_peers)

    def volumes_changed(self) -> None:
        """Look again at Pods that wait for a claim, a volume or a class: one has changed."""
        self.queue.unpark_if(lambda demand: bool((demand.constraints or constraints.NONE).volume_claims))
        self.on_volumes()

    def _claim_of(self, pod: cluster.Pod, node: str, now_s: float) -> reservations.Claim:
        return reservations.claim_of(pod, node=node, now_s=now_s, is_baseline=self.baseline.includes(pod))

    def _renew_claims(self, now_s: float) -> None:
        """Compute the claims of DaemonSets' Pods again: it has changed which DaemonSets exist."""
        for record in list(self.records):
            if record.claim is not None and record.pod is not None and record.pod.claims_daemon_set:
                self._place(record, self._claim_of(record.pod, record.claim.node, now_s))

    def _renew_demands(self, now_s: float) -> None:
        """Compute the demands of all that wait: terms have come, or mean other Pods than before."""
        for waiting in self.queue:
            self.queue.offer(waiting.pod, now_s)

    def _open(self, uid: str, attempt: int) -> records.Record | None:
        """Return the record of a Pod while it is not known what became of this decision."""
        record = self.records.find(uid)
        if record is None or record.attempt != attempt or not record.is_placed or record.is_bound:
            return None
        return record

    def _take_in(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        """Bring a record up to date with the Pod as the API shows it."""
        if pod.node_name is None and record.is_bound:
            # As it was before the bind: the answer was faster than the watch.
            return
        self._note_pod(record, pod, now_s)
        if pod.node_name is not None:
            if not record.is_bound:
                self._step(record, records.BOUND)
            self._place(record, self._claim_of(pod, pod.node_name, now_s))
            self._note_cover(record)
        elif not record.is_placed:
            self._enqueue(record, pod, now_s)

    def _note_pod(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        is_new, record.pod = record.pod is None, pod
        if is_new and self._repellers.add(pod):
            self._renew_demands(now_s)

    def _enqueue(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        """Queue a Pod that is ours and has no node, or bring it up to date there; take it out where it is not ours."""
        wanted = records.WAITING if _is_ours(pod) else records.OTHERS
        if record.state is not wanted:
            self._step(record, wanted)
        if wanted is records.WAITING and self.queue.offer(pod, now_s):
            record.waiting = self.queue.find(pod.uid)

    def _step(self, record: records.Record, after: records.PodState) -> None:
        """Change a Pod's state, and leave the queue or end the claim that went with the one before."""
        before = record.step(after)
        if before is records.WAITING:
            self.queue.forget(record.uid)
        if record.claim is not None and not record.is_placed:
            self._release(record, record.claim)
        if after not in records.UNBOUND:
            record.waiting = None

    def _end(self, record: records.Record) -> None:
        """Take in that a Pod is gone for good."""
        self._step(record, records.GONE)
        self._drop(record)
        self.records.bury(record.uid)

    def _drop(self, record: records.Record) -> None:
        self.records.drop(record)
        if record.pod is not None:
            self._repellers.remove(record.pod)

    def _place(self, record: records.Record, claim: reservations.Claim) -> None:
        """Enter a claim of a Pod in place of the one that it has."""
        old = record.claim
        was_reserved = old is not None and self.ledger.is_reserved(old)
        if (
            record.pod is not None
            and self.fleet.pod_counts.put(record.pod, claim.node)
            and self.fleet.pod_counts.is_asked
        ):
            # A Pod may open nodes to others by being there. By a change of its labels it may do so in any way.
            self.queue.unpark_if(lambda demand: demand.follows_peers if old is None else demand.looks_at_peers)
        record.claim = claim = self.ledger.place(claim, old)
        if claim is old:
            return
        self.fleet.put_load(claim.node, self.ledger.load(claim.node))
        if old is None:
            return
        if old.node != claim.node:
            self.fleet.put_load(old.node, self.ledger.load(old.node))
        # Few changes give room: the Pod moved, asks for less, or (paper) left Pending. Scanning the whole queue is
        # expensive where the cluster is full.
        is_released = was_reserved and not self.ledger.is_reserved(claim)
        if is_released or reservations.is_lighter(claim, old):
            self.queue.unpark_if(self._helped_by(old.node))

    def _release(self, record: records.Record, claim: reservations.Claim) -> None:
        record.claim = None
        self.fleet.pod_counts.remove(record.uid)
        self.ledger.remove(claim)
        self.fleet.put_load(claim.node, self.ledger.load(claim.node))
        self.queue.unpark_if(self._helped_by(claim.node))

    def _note_cover(self, record: records.Record) -> None:
        """Make a bound Pod COVERED where its node accounts for it already, and BOUND where it does not."""
        is_reserved = record.claim is not None and self.ledger.is_reserved(record.claim)
        wanted = records.BOUND if is_reserved else records.COVERED
        if record.state is not wanted:
            self._step(record, wanted)

    def _covered(self, uid: str, since_s: float) -> None:
        record = self.records.find(uid)
        if record is not None and record.is_bound:
            self._note_cover(record)
        self.on_covered(uid, since_s)

    def _uncovered(self, uid: str) -> None:
        record = self.records.find(uid)
        if record is not None and record.is_bound:
            self._note_cover(record)

    def _helped_by(self, node: str) -> Callable[[demands.Demand], bool]:
        """Which demands could be helped by `node`, on which room has come free, or which has changed or gone.

        Those with room there by what it advertises: on a full cluster most Pods end before their node advertises that,
        and a look at every node for every demand would be for nothing. Pods that look at others may be helped anywhere,
        also by a node that goes: the emptiest domain, say, which no other could be ahead of. Where requests may have to
        do, they decide.
        """
        if not self.queue.parked_classes():
            return lambda _: False
        if self.fleet.policy.fallback is not policies.Fallback.WAIT:
            return lambda _: True
        slot = self.fleet.slot_of(node)
        row = None if slot is None else self.fleet.row(slot)
        return lambda demand: (
            demand.looks_at_peers or (row is not None and bool(admission.has_room(row, demand.pod_class)))
        )

    def _admitted(self, node: str, pod_classes: Set[str], now_s: float) -> Set[str]:
        """Return those of the classes of which the node takes a Pod now."""
        slot = self.fleet.slot_of(node)
        if slot is None or not pod_classes:
            return frozenset()
        return admission.admits(self.fleet.row(slot, now_s), pod_classes)

    def _bound_strangers(self, node: str) -> None:
        """Note an advertisement of a node that the API has not shown; the oldest gives way."""
        self._strangers[node] = None
        if len(self._strangers) > _STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            self.heard.pop(oldest, None)
            self.ledger.forget_node(oldest)


def _is_ours(pod: cluster.Pod) -> bool:
    """True where the Pod waits for us: it names us, has no gate before it, and is not being deleted."""
    return (
        pod.scheduler_name == cluster.SCHEDULER_NAME
        and pod.node_name is None
        and not pod.deleting
        and not pod.scheduling_gates
    )
