"""Refuses nodes that are not ready, cordoned or being deleted."""

from carico_core.domain import cluster, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol

# https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-unschedulable
_CORDON = cluster.Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")


class Ready:
    """The Ready condition is true; a Pod that belongs to its node may be what makes it ready, such as the network's."""

    reason = decision.Reason.NOT_READY

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        return True if demand.is_baseline else view.ready

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State that the node is not ready."""
        return "not ready"


class Schedulable:
    """Neither cordoned nor being deleted; as in Kubernetes, a Pod may tolerate the cordon."""

    reason = decision.Reason.UNSCHEDULABLE

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        return ~view.deleting if cluster.tolerates(demand.tolerations, _CORDON) else view.schedulable

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State whether it is cordoned or being deleted."""
        return "being deleted" if row.node.deleting else "cordoned"
