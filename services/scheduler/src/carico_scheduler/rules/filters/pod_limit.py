"""Refuses nodes that hold as many Pods as their kubelet takes."""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class PodLimit:
    """Pods on the node, bound or reserved, stay within its allocatable Pods."""

    reason = decision.Reason.POD_LIMIT
    by_facts = False

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return view.placed < view.pod_limit

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """States the limit."""
        return None if row.placed < row.pod_limit else f"{row.placed} Pods of at most {row.pod_limit}"
