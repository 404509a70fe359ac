"""The scores of one cycle, by demand: as of its snapshot, and of what the cycle has placed and held so far."""

from typing import TypeAlias

import numpy as np

from carico_core.domain import cluster, decision
from carico_scheduler.decide import masks, peer_scores
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.rules import admission, preferences, protocol, registry

# Nodes with room that are looked at one by one before all are scored, which takes as long as some forty of them.
ROOMY_MOST = 16
Scores: TypeAlias = scoring.Scores | peer_scores.PeerScores


class CycleScores:
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
        self._shared: dict[protocol.RoomFilter, protocol.Passes] = {}
        # The last answer of `view.free` for `may_have_room`, and the slots with room by it.
        self._roomy: tuple[snapshot.Floats, list[int]] = np.zeros(0), []
        # Placements that the scores do not show yet: after the last one of a cycle they need not.
        self._unseen: list[tuple[cluster.Pod, snapshot.NodeRow]] = []

    def scores(self, demand: demands.Demand) -> Scores:
        """Return the scores of a demand, after all placements so far."""
        self._settle()
        found = self._by_demand.get(demand)
        if found is None:
            found = self._by_demand[demand] = self._with_peers(self._plain(demand))
        return found

    def may_have_room(self, demand: demands.Demand) -> bool:
        """Return False if no node has room for a Pod of this class by its advertisement: that takes no scores.

        True where more than `ROOMY_MOST` nodes had room at the beginning of the cycle, or none is asked for.
        """
        if demand.is_baseline or self.stages is self._baseline:
            return True
        free = self.view.free(demand.pod_class, demand.ceiling_offset)
        if free is not self._roomy[0]:
            # Most classes of waiting Jobs have the same answer: no node names them.
            has_room = admission.has_room(self.view, demand.pod_class, demand.ceiling_offset)
            self._roomy = free, np.flatnonzero(has_room).tolist()
        slots = self._roomy[1]
        return len(slots) > ROOMY_MOST or any(
            admission.has_room(self.draft.row(slot), demand.pod_class, demand.ceiling_offset) for slot in slots
        )

    def forget(self, demand: demands.Demand) -> None:
        """Drop the scores of a demand that no further Pod of the cycle has: of thousands, they are a gigabyte."""
        self._by_demand.pop(demand, None)

    def fork(self, only: snapshot.Bools | None) -> "CycleScores":
        """Return a scorer over these nodes that begins with what this one has placed, and leaves it as it is."""
        return CycleScores(self.view, self.stages, self._baseline, self.draft.fork(), self._masks, only)

    def reserve(self, row: snapshot.NodeRow, waiting: queues.Waiting) -> None:
        """Place a Pod on the node of `row`."""
        before = self.draft.view
        self._unseen.append((waiting.pod, self.draft.reserve(row, waiting.pod, waiting.demand)))
        if self.draft.view is not before:
            # Volumes are kept for this Pod: those with claims may have fewer to choose from.
            for demand in [each for each in self._by_demand if each.constraints and each.constraints.volume_claims]:
                del self._by_demand[demand]

    def _settle(self) -> None:
        for pod, row in self._unseen:
            for of, each in [*self._by_demand.items()]:
                if not each.take(pod, row.slot, row):
                    # They are computed again when next asked for.
                    del self._by_demand[of]
        self._unseen.clear()

    def hold(self, slot: int, demand: demands.Demand, pod: cluster.Pod | None) -> None:
        """Hold room on a node for a Pod that comes before all that follow; `pod`: see `cycle.Nominee`."""
        self._settle()
        self.draft.hold(slot, demand, pod)
        row = self.draft.row(slot)
        for of, each in [*self._by_demand.items()]:
            if not each.hold(pod, slot, row):
                del self._by_demand[of]

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
        if each not in self._shared:
            self._shared[each] = each.passes(self.view, demand)
        return self._shared[each]

    def _with_peers(self, plain: scoring.Scores) -> Scores:
        """Add what other Pods, volumes and preferences change; return the same scores if they change nothing."""
        view, demand = self.draft.view, plain.demand
        by_peers = self.stages.by_peers if demand.looks_at_peers else ()
        found = ((each.reason, each.peers(view, demand)) for each in by_peers)
        peers = [(reason, each) for reason, each in found if each is not None]
        preferred = preferences.preferences_of(view, demand)
        if peers or (preferred is not None and preferred.by_pods):
            return peer_scores.PeerScores(plain, peers=peers, preferred=preferred)
        if preferred is not None:
            plain.prefer(preferred)
        return plain
