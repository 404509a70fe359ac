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

import numpy as np

from carico_core.domain import cluster, decision
from carico_core.domain import gangs as gang_keys
from carico_scheduler.decide import masks, parties, peer_scores
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules import preferences, protocol, registry

Scores: TypeAlias = scoring.Scores | peer_scores.PeerScores


# Gangs tried in one cycle: each takes about a millisecond at 10,000 nodes, even if it finds no room.
PARTIES_MOST = 16


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
    scores: Scores
    refused: dict[str, int]
    others: scoring.Seen


class Nominee(NamedTuple):
    """A waiting Pod for which room is being made on a node: Pods that come after it in the queue do not get it."""

    uid: str
    key: queues.Key
    slot: int
    demand: demands.Demand


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
        self, view: snapshot.Snapshot, source: Source, *, most: int, held: Iterable[tuple[int, demands.Demand]] = (),
        nominees: Sequence[Nominee] = (), gangs: parties.PartySource | None = None,
    ) -> CycleResult:  # fmt: skip
        """Decide on Pods of `source` until `most` are placed or none is left; the last gang may exceed it.

        `held`: room held for other Pods. `nominees`: Pods that may be in `source`, in its order. `gangs`: None: each
        Pod is placed by itself.
        """
        outcome = CycleResult()
        draft = scoring.Draft(view)
        for slot, demand in held:
            draft.hold(slot, demand)
        scorer, waits = self._scorer(view, draft), collections.deque(nominees)
        placed: set[str] = set()
        # The Pods of gangs for which room is held, although their gang may have its turn yet.
        early: collections.defaultdict[gang_keys.Key, list[Nominee]] = collections.defaultdict(list)
        tried = 0
        while len(outcome.placed) < most and not outcome.is_cut and (waiting := source.take(view.now_s)) is not None:
            party = None if gangs is None or waiting.demand.gang is None else gangs.gather(waiting)
            last = waiting.key if party is None else max(each.key for each in party.members)
            own = [] if party is None else _split_own(waits, party, scorer.draft, early[party.gang])
            while waits and waits[0].key < last:
                # It came before this Pod if it was in `source` at all.
                nominee = waits.popleft()
                if nominee.uid not in placed:
                    scorer.hold(nominee)
                    if nominee.demand.gang is not None:
                        early[nominee.demand.gang].append(nominee)
            if gangs is not None and party is not None:
                gangs.tried(party, self._place_party(party, scorer, source, outcome, own))
                tried += 1
                outcome.is_cut = tried >= PARTIES_MOST
                continue
            slot = peer_scores.slot_for(scorer.scores(waiting.demand), waiting.pod)
            if slot == snapshot.NO_NODE:
                outcome.unplaced.append(waiting)
                source.park(waiting)
                continue
            outcome.placed.append(self._place(scorer, waiting, slot))
            if waits:
                placed.add(waiting.pod.uid)
        return outcome

    def _place_party(
        self, party: parties.Party, scorer: "_Scorer", source: Source, outcome: CycleResult, own: Iterable[Nominee]
    ) -> int | None:
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
                scorer.hold(nominee)
        return fitted

    def _fitting(self, party: parties.Party, scorer: "_Scorer") -> tuple[list[Placement], int | None]:
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
        self, view: snapshot.Snapshot, demand: demands.Demand, *,
        placed: Iterable[tuple[int, cluster.Pod, demands.Demand]] = (), only: snapshot.Bools | None = None,
    ) -> Scores:  # fmt: skip
        """Return the scores of all nodes for one demand, as if these Pods were `placed`; `only`: on these nodes."""
        draft = scoring.Draft(view)
        for slot, pod, each in placed:
            draft.reserve(draft.row(slot), pod, each)
        scorer = self._scorer(view, draft)
        return (scorer if only is None else scorer.fork(only)).scores(demand)

    def _place(self, scorer: "_Scorer", waiting: queues.Waiting, slot: int) -> Placement:
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

    def _scorer(self, view: snapshot.Snapshot, draft: scoring.Draft) -> "_Scorer":
        """Return a scorer by capacity, or by requests if no node advertises and the policy allows it."""
        stages = self._without if view.goes_by_requests else self._by_capacity
        return _Scorer(view, stages, self._without, draft, self._masks)


def _split_own(
    waits: "collections.deque[Nominee]", party: parties.Party, draft: scoring.Draft, early: list[Nominee]
) -> list[Nominee]:  # fmt: skip
    """Take the Pods of a gang out of those for which room is or will be held: it is held for them.

    `early`: those of the gang for which it is held already, since another Pod between them had its turn.
    """
    uids = {each.pod.uid for each in party.members}
    own = [each for each in waits if each.uid in uids]
    for each in own:
        waits.remove(each)
    for each in [each for each in early if each.uid in uids]:
        early.remove(each)
        draft.release(each.slot, each.demand)
        own.append(each)
    return own


def _ranked(stages: registry.Stages, ranking: Callable[[protocol.Scorer], protocol.Scorer]) -> registry.Stages:
    return dataclasses.replace(stages, scorer=ranking(stages.scorer))


class _Scorer:
    """The scores of one cycle, by demand."""

    def __init__(
        self, view: snapshot.Snapshot, stages: registry.Stages, baseline: registry.Stages, draft: scoring.Draft,
        cached: masks.NodeMasks, only: snapshot.Bools | None = None,
    ) -> None:  # fmt: skip
        """`baseline`: the stages of Pods that belong to their node. `only`: the nodes of a gang; None: all."""
        self.draft = draft
        self.view = view
        self.stages = stages
        self._only = only
        self._baseline = baseline
        self._masks = cached
        self._by_demand: dict[demands.Demand, Scores] = {}
        # Answers of the filters that depend on neither placements nor demands.
        self._shared: dict[decision.Reason, protocol.Passes] = {}
        # Placements that the scores do not show yet: after the last one of a cycle they need not.
        self._unseen: list[tuple[cluster.Pod, snapshot.NodeRow]] = []

    def scores(self, demand: demands.Demand) -> Scores:
        """Return the scores of a demand, after all placements so far."""
        self._settle()
        found = self._by_demand.get(demand)
        if found is None:
            found = self._by_demand[demand] = self._with_peers(self._plain(demand))
        return found

    def fork(self, only: snapshot.Bools | None) -> "_Scorer":
        """Return a scorer over these nodes that begins with what this one has placed, and leaves it as it is."""
        return _Scorer(self.view, self.stages, self._baseline, self.draft.fork(), self._masks, only)

    def reserve(self, row: snapshot.NodeRow, waiting: queues.Waiting) -> None:
        """Place a Pod on the node of `row`."""
        self._unseen.append((waiting.pod, self.draft.reserve(row, waiting.pod, waiting.demand)))

    def _settle(self) -> None:
        for pod, row in self._unseen:
            for each in self._by_demand.values():
                each.take(pod, row.slot, row)
        self._unseen.clear()

    def hold(self, nominee: Nominee) -> None:
        """Hold room on a node for a Pod that comes before all that follow."""
        self._settle()
        self.draft.hold(nominee.slot, nominee.demand)
        for each in self._by_demand.values():
            each.hold(nominee.slot, self.draft.row(nominee.slot))

    def _plain(self, demand: demands.Demand) -> scoring.Scores:
        """Return the scores from each node alone."""
        view, stages = self.view, self._baseline if demand.is_baseline else self.stages
        by_node = self._masks.of(demand, view, stages)
        mask, count, refused = by_node.mask, by_node.count, dict(by_node.refused)
        for each in stages.by_room:
            mask, count = scoring.narrowed(mask, count, self._passes(each, demand), each.reason, refused)
        if self._only is not None:
            mask, _ = scoring.narrowed(mask, count, self._only, decision.Reason.GANG, refused)
        values = np.where(mask, stages.scorer.score(view, demand), scoring.REFUSED)
        found = scoring.Scores(
            demand=demand, view=view, stages=stages, mask=by_node, values=values, refused=refused,
            draft=self.draft, only=self._only,
        )  # fmt: skip
        # Pods with other demands may already have been placed in this cycle.
        for slot, row in self.draft.changed.items():
            found.update(slot, row)
        return found

    def _passes(self, each: protocol.RoomFilter, demand: demands.Demand) -> protocol.Passes:
        if each.by_pods:
            return each.passes(self.view, demand)
        if each.reason not in self._shared:
            self._shared[each.reason] = each.passes(self.view, demand)
        return self._shared[each.reason]

    def _with_peers(self, plain: scoring.Scores) -> Scores:
        """Add what other Pods, volumes and preferences change; return the same scores if they change nothing."""
        view, demand = self.view, plain.demand
        by_peers = self.stages.by_peers if demand.looks_at_peers else ()
        found = ((each.reason, each.peers(view, demand)) for each in by_peers)
        peers = [(reason, each) for reason, each in found if each is not None]
        preferred = preferences.preferences_of(view, demand)
        if not peers and preferred is None:
            return plain
        return peer_scores.PeerScores(plain, peers=peers, preferred=preferred)
