"""Refuses nodes that are not ready, cordoned or being deleted."""

from carico_core.domain import cluster, decision, taints
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands

# https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-unschedulable
_CORDON = cluster.Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")


class Ready:
    """The Ready condition is true."""

    reason = decision.Reason.NOT_READY
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return view.ready

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Says that the node is not ready."""
        return None if row.node.ready else "not ready"


class Schedulable:
    """Neither cordoned nor being deleted; as in Kubernetes, a Pod may tolerate the cordon."""

    reason = decision.Reason.UNSCHEDULABLE
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        if not taints.tolerates(demand.tolerations, _CORDON):
            return view.schedulable
        mask = view.schedulable.copy()
        for slot in (~mask).nonzero()[0].tolist():
            node = view.nodes[slot]
            mask[slot] = node is not None and not node.deleting
        return mask

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Says cordoned or being deleted."""
        if row.node.deleting:
            return "being deleted"
        if row.node.unschedulable and not taints.tolerates(demand.tolerations, _CORDON):
            return "cordoned"
        return None
