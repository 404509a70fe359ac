"""The claims of one member: made before a bind, looked at again right before it is sent, withdrawn after a failure."""

import functools
from collections.abc import Callable

from carico_core.domain import cluster, messages
from carico_scheduler.bind import binder
from carico_scheduler.pods import record as records
from carico_scheduler.sharing import corrections, tally
from carico_scheduler.sharing import parts as member_parts
from carico_scheduler.sharing.claims import claiming, commits
from carico_scheduler.sharing.claims import ledger as ledgers
from carico_scheduler.state import state as states

# Pods remembered whose bind may still arrive.
DOUBTFUL_KEPT = 4096


def fate_of(state: states.State, uid: str, node: str) -> ledgers.PodFate:
    """Return what the state knows of the Pod of a claim on a node."""
    record = state.records.find(uid)
    if record is None:
        return ledgers.PodFate.GONE if state.records.is_gone(uid) else ledgers.PodFate.UNKNOWN
    if record.is_bound:
        return ledgers.PodFate.BOUND
    booking = record.booking
    return ledgers.PodFate.ASSUMED if booking is not None and booking.node == node else ledgers.PodFate.OPEN


class OwnClaims:
    """Makes and withdraws the claims of one member."""

    def __init__(
        self, parts: member_parts.MemberParts, ledger: ledgers.Ledger, committing: commits.Commits, *,
        corrected: corrections.HandOvers, counts: tally.Tally,
    ) -> None:  # fmt: skip
        self._parts = parts
        self._state = parts.state
        self._ledger = ledger
        self._commits = committing
        self._corrections = corrected
        self._tally = counts
        # Pods of which a bind may still arrive.
        self._doubtful: dict[str, None] = {}
        # The claims that were asked for, by their binds, until those have ended.
        self._made: dict[binder.Bind, messages.Claim] = {}

    def claim_first(
        self, bind: binder.Bind, *, decided_s: float, is_open: Callable[[], bool],
        together: claiming.Together | None = None,
    ) -> None:  # fmt: skip
        """Have the bind of a decision that was just made sent once its node is claimed.

        `decided_s`: when the decision began. `together`: where it waits for the other Pods of its gang.
        """
        # What kube-scheduler has decided depends on no term of ours.
        is_ours = bind.pod.scheduler_name in self._state.fleet.policy.names
        is_shared_out = is_ours and bind.waiting.demand.is_alone
        lease_term = self._lease_term() if is_ours and not is_shared_out else None
        store = functools.partial(
            self._claim, bind, seq=self._ledger.seq(bind.node), decided_s=decided_s, is_shared_out=is_shared_out
        )

        prepare = bind.prepare

        async def ready() -> None:
            if prepare is not None:
                await prepare()
            if not is_open():
                raise binder.Settled("not sent: the watch showed that the Pod is bound or gone")

        claim = claiming.Claiming(
            ready=ready, store=store, check=lambda sent_s: self._check(sent_s, lease_term), waiting=bind.waiting,
            together=together,
        )  # fmt: skip
        bind.prepare, bind.permit = claim.prepare, claim.permit
        bind.resource_version = bind.pod.resource_version
        # No two starts of a scheduler have one name.
        bind.by = f"{self._parts.replica}/{bind.attempt}"

    def take_result(self, result: binder.Result) -> None:
        """Withdraw the claim of a bind that was not sent, or that the API has refused."""
        uid, node = result.uid, result.node
        claim = self._made.pop(result.bind, None)
        if result.fate not in (binder.Fate.UNBOUND, binder.Fate.WITHHELD):
            return
        self._corrections.note_failure(uid)
        if result.is_doubtful:
            self.keep(uid)
        # Members that have not seen the bind of another scheduler count the Pod by the claim.
        if claim is None or fate_of(self._state, uid, node) is ledgers.PodFate.BOUND:
            return
        if uid in self._doubtful:
            self._ledger.doubt(node, claim)
            return
        # It may be stored all the same and be read later: its answer was lost, or the stream was another one by then.
        self._ledger.note_ended(claim)
        if self._ledger.void(node, claim):
            self._commits.ask(node, None, result.bind.waiting.demand, seq=-1)

    def end_unsent(self) -> set[str]:
        """End the claims of binds that were given up before they were sent; return their nodes. No bind follows."""
        ended = set()
        for bind, claim in self._made.items():
            record = self._state.records.find(claim.uid)
            if record is not None and record.state is records.ASSUMED and claim.uid not in self._doubtful:
                self._ledger.note_ended(claim)
                self._ledger.void(bind.node, claim)
                ended.add(bind.node)
        return ended

    def keep(self, uid: str) -> None:
        """Withdraw no claim of a Pod any more: a bind by one of them may still arrive. The janitor ends them."""
        self._doubtful[uid] = None
        if len(self._doubtful) > DOUBTFUL_KEPT:
            self._doubtful.pop(next(iter(self._doubtful)))

    def settle(self, uid: str) -> None:
        """Note that no bind of a Pod that was sent until now can succeed any more."""
        self._doubtful.pop(uid, None)

    async def _claim(self, bind: binder.Bind, *, seq: int, decided_s: float, is_shared_out: bool) -> float:
        """Claim a node for a Pod; return when the claim was sent (monotonic). Raises `commits.Lost`."""
        pod = bind.pod
        claim = messages.Claim(
            uid=pod.uid, pod_class=bind.waiting.demand.pod_class, cores=pod.request_cores, size_bytes=pod.request_bytes,
            others=tuple(sorted(pod.request_others)), scheduler=self._parts.replica, at_ns=self._parts.clock.wall_ns(),
            apart=_apart(pod),
        )  # fmt: skip
        self._made[bind] = claim
        try:
            sent_s = await self._commits.ask(bind.node, claim, bind.waiting.demand, seq=seq, decided_s=decided_s)
        except commits.Lost as lost:
            if lost.rival is not None:
                bind.waiting.note_lost(lost.rival)
            self._tally.requeued += not bind.waiting.goes_at_once
            raise
        self._tally.note_stored(is_shared=is_shared_out)
        return sent_s

    def _check(self, sent_s: float, lease_term: int | None) -> None:
        """Raise `binder.Withheld` if a bind must not be sent: by a claim sent at `sent_s`, in a term of the Lease."""
        age_s = self._parts.clock.monotonic_s() - sent_s
        if age_s > self._parts.bind_within_s:
            raise binder.Withheld(f"not sent: its claim is {age_s:.1f} s old")
        if lease_term is not None and self._parts.lease.term() != lease_term:
            raise binder.Withheld("not sent: another scheduler may hold the Lease by now")

    def _lease_term(self) -> int:
        """Return the term of the Lease, on which a decision depends; -1 while another member has it."""
        term = self._parts.lease.term()
        return -1 if term is None else term


def _apart(pod: cluster.Pod) -> tuple[str, ...]:
    """Return the topology keys of a Pod's required anti-affinity."""
    terms = () if pod.constraints is None else pod.constraints.anti_affinity
    return tuple(sorted({each.topology_key for each in terms}))
