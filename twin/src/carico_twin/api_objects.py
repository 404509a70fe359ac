"""Pods and Nodes of the twin as the Kubernetes API would show them."""

from carico_core.domain import cluster, pod_class
from carico_twin import records


def node_name(index: int) -> str:
    """The name of a node of the twin."""
    return f"node-{index}"


def class_of(record: records.PodRecord) -> str:
    """The class of a Pod, by the rule of agents and scheduler."""
    return pod_class.class_of(pod(record))


def pod(record: records.PodRecord, node: str | None = None, *, phase: str = "Pending") -> cluster.Pod:
    """A Pod of a job, bound to `node` where given."""
    return cluster.Pod(
        namespace="default", name=record.uid, uid=record.uid, resource_version="1",
        scheduler_name=cluster.SCHEDULER_NAME, node_name=node, phase=phase, priority=0,
        created_at_s=record.created_s, deleting=False, labels={}, node_selector={}, tolerations=(),
        owner=cluster.Owner(kind="Job", name=record.job, uid=record.job), image="twin",
        is_baseline=False, request_cores=0.0, request_bytes=0.0, unsupported=(),
    )  # fmt: skip


def node(index: int, *, cores: float, size: float) -> cluster.Node:
    """A node with all it has allocatable."""
    return cluster.Node(
        name=node_name(index), uid=str(index), resource_version="1", labels={}, taints=(), unschedulable=False,
        ready=True, deleting=False, allocatable_cores=cores, allocatable_bytes=size,
        pod_limit=cluster.DEFAULT_POD_LIMIT,
    )  # fmt: skip
