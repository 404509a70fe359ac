"""Refuses nodes with a taint that the Pod does not tolerate."""

from carico_core.domain import cluster, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class Taints:
    """Every NoSchedule and NoExecute taint is tolerated."""

    reason = decision.Reason.TAINT

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        return view.labels.tolerated(demand.tolerations) if view.tainted.any() else True

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """Name the first taint that is not tolerated."""
        taint = cluster.refusing_taint(row.node, demand.tolerations)
        assert taint is not None, f"{row.node.name} was refused for a taint"
        value = f"={taint.value}" if taint.value else ""
        return f"taint {taint.key}{value}:{taint.effect} not tolerated"
