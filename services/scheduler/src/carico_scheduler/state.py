"""What the scheduler knows, kept in step with the API and the advertisements: fleet, claims and queue together.

Pure: events in, changed state out. Everything in it can be rebuilt from the API's lists of Pods and Nodes and the
newest advertisements, which is what happens at a start.
"""

import dataclasses
import random
from collections.abc import Callable, Collection, Iterable, Mapping

from carico_core.domain import cluster, constraints, messages
from carico_core.wire.kubernetes import placement
from carico_scheduler.nodes import fleet as fleets
from carico_scheduler.pods import anti_affinity_index, reservations
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.rules import policy as policies

# Advertisements kept of nodes that the API has not shown yet: the lists may come in any order.
_STRANGERS_MAX = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The newest advertisement of a node, and when its newest sample was taken on our monotonic clock."""

    advertisement: messages.Advertisement
    sampled_s: float


class State:
    """Fleet, ledger and queue. A Pod is in the queue, or it is taken (being bound), or it has a claim on a node."""

    def __init__(self, policy: policies.Policy, rng: random.Random) -> None:
        self.fleet = fleets.Fleet(policy)
        self.ledger = reservations.Ledger(policy.release)
        self._repellers = anti_affinity_index.AntiAffinityIndex(self.fleet.census)
        self.queue = queues.Queue(rng, self.demand_of)
        self.heard: dict[str, Heard] = {}
        # Called when something about claims or volumes has changed.
        self.on_volumes: Callable[[], None] = lambda: None
        # Every Pod of the API that has not ended, as last shown.
        self._pods: dict[str, cluster.Pod] = {}
        self._binding: dict[str, queues.Waiting] = {}
        self._strangers: dict[str, None] = {}

    def pod(self, uid: str) -> cluster.Pod | None:
        """The Pod as the API last showed it; None once it has ended or gone."""
        return self._pods.get(uid)

    def pods(self) -> Collection[cluster.Pod]:
        """Every Pod of the API that has not ended, as last shown, in no order."""
        return self._pods.values()

    def demand_of(self, pod: cluster.Pod) -> demands.Demand:
        """What the Pod asks of a node, by all that is known of other Pods."""
        return demands.demand_of(pod, self._repellers.of(pod))

    def binding(self, uid: str) -> queues.Waiting | None:
        """The Pod whose bind is under way, as it was taken from the queue."""
        return self._binding.get(uid)

    def placed_by(self, node: str, now_s: float) -> placement.Advertised | None:
        """The advertisement that a Pod is placed by on `node` now; None where there is none to go by."""
        heard = self.heard.get(node)
        if heard is None or now_s - heard.sampled_s > self.fleet.policy.ageing_s:
            return None
        return placement.Advertised(boot=heard.advertisement.boot, seq=heard.advertisement.seq)

    def put_pods(self, pods: Iterable[cluster.Pod], now_s: float) -> None:
        """Takes in the list of all Pods: those not in it are gone."""
        listed = {pod.uid: pod for pod in pods}
        for uid in [uid for uid in self._pods if uid not in listed]:
            self.remove_pod(uid)
        for uid in self.ledger.missing(listed):
            self.remove_pod(uid)
        for pod in listed.values():
            self.put_pod(pod, now_s)

    def put_pod(self, pod: cluster.Pod, now_s: float) -> None:
        """Takes in a Pod as the API shows it."""
        if pod.is_terminal:
            self.remove_pod(pod.uid)
            return
        is_new = pod.uid not in self._pods
        self._pods[pod.uid] = pod
        if is_new and self._repellers.add(pod):
            self._renew_demands(now_s)
        if pod.node_name is not None:
            self.queue.forget(pod.uid)
            self._place(pod, reservations.claim_of(pod, node=pod.node_name, now_s=now_s, is_assumed=False))
        elif self.ledger.find(pod.uid) is None and pod.uid not in self._binding:
            self._enqueue(pod, now_s)
        # Else a bind is under way or done, and this is the Pod as it was before.

    def remove_pod(self, uid: str) -> None:
        """Forgets a Pod that has ended or gone; room may have come free."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._repellers.remove(pod)
        self._binding.pop(uid, None)
        self.queue.forget(uid)
        self._release(uid)

    def put_nodes(self, nodes: Iterable[cluster.Node]) -> None:
        """Takes in the list of all Nodes: those not in it are gone."""
        listed = {node.name: node for node in nodes}
        for name in [name for name in self.fleet.names() if name not in listed]:
            self.remove_node(name)
        for node in listed.values():
            self.put_node(node)

    def put_node(self, node: cluster.Node) -> None:
        """Takes in a Node as the API shows it."""
        is_new = self.fleet.slot_of(node.name) is None
        if not self.fleet.put_node(node, self.ledger.load(node.name)):
            return
        self._strangers.pop(node.name, None)
        heard = self.heard.get(node.name)
        if is_new and heard is not None:
            self.fleet.put_advertisement(heard.advertisement, heard.sampled_s)
        self.queue.unpark_if(self._helped_by(node.name))

    def remove_node(self, name: str) -> None:
        """Forgets a Node and what it advertised; Pods that the API still shows on it keep their claims."""
        self.fleet.remove_node(name)
        self.heard.pop(name, None)
        self._strangers.pop(name, None)
        self.ledger.forget_node(name)
        self.queue.unpark_if(self._helped_by(name))

    def put_advertisement(self, heard: Heard, now_s: float) -> None:
        """Takes in a newer advertisement of a node, and releases the reservations that it covers."""
        node = heard.advertisement.node
        self.heard[node] = heard
        if self.fleet.slot_of(node) is None:
            self._bound_strangers(node)
            self.ledger.cover(node, heard.advertisement.covers, now_s)
            return
        # Only Pods that found no room are worth asking for; it is the dearest part of taking one in.
        parked = self.queue.parked_classes()
        before = self.fleet.admits(node, parked, now_s)
        if self.ledger.cover(node, heard.advertisement.covers, now_s):
            self.fleet.put_load(node, self.ledger.load(node))
        self.fleet.put_advertisement(heard.advertisement, heard.sampled_s)
        gained = self.fleet.admits(node, parked, now_s) - before
        if gained:
            # Where there was room already, something else stood in a Pod's way, which no advertisement moves.
            self.queue.unpark_if(lambda demand: demand.pod_class in gained)

    def assume(self, waiting: queues.Waiting, node: str, now_s: float) -> None:
        """Reserves `node` for a Pod taken from the queue, while its bind is under way."""
        self._binding[waiting.pod.uid] = waiting
        self._place(waiting.pod, reservations.claim_of(waiting.pod, node=node, now_s=now_s, is_assumed=True))

    def is_settled(self, uid: str) -> bool:
        """True where the API has shown how the bind of this Pod came out: bound somewhere, or gone."""
        claim = self.ledger.find(uid)
        return uid not in self._pods or (claim is not None and not claim.is_assumed)

    def confirm(self, uid: str) -> None:
        """The bind was accepted; the claim stays until the Pod has ended."""
        self._binding.pop(uid, None)
        if uid not in self._pods:
            self._release(uid)

    def revoke(self, uid: str, now_s: float) -> bool:
        """The Pod is not bound: its claim ends and it waits again, after a backoff.

        False where there is nothing to wait for any more: it has gone, or the API has shown it bound meanwhile.
        """
        waiting = self._binding.pop(uid, None)
        claim = self.ledger.find(uid)
        if claim is not None and not claim.is_assumed:
            return False
        self._release(uid)
        pod = self._pods.get(uid)
        if waiting is None or pod is None or not _is_ours(pod):
            return False
        waiting.pod, waiting.demand = pod, self.demand_of(pod)
        self.queue.retry(waiting, now_s)
        return True

    def _enqueue(self, pod: cluster.Pod, now_s: float) -> None:
        if _is_ours(pod):
            self.queue.offer(pod, now_s)
        else:
            self.queue.forget(pod.uid)

    def put_namespaces(self, labels: Mapping[str, Mapping[str, str]], now_s: float) -> None:
        """Takes in the labels of all namespaces, which some terms select Pods by."""
        if self.fleet.census.put_namespaces(labels):
            self._renew_demands(now_s)
            self.queue.unpark_if(lambda demand: demand.looks_at_peers)

    def put_namespace(self, name: str, labels: Mapping[str, str], now_s: float) -> None:
        """Takes in the labels of one namespace."""
        self.put_namespaces({**self.fleet.census.namespaces, name: labels}, now_s)

    def remove_namespace(self, name: str, now_s: float) -> None:
        """Forgets a namespace."""
        self.put_namespaces({key: value for key, value in self.fleet.census.namespaces.items() if key != name}, now_s)

    def note_namespaces(self, lacking: str | None, now_s: float) -> None:
        """Notes why the labels of namespaces are not known; None: they are."""
        if self.fleet.census.lacking != lacking:
            self.fleet.census.lacking = lacking
            self._renew_demands(now_s)
            self.queue.unpark_if(lambda demand: demand.looks_at_peers)

    def volumes_changed(self) -> None:
        """Something about claims, volumes or their classes has changed: Pods that wait for it are looked at again."""
        self.queue.unpark_if(lambda demand: bool((demand.constraints or constraints.NONE).claims))
        self.on_volumes()

    def _renew_demands(self, now_s: float) -> None:
        """Works out the demands of all that wait: terms have come, or mean other Pods than before."""
        for waiting in self.queue:
            self.queue.offer(waiting.pod, now_s)

    def _place(self, pod: cluster.Pod, claim: reservations.Claim) -> None:
        old, was_reserved = self.ledger.find(claim.uid), self.ledger.is_reserved(claim.uid)
        if self.fleet.census.put(pod, claim.node) and self.fleet.census.is_asked:
            # A Pod may open nodes to others by being there. By a change of its labels it may do so in any way.
            self.queue.unpark_if(lambda demand: demand.follows_peers if old is None else demand.looks_at_peers)
        for node in self.ledger.place(claim):
            self.fleet.put_load(node, self.ledger.load(node))
        # Most changes give no room (each bind ends in one: what was assumed is shown as bound). Some do: the Pod
        # moved, asks for less, or (paper) left Pending. To look at all that wait is dear where the cluster is full.
        if old is None:
            return
        is_released = was_reserved and not self.ledger.is_reserved(claim.uid)
        if is_released or reservations.is_lighter(claim, old):
            self.queue.unpark_if(self._helped_by(old.node))

    def _release(self, uid: str) -> None:
        self.fleet.census.remove(uid)
        claim = self.ledger.remove(uid)
        if claim is not None:
            self.fleet.put_load(claim.node, self.ledger.load(claim.node))
            self.queue.unpark_if(self._helped_by(claim.node))

    def _helped_by(self, node: str) -> Callable[[demands.Demand], bool]:
        """Which demands could be helped by `node`, on which room has come free, or which has changed or gone.

        Those with room there by what it advertises: on a full cluster most Pods end before their node advertises that,
        and a look at every node for every demand would be for nothing. Pods that look at others may be helped anywhere,
        also by a node that goes: the emptiest domain, say, which no other could be ahead of. Where requests may have to
        do, they decide.
        """
        if not self.queue.parked_classes():
            return lambda _: False
        slot, policy = self.fleet.slot_of(node), self.fleet.policy
        if policy.fallback is not policies.Fallback.WAIT:
            return lambda _: True
        row = None if slot is None else self.fleet.row(slot)
        return lambda demand: (
            demand.looks_at_peers or (row is not None and row.free_for(demand.pod_class) >= policy.threshold)
        )

    def _bound_strangers(self, node: str) -> None:
        """Notes an advertisement of a node that the API has not shown; the oldest gives way."""
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
