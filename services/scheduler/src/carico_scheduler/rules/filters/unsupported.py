"""Refuses every node for a Pod with constraints that this version does not evaluate: ignoring them would be wrong."""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class Unsupported:
    """The Pod has no unsupported constraints."""

    reason = decision.Reason.UNSUPPORTED

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        return not demand.unsupported

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """Name the constraints."""
        return f"constraints not supported: {', '.join(demand.unsupported)}"
