"""Refuses nodes whose advertised capacity, less what is reserved, is below the threshold; ranks the others by it."""

from typing import assert_never

import numpy as np

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules import protocol

# Where whole Pods are shared out by size, counting half of the next one favours neither large nor small (the method of
# Sainte-Lague): counting none of it gives the small nodes more than their share, counting all of it less.
_OF_THE_NEXT_POD = 0.5
_LEAST_CORES = 1e-9


class Capacity:
    """capacity - reserved >= threshold, within the caps on what is believed (`headroom.believed`)."""

    reason = decision.Reason.CAPACITY
    by_facts = False

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return view.free(demand.pod_class) >= view.policy.threshold

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """States what is free and the threshold."""
        free = row.free_for(demand.pod_class)
        if free >= view.policy.threshold:
            return None
        if free == float("-inf"):
            return "nothing advertised"
        return f"{free:.2g} free of threshold {view.policy.threshold:g}, {row.reserved} reserved"


class PerCoreScore:
    """(capacity - reserved - 1/2) / cores: the node with most room for its size, the new Pod half counted.

    Of nodes with equally many cores the one with most room, as by the absolute score.
    """

    def scores(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Floats:
        """A score for every slot; -inf where nothing is advertised."""
        cores = np.maximum(view.allocatable_cores, _LEAST_CORES)
        scores: snapshot.Floats = (view.free(demand.pod_class) - _OF_THE_NEXT_POD) / cores
        return scores

    def score(self, row: snapshot.NodeRow, view: snapshot.Snapshot, demand: demands.Demand) -> float:
        """The score of one node."""
        cores = max(row.node.allocatable_cores, _LEAST_CORES)
        return (row.free_for(demand.pod_class) - _OF_THE_NEXT_POD) / cores


class AbsoluteScore:
    """capacity - reserved: the node with most room (paper)."""

    def scores(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Floats:
        """A score for every slot."""
        return view.free(demand.pod_class)

    def score(self, row: snapshot.NodeRow, view: snapshot.Snapshot, demand: demands.Demand) -> float:
        """The score of one node."""
        return row.free_for(demand.pod_class)


class RelativeScore:
    """(capacity - reserved) / (capacity + pods): the emptiest node, so that big nodes are not filled first.

    capacity = free + reserved: what the node is believed to take beside the `pods` it accounts for.
    """

    def scores(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Floats:
        """A score for every slot; -inf where nothing is advertised."""
        free = view.free(demand.pod_class)
        whole = free + view.reserved + view.pods
        whole[~(whole > 0)] = 1.0
        scores: snapshot.Floats = free / whole
        return scores

    def score(self, row: snapshot.NodeRow, view: snapshot.Snapshot, demand: demands.Demand) -> float:
        """The score of one node."""
        free = row.free_for(demand.pod_class)
        whole = free + row.reserved + row.pods
        return free / whole if whole > 0 else free


def scorer_of(mode: policies.ScoreMode) -> protocol.Scorer:
    """The scorer of a mode."""
    match mode:
        case policies.ScoreMode.PER_CORE:
            return PerCoreScore()
        case policies.ScoreMode.ABSOLUTE:
            return AbsoluteScore()
        case policies.ScoreMode.RELATIVE:
            return RelativeScore()
        case _:
            assert_never(mode)
