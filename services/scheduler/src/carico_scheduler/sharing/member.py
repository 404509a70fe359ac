"""One scheduler of several that decide and bind at the same time.

A member announces itself, and while it may commit it decides on the Pods of its share. Pods whose rules look at other
Pods or at volumes are decided on by the holder of the Lease alone (`shares.is_alone`), and so are those that their
member has handed over (`corrections`).
"""

import asyncio
import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol

from carico_core.domain import cluster, errors, messages
from carico_core.domain import names as class_names
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects
from carico_scheduler.bind import binder
from carico_scheduler.pods import demand as demands
from carico_scheduler.report import instruments
from carico_scheduler.sharing import (
    claiming,
    commits,
    corrections,
    fits,
    heartbeats,
    homes,
    janitor,
    rechecks,
    shares,
    stream,
    tally,
)  # fmt: skip
from carico_scheduler.sharing import ledger as ledgers
from carico_scheduler.state import state as states

CHECK_EVERY_S = heartbeats.EVERY_S / 2.0
# How often Pods are shared out again because the rules of other Pods have changed: it looks at every Pod.
SHARE_EVERY_S = 1.0
# A claim that is reported as an orphan should have been ended by the janitor three rounds ago.
ORPHAN_LATE_S = 3.0 * janitor.EVERY_S
# Pods remembered whose bind may still arrive.
DOUBTFUL_KEPT = 4096


class Bus(Protocol):
    """The part of the bus that a member uses."""

    @property
    def connected(self) -> bool:
        """True while the client is connected to NATS."""

    @property
    def claims(self) -> buses.Claims:
        """The stream of claims."""

    async def publish(self, subject: str, payload: bytes) -> None:
        """Send to current subscribers."""

    async def subscribe(self, subject: str, handler: Callable[[str, bytes], None]) -> object:
        """Call `handler` with every message of `subject`."""

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` each time the bus is back."""


class Lease(Protocol):
    """What a member needs of the Lease."""

    @property
    def identity(self) -> str:
        """This scheduler's name in it."""

    @property
    def holder(self) -> str:
        """Who holds it; empty if none does."""

    @property
    def heard_s(self) -> float:
        """When it was last read or written, on the monotonic clock; -inf if never."""

    def term(self) -> int | None:
        """Return the term in which this scheduler holds it; None while it does not."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemberParts:
    """The parts of a member.

    `bind_within_s`: how long after its claim a bind may be sent; it then times out after as long. `lease_read_s`: how
    old the Lease as last read may be. `why_not_fit`: why this scheduler could not decide, or None. `view_age_s`: the
    age of its view of the API, or None before its first lists. `wake`: tries every waiting Pod again; `on_idle`: only
    those that can go. `takes_share`: False if it binds for kube-scheduler alone.
    """

    replica: str
    boot: str
    state: states.State
    api: api_actions.Api
    clock: clocks.Clock
    lease: Lease
    metrics: instruments.Instruments
    bind_within_s: float
    lease_read_s: float
    why_not_fit: Callable[[], str | None]
    view_age_s: Callable[[], float | None]
    wake: Callable[[], None]
    on_idle: Callable[[], None]
    new_epoch: Callable[[], str]
    takes_share: bool = True


class Member:
    """One member, over a state that it shares with the engine."""

    def __init__(self, parts: MemberParts) -> None:
        self._parts = parts
        self._state = parts.state
        self._clock = parts.clock
        self._bus: Bus | None = None
        self._seq = 0
        self._tally = tally.Tally(parts.clock)
        self._is_leaving = False
        # Set when other members have come or gone. They are not reviewed at once: the bus survives what its handlers
        # raise, but after an error there the Pods would not be shared out until the next change.
        self._changed = asyncio.Event()
        self._doubtful: dict[str, None] = {}
        self.ledger = ledgers.Ledger(self._fate)
        self._stream = stream.Stream(
            self.ledger, clock=parts.clock, new_epoch=parts.new_epoch, header=self._header, on_room=parts.wake,
            on_drop=self._on_drop, own=lambda node, payload: self._commits.own(node, payload),
        )  # fmt: skip
        self._heartbeats = heartbeats.Heartbeats(
            parts.replica, boot=parts.boot, identity=lambda: parts.lease.identity, clock=parts.clock,
            on_change=self._changed.set, on_drop=self._on_drop,
        )  # fmt: skip
        self.corrections = corrections.Corrections(
            parts.state, self._heartbeats, holder=lambda: parts.lease.holder, count_taken=parts.metrics.corrected.inc,
            on_room=parts.wake,
        )  # fmt: skip
        self.rechecks = rechecks.Rechecks(parts.state, self.ledger, clock=parts.clock, held_on=self.corrections.held_on)
        self._commits = commits.Commits(
            commits.Parts(
                claims=self._claims, ledger=self.ledger, clock=parts.clock,
                epoch=lambda: self._stream.epoch if self.term() is not None else None,
                on_doubt=self._stream.doubt, fits=self.rechecks.fits, on_replace=self._keep_claims,
                header=self._header, count=self._count, on_idle=parts.on_idle,
            )
        )  # fmt: skip
        self._janitor = janitor.Janitor(
            self.ledger, self._commits, api=parts.api, clock=parts.clock, find=self._state.pod,
            may_commit=lambda: self.term() is not None,
            is_on_duty=lambda: parts.lease.term() is not None and self.term() is not None,
            count=parts.metrics.orphan_claims.inc,
        )  # fmt: skip
        # As last announced: what changes is announced at once.
        self._announced: tuple[set[str], Mapping[str, str]] = (set(), {})
        self.homes = homes.Homes(parts.replica)
        # The members and the Lease by which Pods are shared out now.
        self._members: tuple[str, ...] = ()
        self._has_lease = False
        self._shared_out_s = -math.inf
        self._state.is_mine = self.is_mine

    @property
    def members(self) -> tuple[str, ...]:
        """The members by which Pods are shared out, sorted."""
        return self._members

    @property
    def has_lease(self) -> bool:
        """True if this member holds the Lease by which Pods are shared out."""
        return self._has_lease and self._parts.lease.term() is not None

    @property
    def is_busy(self) -> bool:
        """True while claims are being committed."""
        return self._commits.is_busy

    def why_not_ready(self) -> str | None:
        """Return why this member may not commit now; None if it may."""
        if self._is_leaving:
            return "stopping"
        if self._bus is None or not self._bus.connected:
            return "not connected to NATS"
        if self._clock.monotonic_s() - self._parts.lease.heard_s > self._parts.lease_read_s:
            return "the Lease cannot be read: a scheduler that does not share may hold it"
        intruder = self._intruder()
        if intruder:
            return f"{intruder} holds the Lease and does not share: stop it, or let it share"
        return self._parts.why_not_fit() or self._stream.why_not_ready()

    def report(self) -> messages.MemberReport:
        """Return what this member reports of itself to people."""
        now_s = self._clock.monotonic_s()
        why_not = self.why_not_ready()
        self._tally.note_ready(why_not is None)
        return messages.MemberReport(
            names=tuple(sorted(self._state.fleet.policy.names)), has_lease=self._parts.lease.term() is not None,
            why_not=why_not or "", intruder=self._intruder(), ready_s=self._tally.ready_s, stored=self._tally.stored,
            conflicts=self._tally.conflicts, requeued=self._tally.requeued, recent=self._tally.recent,
            view_age_s=self._parts.view_age_s(), orphans=len(self.ledger.orphans(now_s - ORPHAN_LATE_S)),
        )  # fmt: skip

    def _intruder(self) -> str:
        """Return who holds the Lease and does not share; empty if there is none."""
        holder = self._parts.lease.holder
        return "" if self._heartbeats.knows(holder) else holder

    def term(self) -> int | None:
        """Return the number of the stream's epoch in which this member may decide and bind now; None if it must not."""
        return self._stream.number if self.why_not_ready() is None else None

    def works(self, bus: Bus) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what must run for as long as the scheduler does."""
        self._bus = bus
        bus.on_reconnect(self._stream.doubt)
        return {
            "claims": self._stream.follow_forever(bus.claims),
            "commits": self._commits.run_forever(),
            "members": self._announce_forever(bus),
            "janitor": self._janitor.run_forever(),
        }

    async def leave(self) -> None:
        """Commit nothing more, and let the others take over the share at once."""
        self._is_leaving = True
        await self._publish(is_leaving=True, passed=messages.Corrections(handed={}, held={}))

    def is_mine(self, pod: cluster.Pod) -> bool:
        """Return whether this member decides on a Pod."""
        if not self._members or not self._parts.takes_share:
            return self._parts.takes_share
        if self._has_lease and self.corrections.is_taken(pod.uid):
            return True
        return self._is_of_share(pod) and not self.corrections.is_handed(pod.uid)

    def _is_of_share(self, pod: cluster.Pod) -> bool:
        if not shares.is_alone(self._state.demand_of(pod)):
            return self._has_lease
        return shares.owner(pod.uid, self._members) == self._parts.replica

    def held(self) -> Iterator[tuple[str, demands.Demand]]:
        """Yield (node, demand) of the room that others have claimed and this member's own state does not count yet."""
        for node, claim in self.ledger.counted(self._clock.monotonic_s()):
            yield node, fits.demand_of(claim)

    def held_on(self, node: str, pod: cluster.Pod) -> list[demands.Demand]:
        """Return what other members hold on a node against a Pod, by claims and as the holder of the Lease."""
        now_s = self._clock.monotonic_s()
        claimed = [fits.demand_of(each) for each in self.ledger.counted_on(node, now_s) if each.uid != pod.uid]
        return claimed + self.corrections.held_on(node, pod)

    def claiming(
        self, bind: binder.Bind, *, decided_s: float, is_open: Callable[[], bool],
        together: asyncio.Barrier | None = None,
    ) -> binder.Bind:  # fmt: skip
        """Return the bind of a decision that was just made, to be sent once its node is claimed.

        `decided_s`: when the decision began. `together`: where it waits for the other Pods of its gang.
        """
        # What kube-scheduler has decided depends on no term of ours.
        is_ours = bind.pod.scheduler_name in self._state.fleet.policy.names
        is_shared_out = is_ours and shares.is_alone(bind.waiting.demand)
        lease_term = self._lease_term() if is_ours and not is_shared_out else None
        store = functools.partial(
            self._claim, bind, seq=self.ledger.seq(bind.node), decided_s=decided_s, is_shared_out=is_shared_out
        )

        async def ready() -> None:
            if bind.prepare is not None:
                await bind.prepare()
            if not is_open():
                raise binder.Settled("not sent: the watch showed that the Pod is bound or gone")

        claim = claiming.Claiming(
            ready=ready, store=store, check=lambda sent_s: self._check(sent_s, lease_term), together=together
        )
        return dataclasses.replace(
            bind, prepare=claim.prepare, permit=claim.permit, resource_version=bind.pod.resource_version,
            is_shared=True,
        )  # fmt: skip

    def take_result(self, result: binder.Result) -> None:
        """Withdraw the claim of a bind that was not sent, or that the API has refused."""
        uid, node = result.uid, result.node
        if result.fate in (binder.Fate.UNBOUND, binder.Fate.WITHHELD):
            self.corrections.note_failure(uid)
        if result.fate is binder.Fate.UNBOUND and result.is_doubtful:
            self._keep_claims(uid)
        elif result.fate in (binder.Fate.UNBOUND, binder.Fate.WITHHELD) and uid not in self._doubtful:
            claim = self.ledger.find(node, uid)
            is_own = claim is not None and claim.scheduler == self._parts.replica
            if claim is not None and is_own and self._fate(uid, node) is ledgers.Fate.OPEN:
                self.ledger.void(node, claim)
                self._commits.ask(node, None, result.bind.waiting.demand, seq=-1)

    def _keep_claims(self, uid: str) -> None:
        """Withdraw no claim of a Pod any more: a bind by one of them may still arrive. The janitor ends them."""
        self._doubtful[uid] = None
        if len(self._doubtful) > DOUBTFUL_KEPT:
            self._doubtful.pop(next(iter(self._doubtful)))

    def review(self) -> None:
        """Share Pods out again if the members, the holder of the Lease or the rules of other Pods have changed."""
        is_ready = self.why_not_ready() is None
        own = (self._parts.replica,) if is_ready and self._parts.takes_share else ()
        members = tuple(sorted({*self._heartbeats.others(), *own}))
        has_lease = self._parts.lease.term() is not None
        now_s = self._clock.monotonic_s()
        is_changed = (members, has_lease) != (self._members, self._has_lease)
        self._members, self._has_lease = members, has_lease
        is_corrected = self.corrections.review(
            now_s, has_lease=has_lease, has_share=bool(own), is_own=self._is_of_share
        )  # fmt: skip
        is_due = self._state.is_share_stale and now_s - self._shared_out_s >= SHARE_EVERY_S
        if is_changed or is_due:
            self._parts.metrics.members.set(len(members))
            self.homes.set_members(members)
            self._shared_out_s = now_s
            self._state.share_out(now_s)
        if is_changed:
            self._parts.wake()
        elif is_due or is_corrected:
            self._parts.on_idle()

    async def _claim(self, bind: binder.Bind, *, seq: int, decided_s: float, is_shared_out: bool) -> float:
        """Claim a node for a Pod; return when the claim was sent (monotonic). Raises `commits.Lost`."""
        pod = bind.pod
        claim = messages.Claim(
            uid=pod.uid, pod_class=class_names.class_of(pod), cores=pod.request_cores, size_bytes=pod.request_bytes,
            others=tuple(sorted(pod.request_others)), scheduler=self._parts.replica, at_ns=self._clock.wall_ns(),
        )  # fmt: skip
        try:
            sent_s = await self._commits.ask(bind.node, claim, bind.waiting.demand, seq=seq, decided_s=decided_s)
        except commits.Lost as lost:
            self._tally.requeued += 1
            if pod.uid not in self._doubtful:
                # It may be stored all the same: its answer was lost, or the stream was another one by then.
                self.ledger.note_ended(claim)
            if lost.rival is not None:
                bind.waiting.note_lost(lost.rival)
            raise
        self._tally.note_stored(is_shared=is_shared_out)
        return sent_s

    def _check(self, sent_s: float, lease_term: int | None) -> None:
        """Raise `binder.Withheld` if a bind must not be sent: by a claim sent at `sent_s`, in a term of the Lease."""
        age_s = self._clock.monotonic_s() - sent_s
        if age_s > self._parts.bind_within_s:
            raise binder.Withheld(f"not sent: its claim is {age_s:.1f} s old")
        if lease_term is not None and self._parts.lease.term() != lease_term:
            raise binder.Withheld("not sent: another scheduler may hold the Lease by now")

    def _lease_term(self) -> int:
        """Return the term of the Lease, on which a decision depends; -1 while another member has it."""
        term = self._parts.lease.term()
        return -1 if term is None else term

    async def _announce_forever(self, bus: Bus) -> None:
        is_listening = False
        announced_s = -heartbeats.EVERY_S
        while True:
            try:
                if not is_listening:
                    await bus.subscribe(subjects.MEMBER_ALL, self._heartbeats.take)
                    is_listening = True
            except errors.BusError:
                # Tried again with the next heartbeat.
                pass
            self.review()
            now_s = self._clock.monotonic_s()
            passed = self.corrections.passed(now_s, has_lease=self.has_lease)
            news = (set(passed.handed), passed.held)
            if now_s - announced_s >= heartbeats.EVERY_S or news != self._announced:
                announced_s, self._announced = now_s, news
                has_share = self.why_not_ready() is None and self._parts.takes_share
                await self._publish(is_leaving=not has_share, passed=passed)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self._changed.wait()
            self._changed.clear()

    async def _publish(self, *, is_leaving: bool, passed: messages.Corrections) -> None:
        if self._bus is None:
            return
        subject, payload = self._heartbeats.next(is_leaving=is_leaving, report=self.report(), corrections=passed)
        try:
            await self._bus.publish(subject, payload)
        except errors.BusError:
            # The others take the share; it is given back with the next heartbeat that arrives.
            return

    def _fate(self, uid: str, node: str) -> ledgers.Fate:
        record = self._state.records.find(uid)
        if record is None:
            return ledgers.Fate.GONE if self._state.records.is_gone(uid) else ledgers.Fate.UNKNOWN
        if record.is_bound:
            return ledgers.Fate.BOUND
        is_here = record.is_placed and record.claim is not None and record.claim.node == node
        return ledgers.Fate.ASSUMED if is_here else ledgers.Fate.OPEN

    def _claims(self) -> buses.Claims:
        assert self._bus is not None, "claims are asked for before the bus is there"
        return self._bus.claims

    def _header(self) -> tuple[str, int]:
        self._seq += 1
        return self._parts.boot, self._seq

    def _count(self, outcome: str) -> None:
        self._tally.conflicts += outcome == "conflict"
        self._parts.metrics.claims.labels(outcome).inc()

    def _on_drop(self, reason: str) -> None:
        self._parts.metrics.drops.labels(reason).inc()
