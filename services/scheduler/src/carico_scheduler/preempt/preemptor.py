"""Decides for which waiting Pods others are evicted: twice a second, next to the cycles and never within one.

A Pod gets room this way if it fits nowhere, if no node is still being tried, if its priority is above that of some
placed Pod, and if its preemptionPolicy is not Never. For the Pods of a gang, room is made together or not at all: each
is nominated in turn, with the others' room held, before anything is evicted.
"""

import asyncio
import collections
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from carico_core.domain import cluster
from carico_core.numerics import backoff
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.decide import turns as queue_turns
from carico_scheduler.gangs import gang as gang_records
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.preempt import evictor, nominations, search, victims
from carico_scheduler.report import instruments
from carico_scheduler.state import placements
from carico_scheduler.state import state as states

# A Pod first waits for so long: advertisements are sent every second, so that room that has just become free shows.
AFTER_S = 1.0
# Searches in one round; each examines nodes with other work of the event loop in between.
SEARCHES_A_ROUND = 64
# A demand for which no node would give way is searched for again after so long: Pods of other priorities come and go.
AGAIN_S = 5.0
# If others were evicted and it did not get the room, that time doubles each time up to this one: its class needs more
# than its node frees, or evictions are refused.
AGAIN_MOST_S = 300.0
# The most Pods of a gang for which room is made together, and the most values of its label that are tried.
GANG_MOST = 256
DOMAINS_MOST = 4


class Events(Protocol):
    """Where Events go."""

    def preempted(self, pod: cluster.Pod, text: str) -> None:
        """Queue an Event that a Pod is evicted for another."""


class Preemptor:
    """Makes room for waiting Pods of one scheduler."""

    def __init__(
        self, state: states.State, *, kube: api_actions.BindApi, clock: clocks.Clock, rng: random.Random,
        events: Events, metrics: instruments.Instruments, term: Callable[[], int | None], turns: queue_turns.Turns,
        on_hold: Callable[[], None], may_hold: Callable[[int], bool], others: Callable[[], Iterable[cycles.Held]],
    ) -> None:  # fmt: skip
        """`turns`: for which Pods nodes are held; evicting others there would be in vain. `others`: see `search`.

        `on_hold` is called when room is held for a Pod, before the first eviction for it. `may_hold` returns whether
        room can be held for so many more Pods.
        """
        self._state = state
        self._clock = clock
        self._metrics = metrics
        self._term = term
        self._search = search.Search(state, clock=clock, rng=rng, turns=turns, others=others)
        self._evictor = evictor.Evictor(
            kube, clock=clock, write_event=events.preempted, term=term,
            count=lambda outcome: metrics.victims.labels(outcome).inc(), leaving=state.nominations,
        )  # fmt: skip
        # When a search that found nothing is due again (monotonic).
        self._again_s: dict[search.AlikePods, float] = {}
        # Those of the rounds before, which ended before all Pods had a turn: due again only once these have.
        self._in_vain: set[search.AlikePods] = set()
        # How often others were evicted for a Pod without a node, by UID: where several schedulers share the work, it
        # leaves this one's queue and comes back.
        self._preemptions: collections.Counter[str] = collections.Counter()
        # The Pods of this round with a nominated node that no nomination here accounts for; and when those of them that
        # may have no others evicted are looked at again (monotonic).
        self._nominated: list[queues.Waiting] = []
        self._look_s = 0.0
        self._on_hold = on_hold
        self._may_hold = may_hold
        self._line = logs.get("scheduler")

    def nominees(self) -> list[cycles.Nominee]:
        """Return the Pods for which room is held, in the order of the queue."""
        found = []
        for each in self._state.nominations:
            slot = self._state.fleet.slot_of(each.node)
            if slot is not None and self._state.node_of(each.pod.uid) is None:
                found.append(cycles.Nominee(each.pod.uid, queues.key_of(each.pod), slot, each.demand, each.pod))
        return sorted(found, key=lambda each: each.key)

    async def work_forever(self) -> None:
        """Make room until cancelled."""
        await self._evictor.work_forever(self.round)

    async def round(self) -> None:
        """End nominations that are over, and make room for the Pods whose turn it is."""
        self._refresh()
        term, lowest = self._term(), self._state.placements.lowest_priority()
        if term is None or not self._state.may_evict:
            return
        self._preemptions = collections.Counter(
            {uid: count for uid, count in self._preemptions.items() if self._state.has_no_node(uid)}
        )
        now_s = self._clock.monotonic_s()
        self._again_s = {kind: due_s for kind, due_s in self._again_s.items() if due_s > now_s}
        parked = [each for each in self._state.queue.parked() if self._is_due(each, now_s)]
        turns = sorted((each for each in parked if placements.may_preempt(each.pod, lowest)), key=lambda each: each.key)
        self._nominated = [each for each in parked if each.pod.nominated_node]
        self._search.keep(search.AlikePods(each.demand, each.pod.priority) for each in turns)
        await self._serve(turns, term)
        if now_s >= self._look_s:
            self._look_s = now_s + AGAIN_S
            idle = [each for each in self._nominated if not placements.may_preempt(each.pod, lowest)]
            await self._clear_idle(idle, term)

    async def _serve(self, turns: Sequence[queues.Waiting], term: int) -> None:
        """Make room for these Pods, as far as a round reaches."""
        self._in_vain &= {_turn_of(each.demand, each.pod.priority) for each in turns}
        searches, refreshed_s = 0, self._clock.monotonic_s()
        for waiting in turns:
            kind = _turn_of(waiting.demand, waiting.pod.priority)
            if kind in self._in_vain or kind in self._again_s or waiting.pod.uid not in self._state.queue:
                continue
            if searches >= SEARCHES_A_ROUND:
                return
            searches += 1
            if self._clock.monotonic_s() - refreshed_s >= evictor.EVERY_S:
                # Searches that find nothing take long in a large cluster.
                self._refresh()
                refreshed_s = self._clock.monotonic_s()
            rest_s = await self._make_room(waiting, term)
            if rest_s is not None:
                self._again_s[kind] = self._clock.monotonic_s() + rest_s
                self._in_vain.add(kind)
        self._in_vain.clear()

    async def _make_room(self, waiting: queues.Waiting, term: int) -> float | None:
        """Have others evicted for a Pod, or for its gang; if none are, return the time until the next search."""
        key = waiting.demand.gang
        gang = None if key is None else self._state.gangs.find(key)
        if key is not None and (gang is None or not gang.may_place or key in self._state.gangs.resting):
            return evictor.EVERY_S
        if gang is not None and gang.missing:
            return await self._make_room_for_gang(gang, term)
        if not self._may_hold(1):
            return evictor.EVERY_S
        kind = search.AlikePods(waiting.demand, waiting.pod.priority)
        within = None if gang is None else next(self._domains(gang), None)
        choice = await self._search.choose(waiting, kind, within=within)
        if choice is None and kind not in self._search.stopped:
            self._search.forget([kind])
            self._clear_stale(waiting, self._nominated, within, term)
            return AGAIN_S
        if choice is None or not (choice.victims or choice.awaited):
            # Nothing to gain, or there is room; or the search goes on in the next round.
            return evictor.EVERY_S
        if self._term() != term or waiting.pod.uid not in self._state.queue:
            return None
        self._start(self._nominate(waiting, choice), term)
        return None

    async def _clear_idle(self, nominated: Sequence[queues.Waiting], term: int) -> None:
        """Remove the nominated nodes of Pods that may have no others evicted."""
        alike = {search.AlikePods(each.demand, each.pod.priority): each for each in nominated}
        for waiting in list(alike.values())[:SEARCHES_A_ROUND]:
            key = waiting.demand.gang
            gang = None if key is None else self._state.gangs.find(key)
            self._clear_stale(waiting, nominated, None if gang is None else next(self._domains(gang), None), term)
            await asyncio.sleep(0)

    def _clear_stale(
        self, waiting: queues.Waiting, nominated: Iterable[queues.Waiting], within: search.Within | None, term: int
    ) -> None:  # fmt: skip
        """Remove the nominated nodes of those Pods that are like this one, for which no node would give way.

        Another leader made them, or the request that removes one was lost. An autoscaler adds no node for such Pods;
        the name of a node that is not there yet may be its own.
        """
        kind = search.AlikePods(waiting.demand, waiting.pod.priority)
        stale = [
            each.pod
            for each in nominated
            if search.AlikePods(each.demand, each.pod.priority) == kind
            and self._state.fleet.slot_of(each.pod.nominated_node) is not None
        ]
        if not stale:
            return
        scores, free = self._search.scores(kind, within)
        # While some node is still being tried, or the first advertisements are awaited, the node may still be right.
        if free is None and not self._search.is_open(waiting, scores):
            for pod in stale:
                if self._state.waits(pod.uid):
                    self._evictor.clear(pod, term)

    async def _make_room_for_gang(self, gang: gang_records.Gang, term: int) -> float | None:
        """Have others evicted for all Pods that a gang lacks, or for none; see `_make_room`."""
        waiting = (self._state.queue.find(uid) for uid in gang.roles)
        members = sorted((each for each in waiting if each is not None), key=lambda each: each.key)[: gang.missing]
        lowest = self._state.placements.lowest_priority()
        if len(members) < gang.missing or len(members) > GANG_MOST:
            return AGAIN_S
        if not all(placements.may_preempt(each.pod, lowest) for each in members):
            return AGAIN_S
        if not self._may_hold(len(members)):
            return evictor.EVERY_S
        is_over = True
        for within in self._domains(gang):
            made = await self._nominate_all(members, within)
            is_victim = any(each.victims for each in made)
            is_whole = len(made) == len(members) and all(self._state.waits(each.pod.uid) for each in members)
            if is_whole and is_victim and self._term() == term:
                for each in made:
                    each.together = made
                    self._start(each, term)
                return None
            for each in made:
                self._state.nominations.drop(each)
            is_over &= not is_whole and self._search.stopped.isdisjoint(_kinds(members))
        if not is_over:
            return evictor.EVERY_S
        self._search.forget(_kinds(members))
        return AGAIN_S

    async def _nominate_all(
        self, members: Sequence[queues.Waiting], within: search.Within | None
    ) -> list[nominations.Nomination]:
        """Hold room for these Pods, one after another, as long as some node would give way; nothing is evicted yet."""
        made: list[nominations.Nomination] = []
        self._search.stopped -= _kinds(members)
        for waiting in members:
            kind = search.AlikePods(waiting.demand, waiting.pod.priority)
            choice = await self._search.choose(waiting, kind, within=within)
            if choice is None or self._state.nominations.find(waiting.pod.uid) is not None:
                break
            made.append(self._nominate(waiting, choice))
        return made

    def _domains(self, gang: gang_records.Gang) -> Iterator[search.Within | None]:
        """Yield to which nodes a gang may go, one domain after another, the largest first; None: to all."""
        asks = gang.asks
        if asks is None or not asks.topology_key:
            yield None
            return
        view = self._search.view()
        values = view.labels.domains(asks.topology_key)
        domain = self._state.waiting_gangs.domain_of(gang)
        if domain is not None:
            yield asks.topology_key, domain
            return
        names, sizes = list(values.numbers), values.sums(view.present)[: values.count]
        for number in (-sizes).argsort(kind="stable")[:DOMAINS_MOST].tolist():
            yield asks.topology_key, names[number]

    def _is_due(self, waiting: queues.Waiting, now_s: float) -> bool:
        """Return True if a Pod has waited for a moment, and no room is being made for it."""
        return now_s - waiting.since_s >= AFTER_S and self._state.nominations.find(waiting.pod.uid) is None

    def _refresh(self) -> None:
        if not len(self._state.nominations):
            return
        for each in self._state.nominations:
            # If a Pod that was leaving anyway stays, others may go.
            each.has_failed |= any(
                victim.deleting and not self._search.is_leaving(victim.uid, each.node) for victim in each.victims
            )
        ended = self._state.nominations.refresh(
            self._clock.monotonic_s(), node_of=self._state.node_of, is_binding=self._state.is_binding,
            waits=self._state.waits, nodes=set(self._state.fleet.names()),
        )  # fmt: skip
        term = self._term()
        for each, end in ended:
            self._metrics.preemptions.labels(end.value).inc()
            self._line.info("preemption ended", pod=each.pod.key, node=each.node, outcome=end.value)
            if end not in (nominations.End.PLACED, nominations.End.ELSEWHERE) and term is not None:
                kind = _turn_of(each.demand, each.pod.priority)
                due_s = self._clock.monotonic_s() + self._rest_s(each)
                self._again_s[kind] = max(self._again_s.get(kind, due_s), due_s)
                waiting = self._state.queue.find(each.pod.uid)
                if waiting is not None:
                    waiting.in_vain = nominations.in_vain(each, end)
                if self._state.waits(each.pod.uid):
                    self._evictor.clear(each.pod, term)
        if ended:
            # Others may have the room that was held.
            self._state.queue.unpark()

    def _rest_s(self, ended: nominations.Nomination) -> float:
        """Return how long no others are evicted for a Pod that did not get the room."""
        earlier = max(self._preemptions[ended.pod.uid] - 1, 0)
        return backoff.doubled_s(earlier, first_s=AGAIN_S, most_s=AGAIN_MOST_S)

    def _nominate(self, waiting: queues.Waiting, choice: victims.Choice) -> nominations.Nomination:
        """Hold the room that a node would have."""
        nomination = nominations.Nomination(
            pod=waiting.pod, demand=waiting.demand, node=choice.node, victims=choice.victims + choice.awaited,
            since_s=self._clock.monotonic_s(), violations=choice.violations,
        )  # fmt: skip
        self._state.nominations.add(nomination)
        return nomination

    def _start(self, nomination: nominations.Nomination, term: int) -> None:
        """Evict the Pods that have to go."""
        if nomination.evicted:
            self._preemptions[nomination.pod.uid] += 1
        self._on_hold()
        self._line.info(
            "preemption", pod=nomination.pod.key, node=nomination.node, violated_budgets=nomination.violations,
            victims=[each.key for each in nomination.evicted],
            awaited=[each.key for each in nomination.victims if each.deleting],
        )  # fmt: skip
        self._evictor.start(nomination, term)


def _kinds(members: Iterable[queues.Waiting]) -> set[search.AlikePods]:
    return {search.AlikePods(each.demand, each.pod.priority) for each in members}


def _turn_of(demand: demands.Demand, priority: int) -> search.AlikePods:
    """Return the Pods that have their turn together: all of a gang."""
    if demand.gang is None:
        return search.AlikePods(demand, priority)
    return search.AlikePods(demands.Demand(gang=demand.gang), 0)
