"""Decides for which waiting Pods others are evicted: twice a second, next to the cycles and never within one.

A Pod gets room this way if it fits nowhere, if no node is still being tried, if its priority is above that of some
placed Pod, and if its preemptionPolicy is not Never.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from carico_core.domain import cluster
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler import state as states
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.preempt import evictor, nominations, victims
from carico_scheduler.report import conditions, instruments, verdicts
from carico_scheduler.rules import protocol, registry

EVERY_S = 0.5
# A Pod first waits for so long: advertisements are sent every second, so that room that has just become free shows.
AFTER_S = 1.0
# Searches in one round; each examines nodes with other work of the event loop in between.
SEARCHES_A_ROUND = 64
# A demand for which no node would give way is searched for again after so long: Pods of other priorities come and go.
AGAIN_S = 5.0
# If others were evicted and it did not get the room, that time doubles each time up to this one: its class needs more
# than its node frees, or evictions are refused.
AGAIN_MOST_S = 300.0
# A Pod that leaves is waited for until so long after its grace period: one with a finalizer may stay for ever.
STUCK_AFTER_S = 60.0
# Nodes that could give way, of which the best is chosen. kube-scheduler stops at 100, or at a tenth of all nodes.
CANDIDATES_MAX = 100
# Nodes examined in one round for a Pod for which none has been found: some 50 us each, in turns with the other work.
EXAMINED_MAX = 2000


class Events(Protocol):
    """Where Events go."""

    def preempted(self, pod: cluster.Pod, text: str) -> None:
        """Queue an Event that a Pod is evicted for another."""


class _Kind(NamedTuple):
    """Pods for which a search gives the same answer."""

    demand: demands.Demand
    priority: int


class Preemptor:
    """Makes room for waiting Pods of one scheduler."""

    def __init__(
        self, state: states.State, *, kube: api_actions.Api, clock: clocks.Clock, rng: random.Random,
        events: Events, metrics: instruments.Instruments, term: Callable[[], int | None],
    ) -> None:  # fmt: skip
        self._state = state
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._term = term
        self._cycle = cycles.Cycle(state.fleet.policy)
        self._evictor = evictor.Evictor(
            kube, clock=clock, write_event=events.preempted, term=term,
            count=lambda outcome: metrics.victims.labels(outcome).inc(),
        )  # fmt: skip
        # When a search that found nothing is due again (monotonic).
        self._again_s: dict[_Kind, float] = {}
        # The nodes that a search which has found nothing so far has not examined.
        self._unseen: dict[_Kind, list[int]] = {}
        self._line = logs.get("scheduler")

    def nominees(self) -> list[cycles.Nominee]:
        """Return the Pods for which room is held, in the order of the queue."""
        found = []
        for each in self._state.nominations:
            slot = self._state.fleet.slot_of(each.node)
            if slot is not None and self._state.node_of(each.pod.uid) is None:
                found.append(cycles.Nominee(each.pod.uid, queues.key_of(each.pod), slot, each.demand))
        return sorted(found, key=lambda each: each.key)

    async def work_forever(self) -> None:
        """Make room until cancelled."""
        try:
            while True:
                await asyncio.sleep(EVERY_S)
                await self.round()
        finally:
            await self._evictor.stop()

    async def round(self) -> None:
        """End nominations that are over, and make room for the Pods whose turn it is."""
        self._refresh()
        term, lowest = self._term(), self._state.lowest_priority()
        if term is None or lowest is None or self._is_lacking:
            return
        now_s = self._clock.monotonic_s()
        self._again_s = {kind: due_s for kind, due_s in self._again_s.items() if due_s > now_s}
        turns = sorted(
            (each for each in self._state.queue.parked() if self._may_ask(each, lowest, now_s)),
            key=lambda each: each.key,
        )
        asked = {_Kind(each.demand, each.pod.priority) for each in turns}
        self._unseen = {kind: slots for kind, slots in self._unseen.items() if kind in asked}
        searches, refreshed_s = 0, now_s
        for waiting in turns:
            kind = _Kind(waiting.demand, waiting.pod.priority)
            if kind in self._again_s or searches >= SEARCHES_A_ROUND or waiting.pod.uid not in self._state.queue:
                continue
            searches += 1
            if self._clock.monotonic_s() - refreshed_s >= EVERY_S:
                # Searches that find nothing take long in a large cluster.
                self._refresh()
                refreshed_s = self._clock.monotonic_s()
            choice = await self._choose(waiting, kind)
            if choice is None or not (choice.victims or choice.awaited):
                # Nothing to gain, or there is room; or the search goes on in the next round.
                is_over = choice is None and kind not in self._unseen
                self._again_s[kind] = self._clock.monotonic_s() + (AGAIN_S if is_over else EVERY_S)
            elif self._term() == term and waiting.pod.uid in self._state.queue:
                self._nominate(waiting, choice, term)

    @property
    def _is_lacking(self) -> bool:
        """Whether it is not known which Pods belong to their node, or which budgets there are."""
        return self._state.budgets.lacking is not None or self._state.baseline.lacking is not None

    def _may_ask(self, waiting: queues.Waiting, lowest: int, now_s: float) -> bool:
        pod = waiting.pod
        return (
            pod.priority > lowest
            and pod.preempts
            # The Pods of a gang would each have others evicted, although there may be no room for all of them.
            and waiting.demand.gang is None
            and now_s - waiting.since_s >= AFTER_S
            and self._state.nominations.find(pod.uid) is None
        )

    def _refresh(self) -> None:
        if not len(self._state.nominations):
            return
        for each in self._state.nominations:
            # If a Pod that was leaving anyway stays, others may go.
            each.has_failed |= any(victim.deleting and self._is_stuck(victim) for victim in each.victims)
        ended = self._state.nominations.refresh(
            self._clock.monotonic_s(), node_of=self._state.node_of, is_binding=self._state.is_binding,
            waits=self._state.waits, nodes=set(self._state.fleet.names()),
        )  # fmt: skip
        term = self._term()
        for each, end in ended:
            self._metrics.preemptions.labels(end.value).inc()
            self._line.info("preemption ended", pod=each.pod.key, node=each.node, outcome=end.value)
            if end not in (nominations.End.PLACED, nominations.End.ELSEWHERE) and term is not None:
                kind, due_s = _Kind(each.demand, each.pod.priority), self._clock.monotonic_s() + self._rest_s(each)
                self._again_s[kind] = max(self._again_s.get(kind, due_s), due_s)
                if self._state.waits(each.pod.uid):
                    self._evictor.clear(each.pod, term)
        if ended:
            # Others may have the room that was held.
            self._state.queue.unpark()

    def _rest_s(self, ended: nominations.Nomination) -> float:
        """Return how long no others are evicted for a Pod that did not get the room."""
        waiting = self._state.queue.find(ended.pod.uid)
        doublings = 0 if waiting is None else min(max(waiting.preemptions - 1, 0), 16)
        return min(AGAIN_S * 2.0**doublings, AGAIN_MOST_S)

    async def _choose(self, waiting: queues.Waiting, kind: _Kind) -> victims.Choice | None:
        """Return the node that loses least, and its victims; None if no node would give way now."""
        while True:
            if not self._state.evictable.read_some(kind.priority, self._view()):
                break
            await asyncio.sleep(0)
        scores, free = self._scores(kind)
        if free is not None:
            return free
        if self._is_open(waiting, scores):
            return None
        order = self._order(kind, scores)
        nominated = self._state.fleet.slot_of(waiting.pod.nominated_node)
        if nominated is not None and scores.allowed[nominated]:
            # Made by another leader, or in an earlier term: if its victims still leave, no other Pod goes.
            order.insert(0, nominated)
        found: list[victims.Choice] = []
        for examined, slot in enumerate(order):
            if examined >= EXAMINED_MAX and not found:
                self._unseen[kind] = order[examined:]
                return None
            choice = self._on_slot(slot, kind, scores)
            if choice is not None and not choice.victims:
                return choice
            if choice is not None:
                found.append(choice)
                if len(found) >= CANDIDATES_MAX or _is_least(choice, self._state.lowest_priority()):
                    break
            await asyncio.sleep(0)
        best = victims.best_of(found)
        return None if best is None else self._as_of_now(best.node, kind)

    def _order(self, kind: _Kind, scores: cycles.Scores) -> list[int]:
        """Return the nodes that may give way, in the order in which they are examined."""
        view = self._view()
        by_capacity = not (view.goes_by_requests or kind.demand.is_baseline)
        mask = self._state.evictable.may_give_way(kind.demand, kind.priority, view, by_capacity=by_capacity)
        for each in self._state.nominations:
            # Pods that are evicted for others leave too.
            slot = self._state.fleet.slot_of(each.node)
            if slot is not None:
                mask[slot] = True
        mask &= scores.allowed
        unseen = self._unseen.pop(kind, None)
        if unseen is not None:
            return [slot for slot in unseen if mask[slot]]
        slots: list[int] = mask.nonzero()[0].tolist()
        # As in kube-scheduler, each search begins elsewhere.
        start = self._rng.randrange(len(slots)) if slots else 0
        return slots[start:] + slots[:start]

    def _view(self) -> snapshot.Snapshot:
        return self._state.fleet.snapshot(self._clock.monotonic_s())

    def _as_of_now(self, node: str, kind: _Kind) -> victims.Choice | None:
        """Return what the chosen node would lose now: Pods and nodes may have come, gone or changed during the search.

        None if the node no longer allows the Pod.
        """
        scores, free = self._scores(kind)
        slot = self._state.fleet.slot_of(node)
        if free is not None or slot is None or not scores.allowed[slot]:
            return free
        return self._on_slot(slot, kind, scores)

    def _scores(self, kind: _Kind) -> tuple[cycles.Scores, victims.Choice | None]:
        """Return the scores of all nodes, and the best one if it has room: for this Pod, or held for another."""
        view = self._view()
        scores = self._cycle.explain(view, kind.demand)
        slot = scores.best("")
        return scores, None if slot == snapshot.NO_NODE else victims.Choice(view.row(slot).node.name, (), 0)

    def _is_open(self, waiting: queues.Waiting, scores: cycles.Scores) -> bool:
        """Return True if the Pod should wait for nodes that are still being tried, or of which nothing is known."""
        match verdicts.verdict_of(scores):
            case verdicts.Verdict.UNSCHEDULABLE:
                return False
            case verdicts.Verdict.UNKNOWN:
                return True
        return self._clock.monotonic_s() - waiting.since_s < conditions.OPEN_FOR_S

    def _on_slot(self, slot: int, kind: _Kind, scores: cycles.Scores) -> victims.Choice | None:
        """Return what one node would lose, as it is now."""
        view = self._view()
        if view.nodes[slot] is None:
            return None
        row = view.row(slot)
        here = self._state.nominations.on(row.node.name)
        evicting = {victim.uid for each in here for victim in each.victims}
        if any(self._state.node_of(uid) is None for uid in evicting):
            # Its agent has not measured yet that these are gone: more than needed would go now.
            return None
        for each in here:
            if each.pod.priority >= kind.priority and self._state.node_of(each.pod.uid) is None:
                row = row.with_pod(each.demand)
        residents = []
        for claim in self._state.reservations.on(row.node.name):
            pod = self._state.pod(claim.uid)
            # One that is still being bound, or does not end, counts, and cannot be evicted.
            if pod is not None and not self._is_stuck(pod) and not self._state.is_binding(claim.uid):
                is_leaving = not pod.deleting and pod.uid in evicting
                pod = pod._replace(deleting=True) if is_leaving else pod
                residents.append(victims.Resident(pod, claim, self._state.reservations.is_reserved(claim)))
        return victims.on_node(
            row, victims.Preemptor(kind.demand, kind.priority), residents, scores.stages, self._state.budgets,
            self._evicting(), lambda: _peers(view, kind.demand, scores.stages),
        )  # fmt: skip

    def _is_stuck(self, pod: cluster.Pod) -> bool:
        """Return True if a Pod that is being deleted should have ended long ago."""
        return pod.ends_at_s <= self._clock.wall_ns() / 1e9 - STUCK_AFTER_S

    def _evicting(self) -> Iterator[cluster.Pod]:
        """Yield the victims of all nominations that are not gone yet."""
        for each in self._state.nominations:
            for victim in each.victims:
                if not victim.deleting and self._state.node_of(victim.uid) is not None:
                    yield victim

    def _nominate(self, waiting: queues.Waiting, choice: victims.Choice, term: int) -> None:
        nomination = nominations.Nomination(
            pod=waiting.pod, demand=waiting.demand, node=choice.node, victims=choice.victims or choice.awaited,
            since_s=self._clock.monotonic_s(),
        )  # fmt: skip
        self._state.nominations.add(nomination)
        waiting.preemptions += bool(choice.victims)
        self._line.info(
            "preemption", pod=waiting.pod.key, node=choice.node, victims=[each.key for each in choice.victims],
            awaited=[each.key for each in choice.awaited], violated_budgets=choice.violations,
        )  # fmt: skip
        self._evictor.start(nomination, term)


def _peers(view: snapshot.Snapshot, demand: demands.Demand, stages: registry.Stages) -> list[protocol.Peers]:
    """Return what Pods that leave a node may change for a demand, besides room."""
    if not demand.looks_at_peers:
        return []
    found = (each.peers(view, demand) for each in stages.by_peers)
    return [each for each in found if each is not None and any(part.yields for part in each.conditions())]


def _is_least(choice: victims.Choice, lowest: int | None) -> bool:
    """Return True if no node can lose less: one Pod of the lowest priority, and no budget is violated."""
    return not choice.violations and [pod.priority for pod in choice.victims] == [lowest]
