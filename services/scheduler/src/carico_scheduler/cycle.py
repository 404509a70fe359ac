"""One scheduling cycle: from a snapshot and the queue to placements. No clock, no input or output.

Per demand, the filters' masks become one array of scores with -inf where a node is refused; a decision is then the
largest score. Answers that rest on the facts of nodes are kept from cycle to cycle and mended slot by slot. Within a
cycle each placement is reserved in the draft, so that the next decision sees it.
"""

import dataclasses
import math
import zlib
from typing import Protocol

import numpy as np

from carico_core.domain import decision
from carico_scheduler import demand as demands
from carico_scheduler import policy as policies
from carico_scheduler import queue as queues
from carico_scheduler import snapshot
from carico_scheduler.stages import protocol, registry

_REFUSED = -math.inf
# Demands whose masks are kept; past this many, all are made anew.
_KEPT_DEMANDS_MAX = 256
# Nodes that a decision record names.
SEEN_MAX = 8
_SHORTLIST = 72


class Source(Protocol):
    """Where a cycle takes its Pods from."""

    def take(self, now_s: float) -> queues.Waiting | None:
        """The next Pod, or None."""

    def park(self, waiting: queues.Waiting) -> None:
        """Gives back a Pod that fits nowhere."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """A Pod and the node chosen for it. `free` is None where advertisements were not looked at."""

    waiting: queues.Waiting
    row: snapshot.NodeRow
    free: float | None
    score: float
    board: "Board"
    refused: dict[str, int]
    others: "Seen"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """The best nodes as they stood when a decision was made, and their scores (-inf: refused), best first.

    A row of None is as in the snapshot.
    """

    slots: list[int]
    scores: list[float]
    rows: list[snapshot.NodeRow | None]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Outcome:
    """What one cycle decided, in order."""

    placed: list[Placement] = dataclasses.field(default_factory=list)
    unplaced: list[queues.Waiting] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Kept:
    """A mask by facts alone, and up to where in the log of changes it is true."""

    mask: snapshot.Bools
    # Per slot the index of the first filter that refuses it, or -1; and nodes refused by reason.
    refused_by: snapshot.Ints
    refused: dict[str, int]
    epoch: int
    version: int


class Board:
    """The scores of all nodes for one demand during one cycle; `refused` counts nodes by reason."""

    def __init__(
        self, *, demand: demands.Demand, view: snapshot.Snapshot, scores: snapshot.Floats, refused: dict[str, int],
        stages: registry.Stages, draft: "Draft",
    ) -> None:  # fmt: skip
        self.demand = demand
        self.view = view
        self.scores = scores
        self.refused = refused
        self.stages = stages
        self.draft = draft
        self._shortlist: snapshot.Ints | None = None
        self._updates = 0

    def best(self, uid: str) -> int:
        """The slot of the highest score, or NO_NODE; among equals one by the Pod's UID, so that a replay agrees."""
        if not len(self.scores):
            return snapshot.NO_NODE
        highest = self.scores[self.scores.argmax()]
        if highest == _REFUSED:
            return snapshot.NO_NODE
        equals = (self.scores == highest).nonzero()[0]
        if len(equals) == 1:
            return int(equals[0])
        return int(equals[zlib.crc32(uid.encode()) % len(equals)])

    def seen(self) -> Seen:
        """The best SEEN_MAX nodes as they stand, those refused last."""
        if self._shortlist is None or self._updates > _SHORTLIST - SEEN_MAX:
            self._shortlist, self._updates = self._best_slots(), 0
        slots = self._shortlist
        scores = self.scores[slots]
        order = (-scores).argsort(kind="stable")[:SEEN_MAX]
        best = slots[order].tolist()
        changed = self.draft.changed
        return Seen(slots=best, scores=scores[order].tolist(), rows=[changed.get(slot) for slot in best])

    def _best_slots(self) -> snapshot.Ints:
        """Some of the best nodes, enough for several decisions.

        Scores only fall within a cycle, and one node's at a time: so long as fewer than _SHORTLIST - SEEN_MAX have
        fallen, the best are still among these.
        """
        # Among the feasible alone: selection slows down tenfold on thousands of equal values.
        feasible = (self.scores > _REFUSED).nonzero()[0]
        feasible = feasible[_highest(self.scores[feasible], _SHORTLIST)]
        if len(feasible) == _SHORTLIST:
            return feasible
        # Of those refused, the ones nearest to having room say most.
        refused = (self.view.present & (self.scores == _REFUSED)).nonzero()[0]
        nearest = refused[_highest(self.view.free[refused], _SHORTLIST - len(feasible))]
        return np.concatenate([feasible, nearest[(-self.view.free[nearest]).argsort(kind="stable")]])

    def update(self, slot: int, row: snapshot.NodeRow) -> None:
        """Brings one node up to date after a Pod was reserved on it."""
        self._updates += 1
        if self.scores[slot] == _REFUSED:
            return
        # A reservation changes no facts: only the other filters can refuse now what they let pass before.
        rejection = _rejection(self.stages.by_columns, row, self.demand, self.view)
        if rejection is None:
            self.scores[slot] = self.stages.scorer.score(row, self.view)
            return
        self.scores[slot] = _REFUSED
        # A new table: the placements made before keep theirs.
        self.refused = self.refused | {rejection.reason.value: self.refused.get(rejection.reason.value, 0) + 1}

    def rejection(self, row: snapshot.NodeRow) -> decision.Rejection | None:
        """Why the node is refused, by the first filter that does; None where it has room."""
        return _rejection(self.stages.filters, row, self.demand, self.view)


class Draft:
    """The rows that a cycle has reserved Pods on, beside the snapshot that stays as it is."""

    def __init__(self, view: snapshot.Snapshot) -> None:
        self._view = view
        self.changed: dict[int, snapshot.NodeRow] = {}

    def row(self, slot: int) -> snapshot.NodeRow:
        """A node as it stands in this cycle."""
        return self.changed.get(slot) or self._view.row(slot)

    def reserve(self, slot: int, demand: demands.Demand, policy: policies.Policy) -> snapshot.NodeRow:
        """The node with one more Pod."""
        row = self.row(slot).with_pod(cores=demand.request_cores, size_bytes=demand.request_bytes, policy=policy)
        self.changed[slot] = row
        return row


class Cycle:
    """Runs cycles over snapshots of one fleet; keeps masks between them."""

    def __init__(self, policy: policies.Policy) -> None:
        self._policy = policy
        self._by_capacity = registry.by_capacity(policy)
        self._without = registry.without_capacity()
        self._kept: dict[demands.Demand, _Kept] = {}

    def run(self, view: snapshot.Snapshot, source: Source, *, most: int) -> Outcome:
        """Decides on Pods of `source` until `most` are placed or none is left to take."""
        outcome = Outcome()
        stages = self._stages(view)
        boards: dict[demands.Demand, Board] = {}
        masks: dict[decision.Reason, snapshot.Bools | None] = {}
        draft = Draft(view)
        while len(outcome.placed) < most and (waiting := source.take(view.now_s)) is not None:
            board = boards.get(waiting.demand)
            if board is None:
                board = boards[waiting.demand] = self._board(waiting.demand, view, stages, draft, masks)
            slot = board.best(waiting.pod.uid)
            if slot == snapshot.NO_NODE:
                outcome.unplaced.append(waiting)
                source.park(waiting)
                continue
            outcome.placed.append(self._place(waiting, board, slot, draft, boards))
        return outcome

    def explain(self, view: snapshot.Snapshot, demand: demands.Demand) -> Board:
        """How all nodes stand towards one demand, with nothing placed."""
        return self._board(demand, view, self._stages(view), Draft(view), {})

    def _board(
        self, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages, draft: Draft,
        masks: dict[decision.Reason, snapshot.Bools | None],
    ) -> Board:  # fmt: skip
        """The scores of every node for one demand; `masks` shares those that do not depend on the demand."""
        kept = self._by_facts(demand, view, stages)
        mask, refused = kept.mask, dict(kept.refused)
        for each in stages.by_columns:
            passes = self._mask(each, view, demand, masks)
            if passes is None:
                continue
            left = mask & passes
            lost = int(np.count_nonzero(mask)) - int(np.count_nonzero(left))
            if lost:
                refused[each.reason.value] = refused.get(each.reason.value, 0) + lost
            mask = left
        scores = np.where(mask, stages.scorer.scores(view), _REFUSED)
        return Board(demand=demand, view=view, scores=scores, refused=refused, stages=stages, draft=draft)

    def _place(
        self, waiting: queues.Waiting, board: Board, slot: int, draft: Draft, boards: dict[demands.Demand, Board]
    ) -> Placement:
        """Reserves the node in the draft and on every board of the cycle."""
        row = draft.row(slot)
        others = board.seen()
        score = float(board.scores[slot])
        refused = board.refused
        after = draft.reserve(slot, waiting.demand, self._policy)
        for each in boards.values():
            each.update(slot, after)
        free = row.free if board.stages is self._by_capacity else None
        return Placement(waiting=waiting, row=row, free=free, score=score, board=board, refused=refused, others=others)

    def _stages(self, view: snapshot.Snapshot) -> registry.Stages:
        """By capacity; without it where nobody advertises and the policy says to go by requests then."""
        if self._policy.fallback is policies.Fallback.WAIT:
            return self._by_capacity
        usable = view.present & (view.sampled_s >= view.now_s - self._policy.ageing_s)
        return self._by_capacity if usable.any() else self._without

    @staticmethod
    def _mask(
        each: protocol.Filter, view: snapshot.Snapshot, demand: demands.Demand,
        masks: dict[decision.Reason, snapshot.Bools | None],
    ) -> snapshot.Bools | None:  # fmt: skip
        """The mask of a filter that goes by columns; shared between demands where they state no requests."""
        if each.reason is decision.Reason.REQUESTS:
            return each.feasible(view, demand)
        if each.reason not in masks:
            masks[each.reason] = each.feasible(view, demand)
        return masks[each.reason]

    def _by_facts(self, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> _Kept:
        """The mask by facts, made anew or mended where nodes have changed since."""
        kept = self._kept.get(demand)
        if kept is None or kept.epoch != view.facts_epoch or len(kept.mask) > len(view.present):
            if len(self._kept) >= _KEPT_DEMANDS_MAX:
                self._kept.clear()
            kept = self._kept[demand] = _whole(demand, view, stages)
        elif kept.version != view.facts_version:
            _mend(kept, demand, view, stages)
        return kept


def _rejection(
    filters: tuple[protocol.Filter, ...], row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot
) -> decision.Rejection | None:
    """The refusal of the first of these filters that refuses."""
    for each in filters:
        detail = each.refuse(row, demand, view)
        if detail is not None:
            return decision.Rejection(reason=each.reason, detail=detail)
    return None


def _highest(values: snapshot.Floats, most: int) -> snapshot.Ints:
    """The indices of the `most` highest values, in no order."""
    if len(values) <= most:
        return np.arange(len(values))
    return values.argpartition(len(values) - most)[len(values) - most :]


def _whole(demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> _Kept:
    """The mask by facts over all nodes."""
    mask = view.present.copy()
    refused_by = np.full(len(mask), -1, dtype=np.int64)
    for index, each in enumerate(stages.filters):
        passes = each.feasible(view, demand) if each.by_facts else None
        if passes is not None:
            refused_by[mask & ~passes] = index
            mask &= passes
    refused = _count(refused_by, stages)
    return _Kept(mask=mask, refused_by=refused_by, refused=refused, epoch=view.facts_epoch, version=view.facts_version)


def _mend(kept: _Kept, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> None:
    """Brings the slots up to date that have changed since."""
    grown = len(view.present) - len(kept.mask)
    if grown:
        kept.mask = np.concatenate([kept.mask, np.zeros(grown, dtype=np.bool_)])
        kept.refused_by = np.concatenate([kept.refused_by, np.full(grown, -1, dtype=np.int64)])
    for slot in set(view.facts_changed[kept.version :]):
        refusing = _refusing(slot, demand, view, stages)
        kept.mask[slot] = bool(view.present[slot]) and refusing < 0
        kept.refused_by[slot] = refusing
    kept.refused = _count(kept.refused_by, stages)
    kept.version = view.facts_version


def _refusing(slot: int, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> int:
    """The index of the first filter by facts that refuses the slot, or -1."""
    if not view.present[slot]:
        return -1
    row = view.row(slot)
    for index, each in enumerate(stages.filters):
        if each.by_facts and each.refuse(row, demand, view) is not None:
            return index
    return -1


def _count(refused_by: snapshot.Ints, stages: registry.Stages) -> dict[str, int]:
    """Nodes refused by facts, by reason."""
    counts = np.bincount(refused_by[refused_by >= 0], minlength=len(stages.filters))
    return {stages.filters[index].reason.value: int(counts[index]) for index in counts.nonzero()[0]}
