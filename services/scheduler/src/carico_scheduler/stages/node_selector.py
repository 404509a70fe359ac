"""Refuses nodes whose labels the Pod's node selector does not match."""

import numpy as np

from carico_core.domain import decision
from carico_scheduler import demand as demands
from carico_scheduler import snapshot


class NodeSelector:
    """Every label of spec.nodeSelector is on the node."""

    reason = decision.Reason.NODE_SELECTOR
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        if not demand.node_selector:
            return None
        wanted = dict(demand.node_selector).items()
        matches = (node is not None and wanted <= dict(node.labels).items() for node in view.nodes)
        return np.fromiter(matches, dtype=np.bool_, count=len(view.present))

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Names the first label that differs."""
        for key, value in demand.node_selector:
            if row.node.labels.get(key) != value:
                return f"label {key}={value} wanted, node has {row.node.labels.get(key, 'none')}"
        return None
