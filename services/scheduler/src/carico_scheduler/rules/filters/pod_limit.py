"""Refuses nodes that hold as many Pods as their kubelet takes."""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class PodLimit:
    """The Pods on the node, bound or assumed, are fewer than its allocatable Pods."""

    reason = decision.Reason.POD_LIMIT
    by_pods = True

    def passes(self, nodes: snapshot.Nodes, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.RoomFilter`."""
        return nodes.placed < nodes.pod_limit

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State the limit."""
        return f"{row.placed} Pods of at most {row.pod_limit}"
