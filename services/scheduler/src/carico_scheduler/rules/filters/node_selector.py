"""Refuses nodes whose labels the Pod's node selector does not match."""

import functools

import numpy as np

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class NodeSelector:
    """Every label of spec.nodeSelector is on the node."""

    reason = decision.Reason.NODE_SELECTOR

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        if not demand.node_selector:
            return True
        keys = {key for key, _ in demand.node_selector}
        if len(view.labels.having_any(keys)) < len(keys):
            # Tenants write node selectors: values of labels are kept only for those that nodes have.
            return np.zeros(len(view.present), dtype=np.bool_)
        masks = (view.labels.domains(key).having((value,)) for key, value in demand.node_selector)
        return functools.reduce(np.logical_and, masks)

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State the required labels, and the node's."""
        wanted = ", ".join(f"{key}={value}" for key, value in demand.node_selector)
        own = ", ".join(f"{key}={row.node.labels.get(key, '(none)')}" for key, _ in demand.node_selector)
        return f"label {wanted} wanted, node has {own}"
