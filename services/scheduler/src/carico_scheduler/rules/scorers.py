"""How nodes with room are ranked: by what is free, or by requests while no node advertises."""

import dataclasses
from collections.abc import Mapping
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
        score = nodes.free(demand.pod_class, demand.ceiling_offset) - _OF_THE_NEXT_POD
        # In place: for all nodes it is an array of our own.
        score *= nodes.per_core
        return score


class AbsoluteScore:
    """capacity - reserved: the node with most room (paper)."""

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        return nodes.free(demand.pod_class, demand.ceiling_offset)


class RelativeScore:
    """(capacity - reserved) / (capacity + pods): the emptiest node, so that large nodes are not filled first.

    capacity = free + reserved: the Pods that the node takes in addition to the `pods` that it accounts for.
    """

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        free = nodes.free(demand.pod_class, demand.ceiling_offset)
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProfileScore:
    """The score that the Pod's schedulerName is set to; `default`: of those without a setting."""

    default: protocol.Scorer
    by_mode: Mapping[policies.ScoreMode, protocol.Scorer]

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        mode = None if demand.profile is None else demand.profile.score
        return (self.default if mode is None else self.by_mode[mode]).score(nodes, demand)


def scorer_by(policy: policies.Policy) -> protocol.Scorer:
    """Return the scorer of a policy."""
    default = scorer_of(policy.score)
    modes = {each.score for each in policy.profiles.values() if each.score is not None}
    return ProfileScore(default=default, by_mode={each: scorer_of(each) for each in modes}) if modes else default


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
