"""One scheduling cycle: from a snapshot and the queue to placements. No clock, no input or output.

Per demand, the filters' masks become one array of scores, -inf for a refused node; the decision is the largest score.
The masks over Node objects are cached from cycle to cycle. Within a cycle each placement is reserved in the draft, so
that the next decision sees it.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from carico_core.domain import cluster
from carico_scheduler.decide import cycle_scores, masks, parties, peer_scores
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules import protocol, registry

# Gangs tried in one cycle: each takes about a millisecond at 10,000 nodes, even if it finds no room.
PARTIES_MOST = 16


# Room that is held for another Pod: the slot of the node, and the Pod as in `Nominee`.
Held: TypeAlias = tuple[int, demands.Demand, cluster.Pod | None]


class Source(Protocol):
    """Where a cycle takes its Pods from."""

    def take(self, now_s: float) -> queues.Waiting | None:
        """Return the next Pod, or None."""

    def park(self, waiting: queues.Waiting) -> None:
        """Take back a Pod that fits nowhere."""


class Placement(NamedTuple):
    """A Pod and the node chosen for it. `free` is None if it was placed by requests.

    A named tuple, as all that each decision creates: a frozen dataclass takes three times as long.
    """

    waiting: queues.Waiting
    row: snapshot.NodeRow
    free: float | None
    score: float
    scores: cycle_scores.Scores
    refused: dict[str, int]
    others: scoring.Seen


class Nominee(NamedTuple):
    """A waiting Pod for which room is being made on a node: Pods that come after it in the queue do not get it.

    `pod`: they do not get its host ports and disks there either, nor come where its anti-affinity or theirs rules that
    out; None: it lacks nothing but room.
    """

    uid: str
    key: queues.Key
    slot: int
    demand: demands.Demand
    pod: cluster.Pod | None = None


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class CycleResult:
    """What one cycle decided, in order."""

    placed: list[Placement] = dataclasses.field(default_factory=list)
    unplaced: list[queues.Waiting] = dataclasses.field(default_factory=list)
    # True if it ended because it had tried enough gangs: another should follow.
    is_cut: bool = False


class Cycle:
    """Runs cycles over snapshots of one fleet; caches masks between them."""

    def __init__(
        self, policy: policies.Policy, *, ranking: Callable[[protocol.Scorer], protocol.Scorer] = lambda scorer: scorer
    ) -> None:
        """`ranking` returns the scorer that is used in place of the policy's."""
        self._by_capacity = _ranked(registry.by_capacity(policy), ranking)
        self._without = _ranked(registry.without_capacity(), ranking)
        self._masks = masks.NodeMasks()

    def run(
        self, view: snapshot.Snapshot, source: Source, *, most: int, held: Iterable[Held] = (),
        nominees: Sequence[Nominee] = (), gangs: parties.PartySource | None = None,
    ) -> CycleResult:  # fmt: skip
        """Decide on Pods of `source` until `most` are placed or none is left; the last gang may exceed it.

        `held`: room held for other Pods. `nominees`: Pods that may be in `source`, in its order. `gangs`: None: each
        Pod is placed by itself.
        """
        outcome = CycleResult()
        draft = scoring.Draft(view)
        for slot, demand, of in held:
            draft.hold(slot, demand, of)
        scorer, ahead = self._scorer(view, draft), _Ahead(nominees)
        tried = 0
        while len(outcome.placed) < most and not outcome.is_cut and (waiting := source.take(view.now_s)) is not None:
            party = None if gangs is None or waiting.demand.gang is None else gangs.gather(waiting)
            last = waiting.key if party is None else max(each.key for each in party.members)
            own = [] if party is None else ahead.take(party, draft)
            ahead.hold(waiting, last, scorer)
            if gangs is not None and party is not None:
                gangs.tried(party, self._place_party(party, scorer, source, outcome, own))
                tried += 1
                outcome.is_cut = tried >= PARTIES_MOST
                if ahead.give_back(draft) or own:
                    # Scores only fall.
                    scorer = self._scorer(view, draft)
                continue
            # Where the cluster is full, thousands of demands may wait, one for each of a tenant's Jobs.
            is_full = bool(outcome.unplaced) and not scorer.may_have_room(waiting.demand)
            slot = snapshot.NO_NODE
            if not is_full:
                slot = peer_scores.slot_for(scorer.scores(waiting.demand), waiting.pod)
            if slot == snapshot.NO_NODE:
                outcome.unplaced.append(waiting)
                source.park(waiting)
                scorer.forget(waiting.demand)
                continue
            outcome.placed.append(self._place(scorer, waiting, slot))
            ahead.placed(waiting)
        return outcome

    def _place_party(
        self, party: parties.Party, scorer: cycle_scores.CycleScores, source: Source, outcome: CycleResult,
        own: Iterable[Nominee],
    ) -> int | None:  # fmt: skip
        """Place the Pods of a gang if enough of them fit, and park the others.

        Return for how many there was room; None: that was not counted.

        `own`: those of its Pods for which room is held, also while they wait on.
        """
        found, fitted = self._fitting(party, scorer)
        made = found if len(found) >= party.missing else []
        for each in made:
            scorer.reserve(scorer.draft.row(each.row.slot), each.waiting)
        outcome.placed += made
        chosen = {each.waiting.pod.uid for each in made}
        for waiting in party.members:
            if waiting.pod.uid not in chosen:
                outcome.unplaced.append(waiting)
                source.park(waiting)
        for nominee in own:
            if nominee.uid not in chosen:
                scorer.hold(nominee.slot, nominee.demand, nominee.pod)
        return fitted

    def _fitting(self, party: parties.Party, scorer: cycle_scores.CycleScores) -> tuple[list[Placement], int | None]:
        """Return placements of the Pods of a gang on the nodes that take most of them, and for how many there is room.

        There are no placements if there is certainly room for too few. None: the room was not counted.
        """
        if not party.may_place or len(party.members) < party.missing:
            return [], None
        best: list[Placement] = []
        view, is_by_capacity = scorer.view, scorer.stages is self._by_capacity
        # Scores for a gang's own demands are of no use to others, and would be kept up to date for nothing.
        whole = scorer.fork(None)
        most = parties.room_for(party, whole.scores, view, by_capacity=is_by_capacity)
        if most < party.missing:
            # Of one zone alone nothing is known.
            return [], None if party.topology_key else int(most)
        for only in parties.domains(party, whole.scores, view):
            trial = whole if only is None else scorer.fork(only)
            made = parties.placed(party.members, trial.scores, functools.partial(self._place, trial))
            best = max(best, made, key=len)
            if len(best) == len(party.members):
                break
        return best, len(best)

    def explain(
        self, view: snapshot.Snapshot, demand: demands.Demand, *, held: Iterable[Held] = (),
        placed: Iterable[tuple[int, cluster.Pod, demands.Demand]] = (), only: snapshot.Bools | None = None,
    ) -> cycle_scores.Scores:  # fmt: skip
        """Return the scores of all nodes for one demand, as if these Pods were `placed`; `only`: on these nodes."""
        draft = scoring.Draft(view)
        for slot, each, of in held:
            draft.hold(slot, each, of)
        for slot, pod, each in placed:
            draft.reserve(draft.row(slot), pod, each)
        scorer = self._scorer(view, draft)
        return (scorer if only is None else scorer.fork(only)).scores(demand)

    def _place(self, scorer: cycle_scores.CycleScores, waiting: queues.Waiting, slot: int) -> Placement:
        """Reserve the node in the draft and in all scores of the cycle."""
        demand = waiting.demand
        scores, row = scorer.scores(demand), scorer.draft.row(slot)
        is_by_capacity = scores.stages is self._by_capacity
        free = row.free(demand.pod_class, demand.ceiling_offset) if is_by_capacity else None
        placement = Placement(
            waiting=waiting, row=row, free=free, score=float(scores.values[slot]), scores=scores,
            refused=scores.refused, others=scores.seen(),
        )  # fmt: skip
        scorer.reserve(row, waiting)
        return placement

    def _scorer(self, view: snapshot.Snapshot, draft: scoring.Draft) -> cycle_scores.CycleScores:
        """Return a scorer by capacity, or by requests if no node advertises and the policy allows it."""
        stages = self._without if view.goes_by_requests else self._by_capacity
        return cycle_scores.CycleScores(view, stages, self._without, draft, self._masks)


class _Ahead:
    """The nominees of a cycle, in the order of the queue: room is held for those that come before the Pod in turn."""

    def __init__(self, nominees: Iterable[Nominee]) -> None:
        self._waits = collections.deque(nominees)
        self._placed: set[str] = set()
        # Those for which room is held although their turn may come yet: a gang with younger Pods has its own. By UID.
        self._early: dict[str, Nominee] = {}

    def take(self, party: parties.Party, draft: scoring.Draft) -> list[Nominee]:
        """Take out the Pods of a gang, for which room is or will be held: it is held for them."""
        uids = {each.pod.uid for each in party.members}
        own = [each for each in self._waits if each.uid in uids]
        for each in own:
            self._waits.remove(each)
        # Another Pod between those of the gang had its turn.
        for each in [self._early.pop(uid) for uid in sorted(uids & self._early.keys())]:
            draft.release(each.slot, each.demand, each.pod)
            own.append(each)
        return own

    def hold(self, waiting: queues.Waiting, last: queues.Key, scorer: cycle_scores.CycleScores) -> None:
        """Hold the room of those before `last`: the key of `waiting`, which has its turn, or of its gang's youngest."""
        while self._waits and self._waits[0].key < last:
            # It came before this Pod if it was waiting at all.
            nominee = self._waits.popleft()
            if nominee.uid not in self._placed:
                scorer.hold(nominee.slot, nominee.demand, nominee.pod)
                if nominee.key > waiting.key or nominee.demand.gang is not None:
                    self._early[nominee.uid] = nominee

    def give_back(self, draft: scoring.Draft) -> bool:
        """After a gang's turn, give back what was held early: Pods between its own may come before those."""
        early, self._early = self._early, {}
        for nominee in early.values():
            draft.release(nominee.slot, nominee.demand, nominee.pod)
        if early:
            self._waits = collections.deque(sorted([*early.values(), *self._waits], key=lambda each: each.key))
        return bool(early)

    def placed(self, waiting: queues.Waiting) -> None:
        """Take in that a Pod was placed: no room is held for it."""
        if self._waits:
            self._placed.add(waiting.pod.uid)


def _ranked(stages: registry.Stages, ranking: Callable[[protocol.Scorer], protocol.Scorer]) -> registry.Stages:
    return dataclasses.replace(stages, scorer=ranking(stages.scorer))
