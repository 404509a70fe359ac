"""Taints and tolerations: which Pods a node keeps away, or would rather not have.

https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from collections.abc import Iterable

from carico_core.domain import cluster

_REFUSING = frozenset({"NoSchedule", "NoExecute"})
_DISLIKING = "PreferNoSchedule"


def tolerates(tolerations: Iterable[cluster.Toleration], taint: cluster.Taint) -> bool:
    """Return whether one of the tolerations matches the taint."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def refusing(node: cluster.Node, tolerations: Iterable[cluster.Toleration]) -> cluster.Taint | None:
    """Return the first taint of the node that keeps a Pod of these tolerations away; None where none does."""
    tolerations = tuple(tolerations)
    for taint in node.taints:
        if taint.effect in _REFUSING and not tolerates(tolerations, taint):
            return taint
    return None


def disliked(node: cluster.Node, tolerations: Iterable[cluster.Toleration]) -> int:
    """Return how many PreferNoSchedule taints of the node are not tolerated."""
    tolerations = tuple(tolerations)
    return sum(taint.effect == _DISLIKING and not tolerates(tolerations, taint) for taint in node.taints)


def is_disliking(node: cluster.Node) -> bool:
    """Return whether the node has a PreferNoSchedule taint."""
    return any(taint.effect == _DISLIKING for taint in node.taints)


def _matches(toleration: cluster.Toleration, taint: cluster.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key needs Exists; the API refuses it with Equal. Lt and Gt are off in Kubernetes unless asked for.
    return toleration.operator == "Equal" and bool(toleration.key) and toleration.value == taint.value
