"""A board for a demand on which other Pods, volumes or wishes bear: one placement may change every node's answer."""

import numpy as np

from carico_core.domain import cluster, decision
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import preferences, protocol, registry


class PeerBoard:
    """The scores of all nodes for one demand during one cycle: a board of what each node allows, and what others do.

    Worked out as a whole when it is next asked for after a change, which costs some passes over all nodes; a plain
    board costs one.
    """

    def __init__(
        self,
        plain: scoring.Board,
        *,
        looks: list[tuple[decision.Reason, protocol.Look]],
        wished: preferences.Preferences | None,
    ) -> None:
        self._plain = plain
        self._looks = looks
        self._wished = wished
        self._whole: scoring.Board | None = None
        for pod, slot in plain.draft.placed:
            self._add(pod, slot)

    @property
    def demand(self) -> demands.Demand:
        """The demand that is asked about."""
        return self._plain.demand

    @property
    def view(self) -> snapshot.Snapshot:
        """The snapshot that is gone by."""
        return self._plain.view

    @property
    def stages(self) -> registry.Stages:
        """The stages that are gone by."""
        return self._plain.stages

    @property
    def scores(self) -> snapshot.Floats:
        """A score per slot, -inf where the node is refused."""
        return self._settled().scores

    @property
    def refused(self) -> dict[str, int]:
        """Nodes refused, by reason."""
        return self._settled().refused

    def best(self, uid: str) -> int:
        """As of a plain board."""
        return self._settled().best(uid)

    def seen(self) -> scoring.Seen:
        """As of a plain board."""
        return self._settled().seen()

    def take(self, pod: cluster.Pod, slot: int, row: snapshot.NodeRow) -> None:
        """Takes in that a Pod was placed on a node, which now stands as `row`."""
        self._plain.update(slot, row)
        self._add(pod, slot)

    def rejection(self, row: snapshot.NodeRow) -> decision.Rejection | None:
        """Why the node is refused, by the first filter that does; None where it has room."""
        plain = self._plain.rejection(row)
        if plain is not None:
            return plain
        for reason, look in self._looks:
            detail = look.refuse(row.slot)
            if detail is not None:
                return decision.Rejection(reason=reason, detail=detail)
        return None

    def _add(self, pod: cluster.Pod, slot: int) -> None:
        for _, look in self._looks:
            look.add(pod, slot)
        if self._wished is not None:
            self._wished.add(pod, slot)
        self._whole = None

    def _settled(self) -> scoring.Board:
        """The board as it is after all that was taken in."""
        if self._whole is None:
            self._whole = self._settle()
        return self._whole

    def _settle(self) -> scoring.Board:
        plain = self._plain
        feasible = plain.scores > scoring.REFUSED
        refused = dict(plain.refused)
        for reason, look in self._looks:
            feasible = scoring.narrowed(feasible, look.mask(), reason, refused)
        scores = np.where(feasible, plain.scores, scoring.REFUSED)
        if self._wished is not None and feasible.any():
            scores[feasible] = self._wished.lean(np.where(feasible, plain.scores, 0.0), feasible)[feasible]
        return scoring.Board(
            demand=plain.demand, view=plain.view, scores=scores, refused=refused, stages=plain.stages, draft=plain.draft
        )
