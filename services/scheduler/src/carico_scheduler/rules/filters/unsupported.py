"""Refuses every node to a Pod with constraints that this version does not evaluate: to ignore them would be wrong."""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class Unsupported:
    """The Pod states nothing that is not supported."""

    reason = decision.Reason.UNSUPPORTED

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        return not demand.unsupported

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """Name the constraints."""
        return f"constraints not supported: {', '.join(demand.unsupported)}"
