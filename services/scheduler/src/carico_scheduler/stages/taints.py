"""Refuses nodes with a taint that the Pod does not tolerate."""

from carico_core.domain import decision, taints
from carico_scheduler import demand as demands
from carico_scheduler import snapshot


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
            mask[slot] = node is not None and taints.refusing(node, demand.tolerations) is None
        return mask

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Names the first taint that is not tolerated."""
        taint = taints.refusing(row.node, demand.tolerations)
        if taint is None:
            return None
        value = f"={taint.value}" if taint.value else ""
        return f"taint {taint.key}{value}:{taint.effect} not tolerated"
