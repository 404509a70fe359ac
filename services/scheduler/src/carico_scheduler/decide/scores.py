"""How all nodes stand towards one demand in one cycle: their scores, and why some are refused."""

import dataclasses
import math
import zlib

import numpy as np

from carico_core.domain import cluster, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol, registry

REFUSED = -math.inf
# Nodes that a decision record names.
SEEN_MAX = 8
_SHORTLIST = 72


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """The best nodes as they stood when a decision was made, and their scores (-inf: refused), best first.

    A row of None is as in the snapshot.
    """

    slots: list[int]
    scores: list[float]
    rows: list[snapshot.NodeRow | None]


class Draft:
    """The rows that a cycle has reserved Pods on, beside the snapshot that stays as it is."""

    def __init__(self, view: snapshot.Snapshot) -> None:
        self._view = view
        self.changed: dict[int, snapshot.NodeRow] = {}
        self.placed: list[tuple[cluster.Pod, int]] = []

    def row(self, slot: int) -> snapshot.NodeRow:
        """A node as it stands in this cycle."""
        return self.changed.get(slot) or self._view.row(slot)

    def reserve(self, row: snapshot.NodeRow, pod: cluster.Pod, demand: demands.Demand) -> snapshot.NodeRow:
        """The node, which stands as `row`, with one more Pod."""
        self.placed.append((pod, row.slot))
        after = self.changed[row.slot] = row.with_pod(demand)
        return after

    def hold(self, slot: int, demand: demands.Demand) -> None:
        """Takes the room of one more Pod on a node, which may yet go elsewhere."""
        self.changed[slot] = self.row(slot).with_pod(demand)


class Board:
    """The scores of all nodes for one demand during one cycle; `refused` counts nodes by reason."""

    def __init__(
        self, *, demand: demands.Demand, view: snapshot.Snapshot, scores: snapshot.Floats, refused: dict[str, int],
        stages: registry.Stages, draft: Draft,
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
        if highest == REFUSED:
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
        feasible = (self.scores > REFUSED).nonzero()[0]
        feasible = feasible[_highest(self.scores[feasible], _SHORTLIST)]
        if len(feasible) == _SHORTLIST:
            return feasible
        # Of those refused, the ones nearest to having room say most.
        refused = (self.view.present & (self.scores == REFUSED)).nonzero()[0]
        free = self.view.free(self.demand.pod_class)
        nearest = refused[_highest(free[refused], _SHORTLIST - len(feasible))]
        return np.concatenate([feasible, nearest[(-free[nearest]).argsort(kind="stable")]])

    def take(self, pod: cluster.Pod, slot: int, row: snapshot.NodeRow) -> None:
        """Takes in that a Pod was placed on a node, which now stands as `row`."""
        self.update(slot, row)

    def update(self, slot: int, row: snapshot.NodeRow) -> None:
        """Brings one node up to date."""
        self._updates += 1
        if self.scores[slot] == REFUSED:
            return
        # A reservation changes no facts: only the other filters can refuse now what they let pass before.
        rejection = rejection_by(self.stages.by_columns, row, self.demand, self.view)
        if rejection is None:
            self.scores[slot] = self.stages.scorer.score(row, self.view, self.demand)
            return
        self.scores[slot] = REFUSED
        # A new table: the placements made before keep theirs.
        self.refused = self.refused | {rejection.reason.value: self.refused.get(rejection.reason.value, 0) + 1}

    def rejection(self, row: snapshot.NodeRow) -> decision.Rejection | None:
        """Why the node is refused, by the first filter that does; None where it has room."""
        return rejection_by(self.stages.filters, row, self.demand, self.view)


def rejection_by(
    filters: tuple[protocol.Filter, ...], row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot
) -> decision.Rejection | None:
    """The refusal of the first of these filters that refuses; None where none does."""
    for each in filters:
        detail = each.refuse(row, demand, view)
        if detail is not None:
            return decision.Rejection(reason=each.reason, detail=detail)
    return None


def narrowed(
    nodes: snapshot.Bools, passes: snapshot.Bools, reason: decision.Reason, refused: dict[str, int]
) -> snapshot.Bools:
    """Those of the nodes that pass; the others are counted in `refused`."""
    left = nodes & passes
    lost = int(np.count_nonzero(nodes)) - int(np.count_nonzero(left))
    if lost:
        refused[reason.value] = refused.get(reason.value, 0) + lost
    return left


def _highest(values: snapshot.Floats, most: int) -> snapshot.Ints:
    """The indices of the `most` highest values, in no order."""
    if len(values) <= most:
        return np.arange(len(values))
    return values.argpartition(len(values) - most)[len(values) - most :]
