"""The scheduler at work: takes in what the API and the bus say, decides, and binds.

Event driven: whatever could let a Pod be placed wakes the decision loop at once. All state is changed on one event
loop, between two awaits, so that a cycle sees it whole.
"""

import asyncio
import contextlib
import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from carico_core.runtime.kube import api_actions, paged_lists
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler import state
from carico_scheduler.bind import binder as binders
from carico_scheduler.bind import outcomes, volume_binding
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.intake import advertisements, informers
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.report import decisions, events, explain, instruments, notices, reporter
from carico_scheduler.report import traces as pod_traces
from carico_scheduler.rules import policy as policies

REPORT_EVERY_S = 0.5
# The decision loop turns at least this often, idle or not, so that its heartbeat shows that it lives.
BEAT_S = 1.0
# Advertisements decoded in a turn of the loop: these, or the share of them that has all decoded within the time below.
# Where the CPU is short, what is late waits here, where a newer one of its node takes its place, and not in the NATS
# server, where all of it grows too old to be believed. The time, and the second between two of one node, are together
# less than the 5 s for which an advertisement is good.
DECODED_AT_ONCE = 32
DECODED_WITHIN_S = 3.0


class Kube(api_actions.BindApi, informers.Kube, paged_lists.Api, Protocol):
    """What is needed of the Kubernetes API."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is put together from."""

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
    # The term in which this scheduler leads, None while it does not: asked before each cycle, each Event about waiting
    # Pods, and at the last moment before each bind, which is sent in the term of its decision alone.
    term: Callable[[], int | None] = lambda: 0
    # None: nothing is traced.
    traces: pod_traces.PodTraces | None = None


class Engine:
    """One scheduler: the works of `mirrors`, `decide_forever` and `report_forever` run side by side."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._metrics = parts.metrics
        self._line = logs.get("scheduler")
        self._drop_line = logs.RateLimited(self._line, clock=parts.clock)
        self.state = state.State(parts.policy, parts.rng)
        self.intake = advertisements.Advertisements(lease_s=parts.policy.lease_s, on_drop=self._on_drop)
        told = notices.Notices(parts.events, after_s=parts.event_after_s)
        self.outcomes = outcomes.Outcomes(
            self.state, clock=parts.clock, log=parts.log, events=parts.events, metrics=parts.metrics,
            notices=told, traces=parts.traces,
        )  # fmt: skip
        self.binder = binders.Binder(
            parts.kube, pods=self.state, clock=parts.clock, rng=parts.rng, most=parts.binds_in_flight,
            timeout_s=parts.bind_timeout_s, term=self.term,
        )  # fmt: skip
        self._cycle = cycles.Cycle(parts.policy)
        self._reporter = reporter.Reporter(cycle=self._cycle, log=parts.log, notices=told)
        self.state.on_covered = self._on_covered
        self._volumes = volume_binding.VolumeBinding(parts.kube, self.state.fleet)
        self.state.on_volumes = self._volumes.notify
        self._wake = asyncio.Event()
        self.mirrors = informers.Informers(
            parts.kube, into=self.state, clock=parts.clock, metrics=parts.metrics, wake=self._wake.set
        )
        self.beat_s = self._heard_s = parts.clock.monotonic_s()
        # (node, demand) of room that is promised to Pods of others, which may yet take it elsewhere.
        self.held: Callable[[], Iterable[tuple[str, demands.Demand]]] = tuple

    @property
    def away(self) -> dict[str, str]:
        """What is lacking of the API; empty: decisions may be made."""
        return self.mirrors.away

    def term(self) -> int | None:
        """Return the term in which this scheduler may decide and bind now; None: it must not."""
        return self._parts.term() if self.mirrors.is_current else None

    def on_advertisement(self, subject: str, payload: bytes) -> None:
        """Take in a message from the bus; nothing is decoded before the next cycle."""
        self.intake.store(subject, payload, self._clock.monotonic_s())
        self._wake.set()

    def wake(self) -> None:
        """Look again at every Pod that waits: what stood in its way may be gone."""
        self.state.queue.unpark()
        self._wake.set()

    def recall(self, stored: list[tuple[str, bytes]]) -> None:
        """Take in the advertisements that the bus had kept."""
        now_s, wall_ns = self._clock.monotonic_s(), self._clock.wall_ns()
        for subject, payload in stored:
            heard = self.intake.recall(subject, payload, now_s=now_s, wall_ns=wall_ns)
            if heard is not None:
                self.state.put_advertisement(heard, now_s)
        self._wake.set()

    async def decide_forever(self) -> None:
        """Decide whenever something has happened, until cancelled. Raises where a bind's outcome is lost."""
        while True:
            await self._until_woken()
            if self.binder.fault is not None:
                # What is held of that Pod may be wrong; a start takes all from the API's lists again.
                raise self.binder.fault
            self.beat_s = self._clock.monotonic_s()
            self.step()
            await asyncio.sleep(0)

    async def report_forever(self) -> None:
        """Report Pods that wait and set the gauges, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            self.report()

    def step(self) -> int:
        """How many Pods were placed: takes in what has come, and runs one cycle."""
        now_s = self._clock.monotonic_s()
        self._hear(now_s)
        term, room = self.term(), self.binder.room
        if term is None or room <= 0 or not len(self.state.queue):
            return 0
        view = self.state.fleet.snapshot(now_s)
        outcome = self._cycle.run(view, self.state.queue, most=room, held=self._held_slots())
        if not outcome.placed and not outcome.unplaced:
            return 0
        took_s = self._clock.monotonic_s() - now_s
        self._metrics.cycle_s.observe(took_s)
        decided_us = took_s * 1e6 / (len(outcome.placed) + len(outcome.unplaced))
        self._metrics.decision_s.observe(decided_us / 1e6)
        # All records first: they read the snapshot, which is good until the state changes.
        facts = [explain.facts_of(placement, decided_us) for placement in outcome.placed]
        for placement, each in zip(outcome.placed, facts, strict=True):
            self._begin(placement, each, term, now_s)
        self._metrics.decisions.labels("unschedulable").inc(len(outcome.unplaced))
        self._log_cycle(view, outcome, took_s)
        return len(outcome.placed)

    def report(self) -> None:
        """One round of telling why Pods wait; the gauges."""
        now_s = self._clock.monotonic_s()
        queue = self.state.queue
        if self.term() is not None and self._reporter.round(queue, self.state.fleet.snapshot(now_s)):
            self._metrics.missed_wakes.inc()
            self.wake()
        self._metrics.count_queue(queue, now_s)
        self._metrics.binding.set(self.binder.in_flight)
        self._metrics.doubtful.set(self.binder.doubtful_count)
        self._metrics.unpublished.set(self._parts.log.unpublished_count)
        self._metrics.count_reservations(self.state.ledger, now_s)
        self._metrics.count_nodes(self.state.fleet.snapshot(now_s))
        if self._parts.traces is not None:
            self._parts.traces.sweep(lambda uid: self.state.pod(uid) is not None)

    def _hear(self, now_s: float) -> None:
        """Take in advertisements: all that have come, where the loop's turns are short."""
        share = (now_s - self._heard_s) / DECODED_WITHIN_S
        self._heard_s = now_s
        come = self.intake.drain(max(DECODED_AT_ONCE, math.ceil(share * len(self.intake))))
        for heard in come:
            self.state.put_advertisement(heard, now_s)
        self._metrics.advertisements.inc(len(come))

    def _held_slots(self) -> Iterator[tuple[int, demands.Demand]]:
        for node, demand in self.held():
            slot = self.state.fleet.slot_of(node)
            if slot is not None:
                yield slot, demand

    def _begin(self, placement: cycles.Placement, facts: decisions.Facts, term: int, now_s: float) -> None:
        """Reserve the node and begin the bind."""
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
        self.binder.start(bind)
        if placement.row.is_advertised:
            self._metrics.age_s.observe(max(now_s - placement.row.sampled_s, 0.0))

    def _on_result(self, result: binders.Result) -> None:
        try:
            self.outcomes.take(result)
        finally:
            self._wake.set()

    def _on_covered(self, uid: str, reserved_s: float) -> None:
        self._metrics.covered_s.observe(max(self._clock.monotonic_s() - reserved_s, 0.0))
        if self._parts.traces is not None:
            self._parts.traces.covered(uid)

    def _on_drop(self, subject: str, reason: str, detail: str) -> None:
        self._metrics.drops.labels(reason).inc()
        # Not a line for each node: what goes wrong with all of 5,000 would take a quarter of the time.
        self._drop_line.warning(reason, "message dropped", subject=subject, reason=reason, detail=detail)

    async def _until_woken(self) -> None:
        """Wait until something has happened, a resting Pod is due, or it is time for a heartbeat."""
        if not len(self.intake):
            # With no room, a Pod that is due changes nothing: the loop would spin until there is.
            may_decide = self.binder.room > 0 and self.term() is not None
            due_s = self.state.queue.next_due_s() if may_decide else None
            rest_s = BEAT_S if due_s is None else min(max(due_s - self._clock.monotonic_s(), 0.0), BEAT_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._wake.wait()
        self._wake.clear()

    def _log_cycle(self, view: snapshot.Snapshot, outcome: cycles.Outcome, took_s: float) -> None:
        """One line a cycle; at debug where it placed nothing, as a full cluster runs many of those."""
        write = self._line.info if outcome.placed else self._line.debug
        write(
            "cycle",
            placed=len(outcome.placed),
            unplaced=len(outcome.unplaced),
            waiting=len(self.state.queue),
            in_flight=self.binder.in_flight,
            reserved=self.state.ledger.reserved_count,
            nodes=view.count,
            took_us=round(took_s * 1e6),
        )
