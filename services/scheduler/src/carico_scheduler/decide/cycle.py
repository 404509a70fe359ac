"""One scheduling cycle: from a snapshot and the queue to placements. No clock, no input or output.

Per demand, the filters' masks become one array of scores with -inf where a node is refused; a decision is then the
largest score. Answers that rest on the facts of nodes are kept from cycle to cycle and mended slot by slot. Within a
cycle each placement is reserved in the draft, so that the next decision sees it.
"""

import dataclasses
from collections.abc import Iterable
from typing import Protocol, TypeAlias

import numpy as np

from carico_core.domain import decision
from carico_scheduler.decide import masks, peer_scores
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules import preferences, protocol, registry

# Filters by columns whose answer depends on the demand: on its requests, or on its class.
_BY_DEMAND = frozenset({decision.Reason.REQUESTS, decision.Reason.CAPACITY})


Board: TypeAlias = scoring.Board | peer_scores.PeerBoard


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
    board: Board
    refused: dict[str, int]
    others: scoring.Seen


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Outcome:
    """What one cycle decided, in order."""

    placed: list[Placement] = dataclasses.field(default_factory=list)
    unplaced: list[queues.Waiting] = dataclasses.field(default_factory=list)


class Cycle:
    """Runs cycles over snapshots of one fleet; keeps masks between them."""

    def __init__(self, policy: policies.Policy) -> None:
        self._by_capacity = registry.by_capacity(policy)
        self._without = registry.without_capacity()
        self._masks = masks.FactMasks()

    def run(
        self, view: snapshot.Snapshot, source: Source, *, most: int, held: Iterable[tuple[int, demands.Demand]] = ()
    ) -> Outcome:
        """Decides on Pods of `source` until `most` are placed or none is left to take; `held` is promised to others."""
        outcome = Outcome()
        stages = self._stages(view)
        boards: dict[demands.Demand, Board] = {}
        shared: dict[decision.Reason, snapshot.Bools | None] = {}
        draft = scoring.Draft(view)
        for slot, demand in held:
            draft.hold(slot, demand)
        while len(outcome.placed) < most and (waiting := source.take(view.now_s)) is not None:
            board = boards.get(waiting.demand)
            if board is None:
                board = boards[waiting.demand] = self._board(waiting.demand, view, stages, draft, shared)
            slot = board.best(waiting.pod.uid)
            if slot == snapshot.NO_NODE:
                outcome.unplaced.append(waiting)
                source.park(waiting)
                continue
            outcome.placed.append(self._place(waiting, board, slot, draft, boards))
        return outcome

    def explain(self, view: snapshot.Snapshot, demand: demands.Demand) -> Board:
        """How all nodes stand towards one demand, with nothing placed."""
        return self._board(demand, view, self._stages(view), scoring.Draft(view), {})

    def _board(
        self, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages, draft: scoring.Draft,
        shared: dict[decision.Reason, snapshot.Bools | None],
    ) -> Board:  # fmt: skip
        """The scores of every node for one demand; `shared` keeps those that do not depend on the demand."""
        kept = self._masks.of(demand, view, stages)
        mask, refused = kept.mask, dict(kept.refused)
        for each in stages.by_columns:
            passes = self._mask(each, view, demand, shared)
            if passes is not None:
                mask = scoring.narrowed(mask, passes, each.reason, refused)
        scores = np.where(mask, stages.scorer.scores(view, demand), scoring.REFUSED)
        made = scoring.Board(demand=demand, view=view, scores=scores, refused=refused, stages=stages, draft=draft)
        # Pods of other demands may have been placed in this cycle already.
        for slot, row in draft.changed.items():
            made.update(slot, row)
        return made if not (demand.looks_at_peers or view.disliking.any()) else _with_peers(made, view, demand)

    def _place(
        self,
        waiting: queues.Waiting,
        board: Board,
        slot: int,
        draft: scoring.Draft,
        boards: dict[demands.Demand, Board],
    ) -> Placement:
        """Reserves the node in the draft and on every board of the cycle."""
        row = draft.row(slot)
        others = board.seen()
        score = float(board.scores[slot])
        refused = board.refused
        after = draft.reserve(row, waiting.pod, waiting.demand)
        for each in boards.values():
            each.take(waiting.pod, slot, after)
        free = row.free_for(waiting.demand.pod_class) if board.stages is self._by_capacity else None
        return Placement(waiting=waiting, row=row, free=free, score=score, board=board, refused=refused, others=others)

    def _stages(self, view: snapshot.Snapshot) -> registry.Stages:
        """By capacity; without it where nobody advertises and the policy says to go by requests then."""
        return self._without if view.goes_by_requests else self._by_capacity

    @staticmethod
    def _mask(
        each: protocol.Filter, view: snapshot.Snapshot, demand: demands.Demand,
        shared: dict[decision.Reason, snapshot.Bools | None],
    ) -> snapshot.Bools | None:  # fmt: skip
        """The mask of a filter that goes by columns; shared between demands where it is the same for all."""
        if each.reason in _BY_DEMAND:
            return each.feasible(view, demand)
        if each.reason not in shared:
            shared[each.reason] = each.feasible(view, demand)
        return shared[each.reason]


def _with_peers(made: scoring.Board, view: snapshot.Snapshot, demand: demands.Demand) -> Board:
    """The board with what other Pods, volumes and wishes say; itself where they say nothing."""
    found = ((each.reason, each.look(view, demand)) for each in made.stages.by_peers)
    looks = [(reason, look) for reason, look in found if look is not None]
    wished = preferences.preferences_of(view, demand)
    return made if not looks and wished is None else peer_scores.PeerBoard(made, looks=looks, wished=wished)
