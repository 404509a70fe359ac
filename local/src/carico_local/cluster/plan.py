"""The plan of a local cluster: how many emulated nodes the machine can run, and with which settings."""

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

from carico_core.domain import errors, names
from carico_local.cluster import machine

# Half a processor is left for the control plane, the services and the view (measured on 2 CPUs).
CONTROL_PLANE_CPUS = 0.5
# At least two nodes, since one leaves nothing to decide; more than 16 show nothing new and cost two processes each.
FEWEST_NODES, MOST_NODES = 2, 16
DEFAULT_CORES = 4
DEFAULT_SCALE = 1 / 8
# A worker of the published cluster: 4 vCPU with 8 GB (dissertation 5.1).
NODE_MEMORY_BYTES = 8 * 2**30
# Memory of all services of a cluster besides its nodes' limits, and of the two processes of each node (measured).
SERVICES_MEMORY_BYTES = 400 * 2**20
NODE_SERVICES_MEMORY_BYTES = 120 * 2**20
# etcd, API server, controllers and scheduler of Kubernetes besides ours (measured: 0.5 GB).
REAL_CONTROL_PLANE_MEMORY_BYTES = 600 * 2**20

# Those of the agents (a test compares them), from where commands would import numpy, too: a fifth of their CPU time.
ESTIMATORS, DEFAULT_ESTIMATOR = ("delta", "dual", "footprint", "joint"), "footprint"
DEFAULT_CEILING_CPU = 0.77
MERGES = ("round", "sequential")
SHARINGS = ("leader", "shared")
# auto: cgroups where they are writable, else plain processes; none: plain processes.
NODE_CGROUPS = ("auto", "none")


class ControlPlane(enum.StrEnum):
    """Which API server to run."""

    EMBEDDED = "embedded"
    REAL = "real"


class NodeKind(enum.StrEnum):
    """What a node is: emulated with real processes, a real kubelet in namespaces, or played by kwok."""

    PROCESS = "process"
    KUBELET = "kubelet"
    KWOK = "kwok"


DEFAULT_KWOK_NODES = 1000
DEFAULT_KUBELETS = 2
_MOST = {
    NodeKind.PROCESS: 110,
    NodeKind.KUBELET: 50,
    # The largest cluster on which the scheduler is measured.
    NodeKind.KWOK: 10_000,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The user's options; None where the machine or the service's own default decides."""

    name: str = "demo"
    nodes: int | None = None
    # None: embedded for process nodes; other kinds need the real one.
    control_plane: str | None = None
    node_kind: str = NodeKind.PROCESS
    cores: int = DEFAULT_CORES
    scale: float = DEFAULT_SCALE
    estimator: str | None = None
    ceiling_cpu: float | None = None
    merge: str | None = None
    aggregators: int = 1
    schedulers: int = 1
    # None: the service's default, one leader.
    sharing: str | None = None
    node_cgroups: str = "auto"
    allow_root: bool = False
    rescheduler: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A cluster as it will be started. `memory_bytes` is a node's real limit, already scaled."""

    name: str
    control_plane: ControlPlane
    node_kind: NodeKind
    nodes: int
    cores: int
    scale: float
    memory_bytes: int
    estimator: str | None
    ceiling_cpu: float | None
    merge: str | None
    aggregators: int
    schedulers: int
    sharing: str | None = None
    node_cgroups: str = "auto"
    # Pods of process nodes may run as root, where the cluster itself does.
    allow_root: bool = False
    # Whether a rescheduler moves running Pods.
    rescheduler: bool = False
    # Programs of a real control plane, each with its path.
    binaries: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # What a user should know before trusting figures from this cluster.
    warnings: tuple[str, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """node-1, node-2, ..."""
        return tuple(f"node-{i + 1}" for i in range(self.nodes))

    @property
    def has_jobs(self) -> bool:
        """True where a controller creates the Pods of Jobs."""
        return self.control_plane is ControlPlane.REAL

    @property
    def process_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that are processes of the cluster."""
        return self.node_names if self.node_kind is NodeKind.PROCESS else ()

    @property
    def service_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that are services of the cluster, each with an agent."""
        return self.node_names if self.node_kind is not NodeKind.KWOK else ()


def default_nodes(cpus: float, *, cores: int, scale: float) -> int:
    """Return how many nodes a machine with `cpus` processors can run.

    >>> default_nodes(2.0, cores=4, scale=1 / 8), default_nodes(64.0, cores=4, scale=1 / 8)
    (3, 16)
    """
    return min(MOST_NODES, max(FEWEST_NODES, math.floor((cpus - CONTROL_PLANE_CPUS) / (cores * scale))))


def offered_cores(of: "Options | Plan") -> float:
    """Return the cores that a node offers to Pods: an emulated one has a scale, which a kubelet does not know."""
    return of.cores * of.scale if of.node_kind == NodeKind.KUBELET else float(of.cores)


def make_plan(options: Options, on: machine.Machine, binaries: Mapping[str, str] | None = None) -> Plan:
    """Return the plan for `options` on a machine; `binaries`: paths of the programs that it needs.

    Raises `SettingsError` for invalid options and `EnvironmentUnfit` where there is not enough memory.
    """
    _check(options)
    kind, control_plane = NodeKind(options.node_kind), _control_plane(options)
    memory_bytes = int(NODE_MEMORY_BYTES * options.scale)
    if kind is NodeKind.PROCESS:
        nodes = _process_nodes(options, control_plane, memory_bytes, on)
    else:
        default = DEFAULT_KWOK_NODES if kind is NodeKind.KWOK else DEFAULT_KUBELETS
        nodes = default if options.nodes is None else options.nodes
    return Plan(
        name=options.name,
        control_plane=control_plane,
        node_kind=kind,
        nodes=nodes,
        cores=options.cores,
        scale=options.scale,
        memory_bytes=memory_bytes,
        estimator=options.estimator,
        ceiling_cpu=options.ceiling_cpu,
        merge=options.merge,
        aggregators=options.aggregators,
        schedulers=options.schedulers,
        sharing=options.sharing,
        node_cgroups=options.node_cgroups,
        allow_root=options.allow_root,
        rescheduler=options.rescheduler,
        binaries=dict(binaries or {}),
        warnings=_warnings(nodes, options, on) if kind is NodeKind.PROCESS else (),
    )


def programs(options: Options) -> tuple[str, ...]:
    """Return the programs that the options need and no Python package contains. Raises `SettingsError`."""
    _check(options)
    if _control_plane(options) is ControlPlane.EMBEDDED:
        return ()
    needed = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    extra = {NodeKind.KWOK: ("kwok",), NodeKind.KUBELET: ("kubelet", "kube-proxy", "coredns", "metrics-server")}
    return (*needed, *extra.get(NodeKind(options.node_kind), ()))


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON types."""
    return {**dataclasses.asdict(plan), "binaries": dict(plan.binaries), "warnings": list(plan.warnings)}


def from_json(fields: Mapping[str, Any]) -> Plan:
    """Return the plan that `to_json` wrote."""
    parsed = {
        "control_plane": ControlPlane(fields["control_plane"]),
        "node_kind": NodeKind(fields["node_kind"]),
        "warnings": tuple(fields["warnings"]),
    }
    return Plan(**{**fields, **parsed})


def _check(options: Options) -> None:
    # Kubernetes would also allow ".", but cgroups and directories are named after the cluster.
    if not names.is_label(options.name):
        raise errors.SettingsError(
            f"--name: got {options.name!r}, expected a name of lower-case letters, digits and '-' (63 at most)"
        )
    _check_choice("--nodes", options.node_kind, tuple(NodeKind))
    _check_choice("--control-plane", options.control_plane, tuple(ControlPlane))
    bounds: tuple[tuple[str, float | None, float, float], ...] = (
        ("--nodes", options.nodes, 1, _MOST[NodeKind(options.node_kind)]),
        ("--cores", options.cores, 1, 256),
        ("--scale", options.scale, 0.01, 1.0),
        ("--ceiling", options.ceiling_cpu, 0.05, 1.0),
        ("--aggregators", options.aggregators, 1, 8),
        ("--schedulers", options.schedulers, 1, 8),
    )
    for flag, got, lowest, highest in bounds:
        if got is not None and not lowest <= got <= highest:
            raise errors.SettingsError(f"{flag}: got {got:g}, expected {lowest:g} to {highest:g}")
    _check_choice("--estimator", options.estimator, ESTIMATORS)
    _check_choice("--merge", options.merge, MERGES)
    _check_choice("--sharing", options.sharing, SHARINGS)
    _check_choice("--node-cgroups", options.node_cgroups, NODE_CGROUPS)
    _check_rescheduler(options)
    if options.node_cgroups != "auto" and options.node_kind != NodeKind.PROCESS:
        raise errors.SettingsError(
            f"--node-cgroups: got {options.node_cgroups} with --nodes {options.node_kind}, expected process nodes: "
            "only those work without cgroups"
        )


def _check_rescheduler(options: Options) -> None:
    if options.rescheduler and _control_plane(options) is ControlPlane.EMBEDDED:
        raise errors.SettingsError(
            "--rescheduler: got the embedded control plane, expected --control-plane real: only its controllers "
            "create a Pod of a Deployment again"
        )


def _check_choice(flag: str, got: str | None, choices: tuple[str, ...]) -> None:
    if got is not None and got not in choices:
        raise errors.SettingsError(f"{flag}: got {got!r}, expected one of {', '.join(choices)}")


def _control_plane(options: Options) -> ControlPlane:
    if options.node_kind == NodeKind.PROCESS:
        return ControlPlane(options.control_plane or ControlPlane.EMBEDDED)
    if options.control_plane == ControlPlane.EMBEDDED:
        raise errors.SettingsError(
            f"--nodes {options.node_kind} needs --control-plane real: the embedded API serves process nodes only"
        )
    return ControlPlane.REAL


def _process_nodes(options: Options, control_plane: ControlPlane, memory_bytes: int, on: machine.Machine) -> int:
    affordable = _affordable_nodes(on.memory_available_bytes, memory_bytes, control_plane)
    nodes = options.nodes
    if nodes is None:
        nodes = min(default_nodes(on.cpus, cores=options.cores, scale=options.scale), max(affordable, FEWEST_NODES))
    if nodes > affordable:
        raise errors.EnvironmentUnfit(
            f"{nodes} nodes of {memory_bytes / 2**20:.0f} MiB do not fit into the free memory of "
            f"{on.memory_available_bytes / 2**20:.0f} MiB: free some, or choose fewer (--nodes) or smaller (--scale)"
        )
    return nodes


def _affordable_nodes(available_bytes: int, memory_bytes: int, control_plane: ControlPlane) -> int:
    services_bytes = SERVICES_MEMORY_BYTES
    if control_plane is ControlPlane.REAL:
        services_bytes += REAL_CONTROL_PLANE_MEMORY_BYTES
    return max(0, (available_bytes - services_bytes) // (memory_bytes + NODE_SERVICES_MEMORY_BYTES))


def _warnings(nodes: int, options: Options, on: machine.Machine) -> tuple[str, ...]:
    asked = nodes * options.cores * options.scale
    if asked <= on.cpus:
        return ()
    return (
        f"{nodes} nodes x {options.cores} cores at scale {options.scale:g} are {asked:.2g} CPUs and this machine has "
        f"{on.cpus:g}: the nodes will compete for them, so figures measured here mean little",
    )
