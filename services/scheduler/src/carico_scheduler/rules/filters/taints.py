"""Refuses nodes with a taint that the Pod does not tolerate."""

from carico_core.domain import decision, taints
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class Taints:
    """Every NoSchedule and NoExecute taint is tolerated."""

    reason = decision.Reason.TAINT
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return view.facts.tolerated(demand.tolerations) if view.tainted.any() else None

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Names the first taint that is not tolerated."""
        taint = taints.refusing(row.node, demand.tolerations)
        if taint is None:
            return None
        value = f"={taint.value}" if taint.value else ""
        return f"taint {taint.key}{value}:{taint.effect} not tolerated"
