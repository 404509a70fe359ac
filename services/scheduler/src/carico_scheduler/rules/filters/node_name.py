"""Refuses all nodes except the one that a Pod names."""

import numpy as np

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class NodeName:
    """The node is the one of spec.nodeName, if that is set."""

    reason = decision.Reason.NODE_NAME

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        if demand.node_name is None:
            return True
        mask, slot = np.zeros(len(view.present), dtype=np.bool_), view.slot_of(demand.node_name)
        if slot is not None:
            mask[slot] = True
        return mask

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State which node the Pod names."""
        return f"the Pod names node {demand.node_name}"
