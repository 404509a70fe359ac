"""What the scheduler knows, kept in step with the API and the advertisements: Pods here, nodes in `node_state`.

Pure: events in, changed state out. All of it can be rebuilt from the API's lists of Pods and Nodes and the newest
advertisements, which is what happens at a start.
"""

import collections
import random
from collections.abc import Callable, Iterable, Mapping, Set

from carico_core.domain import cluster, gangs
from carico_scheduler import node_state
from carico_scheduler.decide import parties
from carico_scheduler.gangs import gang as gang_records
from carico_scheduler.gangs import table as gang_table
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts, reservations
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import record as records
from carico_scheduler.preempt import budgets, evictable, nominations
from carico_scheduler.rules import admission, default_spread
from carico_scheduler.rules import policy as policies

# Pods in these states may change hands between schedulers that share the work.
_UNDECIDED = (records.WAITING, records.OTHERS)


class State(node_state.NodeState):
    """The nodes' state, and a record for each Pod, whose state decides whether it is in the queue or has a claim."""

    def __init__(self, policy: policies.Policy, rng: random.Random) -> None:
        super().__init__(policy, rng, self.demand_of)
        self.reservations.on_covered = self._covered
        self.reservations.on_uncovered = self._uncovered
        self.records = records.Records()
        self.baseline = admission.Baseline(policy.baseline_namespaces)
        # Called with the name of each node on which a Pod was placed, has become or ceased to be baseline, or has new
        # containers.
        self.on_placed: Callable[[str], None] = lambda node: None
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
        self._anti_affinity = pod_counts.AntiAffinityIndex(self.fleet.pod_counts)
        self._attempts = 0
        self.budgets = budgets.Budgets()
        self.default_spread = default_spread.DefaultSpread(is_on=policy.default_spread)
        self.nominations = nominations.Nominations()
        self.evictable = evictable.Evictable(self)
        self.fleet.on_load = self.evictable.touch
        self.gangs = gang_table.Gangs()
        # The number of placed Pods by priority, without those of the baseline, which are never evicted.
        self._priorities: collections.Counter[int] = collections.Counter()

    def pod(self, uid: str) -> cluster.Pod | None:
        """Return the Pod as the API last showed it; None once it has ended or is gone."""
        record = self.records.find(uid)
        return None if record is None else record.pod

    def pods(self) -> list[cluster.Pod]:
        """Return every Pod of the API that has not ended, as last shown, in no order."""
        return [record.pod for record in self.records if record.pod is not None]

    def demand_of(self, pod: cluster.Pod) -> demands.Demand:
        """Return what the Pod asks of a node, including what other Pods' anti-affinity asks."""
        if self.default_spread.is_on:
            pod = pod._replace(constraints=self.default_spread.constraints_of(pod))
        return demands.demand_of(
            pod, self._anti_affinity.of(pod), is_baseline=self.baseline.includes(pod), gang=self.gangs.key_of(pod),
            profile=self.fleet.policy.profiles.get(pod.scheduler_name),
        )  # fmt: skip

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
        return None if record is None or record.claim is None else record.claim.node

    def is_binding(self, uid: str) -> bool:
        """Return True if a node is chosen for the Pod and the API has not confirmed it yet."""
        record = self.records.find(uid)
        return record is not None and record.is_placed and not record.is_bound

    def is_undecided(self, uid: str) -> bool:
        """Return True while the Pod has no node and this scheduler has chosen none, its own or another's."""
        record = self.records.find(uid)
        return record is not None and record.state in _UNDECIDED and record.pod is not None and not record.pod.deleting

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

    def lowest_priority(self) -> int | None:
        """Return the lowest priority of a placed Pod that may be evicted; None if there is none."""
        return min(self._priorities, default=None)

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
        """Take in that the API accepted the bind; the claim stays until the Pod has ended."""
        record = self._open(uid, attempt)
        if record is not None:
            self._step(record, records.BOUND)
            self._note_cover(record)

    def refuse(self, uid: str, attempt: int, now_s: float) -> bool:
        """Take in that the Pod was not bound, and end its claim. Return True if it waits again, after a backoff."""
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

    def put_daemon_sets(self, found: Iterable[cluster.DaemonSet], now_s: float) -> None:
        """Take in the list of all DaemonSets."""
        if self.baseline.put_all(found):
            self._renew_daemons(now_s)

    def put_daemon_set(self, found: cluster.DaemonSet, now_s: float) -> None:
        """Take in a DaemonSet: from now on Pods that name it belong to their node."""
        if self.baseline.put(found):
            self._renew_daemons(now_s)

    def remove_daemon_set(self, uid: str, now_s: float) -> None:
        """Forget a DaemonSet: from now on Pods that still name it are workloads."""
        if self.baseline.remove(uid):
            self._renew_daemons(now_s)

    def put_services(self, found: Iterable[cluster.Service], now_s: float) -> None:
        """Take in the list of all Services, whose Pods may be spread by default."""
        if self.default_spread.put_all(found):
            self._renew_demands(now_s)

    def put_service(self, found: cluster.Service, now_s: float) -> None:
        """Take in a Service."""
        if self.default_spread.put(found):
            self._renew_demands(now_s, namespace=found.namespace)

    def remove_service(self, namespace: str, name: str, now_s: float) -> None:
        """Forget a Service."""
        if self.default_spread.remove(namespace, name):
            self._renew_demands(now_s, namespace=namespace)

    def gather(self, first: queues.Waiting) -> parties.Party:
        """Take the Pods of a gang from the queue that can be decided on with `first`; see `parties.Gangs`."""
        key = first.demand.gang
        gang = None if key is None else self.gangs.find(key)
        if key is None or gang is None:
            raise ValueError(f"Pod {first.pod.key} waits for a gang that is not known")
        members = [first]
        if not gang.may_place or key in self.gangs.resting:
            return parties.Party(gang=key, members=members, missing=gang.missing, may_place=False)
        for uid in gang.roles:
            waiting = self.queue.find(uid)
            if waiting is not None and waiting.demand.gang == key and self.queue.due_s(uid) is None:
                self.queue.forget(uid)
                members.append(waiting)
        topology_key = "" if gang.asks is None else gang.asks.topology_key
        domain = self.domain_of(gang)
        return parties.Party(
            gang=key, members=members, missing=gang.missing, topology_key=topology_key, domain=domain
        )  # fmt: skip

    def tried(self, party: parties.Party, fitted: int | None) -> None:
        """Note for how many Pods of a gang there was room; see `parties.Gangs`."""
        gang = self.gangs.find(party.gang)
        if gang is not None and fitted is not None:
            gang.fitted = fitted

    def put_pod_groups(self, found: Iterable[gangs.PodGroup], now_s: float, *, is_native: bool) -> None:
        """Take in the list of all PodGroups of one kind."""
        self._renew_gangs(self.gangs.put_groups(found, is_native=is_native), now_s)

    def put_pod_group(self, found: gangs.PodGroup, now_s: float) -> None:
        """Take in a PodGroup."""
        self._renew_gangs(self.gangs.put_group(found), now_s)

    def remove_pod_group(self, key: gangs.Key, now_s: float) -> None:
        """Forget a PodGroup."""
        self._renew_gangs(self.gangs.remove_group(key), now_s)

    def _renew_gangs(self, keys: Set[gangs.Key], now_s: float) -> None:
        """Try gangs again that ask for something else now, some of them perhaps to be placed one by one."""
        # Pods that are placed one by one may be another scheduler's.
        self.is_share_stale |= bool(keys)
        for key in keys:
            gang = self.gangs.find(key)
            for uid in () if gang is None else gang.roles:
                waiting = self.queue.find(uid)
                if waiting is not None:
                    self.queue.offer(waiting.pod, now_s)
        self.queue.unpark_gangs(keys)

    def domain_of(self, gang: gang_records.Gang) -> str | None:
        """Return the value of the label within which a gang must stay, by its Pods on nodes; None if any will do."""
        topology_key = "" if gang.asks is None else gang.asks.topology_key
        for name in gang.nodes(self.node_of) if topology_key else ():
            slot = self.fleet.slot_of(name)
            value = None if slot is None else self.fleet.row(slot).node.labels.get(topology_key)
            if value is not None:
                return value
        return None

    def _note_leaving(self, node: str) -> None:
        slot = self.fleet.slot_of(node)
        if slot is not None:
            self.evictable.touch(slot)

    def _note_gang(self, record: records.Record) -> None:
        pod = record.pod
        if pod is None or pod.gang is None or pod.scheduler_name not in self.fleet.policy.names:
            return
        if self.gangs.note(record):
            self.queue.unpark_gangs({pod.gang.key})

    def put_namespaces(self, labels: Mapping[str, Mapping[str, str]], now_s: float) -> None:
        """Take in the labels of all namespaces, by which some terms select Pods."""
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

    def _note_failed(self, pod: cluster.Pod) -> None:
        """Pass on that a Pod has failed, once."""
        record = self.records.find(pod.uid)
        if record is not None and record.claim is not None and record.pod is not None and not record.pod.has_failed:
            self.on_failed(pod, record.claim.node)

    def _note_containers(self, pod: cluster.Pod) -> None:
        """Pass on that the ids of a Pod's containers have become known, or have changed."""
        record = self.records.find(pod.uid)
        if record is None or record.claim is None or record.pod is None:
            return
        if record.pod.containers != pod.containers:
            self.on_placed(record.claim.node)

    def _claim_of(self, pod: cluster.Pod, node: str, now_s: float) -> reservations.Claim:
        return reservations.claim_of(pod, node=node, now_s=now_s, is_baseline=self.baseline.includes(pod))

    def _is_ours(self, pod: cluster.Pod) -> bool:
        return records.is_ours(pod, self.fleet.policy.names) and self.is_mine(pod)

    def share_out(self, now_s: float) -> None:
        """Queue the Pods that are ours now, and leave those to others that are not: `is_mine` has changed."""
        self.is_share_stale = False
        for record in list(self.records):
            self._share(record, now_s)

    def share(self, uid: str, since_s: float) -> None:
        """Do the same with one Pod, which has waited since then."""
        record = self.records.find(uid)
        if record is not None:
            self._share(record, since_s)

    def _share(self, record: records.Record, since_s: float) -> None:
        if record.pod is not None and record.pod.node_name is None and record.state in _UNDECIDED:
            self._enqueue(record, record.pod, since_s)

    def _renew_daemons(self, now_s: float) -> None:
        """Compute the claims and demands of DaemonSets' Pods again: the set of DaemonSets has changed."""
        for record in list(self.records):
            if record.pod is None or not record.pod.claims_daemon_set:
                continue
            if record.claim is not None:
                self._place(record, self._claim_of(record.pod, record.claim.node, now_s))
            elif record.uid in self.queue:
                self.queue.offer(record.pod, now_s)

    def _renew_demands(self, now_s: float, *, namespace: str | None = None) -> None:
        """Compute the demands of waiting Pods again: there are new terms, or terms match other Pods now."""
        self.is_share_stale = True
        for waiting in self.queue:
            if namespace in (None, waiting.pod.namespace):
                self.queue.offer(waiting.pod, now_s)

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
            self._place(record, self._claim_of(pod, pod.node_name, now_s))
            self._note_cover(record)
        elif not record.is_placed:
            self._enqueue(record, pod, now_s)

    def _note_pod(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        is_new, before, record.pod = record.pod is None, record.pod, pod
        if before is not None and before.gang != pod.gang:
            self.gangs.move(record.uid, before.gang, pod.gang)
        if before is not None and before.deleting is not pod.deleting and record.claim is not None:
            self._note_leaving(record.claim.node)
        self._note_gang(record)
        if is_new and self._anti_affinity.add(pod):
            self._renew_demands(now_s)

    def _enqueue(self, record: records.Record, pod: cluster.Pod, now_s: float) -> None:
        """Queue a Pod of ours that has no node, or update it there; remove it from the queue if it is not ours."""
        wanted = records.WAITING if self._is_ours(pod) else records.OTHERS
        if record.state is not wanted:
            self._step(record, wanted)
        if wanted is records.WAITING and self.queue.offer(pod, now_s):
            record.waiting = self.queue.find(pod.uid)

    def _step(self, record: records.Record, after: records.PodState) -> None:
        """Change a Pod's state; leave the queue or end the claim that belonged to the state before."""
        before = record.step(after)
        if before is records.WAITING:
            self.queue.forget(record.uid)
        if record.claim is not None and not record.is_placed:
            self._release(record, record.claim)
        if after is records.BOUND and before in records.HAS_NO_NODE and record.pod is not None:
            node = record.pod.node_name if record.claim is None else record.claim.node
            self.on_bound(record.pod, node or "", None if record.waiting is None else record.waiting.since_s)
        if after not in records.UNBOUND:
            record.waiting = None
        if after is not records.GONE:
            self._note_gang(record)

    def _end(self, record: records.Record, *, is_done: bool = False) -> None:
        """Take in that a Pod is gone for good."""
        self._step(record, records.GONE)
        self._drop(record, is_done=is_done)
        self.records.bury(record.uid)

    def _drop(self, record: records.Record, *, is_done: bool = False) -> None:
        self.records.drop(record)
        if record.pod is not None:
            self.gangs.forget(record.pod, is_done=is_done)
        if record.pod is not None and self._anti_affinity.remove(record.pod):
            self.is_share_stale = True

    def _place(self, record: records.Record, claim: reservations.Claim) -> None:
        """Enter a Pod's claim in place of the one that it has."""
        old = record.claim
        was_reserved = old is not None and self.reservations.is_reserved(old)
        if (
            record.pod is not None
            and self.fleet.pod_counts.put(record.pod, claim.node)
            and self.fleet.pod_counts.is_asked
        ):
            # A new Pod can open nodes only to demands that follow peers; changed labels can open nodes in any way.
            self.queue.unpark_if(lambda demand: demand.follows_peers if old is None else demand.looks_at_peers)
        was_counted, is_counted = old is not None and not old.is_baseline, not claim.is_baseline
        if record.pod is not None and is_counted is not was_counted:
            self._count_priority(record.pod.priority, 1 if is_counted else -1)
        record.claim = claim = self.reservations.place(claim, old)
        if claim is old:
            return
        self.fleet.put_load(claim.node, self.reservations.load(claim.node))
        if old is None or old.node != claim.node or old.is_baseline != claim.is_baseline:
            self.on_placed(claim.node)
        if old is None:
            return
        if old.node != claim.node:
            self.fleet.put_load(old.node, self.reservations.load(old.node))
        # Few changes give room: the Pod moved, asks for less, or (paper) left Pending. Scanning the whole queue is
        # expensive where the cluster is full.
        is_released = was_reserved and not self.reservations.is_reserved(claim)
        if is_released or reservations.is_lighter(claim, old):
            self.queue.unpark_if(self._helped_by(old.node))

    def _release(self, record: records.Record, claim: reservations.Claim) -> None:
        record.claim = None
        if record.pod is not None and not claim.is_baseline:
            self._count_priority(record.pod.priority, -1)
        self.fleet.pod_counts.remove(record.uid)
        self.reservations.remove(claim)
        self.fleet.put_load(claim.node, self.reservations.load(claim.node))
        self.queue.unpark_if(self._helped_by(claim.node))

    def _count_priority(self, priority: int, change: int) -> None:
        self._priorities[priority] += change
        if not self._priorities[priority]:
            del self._priorities[priority]

    def _note_cover(self, record: records.Record) -> None:
        """Make a bound Pod COVERED if its node accounts for it, else BOUND."""
        is_reserved = record.claim is not None and self.reservations.is_reserved(record.claim)
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
