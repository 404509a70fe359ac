"""What happened in a run to each Pod and node, and Pods and nodes as the Kubernetes API shows them."""

import dataclasses
import functools
import math

from carico_core.domain import cluster, names
from carico_core.numerics.estimators import base
from carico_twin.nodes import work as works


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class PodRecord:
    """One Pod, and its events in seconds of virtual time; NaN: has not happened."""

    uid: str
    job: str
    work: works.Work
    cpu_s: float
    created_s: float
    # Its requests, which only schedulers that place by requests use.
    request_cores: float = 0.0
    request_bytes: float = 0.0
    node: int = -1
    # The sequence number of the advertisement by which it was placed; 0: none.
    advertised_seq: int = 0
    binds: int = 0
    bound_s: float = math.nan
    started_s: float = math.nan
    ended_s: float = math.nan
    terminal_s: float = math.nan
    # Killed for memory.
    failed: bool = False

    @property
    def pod_s(self) -> float:
        """Pod time: process start to exit."""
        return self.ended_s - self.started_s


@dataclasses.dataclass(slots=True, eq=False)
class NodeRecord:
    """What one node carried, as integrals over time.

    doubled_s: with more than twice as many runnable tasks as cores. memory_over_s: with more memory demanded than there
    is. server_s, server_contended_s: with a server on it; the same, with more runnable tasks than cores.
    """

    cores: float
    most_pods: int = 0
    pod_s: float = 0.0
    doubled_s: float = 0.0
    memory_over_s: float = 0.0
    peak_memory_share: float = 0.0
    server_s: float = 0.0
    server_contended_s: float = 0.0
    # Pods bound while the node already had more than two runnable tasks per core.
    bound_when_full: int = 0
    oom_kills: int = 0


def node_name(index: int) -> str:
    """Return the name of a node."""
    return f"node-{index}"


def class_of(record: PodRecord) -> str:
    """Return the class of a Pod, by the rule of agents and scheduler."""
    return _class_of(record.job)


@functools.lru_cache(maxsize=1024)
def _class_of(job: str) -> str:
    """Return the class of a job's Pods: in the twin it depends only on the job."""
    return names.class_of(api_pod(PodRecord(uid=job, job=job, work=works.PI, cpu_s=0.0, created_s=0.0)))


@functools.lru_cache(maxsize=1024)
def _owner(job: str) -> cluster.Owner:
    return cluster.Owner(kind="Job", name=job, uid=job)


def api_pod(record: PodRecord, node: str | None = None, *, phase: str = "Pending") -> cluster.Pod:
    """Return the Pod as the API shows it, bound to `node` if given."""
    return cluster.Pod(
        namespace="default", name=record.uid, uid=record.uid, resource_version="1",
        scheduler_name=names.SCHEDULER_NAME, node_name=node, phase=phase, priority=0,
        created_at_s=record.created_s, deleting=False, labels={}, node_selector={}, tolerations=(),
        owner=_owner(record.job), image="twin",
        is_mirror=False, request_cores=0.0, request_bytes=0.0, unsupported=(),
    )  # fmt: skip


def api_node(index: int, *, cores: float, size: float) -> cluster.Node:
    """Return a Node whose whole capacity is allocatable."""
    return cluster.Node(
        name=node_name(index), uid=str(index), labels={}, taints=(), unschedulable=False,
        ready=True, deleting=False, allocatable_cores=cores, allocatable_bytes=size,
        pod_limit=base.DEFAULT_POD_LIMIT,
    )  # fmt: skip
