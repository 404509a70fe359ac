"""Every setting of an agent."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import ClassVar

from carico_agent.learning import local_model
from carico_agent.telemetry import sources
from carico_core.domain import messages, names
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import settings
from carico_core.runtime.process.settings import setting

PREFIX = "AGENT"
_TRAFFIC = re.compile(r"none|sockets|(recorded|promql):.+", re.DOTALL)
PROGRAM = "carico-agent"
# An advertisement lists each covered Pod, at 39 bytes, and readers drop messages above 64 KiB. With this many Pods,
# those that ended recently, and the classes, it fits.
POD_LIMIT_MOST = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Flags `--node ...`, environment CARICO_AGENT_NODE and so on."""

    removed: ClassVar[Mapping[str, str]] = {
        "guard": "a node accepts nothing above its ceilings: --ceiling-cpu, --ceiling-memory",
        "capacity_cap": "capacity is bounded by --pod-limit",
        "peak_half_life_s": "the largest Pod count per core so far counts half after 10 minutes",
        "sample_hz": "telemetry is read 10 times a second, because the filters' constants depend on it",
        "batch": "the model is updated once a second",
        "epsilon": "the node's model is published at each update",
        "memory_free_by": "MemAvailable is what is free",
        "signal_mode": "the estimator decides which signal there is",
        "local_weight": "the node's own model has half the weight in the signal",
        "subspace_max_age_s": "the node's model is published at each update",
    }
    node: str = setting(help="name of the Node that this agent measures")
    scope: sources.Scope = setting(
        sources.Scope.HOST,
        help="what is measured: the host, one cgroup, the descendants of one process, or (for an agent in a Pod) the "
        "node that its own Pod runs on",
        why="an agent outside of a Pod measures its host",
    )
    cgroup: str = setting(
        "", help="path of the node's cgroup below the cgroup roots; for scope host, of its Pods' parent"
    )
    root_pid: int | None = setting(
        None,
        help="process whose descendants are the node, for scope process or if the cgroup cannot be read",
        minimum=1,
    )
    pod_uid: str = setting("", help="UID of this agent's own Pod, for scope node")
    proc: str = setting("/proc", help="where the host's /proc is mounted")
    cgroup_root: str = setting(
        "",
        help="folder that contains the mounts of the host's cgroups; empty: any",
        why="in a container, /sys/fs/cgroup is the container's own",
    )
    cores: float | None = setting(
        None, help="cores of the node; not for scope host", unit="cores", minimum=0.01, why="as the source reports"
    )
    scale: float = setting(
        1.0,
        help="real CPUs and memory of an emulated node, as a share of those that it has",
        unit="share",
        minimum=0.001,
        maximum=1.0,
        why="1: a real node",
    )
    memory_bytes: float | None = setting(
        None,
        help="memory of the node, as it is really enforced; not for scope host",
        unit="bytes",
        minimum=1,
        why="the cgroup's limit, or the host's memory",
    )
    dims: tuple[str, ...] = setting(
        ("cpu", "memory"),
        help="resources to measure; disk, network, gpu and gpu_memory are off by default",
        choices=sources.DIMS,
    )
    network_interface: str = setting(
        "", help="interface whose link the dimension network measures; empty: the default route's"
    )
    network_mbit_per_s: float | None = setting(
        None,
        help="speed of that link, each way",
        unit="Mbit/s",
        minimum=0.001,
        why="as the kernel reports; it does not for virtual interfaces",
    )
    pod_events: str = setting(
        "cgroup",
        help="source of starts and ends of Pods; none: Pods are not counted, and their cost is not learnt",
        choices=("cgroup", "containerd", "kubernetes", "none"),
        why="cgroups show starts and ends at once, without rights at the API",
    )
    pod_classes: str = setting(
        "none",
        help="source of a Pod's class, which follows from its owner: the scheduler's rosters on the bus, or the "
        "Kubernetes API; none: all Pods are of one class",
        choices=("roster", "kubernetes", "none"),
        why="needs the right to list and watch Pods, and memory for a client of the API",
    )
    baseline_namespaces: tuple[str, ...] = setting(
        ("kube-system", "carico"),
        help="namespaces whose Pods belong to their node, as those of DaemonSets do, and are not counted as workloads",
        why="as the scheduler's setting; their usage is measured all the same",
    )
    traffic: str = setting(
        "none",
        help="source of the traffic between Pods, for the rescheduler: none, sockets (the kernel's TCP sockets), "
        "recorded:FILE, or promql:URL (docs/rescheduling.md)",
        why="sockets of Pods with a network of their own need privileges",
    )
    containerd_socket: str = setting(
        "/run/containerd/containerd.sock",
        help="containerd's socket, for Pod events from containerd",
        why="containerd's own default",
    )
    pod_limit: int = setting(
        110,
        help="maximum number of Pods on the node",
        minimum=1,
        maximum=POD_LIMIT_MOST,
        why="the kubelet's own default",
    )
    estimator: str = setting(
        estimators.DEFAULT,
        help="how capacity is estimated: `footprint` (costs per dimension, class and age), or the "
        "paper's `dual`, `joint` or `delta` (spec section 7)",
        choices=tuple(sorted(estimators.ESTIMATORS)),
        gone=estimators.GONE,
        why="best over all scenarios of the twin (docs/evaluation.md)",
    )
    model: local_model.Kind = setting(
        "gram",
        help="how the node's own model is kept: gram (all directions), svd (FSVD with the first model_rank of them) or "
        "fpca (PRONTO's, around the mean; while its Reject-Job is raised, the node takes no Pod)",
        why="exact and cheapest; the others are for comparison",
    )
    model_rank: int | None = setting(
        None, help="directions that svd and fpca keep", minimum=1, why="as many as there are dimensions"
    )
    ceiling_cpu: float = setting(
        base.DEFAULT_CEILING["cpu"],
        help="CPU usage up to which the node takes Pods; 1 is two runnable tasks per core",
        minimum=messages.CEILING_LEAST,
        maximum=1.0,
        why="packs without hurting Pod times on really running Pods; lower isolates more",
    )
    ceiling_memory: float = setting(
        base.DEFAULT_CEILING["memory"],
        help="memory usage up to which the node takes Pods",
        minimum=messages.CEILING_LEAST,
        maximum=1.0,
        why="memory cannot be shared in time",
    )
    kubeconfig: str = setting(
        "",
        help="path of a kubeconfig, for Pod events from Kubernetes; empty: $KUBECONFIG, else this Pod's service "
        "account, else ~/.kube/config",
    )
    kube_context: str = setting("", help="context of the kubeconfig; empty: its current one")
    record: str = setting("", help="file to record raw samples and Pod events to, for `carico replay`; empty: none")
    traces: str = setting(
        "",
        help="address of an OpenTelemetry collector (OTLP over HTTP) for traces of Pods; empty: none",
        why="optional: it needs the extra `traces`, and memory",
    )
    traces_share: float = setting(
        1.0, help="share of all Pods that is traced; every service selects the same Pods", minimum=0.0, maximum=1.0
    )
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)

    def __post_init__(self) -> None:
        if not self.dims or len(set(self.dims)) != len(self.dims):
            raise ValueError(f"--dims: got {','.join(self.dims) or 'none'}, expected each dimension once, at least one")
        # The order is always the same, whatever the user gives.
        object.__setattr__(self, "dims", tuple(dim for dim in sources.DIMS if dim in self.dims))
        if self.traces and not self.traces.startswith(("http://", "https://")):
            raise ValueError(f"--traces: got {self.traces!r}, expected an address such as http://127.0.0.1:4318")
        if _TRAFFIC.fullmatch(self.traffic) is None:
            raise ValueError(f"--traffic: got {self.traffic!r}, expected none, sockets, recorded:FILE or promql:URL")
        if not names.is_subdomain(self.node):
            raise ValueError(f"--node: got {self.node!r}, expected a valid Kubernetes name")
        names.check_namespaces("--baseline-namespaces", self.baseline_namespaces)
        if self.scope is sources.Scope.CGROUP and not self.cgroup:
            raise ValueError("--scope cgroup needs the group's path: give --cgroup PATH")
        if self.scope is sources.Scope.PROCESS and self.root_pid is None:
            raise ValueError("--scope process needs the node's process: give --root-pid PID")
        if self.scope is sources.Scope.NODE and not self.pod_uid:
            raise ValueError("--scope node needs the UID of this agent's Pod (downward API): give --pod-uid UID")
        if self.traffic == "sockets" and self.scope is sources.Scope.PROCESS:
            raise ValueError("--traffic sockets finds Pods by their cgroups, which --scope process does not have")
        if self.pod_events == "cgroup" and self.scope is sources.Scope.PROCESS:
            raise ValueError("--scope process has no cgroups, which show Pods: give --pod-events kubernetes")

    def wanted(self) -> sources.Wanted:
        """Return the description of the node for telemetry."""
        return sources.Wanted(
            scope=self.scope,
            dims=self.dims,
            cgroup=self.cgroup,
            cores=self.cores,
            scale=self.scale,
            memory_bytes=self.memory_bytes,
            root_pid=self.root_pid,
            network_interface=self.network_interface,
            network_mbit_per_s=self.network_mbit_per_s,
            proc=pathlib.Path(self.proc),
            cgroup_root=self.cgroup_root,
        )
