"""Refuses nodes whose labels the Pod's node selector does not match."""

import functools

import numpy as np

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class NodeSelector:
    """Every label of spec.nodeSelector is on the node."""

    reason = decision.Reason.NODE_SELECTOR
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        if not demand.node_selector:
            return None
        masks = (view.facts.domains(key).having((value,)) for key, value in demand.node_selector)
        return functools.reduce(np.logical_and, masks)

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Names the first label that differs."""
        for key, value in demand.node_selector:
            if row.node.labels.get(key) != value:
                return f"label {key}={value} wanted, node has {row.node.labels.get(key, 'none')}"
        return None
