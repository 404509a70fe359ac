"""Checks a decision of this member again once the claims on its node have changed, or it has become old."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from carico_core.domain import cluster, constraints
from carico_core.runtime.process import clock as clocks
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import protocol, registry
from carico_scheduler.rules.peers import pod_anti_affinity, spread
from carico_scheduler.sharing.claims import commits, fits
from carico_scheduler.sharing.claims import ledger as ledgers
from carico_scheduler.state import state as states

# The rules about Pods of other nodes that one more Pod may break.
_PEERS: tuple[protocol.PeerFilter, ...] = (pod_anti_affinity.PodAntiAffinity(), spread.TopologySpread())


class Rechecks:
    """Checks the decisions of one member."""

    def __init__(
        self, state: states.State, ledger: ledgers.Ledger, *, clock: clocks.Clock,
        held_on: Callable[[str, cluster.Pod], Iterable[demands.Demand]],
    ) -> None:  # fmt: skip
        """`held_on` returns for which Pods room is held on a node against a Pod."""
        self._state = state
        self._ledger = ledger
        self._clock = clock
        self._held_on = held_on
        self._stages = (registry.by_capacity(state.fleet.policy), registry.without_capacity())

    def fits(self, request: commits.ClaimRequest, lost: Sequence[commits.ClaimRequest]) -> bool:
        """Return whether a Pod still fits its node, without the decisions that are given up with it."""
        slot = self._state.fleet.slot_of(request.node)
        if slot is None or request.claim is None:
            return False
        now_s = self._clock.monotonic_s()
        view = self._state.fleet.snapshot(now_s)
        by_requests = view.goes_by_requests or request.demand.is_baseline
        stages = self._stages[1] if by_requests else self._stages[0]
        own = request.claim.uid
        claims = [each for each in self._ledger.counted_on(request.node, now_s) if each.uid != own]
        pod = self._state.pod(own)
        if claims and pod is not None and self._state.demand_of(pod).is_limited_by_peers:
            # Whether their Pods and this one rule each other out is looked at by the next decision.
            return False
        # The reservations of those that were given up end with the next turn of the loop.
        gone = (each for each in lost if not self._is_claimed_by_others(each))
        row = view.row(slot).counting(self._counted((request, *gone)), -1)
        for held in () if pod is None else self._held_on(request.node, pod):
            row = row.with_pod(held)
        return fits.fits(row, request.demand, claims, stages)

    def is_apart(self, request: commits.ClaimRequest) -> bool:
        """Return whether a Pod whose claim is stored is apart from all that it must be, by all claims read until then.

        When it was decided on, this member may not have known a Pod that keeps it away, or another one's claim. Nor may
        it know the Pod of a claim now, so that its labels and terms may be such that both must be apart. To wait for it
        here would delay all other claims of the batch: the decision is given up, and the queue is where the Pod waits.
        By its next decision, milliseconds later, the watch has mostly shown the other one.
        """
        slot = self._state.fleet.slot_of(request.node)
        pod = None if request.claim is None else self._state.pod(request.claim.uid)
        if slot is None or pod is None:
            return True
        is_alone = request.demand.is_alone and self._state.demands.is_alone(pod)
        if is_alone and not self._ledger.has_apart:
            return True
        now_s = self._clock.monotonic_s()
        view = self._state.fleet.snapshot(now_s)
        for node, claim in self._ledger.apart(now_s):
            if _is_near(view, slot, self._state.fleet.slot_of(node), claim.apart):
                return False
        return is_alone or self._is_apart_from_known(pod, slot, view)

    def _is_apart_from_known(self, pod: cluster.Pod, slot: int, view: snapshot.Snapshot) -> bool:
        """Return whether a Pod is apart from those that are placed, and from the Pods of other schedulers' claims.

        Also whether its group is still spread. A Pod of the group without the constraint, whose claim is stored later,
        may go anywhere: that is not looked at, as in kube-scheduler.
        """
        demand = self._state.demand_of(pod)
        rules = [rule for each in _PEERS if (rule := each.peers(view, demand)) is not None]
        if not rules:
            return True
        for rule in rules:
            rule.add(pod, slot, -1)
        own = pod.constraints or constraints.NONE
        keys = {each.topology_key for each in own.anti_affinity} | {each.topology_key for each in own.hard_spreads}
        for node, claim in self._ledger.counted(view.now_s):
            other, at = self._state.pod(claim.uid), self._state.fleet.slot_of(node)
            if other is None and _is_near(view, slot, at, keys):
                return False
            if other is not None and at is not None and other.uid != pod.uid:
                for rule in rules:
                    rule.hold(other, at)
        return all(each.passes[slot] for rule in rules for each in rule.conditions())

    def _is_claimed_by_others(self, request: commits.ClaimRequest) -> bool:
        """Return whether the Pod of a decision may be bound to the same node by another scheduler: it stays counted."""
        return request.claim is not None and self._ledger.find(request.node, request.claim.uid) is not None

    def _counted(self, requests: Iterable[commits.ClaimRequest]) -> Iterator[tuple[reservations.Booking, bool]]:
        """Yield what the own state counts for these decisions on their nodes, and whether it is reserved.

        A Pod that another scheduler has bound there in the meantime stays counted.
        """
        for each in requests:
            record = None if each.claim is None else self._state.records.find(each.claim.uid)
            if record is None or record.booking is None or record.is_bound:
                continue
            if record.booking.node == each.node:
                yield record.booking, self._state.reservations.is_reserved(record.booking)


def _is_near(view: snapshot.Snapshot, slot: int, other: int | None, keys: Iterable[str]) -> bool:
    """Return whether two nodes are in one domain by any of these labels; `other` is None for a node that is gone."""
    domains = [] if other is None else [view.labels.domains(key).of for key in keys]
    return any(each[slot] == each[other] != node_labels.NO_DOMAIN for each in domains)
