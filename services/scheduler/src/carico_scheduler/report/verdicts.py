"""Whether a Pod that fits nowhere is unschedulable as an autoscaler understands it: more nodes would help. Pure.

A node may refuse a Pod because nothing is known of it, or because it is still being tried: its agent lets a load that
it has not measured grow in steps, and takes one Pod of an unmeasured class at a time. More nodes would not help then.
"""

import enum

import numpy as np

from carico_core.domain import decision
from carico_scheduler.decide import cycle_scores
from carico_scheduler.nodes import snapshot

_Reason = decision.Reason
# Nothing is known of a node's room.
_UNKNOWN = frozenset({_Reason.NO_ADVERTISEMENT, _Reason.STALE, _Reason.SUSPECT})
# What the Node object alone decides: such a node does not count.
_BY_NODE = frozenset(
    {
        _Reason.NODE_NAME, _Reason.UNSCHEDULABLE, _Reason.NOT_READY, _Reason.TAINT, _Reason.NODE_SELECTOR,
        _Reason.NODE_AFFINITY, _Reason.UNSUPPORTED,
    }
)  # fmt: skip
# Nodes with unmeasured Pods that are examined for a Pod of an unmeasured class: agents share what they measure, so that
# a class is unmeasured on all nodes or on few.
_EXAMINED_MAX = 64


class Verdict(enum.Enum):
    """Why Pods of one demand fit nowhere."""

    # Capacity or a rule on every node.
    UNSCHEDULABLE = enum.auto()
    # Some node may take one soon: it is still being tried, or nothing is known of it.
    OPEN = enum.auto()
    # Nothing is known of any node that the Pod's rules allow.
    UNKNOWN = enum.auto()


def verdict_of(scores: cycle_scores.Scores) -> Verdict:
    """Return the verdict on a demand that fits nowhere."""
    refused = {_Reason(name) for name in scores.refused} - _BY_NODE
    unknown = refused & _UNKNOWN
    if unknown and unknown == refused:
        return Verdict.UNKNOWN
    return Verdict.OPEN if unknown or _is_tried(scores) else Verdict.UNSCHEDULABLE


def _is_tried(scores: cycle_scores.Scores) -> bool:
    """Return True if a node that refuses the demand only for its capacity is still being tried."""
    view, demand = scores.view, scores.demand
    nodes = scores.unopposed
    for each in scores.stages.by_room:
        if each.reason is not _Reason.CAPACITY:
            nodes = nodes & each.passes(view, demand)
    is_growing = view.limit - view.pods - view.reserved < view.policy.threshold
    return bool((nodes & is_growing).any()) or _is_new_class(view, nodes, demand.pod_class)


def _is_new_class(view: snapshot.Snapshot, nodes: snapshot.Bools, pod_class: str) -> bool:
    """Return True if one of these nodes has not measured the class, and holds a Pod that it has not measured either.

    Until its agent has covered that Pod it is reserved; afterwards the agent says that it guesses.
    """
    for slot in np.flatnonzero(nodes & ((view.reserved > 0) | view.guessing))[:_EXAMINED_MAX].tolist():
        offer = view.room(slot).offer
        if offer is not None and offer.costs and (pod_class not in offer.costs or pod_class in offer.guessed):
            return True
    return False
