"""Pods and Nodes of the twin as the Kubernetes API would show them."""

import functools

from carico_core.domain import cluster, pod_class
from carico_twin import records, work


def node_name(index: int) -> str:
    """The name of a node of the twin."""
    return f"node-{index}"


def class_of(record: records.PodRecord) -> str:
    """The class of a Pod, by the rule of agents and scheduler."""
    return _class_of(record.job)


@functools.lru_cache(maxsize=1024)
def _class_of(job: str) -> str:
    """Nothing else of a Pod of the twin tells its class."""
    return pod_class.class_of(pod(records.PodRecord(uid=job, job=job, work=work.PI, cpu_s=0.0, created_s=0.0)))


@functools.lru_cache(maxsize=1024)
def _owner(job: str) -> cluster.Owner:
    return cluster.Owner(kind="Job", name=job, uid=job)


def pod(record: records.PodRecord, node: str | None = None, *, phase: str = "Pending") -> cluster.Pod:
    """A Pod of a job, bound to `node` where given."""
    return cluster.Pod(
        namespace="default", name=record.uid, uid=record.uid, resource_version="1",
        scheduler_name=cluster.SCHEDULER_NAME, node_name=node, phase=phase, priority=0,
        created_at_s=record.created_s, deleting=False, labels={}, node_selector={}, tolerations=(),
        owner=_owner(record.job), image="twin",
        is_mirror=False, request_cores=0.0, request_bytes=0.0, unsupported=(),
    )  # fmt: skip


def node(index: int, *, cores: float, size: float) -> cluster.Node:
    """A node with all it has allocatable."""
    return cluster.Node(
        name=node_name(index), uid=str(index), resource_version="1", labels={}, taints=(), unschedulable=False,
        ready=True, deleting=False, allocatable_cores=cores, allocatable_bytes=size,
        pod_limit=cluster.DEFAULT_POD_LIMIT,
    )  # fmt: skip
