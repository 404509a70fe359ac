"""How nodes with room are ranked: by what is free, or by requests while no node advertises."""

from typing import assert_never

import numpy as np

from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules import protocol

# When whole Pods are apportioned by size, counting half of the next one favours neither large nor small nodes (the
# Sainte-Lague method): counting none of it gives small nodes more than their share, counting all of it less.
_OF_THE_NEXT_POD = 0.5
# What a Pod without requests counts in kube-scheduler's scoring: 100 millicores.
# https://github.com/kubernetes/kubernetes/blob/v1.30.0/pkg/scheduler/util/pod_resources.go
_UNSTATED_CORES = 0.1


class PerCoreScore:
    """(capacity - reserved - 1/2) / cores: the node with most room for its size, with half of the new Pod counted.

    Among nodes with equally many cores it is the node with most room, as with the absolute score.
    """

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        return (nodes.free(demand.pod_class) - _OF_THE_NEXT_POD) / nodes.allocatable_cores


class AbsoluteScore:
    """capacity - reserved: the node with most room (paper)."""

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        return nodes.free(demand.pod_class)


class RelativeScore:
    """(capacity - reserved) / (capacity + pods): the emptiest node, so that large nodes are not filled first.

    capacity = free + reserved: the Pods that the node takes in addition to the `pods` that it accounts for.
    """

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        free = nodes.free(demand.pod_class)
        whole = free + nodes.reserved + nodes.pods
        scores: snapshot.Floats = free / np.where(whole > 0, whole, 1.0)
        return scores


class RequestsScore:
    """The unrequested share of a node's cores; each Pod counts at least 0.1 cores. Used while no node advertises."""

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        used = np.maximum(nodes.used_cores, _UNSTATED_CORES * nodes.placed)
        scores: snapshot.Floats = 1.0 - used / nodes.allocatable_cores
        return scores


def scorer_of(mode: policies.ScoreMode) -> protocol.Scorer:
    """Return the scorer of a mode."""
    match mode:
        case policies.ScoreMode.PER_CORE:
            return PerCoreScore()
        case policies.ScoreMode.ABSOLUTE:
            return AbsoluteScore()
        case policies.ScoreMode.RELATIVE:
            return RelativeScore()
        case _:
            assert_never(mode)
