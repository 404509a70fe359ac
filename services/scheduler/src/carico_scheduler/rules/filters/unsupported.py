"""Refuses every node to a Pod with constraints that this version does not evaluate: to ignore them would be a lie."""

import numpy as np

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class Unsupported:
    """All nodes refused where the Pod states what is not supported."""

    reason = decision.Reason.UNSUPPORTED
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return np.zeros(len(view.present), dtype=np.bool_) if demand.unsupported else None

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Names the constraints."""
        return f"constraints not supported: {', '.join(demand.unsupported)}" if demand.unsupported else None
