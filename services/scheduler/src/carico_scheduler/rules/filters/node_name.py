"""Refuses all nodes but the one that a Pod names."""

import numpy as np

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class NodeName:
    """spec.nodeName, where it is given."""

    reason = decision.Reason.NODE_NAME
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        if demand.node_name is None:
            return None
        named = (node is not None and node.name == demand.node_name for node in view.nodes)
        return np.fromiter(named, dtype=np.bool_, count=len(view.present))

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Says which node the Pod names."""
        if demand.node_name is None or row.node.name == demand.node_name:
            return None
        return f"the Pod names node {demand.node_name}"
