"""Refuses nodes where a Pod already holds one of the host ports, or one of the disks, that the Pod needs."""

from carico_core.domain import cluster, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_questions
from carico_scheduler.rules import protocol


class HostPorts:
    """No Pod on the node holds a host port that conflicts; 0.0.0.0 conflicts with every address."""

    reason = decision.Reason.HOST_PORTS

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Taken | None":
        """See `protocol.PeerFilter`."""
        if demand.constraints is None or not demand.constraints.host_ports:
            return None
        wanted = demand.constraints.host_ports
        named = ", ".join(f"{port.port}/{port.protocol}" for port in wanted)
        return _Taken(view, pod_questions.Occupying(ports=wanted), f"a Pod there holds one of its host ports {named}")


class Disks:
    """No Pod on the node uses a disk that conflicts (GCE, EBS, iSCSI and RBD volumes named in the Pod itself)."""

    reason = decision.Reason.DISK

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Taken | None":
        """See `protocol.PeerFilter`."""
        if demand.constraints is None or not demand.constraints.disks:
            return None
        return _Taken(
            view, pod_questions.Occupying(disks=demand.constraints.disks), "a Pod there uses one of its disks"
        )


class _Taken:
    def __init__(self, view: snapshot.Snapshot, question: pod_questions.Question, why: str) -> None:
        self._pod_counts = view.pod_counts
        self._question = question
        self._why = why
        self._holders = view.pod_counts.per_slot(question, len(view.present)).copy()

    def conditions(self) -> list[protocol.Condition]:
        """See `protocol.Peers`."""
        return [protocol.Condition(self._holders == 0, lambda slot: self._why, yields=True)]

    def add(self, pod: cluster.Pod, slot: int, change: int = 1) -> None:
        """See `protocol.Peers`."""
        self._holders[slot] += change * self._pod_counts.count_of(self._question, pod)

    def hold(self, pod: cluster.Pod, slot: int) -> None:
        """See `protocol.Peers`."""
        self.add(pod, slot)
