"""The scheduler at work: takes in what the API and the bus report, decides, and binds.

Event driven: every change that could let a Pod be placed wakes the decision loop at once. All state is changed on one
event loop, between two awaits, so that a cycle sees it whole.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable

from carico_core.domain import errors
from carico_core.runtime.bus import listening
from carico_core.runtime.observe import logs
from carico_core.runtime.process import tasks
from carico_core.wire import freshness, subjects
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.decide import turns
from carico_scheduler.engine import held_room, starter
from carico_scheduler.engine import parts as engine_parts
from carico_scheduler.gangs import keeper
from carico_scheduler.intake import advertisements, informers
from carico_scheduler.nodes import snapshot
from carico_scheduler.preempt import opportunistic, preemptor
from carico_scheduler.report import conditions, explain, notices, reporter
from carico_scheduler.rules import policy as policies
from carico_scheduler.sharing import member, shares
from carico_scheduler.state import state

REPORT_EVERY_S = 0.5
# The decision loop turns at least this often, idle or not, so that its heartbeat shows that it is alive.
BEAT_S = 1.0
# Advertisements decoded in a turn of the loop: this many, or the share that decodes all within the time below. If CPU
# time is short, messages wait here, where a newer one of the same node replaces an older one, and not in the NATS
# server, where all of them would grow too old. That time plus the second between two advertisements of a node is less
# than the 5 s for which an advertisement is used.
DECODED_AT_ONCE = 32
DECODED_WITHIN_S = 3.0
# Advertisements of a node in a second. An agent publishes once a second and 5 ms after a Pod's start or end. What has
# waited for a scheduler that was frozen comes all at once: this is a minute of 80 starts and ends a second.
ALLOWED = listening.Allowance(most=5_000, of_strangers=5_000, window_s=1.0)
# An advertisement is taken in after so long, together with those that have arrived meanwhile.
ARRIVED_S = 0.005
# While at most this share of the places for binds is free, the next cycle is this far off, and places several Pods: a
# cycle for each bind that ends takes more CPU time (in all 700 us a Pod in place of 590).
FEW_FREE = 0.25
GATHERED_S = 0.004
# A member gathers Pods for so long after a cycle that placed one: each batch of claims is a commit, a look at the
# stream's epoch, and two answers to wake up for. After one that placed several there are more to come: it gathers them
# for so long for each member, since each has a part of the Pods.
COMMITTED_S = 0.01
COMMITTED_MOST_S = 0.05


class Engine:
    """One scheduler: the informers, `decide_forever` and `report_forever` run at the same time."""

    def __init__(
        self, parts: engine_parts.EngineParts, *, share: Callable[["Engine"], member.Member] | None = None
    ) -> None:
        """`share` makes this scheduler one of several that decide at the same time; None: it decides alone."""
        self._parts = parts
        self._clock = parts.clock
        self._metrics = parts.metrics
        self._line = logs.get("scheduler")
        self._drop_line = logs.RateLimited(self._line, clock=parts.clock)
        self.state = state.State(parts.policy, parts.rng)
        self.intake = advertisements.Advertisements(lease_s=parts.policy.lease_s, on_drop=self._on_drop)
        self.state.early.on_drop = self._on_drop
        self.state.on_new_node = self._take_early
        self.listening = listening.Listening(
            self.on_advertisement, subject=subjects.CAPACITY_ALL, allowed=ALLOWED,
            names=self.state.fleet.names, on_drop=self._on_drop, clock=parts.clock,
        )  # fmt: skip
        notifier = notices.Notices(parts.events, after_s=parts.event_after_s)
        self._wake = asyncio.Event()
        # When the loop is to turn for advertisements that have arrived; None: none have since it last turned.
        self._wake_due: asyncio.TimerHandle | None = None
        self.member = None if share is None else share(self)
        self.starter = starter.Starter(
            parts, self.state, notices=notifier, member=self.member, term=self.term, wake=self.turn
        )
        self.binder = self.starter.binder
        self._cycle = cycles.Cycle(parts.policy) if self.member is None else _at_home(parts.policy, self.member)
        self.conditions = conditions.Conditions(
            parts.kube, clock=parts.clock, pace=tasks.Pace(parts.conditions_per_s, clock=parts.clock),
            after_s=parts.event_after_s, find=self.state.queue.find, may_write=lambda: self.term() is not None,
            on_outcome=lambda outcome: parts.metrics.conditions.labels(outcome).inc(),
        )  # fmt: skip
        self._reporter = reporter.Reporter(
            cycle=self._cycle, log=parts.log, notices=notifier, conditions=self.conditions, gangs=self.state.gangs
        )
        self.turns = turns.Turns(
            self.state.fleet, self.state.queue, is_served=lambda uid: self.state.nominations.find(uid) is not None
        )
        self.preemptor = preemptor.Preemptor(
            self.state, kube=parts.kube, clock=parts.clock, rng=parts.rng, events=parts.events,
            metrics=parts.metrics, term=self._duty_term, turns=self.turns, on_hold=self._announce,
            may_hold=self._may_hold, others=lambda: self.held.slots_for_others(),
        )  # fmt: skip
        self.opportunistic = opportunistic.Opportunistic(
            self.state, kube=parts.kube, clock=parts.clock, events=parts.events, metrics=parts.metrics,
            term=self._duty_term, priority_class=parts.opportunistic,
        )  # fmt: skip
        parts.metrics.waits.watch(self.state.queue, parts.clock)
        self.gangs = keeper.Keeper(
            self.state, kube=parts.kube, clock=parts.clock, events=parts.events, metrics=parts.metrics,
            timeout_s=parts.gang_timeout_s, term=self._duty_term, wake=self._wake.set,
        )  # fmt: skip
        self.held = held_room.HeldRoom(self.state.fleet, preemptor=self.preemptor, turns=self.turns, member=self.member)
        self.informers = informers.Informers(
            parts.kube, into=self.state, clock=parts.clock, metrics=parts.metrics, wake=self._on_event,
            before_pods=None if self.member is None else self.member.before_list,
        )  # fmt: skip
        if self.member is not None:
            self.informers.on_listed = self.member.note_listed
        self.beat_s = self._decoded_s = parts.clock.monotonic_s()
        # When the bus last delivered an advertisement of any node; None before the first.
        self._advertised_s: float | None = None

    @property
    def away(self) -> dict[str, str]:
        """Why collections of the API are not known; empty if decisions may be made."""
        return self.informers.away

    def term(self) -> int | None:
        """Return the term in which this scheduler may decide and bind now; None if it must not."""
        term = self._parts.term()
        # A member has no term while it does not know the API's objects (`MemberParts.why_not_fit`).
        return term if term is None or self.member is not None or self.informers.is_current else None

    def _duty_term(self) -> int | None:
        """Return the term in which this scheduler may evict Pods and give turns: of several, the Lease's holder."""
        return None if self.member is not None and not self.member.has_lease else self.term()

    def _announce(self) -> None:
        """Announce for which Pods this scheduler holds room, before any is evicted for them."""
        if self.member is not None:
            self.member.announce()

    def _may_hold(self, more: int) -> bool:
        """Return True if the other schedulers learn of all room that this one holds, for so many more Pods, too.

        They would take it.
        """
        return self.member is None or self.member.corrections.may_hold(more)

    def _term_to_decide(self) -> int | None:
        """Return the term of a cycle now; None if it could place nothing: no bind may start, or claims are sent."""
        is_claiming = self.member is not None and self.member.is_busy
        return None if is_claiming or self.binder.room <= 0 else self.term()

    @property
    def silent_s(self) -> float | None:
        """For how long no node's advertisement has arrived, although some did; None while that does not matter.

        Before the first advertisement nothing is missing, nor without Nodes, nor if Pods may be placed by requests.
        """
        is_needed = len(self.state.fleet) > 0 and self.state.fleet.policy.fallback is policies.Fallback.WAIT
        if self._advertised_s is None or not is_needed:
            return None
        silent_s = self._clock.monotonic_s() - self._advertised_s
        return silent_s if silent_s > freshness.AGEING_S else None

    def on_advertisement(self, subject: str, payload: bytes) -> None:
        """Take in a message from the bus; nothing is decoded before the next cycle."""
        self._advertised_s = now_s = self._clock.monotonic_s()
        if self._is_early(subject):
            self.state.early.store(subject, payload, now_s)
        else:
            self._store(subject, payload, now_s)

    def _store(self, subject: str, payload: bytes, arrival_s: float) -> None:
        """Keep a message for the next cycle, which comes soon."""
        self.intake.store(subject, payload, arrival_s)
        if self._wake_due is None:
            self._wake_due = asyncio.get_running_loop().call_later(ARRIVED_S, self._wake.set)

    def _is_early(self, subject: str) -> bool:
        """Return True for the subject of a node that the API does not show."""
        try:
            return self.state.fleet.slot_of(subjects.node_of(subject)) is None
        except errors.BadName:
            # Refused and counted where it is decoded.
            return False

    def _take_early(self, node: str) -> None:
        """Take in what a node has advertised before the API showed it."""
        subject = subjects.capacity(node)
        found = self.state.early.take(subject)
        if found is None:
            return
        if found.wall_ns is None:
            self._store(subject, found.payload, found.arrival_s)
        else:
            self._recall(subject, found.payload, now_s=found.arrival_s, wall_ns=found.wall_ns)

    def _on_event(self) -> None:
        """Let the decision loop turn if an event of the API may let it place a Pod."""
        if self._wake.is_set():
            # Events come in batches, and each look at the term takes a few microseconds.
            return
        # The end of a bind or a commit lets it turn as well.
        if self.state.queue.may_take(self._clock.monotonic_s()) and self._term_to_decide() is not None:
            self._wake.set()

    def turn(self) -> None:
        """Let the decision loop turn once more, if a Pod waits: each turn costs as much as reading an event."""
        if len(self.state.queue):
            self._wake.set()

    def wake(self) -> None:
        """Try every waiting Pod again."""
        self.state.queue.unpark()
        self._wake.set()

    def recall(self, stored: list[tuple[str, bytes]]) -> None:
        """Take in the advertisements that the bus had stored."""
        now_s, wall_ns = self._clock.monotonic_s(), self._clock.wall_ns()
        for subject, payload in stored:
            if self._is_early(subject):
                self.state.early.store(subject, payload, now_s, wall_ns=wall_ns)
            else:
                self._recall(subject, payload, now_s=now_s, wall_ns=wall_ns)
        self._wake.set()

    def _recall(self, subject: str, payload: bytes, *, now_s: float, wall_ns: int) -> None:
        heard = self.intake.recall(subject, payload, now_s=now_s, wall_ns=wall_ns)
        if heard is not None:
            self.state.put_advertisement(heard, now_s)

    async def decide_forever(self) -> None:
        """Decide whenever something has happened, until cancelled. Raises if the outcome of a bind was lost."""
        while True:
            await self._until_woken()
            if self.binder.fault is not None:
                # The record of that Pod may be wrong; a restart takes everything from the API's lists again.
                raise self.binder.fault
            self.beat_s = self._clock.monotonic_s()
            await asyncio.sleep(self._rest_s(self.step()))

    def _rest_s(self, placed: int) -> float:
        """Return for how long Pods are gathered for the next cycle, after one that has placed this many."""
        if placed and self.member is not None:
            several = max(1, len(self.member.members)) if placed > 1 else 1
            return min(several * COMMITTED_S, COMMITTED_MOST_S)
        return GATHERED_S if self.binder.room <= FEW_FREE * self._parts.binds_in_flight else 0.0

    async def report_forever(self) -> None:
        """Report waiting Pods and set the gauges, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            self.report()

    def step(self) -> int:
        """Take in new advertisements, run one cycle, and return how many Pods it placed."""
        now_s = self._clock.monotonic_s()
        self._decode(now_s)
        term = self._term_to_decide() if len(self.state.queue) else None
        if term is None:
            return 0
        view = self.state.fleet.snapshot(now_s)
        outcome = self._cycle.run(
            view, self.state.queue, most=self.binder.room, held=self.held.slots_for_others(),
            nominees=self.held.nominees(),
            gangs=self.state.waiting_gangs,
        )  # fmt: skip
        if outcome.is_cut:
            self._wake.set()
        if not outcome.placed and not outcome.unplaced:
            return 0
        took_s = self._clock.monotonic_s() - now_s
        self._metrics.cycle_s.observe(took_s)
        decided_us = took_s * 1e6 / (len(outcome.placed) + len(outcome.unplaced))
        self._metrics.decision_s.observe(decided_us / 1e6)
        # All records first: they read the snapshot, which is valid until the state changes.
        facts = [explain.facts_of(placement, decided_us) for placement in outcome.placed]
        self.starter.start(outcome.placed, facts, term=term, now_s=now_s)
        self._metrics.decisions.labels("unschedulable").inc(len(outcome.unplaced))
        self._log_cycle(view, outcome, took_s)
        return len(outcome.placed)

    def report(self) -> None:
        """Report why Pods wait, for one round of them, and set the gauges."""
        now_s = self._clock.monotonic_s()
        queue = self.state.queue
        view = self.state.fleet.snapshot(now_s)
        has_room = self.term() is not None and self._reporter.round(queue, view, self.held)
        if self._duty_term() is not None:
            is_freed = self.turns.refresh(now_s)
        else:
            # A standby decides nothing; one of several schedulers that share the work does.
            is_freed = self.member is not None and self.turns.end_all()
        if is_freed:
            self.wake()
        elif has_room:
            # More room on a node where some is held wakes no Pod: by its advertisement alone it had room before.
            if not self.held.nominees() and next(iter(self.held.for_others()), None) is None:
                self._metrics.missed_wakes.inc()
            self.wake()
        self._set_gauges(now_s)

    def _set_gauges(self, now_s: float) -> None:
        self._metrics.count_queue(self.state.queue, now_s)
        self._metrics.binding.set(self.binder.in_flight)
        if self.member is not None:
            self._metrics.held_claims.set(sum(not demand.fills_node for _, demand, _ in self.member.held()))
        self._metrics.doubtful.set(self.binder.doubtful_count)
        self._metrics.unpublished.set(self._parts.log.unpublished_count)
        self._metrics.count_reservations(self.state.reservations, now_s)
        self._metrics.count_nodes(self.state.fleet.snapshot(now_s))
        if self._parts.traces is not None:
            self._parts.traces.sweep(lambda uid: self.state.pod(uid) is not None)

    def _decode(self, now_s: float) -> None:
        """Take in advertisements: all that have arrived, if the loop's turns are short."""
        share = (now_s - self._decoded_s) / DECODED_WITHIN_S
        self._decoded_s = now_s
        self.state.early.expire(now_s)
        arrived = self.intake.drain(max(DECODED_AT_ONCE, math.ceil(share * len(self.intake))))
        for heard in arrived:
            self.state.put_advertisement(heard, now_s)
        self._metrics.advertisements.inc(len(arrived))

    def _on_drop(self, subject: str, reason: str, detail: str) -> None:
        self._metrics.drops.labels(reason).inc()
        # Rate limited: a line for each of 5,000 nodes would take a quarter of the CPU time.
        self._drop_line.warning(reason, "message dropped", subject=subject, reason=reason, detail=detail)

    async def _until_woken(self) -> None:
        """Wait until something has happened, a Pod's backoff is over, or a heartbeat is due."""
        if not len(self.intake) and not self._wake.is_set():
            # Without room for a bind a Pod that is due cannot be placed, and the loop would spin.
            due_s = self.state.queue.next_due_s() if self._term_to_decide() is not None else None
            rest_s = BEAT_S if due_s is None else min(max(due_s - self._clock.monotonic_s(), 0.0), BEAT_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._wake.wait()
        self._wake.clear()
        if self._wake_due is not None:
            self._wake_due.cancel()
            self._wake_due = None

    def _log_cycle(self, view: snapshot.Snapshot, outcome: cycles.CycleResult, took_s: float) -> None:
        """Log one line per cycle, at debug level if it placed nothing: a full cluster runs many of those."""
        write = self._line.info if outcome.placed else self._line.debug
        write(
            "cycle",
            placed=len(outcome.placed),
            unplaced=len(outcome.unplaced),
            waiting=len(self.state.queue),
            in_flight=self.binder.in_flight,
            reserved=self.state.reservations.reserved_count,
            nodes=view.count,
            took_us=round(took_s * 1e6),
        )


def _at_home(policy: policies.Policy, one: member.Member) -> cycles.Cycle:
    """Return a cycle that prefers the nodes whose home is this member."""
    return cycles.Cycle(policy, ranking=lambda scorer: shares.HomeScore(scorer=scorer, fuller=one.homes.fuller))
