"""Refuses nodes that cannot run a Pod as it asks.

That is every node if the Pod has constraints that this version does not evaluate, since ignoring them would be wrong;
else those whose kubelet does not declare what the Pod requires, as kube-scheduler's NodeDeclaredFeatures does.
"""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class Unsupported:
    """The Pod has no unsupported constraints, and the node declares all features that it requires."""

    reason = decision.Reason.UNSUPPORTED

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        if demand.unsupported or not demand.required_features:
            return not demand.unsupported
        return view.labels.declaring(demand.required_features)

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """Name the constraints, or the features."""
        if demand.unsupported:
            return f"constraints not supported: {', '.join(demand.unsupported)}"
        return f"features not declared: {', '.join(demand.required_features)}"
