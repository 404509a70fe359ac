"""What the cluster has measured about each class, and this node's own part in it."""

from collections.abc import Mapping

from carico_core.domain import messages
from carico_core.numerics.estimators import base

# By class and dimension.
Own = Mapping[str, Mapping[str, base.Evidence]]
Fused = Mapping[str, messages.ClassEvidence]
# After this time (s), as long as a lease, no model contains what a node reported before.
_ECHO_S = 10.0
# Maximum share of a node in the cluster's weight: above it, rounding and message delays dominate the rest.
_MOST_TAKEN = 0.95


class ClusterEvidence:
    """The classes in the newest model of the cluster, and this node's part in it."""

    __slots__ = ("_between_nodes", "_most_classes", "_own", "classes", "pods")

    def __init__(self, *, between_nodes: float, most_classes: int) -> None:
        """`between_nodes`: how much a class's cost differs between nodes (share). `most_classes`: how many to keep."""
        self._between_nodes = between_nodes
        self._most_classes = most_classes
        # By class and dimension: the surest evidence of this node, and how long ago (s) it last reported that.
        self._own: dict[tuple[str, str], tuple[base.Evidence, float]] = {}
        # The cluster's largest classes, and how many Pods of each class run in it.
        self.classes: list[str] = []
        self.pods: dict[str, float] = {}

    def take(self, fused: Fused) -> None:
        """Use these classes from now on."""
        self.pods = {name: float(found.pods) for name, found in fused.items() if found.pods > 0}
        self.classes = sorted(fused, key=lambda name: (-fused[name].pods, name))[: self._most_classes]

    def contribute(self, own: Own, dt_s: float) -> None:
        """Take in what the node reports as its own measurements, `dt_s` after the last call.

        Evidence that it no longer reports, or was surer of, counts as long as the cluster's model may contain it.
        Otherwise the node would take its own report for that of others.
        """
        stated = {(name, dim): (each, 0.0) for name, dims in own.items() for dim, each in dims.items()}
        for key, (before, since_s) in self._own.items():
            now = stated.get(key)
            if since_s + dt_s <= _ECHO_S and (now is None or self._part(before) < self._part(now[0])):
                stated[key] = (before, since_s + dt_s)
        self._own = stated

    def of_others(self, fused: Fused, dim: str) -> dict[str, base.Evidence]:
        """Return (mean, variance) by class without this node's part, for classes that other nodes have measured."""
        found = {}
        for name, each in fused.items():
            cost = each.cost.get(dim)
            if cost is not None:
                own = self._own.get((name, dim))
                rest = without((cost.mean, cost.sd**2), None if own is None else own[0], self._between_nodes)
                if rest is not None:
                    found[name] = rest
        return found

    def _part(self, evidence: base.Evidence) -> float:
        """Return the inverse of the evidence's weight in the model."""
        return evidence[1] + (self._between_nodes * evidence[0]) ** 2


def without(fused: base.Evidence, own: base.Evidence | None, share: float) -> base.Evidence | None:
    """Return a fused (mean, variance) without one part; None if nothing is left.

    Weights are 1 / (v + (share c)^2).
    """
    mean, variance = fused
    if own is None:
        return fused
    part = own[1] + (share * own[0]) ** 2
    if part < messages.EXACT_BELOW:
        return None
    # The part's share of the whole weight 1 / variance.
    taken = variance / part
    if not taken <= _MOST_TAKEN:
        return None
    return (mean - own[0] * taken) / (1.0 - taken), variance / (1.0 - taken)
