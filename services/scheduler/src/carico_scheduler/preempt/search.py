"""Searches the nodes for the one that loses least if a Pod is placed there, with other work in between.

The room that is held for other Pods counts as taken.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from carico_core.domain import cluster, decision
from carico_core.runtime.process import clock as clocks
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.decide import cycle_scores
from carico_scheduler.decide import turns as queue_turns
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.preempt import nominations, victims
from carico_scheduler.report import conditions, verdicts
from carico_scheduler.rules import protocol, registry
from carico_scheduler.state import state as states

# Nodes that could give way, of which the best is chosen. As in kube-scheduler, which stops at 100 or at a tenth of all
# nodes, one of them violates no budget, if there is such a node.
CANDIDATES_MAX = 100
# Nodes examined in one round for a Pod for which none has been found: some 50 us each, in turns with the other work.
EXAMINED_MAX = 2000


# What evicting Pods does not change.
_OF_VOLUMES = frozenset({decision.Reason.VOLUME, decision.Reason.VOLUME_LIMIT})
# A label, and the value of it that a node must have.
Within: TypeAlias = tuple[str, str]


class AlikePods(NamedTuple):
    """Pods for which a search gives the same answer."""

    demand: demands.Demand
    priority: int


def residents(state: states.State, node: str) -> Iterator[victims.Resident]:
    """Yield the Pods that count on a node."""
    for booking in state.reservations.on(node):
        pod = state.pod(booking.uid)
        if pod is not None:
            is_evicted = state.nominations.is_evicted(pod.uid, node)
            yield victims.Resident(pod, booking, state.reservations.is_reserved(booking), is_evicted)


class Search:
    """Searches for waiting Pods of one scheduler."""

    def __init__(
        self, state: states.State, *, clock: clocks.Clock, rng: random.Random, turns: queue_turns.Turns,
        others: Callable[[], Iterable[cycles.Held]] = tuple,
    ) -> None:  # fmt: skip
        """`others` returns the room that is held for Pods of other schedulers."""
        self._others = others
        # The same and turns, by slot, when nodes were scored last.
        self._held_on: dict[int, list[demands.Demand]] = {}
        self._state = state
        self._turns = turns
        self._clock = clock
        self._rng = rng
        self._cycle = cycles.Cycle(state.fleet.policy)
        # Nodes that were examined without result by a search that is not over, for one Pod or several of a gang.
        self._in_vain: dict[AlikePods, set[int]] = {}
        # The kinds whose last search stopped before it had examined all nodes.
        self.stopped: set[AlikePods] = set()

    def keep(self, kinds: Iterable[AlikePods]) -> None:
        """Forget the searches for all other kinds."""
        wanted = set(kinds)
        self._in_vain = {kind: slots for kind, slots in self._in_vain.items() if kind in wanted}
        self.stopped &= wanted

    def forget(self, kinds: Iterable[AlikePods]) -> None:
        """Begin the next search for these kinds with all nodes: the last one is over."""
        for kind in kinds:
            self._in_vain.pop(kind, None)

    async def choose(
        self, waiting: queues.Waiting, kind: AlikePods, *, within: Within | None = None
    ) -> victims.Choice | None:
        """Return the node that loses least, and its victims; None if no node would give way now.

        `within`: the nodes to which the Pod's gang may go.
        """
        while True:
            if not self._state.evictable.read_some(kind.priority, self.view()):
                break
            await asyncio.sleep(0)
        scores, free = self.scores(kind, within)
        if free is not None:
            return free
        if self.is_open(waiting, scores):
            return None
        allowed = self._allowed(scores, within)
        order = self._order(kind, allowed)
        nominated = self._state.fleet.slot_of(waiting.pod.nominated_node)
        if nominated is not None and allowed[nominated]:
            # Made by another leader, or in an earlier term: if its victims still leave, no other Pod goes.
            order.insert(0, nominated)
        best = await self._examined(order, kind, scores)
        return best if best is None or not best.victims else self._as_of_now(best.node, kind, within)

    async def _examined(
        self, order: Iterable[int], kind: AlikePods, scores: cycle_scores.Scores
    ) -> victims.Choice | None:  # fmt: skip
        """Return the node that loses least, as it was examined; None if there is none, or the search has stopped."""
        self.stopped.discard(kind)
        in_vain = self._in_vain.setdefault(kind, set())
        found: list[victims.Choice] = []
        for examined, slot in enumerate(order):
            if examined >= EXAMINED_MAX and not found:
                self.stopped.add(kind)
                return None
            choice = self.on_slot(slot, kind, scores)
            if choice is None:
                # Where others have been nominated it may be otherwise without them: those of a gang are taken back.
                if not self._nominated(slot):
                    in_vain.add(slot)
            else:
                found.append(choice)
                if not choice.victims or _is_enough(found) or self._is_least(choice):
                    break
            await asyncio.sleep(0)
        if kind.demand.gang is None:
            # That for a gang goes on with its next Pod, and in its next domain.
            self.forget([kind])
        return victims.best_of(found)

    def _allowed(self, scores: cycle_scores.Scores, within: Within | None) -> snapshot.Bools:
        """Return the nodes that could take the Pod if others left them."""
        return scores.allowed if within is None else scores.allowed & self._having(within)

    def _having(self, within: Within) -> snapshot.Bools:
        """Return the nodes with this value of the label, as they are now."""
        key, value = within
        return self.view().labels.domains(key).having([value])

    def _order(self, kind: AlikePods, allowed: snapshot.Bools) -> list[int]:
        """Return the nodes that may give way, in the order in which they are examined."""
        view = self.view()
        by_capacity = not (view.goes_by_requests or kind.demand.is_baseline)
        mask = self._state.evictable.may_give_way(kind.demand, kind.priority, view, by_capacity=by_capacity)
        for each in self._state.nominations:
            # Pods that are evicted for others leave too.
            slot = self._state.fleet.slot_of(each.node)
            if slot is not None:
                mask[slot] = True
        mask &= allowed
        mask[list(self._in_vain.get(kind, ()))] = False
        slots: list[int] = mask.nonzero()[0].tolist()
        # As in kube-scheduler, each search begins elsewhere.
        start = self._rng.randrange(len(slots)) if slots else 0
        return slots[start:] + slots[:start]

    def view(self) -> snapshot.Snapshot:
        return self._state.fleet.snapshot(self._clock.monotonic_s())

    def _as_of_now(self, node: str, kind: AlikePods, within: Within | None) -> victims.Choice | None:
        """Return what the chosen node would lose now: Pods and nodes may have come, gone or changed during the search.

        None if the node no longer allows the Pod.
        """
        scores, free = self.scores(kind, within)
        slot = self._state.fleet.slot_of(node)
        if free is not None or slot is None or not self._allowed(scores, within)[slot]:
            return free
        return self.on_slot(slot, kind, scores)

    def scores(
        self, kind: AlikePods, within: Within | None = None
    ) -> tuple[cycle_scores.Scores, victims.Choice | None]:
        """Return the scores of all nodes, and the best one if it has room for this Pod: what is held is none."""
        view = self.view()
        only = None if within is None else self._having(within)
        # Pods of a gang each need room of their own, which the nominations of the others hold.
        is_alone = kind.demand.gang is None
        placed = () if is_alone else self._held(kind)
        turns = [(each.slot, each.demand, None) for each in self._turns.nominees() if _is_before(each, kind)]
        held: list[cycles.Held] = [*turns, *self._others()]
        self._held_on = {}
        for at, demand, _ in held:
            self._held_on.setdefault(at, []).append(demand)
        scores = self._cycle.explain(view, kind.demand, placed=placed, held=held, only=only)
        if is_alone and scores.best("") != snapshot.NO_NODE:
            # Rare for a Pod that waits, and each Pod for which room is held takes 20 us.
            scores = self._cycle.explain(view, kind.demand, placed=self._held(kind), held=held, only=only)
        slot = scores.best("")
        return scores, None if slot == snapshot.NO_NODE else victims.Choice(view.row(slot).node.name, (), 0)

    def is_open(self, waiting: queues.Waiting, scores: cycle_scores.Scores) -> bool:
        """Return True if the Pod should wait for nodes that are still being tried, or of which nothing is known."""
        match verdicts.verdict_of(scores):
            case verdicts.Verdict.UNSCHEDULABLE:
                return False
            case verdicts.Verdict.UNKNOWN:
                return True
        return self._clock.monotonic_s() - waiting.since_s < conditions.OPEN_FOR_S

    def on_slot(self, slot: int, kind: AlikePods, scores: cycle_scores.Scores) -> victims.Choice | None:
        """Return what one node would lose, as it is now."""
        view = self.view()
        if view.nodes[slot] is None:
            return None
        row = view.row(slot)
        here = self._state.nominations.on(row.node.name)
        if any(self._state.node_of(victim.uid) is None for each in here for victim in each.victims):
            # Its agent has not measured yet that these are gone: more than needed would go now.
            return None
        for each in here:
            if each.pod.priority >= kind.priority and self._state.node_of(each.pod.uid) is None:
                row = row.with_pod(each.demand)
        for demand in self._held_on.get(slot, ()):
            row = row.with_pod(demand)
        # One that must stay counts, and cannot be evicted.
        leavable = [each for each in residents(self._state, row.node.name) if not self._must_stay(each.pod, kind)]
        return victims.on_node(
            row, victims.PreemptingPod(kind.demand, kind.priority), leavable, scores.stages, self._state.budgets,
            self._state.nominations.evicting(self._state.node_of), lambda: self._peers(view, kind, scores.stages),
        )  # fmt: skip

    def _nominated(self, slot: int) -> Sequence[nominations.Nomination]:
        """Return the nominations on a node."""
        node = self.view().nodes[slot]
        return () if node is None else self._state.nominations.on(node.name)

    def _is_least(self, choice: victims.Choice) -> bool:
        """Return True if no node can lose less: one Pod of the lowest priority, and no budget is violated."""
        lowest = self._state.placements.lowest_priority()
        return not choice.violations and [pod.priority for pod in choice.victims] == [lowest]

    def _must_stay(self, pod: cluster.Pod, kind: AlikePods) -> bool:
        """Return True if a Pod does not end in time, is still being bound, or is of the same gang."""
        gang = kind.demand.gang
        is_own = gang is not None and not pod.deleting and self._state.gangs.key_of(pod) == gang
        is_staying = pod.deleting and not nominations.ends_in_time(pod, self._unix_s())
        return is_own or is_staying or self._state.is_binding(pod.uid)

    def is_leaving(self, uid: str, node: str) -> bool:
        """Return True if a Pod that is waited for on a node is gone, ends in time, or is being evicted."""
        pod = self._state.pod(uid)
        return pod is None or self._state.nominations.is_leaving(pod, node, self._unix_s())

    def _unix_s(self) -> float:
        return self._clock.wall_ns() / 1e9

    def _held(self, kind: AlikePods) -> Iterator[tuple[int, cluster.Pod, demands.Demand]]:
        """Yield the other Pods of this priority and above for which room is held, each with its node's slot."""
        for each in self._state.nominations:
            slot = self._state.fleet.slot_of(each.node)
            if slot is not None and each.pod.priority >= kind.priority and self._state.node_of(each.pod.uid) is None:
                yield slot, each.pod, each.demand

    def _peers(self, view: snapshot.Snapshot, kind: AlikePods, stages: registry.Stages) -> list[protocol.Peers]:
        """Return what Pods that leave a node may change besides room; those for which room is held count as placed."""
        if not kind.demand.looks_at_peers:
            return []
        made = (each.peers(view, kind.demand) for each in stages.by_peers if each.reason not in _OF_VOLUMES)
        found = [each for each in made if each is not None]
        for slot, pod, _ in self._held(kind) if found else ():
            for each in found:
                each.add(pod, slot)
        return found


def _is_before(turn: cycles.Nominee, kind: AlikePods) -> bool:
    """Return True if a node is held against Pods of this kind: for others of their priority and above."""
    priority = -turn.key[0]
    return priority >= kind.priority and AlikePods(turn.demand, priority) != kind


def _is_enough(found: Sequence[victims.Choice]) -> bool:
    """Return True if these are candidates enough to choose among."""
    return len(found) >= CANDIDATES_MAX and any(not each.violations for each in found)
