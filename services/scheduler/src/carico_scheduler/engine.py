"""The scheduler at work: takes in what the API and the bus report, decides, and binds.

Event driven: every change that could let a Pod be placed wakes the decision loop at once. All state is changed on one
event loop, between two awaits, so that a cycle sees it whole.
"""

import asyncio
import collections
import contextlib
import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from carico_core.domain import gangs
from carico_core.runtime.kube import api_actions, paged_lists
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_scheduler.bind import binder as binders
from carico_scheduler.bind import outcomes, volume_binding
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.decide import turns
from carico_scheduler.gangs import keeper
from carico_scheduler.intake import advertisements, informers
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.preempt import opportunistic, preemptor
from carico_scheduler.report import conditions, decisions, events, explain, instruments, notices, reporter
from carico_scheduler.report import traces as pod_traces
from carico_scheduler.rules import policy as policies
from carico_scheduler.sharing import member, shares
from carico_scheduler.sharing.claims import claiming
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
# An advertisement is taken in after so long, together with those that have arrived meanwhile.
ARRIVED_S = 0.005
# While at most this share of the places for binds is free, the next cycle is this far off, and places several Pods: a
# cycle for each bind that ends takes more CPU time (in all 700 us a Pod in place of 590).
FEW_FREE = 0.25
GATHERED_S = 0.004
# A member gathers Pods for so long after each cycle that placed some: each batch of claims is a commit, a look at the
# stream's epoch, and two answers to wake up for.
COMMITTED_S = 0.01


class Kube(api_actions.BindApi, informers.ListerWatcher, paged_lists.Api, Protocol):
    """The part of the Kubernetes API that an engine uses."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """The parts of an engine."""

    policy: policies.Policy
    kube: Kube
    clock: clocks.Clock
    rng: random.Random
    log: decisions.Log
    events: events.Writer
    metrics: instruments.Instruments
    binds_in_flight: int
    bind_timeout_s: float
    event_after_s: float
    conditions_per_s: float = 50.0
    gang_timeout_s: float = 60.0
    # The PriorityClass of the Pods that run on what is idle; empty: there are none.
    opportunistic: str = ""
    # Returns the term in which this scheduler leads, None while it does not. Asked before each cycle and each report of
    # waiting Pods, and at the last moment before each bind, which is sent only in the term of its decision.
    term: Callable[[], int | None] = lambda: 0
    # None: nothing is traced.
    traces: pod_traces.PodTraces | None = None
    # Makes this scheduler one of several that decide at the same time; None: it decides alone, in its terms.
    share: Callable[["Engine"], member.Member] | None = None


class Engine:
    """One scheduler: the informers, `decide_forever` and `report_forever` run at the same time."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._metrics = parts.metrics
        self._line = logs.get("scheduler")
        self._drop_line = logs.RateLimited(self._line, clock=parts.clock)
        self.state = state.State(parts.policy, parts.rng)
        self.intake = advertisements.Advertisements(lease_s=parts.policy.lease_s, on_drop=self._on_drop)
        notifier = notices.Notices(parts.events, after_s=parts.event_after_s)
        self.outcomes = outcomes.Outcomes(
            self.state, clock=parts.clock, log=parts.log, events=parts.events, metrics=parts.metrics,
            notices=notifier, traces=parts.traces,
        )  # fmt: skip
        self.binder = binders.Binder(
            parts.kube, pods=self.state, clock=parts.clock, rng=parts.rng, most=parts.binds_in_flight,
            timeout_s=parts.bind_timeout_s, term=self.term,
        )  # fmt: skip
        self._wake = asyncio.Event()
        # When the loop is to turn for advertisements that have arrived; None: none have since it last turned.
        self._wake_due: asyncio.TimerHandle | None = None
        self.member = None if parts.share is None else parts.share(self)
        self._cycle = cycles.Cycle(parts.policy) if self.member is None else _at_home(parts.policy, self.member)
        self.conditions = conditions.Conditions(
            parts.kube, clock=parts.clock, pace=tasks.Pace(parts.conditions_per_s, clock=parts.clock),
            after_s=parts.event_after_s, find=self.state.queue.find, may_write=lambda: self.term() is not None,
            on_outcome=lambda outcome: parts.metrics.conditions.labels(outcome).inc(),
        )  # fmt: skip
        self._reporter = reporter.Reporter(
            cycle=self._cycle, log=parts.log, notices=notifier, conditions=self.conditions, gangs=self.state.gangs
        )
        self.preemptor = preemptor.Preemptor(
            self.state, kube=parts.kube, clock=parts.clock, rng=parts.rng, events=parts.events,
            metrics=parts.metrics, term=self._duty_term, on_hold=self._announce,
        )  # fmt: skip
        self.opportunistic = opportunistic.Opportunistic(
            self.state, kube=parts.kube, clock=parts.clock, events=parts.events, metrics=parts.metrics,
            term=self._duty_term, priority_class=parts.opportunistic,
        )  # fmt: skip
        parts.metrics.waits.watch(self.state.queue, parts.clock)
        self.turns = turns.Turns(
            self.state.fleet, self.state.queue, is_served=lambda uid: self.state.nominations.find(uid) is not None
        )
        self.gangs = keeper.Keeper(
            self.state, kube=parts.kube, clock=parts.clock, events=parts.events, metrics=parts.metrics,
            timeout_s=parts.gang_timeout_s, term=self._duty_term, wake=self._wake.set,
        )  # fmt: skip
        if self.member is not None:
            self.member.corrections.own_nominees = self._own_nominees
        self.state.on_covered = self._on_covered
        self._volumes = volume_binding.VolumeBinding(parts.kube, self.state.fleet)
        self.state.on_volumes = self._volumes.notify
        self.informers = informers.Informers(
            parts.kube, into=self.state, clock=parts.clock, metrics=parts.metrics, wake=self._on_event
        )
        self.beat_s = self._decoded_s = parts.clock.monotonic_s()
        # When the bus last delivered an advertisement of any node; None before the first.
        self._advertised_s: float | None = None
        # Returns (node, demand) of room that is held for Pods of kube-scheduler or of other members.
        self.held: Callable[[], Iterable[tuple[str, demands.Demand]]] = (
            tuple if self.member is None else self.member.held
        )

    @property
    def away(self) -> dict[str, str]:
        """Why collections of the API are not known; empty if decisions may be made."""
        return self.informers.away

    def term(self) -> int | None:
        """Return the term in which this scheduler may decide and bind now; None if it must not."""
        return self._parts.term() if self.informers.is_current else None

    def _duty_term(self) -> int | None:
        """Return the term in which this scheduler may evict Pods and give turns: of several, the Lease's holder."""
        return None if self.member is not None and not self.member.has_lease else self.term()

    def _announce(self) -> None:
        """Tell the other schedulers for which Pods this one holds room, before any is evicted for them."""
        if self.member is not None:
            self.member.announce()

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
        return silent_s if silent_s > self.state.fleet.policy.ageing_s else None

    def on_advertisement(self, subject: str, payload: bytes) -> None:
        """Take in a message from the bus; nothing is decoded before the next cycle."""
        self._advertised_s = now_s = self._clock.monotonic_s()
        self.intake.store(subject, payload, now_s)
        if self._wake_due is None:
            self._wake_due = asyncio.get_running_loop().call_later(ARRIVED_S, self._wake.set)

    def _on_event(self) -> None:
        """Let the decision loop turn if an event of the API may let it place a Pod."""
        # The end of a bind or a commit lets it turn as well, and each turn costs as much as reading an event.
        if self.state.queue.may_take(self._clock.monotonic_s()) and self._term_to_decide() is not None:
            self._wake.set()

    def turn(self) -> None:
        """Let the decision loop turn once more."""
        self._wake.set()

    def wake(self) -> None:
        """Try every waiting Pod again."""
        self.state.queue.unpark()
        self._wake.set()

    def recall(self, stored: list[tuple[str, bytes]]) -> None:
        """Take in the advertisements that the bus had stored."""
        now_s, wall_ns = self._clock.monotonic_s(), self._clock.wall_ns()
        for subject, payload in stored:
            heard = self.intake.recall(subject, payload, now_s=now_s, wall_ns=wall_ns)
            if heard is not None:
                self.state.put_advertisement(heard, now_s)
        self._wake.set()

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
            return COMMITTED_S
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
            view, self.state.queue, most=self.binder.room, held=self._held_slots(), nominees=self._nominees(),
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
        sets = self._sets_of(outcome.placed)
        for placement, each in zip(outcome.placed, facts, strict=True):
            self._begin(placement, each, term, now_s, together=sets.get(placement.waiting.demand.gang))
        self._metrics.decisions.labels("unschedulable").inc(len(outcome.unplaced))
        self._log_cycle(view, outcome, took_s)
        return len(outcome.placed)

    def report(self) -> None:
        """Report why Pods wait, for one round of them, and set the gauges."""
        now_s = self._clock.monotonic_s()
        queue = self.state.queue
        has_room = self.term() is not None and self._reporter.round(queue, self.state.fleet.snapshot(now_s))
        if self._duty_term() is not None:
            is_freed = self.turns.refresh(now_s)
        else:
            # A standby decides nothing; one of several schedulers that share the work does.
            is_freed = self.member is not None and self.turns.end_all()
        if is_freed:
            self.wake()
        # What is held for a Pod of higher priority, or one that has waited longer, is no room for those that wait.
        elif has_room and not len(self.state.nominations) and not len(self.turns) and not self._nominees():
            # Nor is what is held for Pods of other schedulers, which the report does not count.
            if next(iter(self.held()), None) is None:
                self._metrics.missed_wakes.inc()
            self.wake()
        self._metrics.count_queue(queue, now_s)
        self._metrics.binding.set(self.binder.in_flight)
        if self.member is not None:
            self._metrics.held_claims.set(sum(1 for _ in self.member.held()))
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
        arrived = self.intake.drain(max(DECODED_AT_ONCE, math.ceil(share * len(self.intake))))
        for heard in arrived:
            self.state.put_advertisement(heard, now_s)
        self._metrics.advertisements.inc(len(arrived))

    def _nominees(self) -> list[cycles.Nominee]:
        """Return the Pods for which room is held on a node, in the order of the queue."""
        return self._own_nominees() if self.member is None else self.member.corrections.nominees()

    def _own_nominees(self) -> list[cycles.Nominee]:
        """Return those for which this scheduler holds it."""
        found = self.preemptor.nominees()
        return sorted([*found, *self.turns.nominees()], key=lambda each: each.key) if len(self.turns) else found

    def _held_slots(self) -> Iterator[tuple[int, demands.Demand]]:
        for node, demand in self.held():
            slot = self.state.fleet.slot_of(node)
            if slot is not None:
                yield slot, demand

    def _sets_of(self, placed: Iterable[cycles.Placement]) -> dict[gangs.Key | None, claiming.Together]:
        """Return where the Pods of each gang wait for each other's claims; nothing unless nodes are claimed."""
        if self.member is None:
            return {}
        sizes = collections.Counter(each.waiting.demand.gang for each in placed)
        return {key: claiming.Together(size) for key, size in sizes.items() if key is not None}

    def _begin(
        self, placement: cycles.Placement, facts: decisions.Facts, term: int, now_s: float,
        together: claiming.Together | None = None,
    ) -> None:  # fmt: skip
        """Reserve the node and start the bind; `together`: see `member.claiming`."""
        waiting, pod = placement.waiting, placement.waiting.pod
        waiting.attempts += 1
        node = placement.row.node.name
        attempt = self.state.assume(waiting, node, now_s)
        if self._parts.traces is not None:
            self._parts.traces.decided(waiting, facts, now_s)

        def may_write() -> bool:
            return self.term() == term and self.state.is_open(pod.uid, attempt)

        bind = binders.Bind(
            pod=pod, node=node, attempt=attempt, term=term, waiting=waiting, facts=facts, on_result=self._on_result,
            prepare=self._volumes.preparation(pod, placement.row, may_write=may_write),
        )  # fmt: skip
        if self.member is not None:
            bind = self.member.claiming(
                bind, decided_s=now_s, is_open=lambda: self.state.is_open(pod.uid, attempt), together=together
            )  # fmt: skip
        self.binder.start(bind)
        if placement.row.is_advertised:
            self._metrics.age_s.observe(max(now_s - placement.row.sampled_s, 0.0))

    def _on_result(self, result: binders.Result) -> None:
        try:
            self.outcomes.take(result)
            if self.member is not None:
                self.member.take_result(result)
        finally:
            self._wake.set()

    def _on_covered(self, uid: str, reserved_s: float) -> None:
        self._metrics.covered_s.observe(max(self._clock.monotonic_s() - reserved_s, 0.0))
        if self._parts.traces is not None:
            self._parts.traces.covered(uid)

    def _on_drop(self, subject: str, reason: str, detail: str) -> None:
        self._metrics.drops.labels(reason).inc()
        # Rate limited: a line for each of 5,000 nodes would take a quarter of the CPU time.
        self._drop_line.warning(reason, "message dropped", subject=subject, reason=reason, detail=detail)

    async def _until_woken(self) -> None:
        """Wait until something has happened, a Pod's backoff is over, or a heartbeat is due."""
        if not len(self.intake):
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
