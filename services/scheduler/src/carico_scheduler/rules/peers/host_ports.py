"""Refuses nodes where a host port, or a disk that one node has once, is taken already."""

from carico_core.domain import cluster, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts


class HostPorts:
    """No Pod on the node holds a host port that conflicts; 0.0.0.0 conflicts with every address."""

    reason = decision.Reason.HOST_PORTS

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Taken | None":
        """None where the Pod wants no host port."""
        if demand.constraints is None or not demand.constraints.host_ports:
            return None
        wanted = demand.constraints.host_ports
        named = ", ".join(f"{port.port}/{port.protocol}" for port in wanted)
        return _Taken(view, pod_counts.Occupying(ports=wanted), f"a Pod there holds one of its host ports {named}")


class Disks:
    """No Pod on the node uses a disk that conflicts (GCE, EBS, iSCSI and RBD volumes named in the Pod itself)."""

    reason = decision.Reason.DISK

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Taken | None":
        """None where the Pod names no such disk."""
        if demand.constraints is None or not demand.constraints.disks:
            return None
        return _Taken(view, pod_counts.Occupying(disks=demand.constraints.disks), "a Pod there uses one of its disks")


class _Taken:
    def __init__(self, view: snapshot.Snapshot, question: pod_counts.Question, why: str) -> None:
        self._census = view.census
        self._question = question
        self._why = why
        self._holders = view.census.per_slot(question, len(view.present)).copy()

    def mask(self) -> snapshot.Bools:
        """Nodes without a Pod that conflicts."""
        mask: snapshot.Bools = self._holders == 0
        return mask

    def add(self, pod: cluster.Pod, slot: int) -> None:
        """Counts the Pod where it conflicts."""
        self._holders[slot] += self._census.is_counted(self._question, pod)

    def refuse(self, slot: int) -> str | None:
        """Says what is taken."""
        return self._why if self._holders[slot] else None
