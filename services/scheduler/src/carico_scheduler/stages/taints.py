"""Refuses nodes with a taint that the Pod does not tolerate."""

from collections.abc import Iterable

from carico_core.domain import cluster, decision
from carico_scheduler import demand as demands
from carico_scheduler import snapshot

# PreferNoSchedule is a wish, not a refusal.
_REFUSING = frozenset({"NoSchedule", "NoExecute"})


def tolerates(tolerations: Iterable[cluster.Toleration], taint: cluster.Taint) -> bool:
    """True where one of the tolerations matches the taint.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: cluster.Toleration, taint: cluster.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key needs Exists; the API refuses it with Equal.
    return bool(toleration.key) and toleration.value == taint.value


def _intolerable(node: cluster.Node, demand: demands.Demand) -> cluster.Taint | None:
    """The first taint of the node that keeps the Pod away."""
    for taint in node.taints:
        if taint.effect in _REFUSING and not tolerates(demand.tolerations, taint):
            return taint
    return None


class Taints:
    """Every NoSchedule and NoExecute taint is tolerated."""

    reason = decision.Reason.TAINT
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        if not view.tainted.any():
            return None
        mask = ~view.tainted
        for slot in view.tainted.nonzero()[0].tolist():
            node = view.nodes[slot]
            mask[slot] = node is not None and _intolerable(node, demand) is None
        return mask

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Names the first taint that is not tolerated."""
        taint = _intolerable(row.node, demand)
        if taint is None:
            return None
        value = f"={taint.value}" if taint.value else ""
        return f"taint {taint.key}{value}:{taint.effect} not tolerated"
