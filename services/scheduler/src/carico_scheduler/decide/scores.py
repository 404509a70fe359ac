"""The scores of all nodes for one demand in one cycle, and why some nodes are refused."""

import math
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from carico_core.domain import cluster, decision
from carico_scheduler.decide import masks
from carico_scheduler.nodes import snapshot, volume_placement
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import preferences, protocol, registry

REFUSED = -math.inf
# Maximum nodes in a decision record.
SEEN_MAX = 8
SHORTLIST = 72
# To find the highest of many values, every so many-th is looked at first, and those below the so many-th highest of
# them are left out: about 300 values remain, and rarely fewer than SHORTLIST.
_SAMPLED_EACH = 64
_SAMPLED_RANK = 5


class Seen(NamedTuple):
    """The best nodes as they were when a decision was made, and their scores (-inf: refused), best first.

    A row is None if it is the same as in the snapshot.
    """

    slots: list[int]
    scores: list[float]
    rows: list[snapshot.NodeRow | None]


class Draft:
    """The rows on which a cycle has reserved Pods; the snapshot itself does not change."""

    def __init__(self, view: snapshot.Snapshot) -> None:
        # The snapshot, with the volumes that are kept for Pods placed so far.
        self.view = view
        self.changed: dict[int, snapshot.NodeRow] = {}
        self.placed: list[tuple[cluster.Pod, int]] = []
        # The Pods for which not only room is held: see `cycle.Nominee`.
        self.held: list[tuple[cluster.Pod, int]] = []
        # What is taken of the nodes, by those that are placed and those for which room is held.
        self._taken: list[tuple[int, demands.Demand]] = []

    def fork(self) -> "Draft":
        """Return a copy, to place Pods on trial."""
        copy = Draft(self.view)
        copy.changed, copy.placed, copy._taken = dict(self.changed), list(self.placed), list(self._taken)
        copy.held = list(self.held)
        return copy

    def row(self, slot: int) -> snapshot.NodeRow:
        """Return a node as it is in this cycle."""
        return self.changed.get(slot) or self.view.row(slot)

    def reserve(self, row: snapshot.NodeRow, pod: cluster.Pod, demand: demands.Demand) -> snapshot.NodeRow:
        """Return the node of `row` with one more Pod."""
        self.placed.append((pod, row.slot))
        uses = () if pod.constraints is None else pod.constraints.volume_claims
        if uses and self.view.storage.unbound(uses):
            self.view = volume_placement.promised(self.view, uses, row)
        self._taken.append((row.slot, demand))
        after = self.changed[row.slot] = row.with_pod(demand)
        return after

    def hold(self, slot: int, demand: demands.Demand, pod: cluster.Pod | None) -> None:
        """Reserve room on a node for a Pod that may still be placed elsewhere; `pod`: see `cycle.Nominee`."""
        if pod is not None:
            self.held.append((pod, slot))
        self._taken.append((slot, demand))
        self.changed[slot] = self.row(slot).with_pod(demand)

    def release(self, slot: int, demand: demands.Demand, pod: cluster.Pod | None) -> None:
        """Give back what was held."""
        if pod is not None:
            self.held.remove((pod, slot))
        self._taken.remove((slot, demand))
        row = self.view.row(slot)
        for at, each in self._taken:
            row = row.with_pod(each) if at == slot else row
        self.changed[slot] = row


class Scores:
    """The scores of all nodes for one demand during one cycle; `refused` counts nodes by reason."""

    def __init__(
        self, *, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages, mask: masks.NodeMask,
        values: snapshot.Floats, refused: dict[str, int], draft: Draft, only: snapshot.Bools | None = None,
    ) -> None:  # fmt: skip
        self.demand = demand
        self.view = view
        self.stages = stages
        self.mask = mask
        # By slot; -inf for a refused node.
        self.values = values
        self.refused = refused
        self.draft = draft
        # The nodes to which the Pod's gang may go; None: all.
        self._only = only
        # The best feasible nodes, and the same with refused ones if they are few; None: not asked for.
        self._top: snapshot.Ints | None = None
        self._shortlist: snapshot.Ints | None = None
        # The best of `_shortlist` and their scores; None: a score has changed since.
        self._order: tuple[list[int], list[float]] | None = None
        # No node outside of `_top` has a higher score than this.
        self._outside = REFUSED
        self._updates = 0
        self._preferred: preferences.Preferences | None = None

    def prefer(self, preferred: preferences.Preferences) -> None:
        """Lower the scores where preferences are missed; before they are first asked for."""
        self._preferred = preferred
        self.values = preferred.lean(self.values)

    @property
    def allowed(self) -> snapshot.Bools:
        """The nodes that pass every filter but those that other Pods' leaving could change: room for one more Pod."""
        return self.mask.mask

    @property
    def unopposed(self) -> snapshot.Bools:
        """The nodes that neither the Node object nor other Pods or volumes refuse, whatever room there is."""
        return self.mask.mask

    def best(self, uid: str) -> int:
        """Return the slot of the highest score, or NO_NODE; the UID chooses among equals, so that a replay agrees."""
        if not len(self._best_slots()):
            return snapshot.NO_NODE
        slots, scores = self._ranked()
        highest = scores[0]
        if highest <= self._outside:
            # Nodes outside of the shortlist may have as high a score.
            highest = self.values.max()
            if highest == REFUSED:
                return snapshot.NO_NODE
        elif len(scores) == 1 or scores[1] < highest:
            return slots[0]
        equals = (self.values == highest).nonzero()[0]
        return int(equals[zlib.crc32(uid.encode()) % len(equals)])

    def seen(self) -> Seen:
        """Return the best SEEN_MAX nodes, refused ones last."""
        slots, scores = self._ranked()
        changed = self.draft.changed
        return Seen(slots=slots, scores=scores, rows=[changed.get(slot) for slot in slots])

    def _ranked(self) -> tuple[list[int], list[float]]:
        """Return the best SEEN_MAX nodes and their scores, refused ones last."""
        top = self._best_slots()
        if self._order is None:
            if self._shortlist is None:
                self._shortlist = top if len(top) == SHORTLIST else self._with_refused(top)
            values = self.values[self._shortlist]
            order = (-values).argsort(kind="stable")[:SEEN_MAX]
            self._order = self._shortlist[order].tolist(), values[order].tolist()
        return self._order

    def _best_slots(self) -> snapshot.Ints:
        """Return the best feasible nodes in no order, enough for several decisions, or all if they are few.

        Within a cycle scores only fall, one node at a time: while fewer than SHORTLIST - SEEN_MAX have fallen, the
        best nodes are still in the list.
        """
        if self._top is None or self._updates > SHORTLIST - SEEN_MAX:
            # Only among feasible nodes: selection is ten times slower with thousands of equal values.
            feasible = not_low(self.values)
            self._top = feasible = feasible[_highest(self.values[feasible], SHORTLIST)]
            self._outside = REFUSED if len(feasible) < SHORTLIST else self.values.item(feasible[0])
            self._shortlist, self._order, self._updates = None, None, 0
        return self._top

    def _with_refused(self, feasible: snapshot.Ints) -> snapshot.Ints:
        """Return these nodes and refused ones: of those, the ones with most room are the most informative."""
        refused = (self.view.present & (self.values == REFUSED)).nonzero()[0]
        free = self.view.free(self.demand.pod_class, self.demand.ceiling_offset)
        nearest = refused[_highest(free[refused], SHORTLIST - len(feasible))]
        return np.concatenate([feasible, nearest[(-free[nearest]).argsort(kind="stable")]])

    def take(self, pod: cluster.Pod, slot: int, row: snapshot.NodeRow) -> bool:
        """Note that a Pod was placed on a node, which is now as `row`; return as `update`."""
        return self.update(slot, row)

    def hold(self, pod: cluster.Pod | None, slot: int, row: snapshot.NodeRow) -> bool:
        """Note that room is held on a node, which is now as `row`; `pod`: see `cycle.Nominee`; return as `update`."""
        return self.update(slot, row)

    def update(self, slot: int, row: snapshot.NodeRow) -> bool:
        """Bring one node up to date, which is now as `row`; return False if other nodes' scores are wrong now."""
        self._updates, self._order = self._updates + 1, None
        if self.values[slot] == REFUSED:
            return True
        for each in self.stages.by_pods:
            if not each.passes(row, self.demand):
                self.values[slot] = REFUSED
                # A new dict: earlier placements keep theirs.
                self.refused = self.refused | {each.reason.value: self.refused.get(each.reason.value, 0) + 1}
                return self._preferred is None or not self._preferred.lose(slot)
        score = float(self.stages.scorer.score(row, self.demand))
        self.values[slot] = score if self._preferred is None else self._preferred.lean_one(score, slot)
        return True

    def rejection(self, row: snapshot.NodeRow) -> decision.Rejection | None:
        """Return why the node is refused, by the first filter that does; None if it has room."""
        index = self.mask.refused_by.item(row.slot)
        if index >= 0:
            each = self.stages.by_node[index]
            return decision.Rejection(reason=each.reason, detail=each.why(row, self.demand))
        found = rejection_by(self.stages.by_room, row, self.demand)
        if found is None and self._only is not None and not self._only[row.slot]:
            return decision.Rejection(reason=decision.Reason.GANG, detail="its gang goes to other nodes")
        return found


def rejection_by(
    filters: Iterable[protocol.RoomFilter], row: snapshot.NodeRow, demand: demands.Demand
) -> decision.Rejection | None:
    """Return the refusal of the first filter that refuses; None if none does."""
    for each in filters:
        if not each.passes(row, demand):
            return decision.Rejection(reason=each.reason, detail=each.why(row, demand))
    return None


def narrowed(
    nodes: snapshot.Bools, count: int, passes: protocol.Passes, reason: decision.Reason, refused: dict[str, int]
) -> tuple[snapshot.Bools, int]:
    """Return the nodes that pass, and their number; count the others in `refused`. `count`: the number of `nodes`."""
    if passes is True:
        return nodes, count
    left: snapshot.Bools = nodes & passes
    remaining = int(np.count_nonzero(left))
    if remaining < count:
        refused[reason.value] = refused.get(reason.value, 0) + count - remaining
    return left, remaining


def not_low(values: snapshot.Floats) -> snapshot.Ints:
    """Return the indices of values above -inf: of all of them, or at least of the SHORTLIST highest.

    To select among all takes a third of a decision at 10,000 nodes.
    """
    sample = values[::_SAMPLED_EACH].copy()
    sample.sort()
    if len(sample) > 2 * _SAMPLED_RANK and sample[-_SAMPLED_RANK] > REFUSED:
        high: snapshot.Ints = (values >= sample[-_SAMPLED_RANK]).nonzero()[0]
        if len(high) >= SHORTLIST:
            return high
    above: snapshot.Ints = (values > REFUSED).nonzero()[0]
    return above


def _highest(values: snapshot.Floats, most: int) -> snapshot.Ints:
    """Return the indices of the `most` highest values; if there are more, the lowest of them first."""
    if len(values) <= most:
        return np.arange(len(values))
    return values.argpartition(len(values) - most)[len(values) - most :]
