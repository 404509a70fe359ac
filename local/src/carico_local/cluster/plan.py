"""The plan of a local cluster: how many emulated nodes a machine carries, and with which settings they run."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from carico_core.domain import errors, names
from carico_core.numerics.estimators import registry
from carico_local.cluster import machine

# Half a processor is left to the control plane, the services and the view (measured on 2 CPUs).
CONTROL_PLANE_CPUS = 0.5
# Two nodes at least, since one leaves nothing to schedule; more than 16 say nothing new and each costs two processes.
FEWEST_NODES, MOST_NODES = 2, 16
DEFAULT_CORES = 4
DEFAULT_SCALE = 1 / 8
# A worker of the published cluster: 4 vCPU with 8 GB (dissertation 5.1).
NODE_MEMORY_BYTES = 8 * 2**30
# Memory of all services of a cluster beside its nodes' limits, and of the two processes of each node (measured).
SERVICES_MEMORY_BYTES = 400 * 2**20
NODE_SERVICES_MEMORY_BYTES = 120 * 2**20

ESTIMATORS = tuple(sorted(registry.ESTIMATORS))
MERGES = ("round", "sequential")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asked for; None where the machine or the service's own default decides."""

    name: str = "demo"
    nodes: int | None = None
    cores: int = DEFAULT_CORES
    scale: float = DEFAULT_SCALE
    estimator: str | None = None
    ceiling_cpu: float | None = None
    merge: str | None = None
    aggregators: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A cluster as it will be started. `memory_bytes` is a node's real limit, already scaled."""

    name: str
    nodes: int
    cores: int
    scale: float
    memory_bytes: int
    estimator: str | None
    ceiling_cpu: float | None
    merge: str | None
    aggregators: int
    # What a person should know before trusting figures from this cluster.
    warnings: tuple[str, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        """node-1, node-2, ..."""
        return tuple(f"node-{i + 1}" for i in range(self.nodes))


def default_nodes(cpus: float, *, cores: int, scale: float) -> int:
    """Nodes that a machine with `cpus` carries.

    >>> default_nodes(2.0, cores=4, scale=1 / 8), default_nodes(64.0, cores=4, scale=1 / 8)
    (3, 16)
    """
    return min(MOST_NODES, max(FEWEST_NODES, math.floor((cpus - CONTROL_PLANE_CPUS) / (cores * scale))))


def make_plan(wish: Wish, on: machine.Machine) -> Plan:
    """The plan that fulfils `wish` on a machine.

    Raises `SettingsError` for a wish without sense and `EnvironmentUnfit` where the memory does not suffice.
    """
    _check(wish)
    memory_bytes = int(NODE_MEMORY_BYTES * wish.scale)
    affordable = _affordable_nodes(on.memory_available_bytes, memory_bytes)
    nodes = wish.nodes
    if nodes is None:
        nodes = min(default_nodes(on.cpus, cores=wish.cores, scale=wish.scale), max(affordable, FEWEST_NODES))
    if nodes > affordable:
        raise errors.EnvironmentUnfit(
            f"{nodes} nodes of {memory_bytes / 2**20:.0f} MiB do not fit into the free memory of "
            f"{on.memory_available_bytes / 2**20:.0f} MiB: free some, or ask for fewer (--nodes) or smaller (--scale)"
        )
    return Plan(
        name=wish.name,
        nodes=nodes,
        cores=wish.cores,
        scale=wish.scale,
        memory_bytes=memory_bytes,
        estimator=wish.estimator,
        ceiling_cpu=wish.ceiling_cpu,
        merge=wish.merge,
        aggregators=wish.aggregators,
        warnings=_warnings(nodes, wish, on),
    )


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON types."""
    return {**dataclasses.asdict(plan), "warnings": list(plan.warnings)}


def from_json(fields: Mapping[str, Any]) -> Plan:
    """The plan that `to_json` wrote."""
    return Plan(**{**fields, "warnings": tuple(fields["warnings"])})


def _check(wish: Wish) -> None:
    # "." and more would also be a valid Kubernetes name, but cgroups and directories are named after the cluster.
    if not names.is_label(wish.name):
        raise errors.SettingsError(
            f"--name: got {wish.name!r}, expected a name of lower-case letters, digits and '-' (63 at most)"
        )
    bounds: tuple[tuple[str, float | None, float, float], ...] = (
        ("--nodes", wish.nodes, 1, 110),
        ("--cores", wish.cores, 1, 256),
        ("--scale", wish.scale, 0.01, 1.0),
        ("--ceiling", wish.ceiling_cpu, 0.05, 1.0),
        ("--aggregators", wish.aggregators, 1, 8),
    )
    for flag, got, lowest, highest in bounds:
        if got is not None and not lowest <= got <= highest:
            raise errors.SettingsError(f"{flag}: got {got:g}, expected {lowest:g} to {highest:g}")
    _check_choice("--estimator", wish.estimator, ESTIMATORS)
    _check_choice("--merge", wish.merge, MERGES)


def _check_choice(flag: str, got: str | None, choices: tuple[str, ...]) -> None:
    if got is not None and got not in choices:
        raise errors.SettingsError(f"{flag}: got {got!r}, expected one of {', '.join(choices)}")


def _affordable_nodes(available_bytes: int, memory_bytes: int) -> int:
    return max(0, (available_bytes - SERVICES_MEMORY_BYTES) // (memory_bytes + NODE_SERVICES_MEMORY_BYTES))


def _warnings(nodes: int, wish: Wish, on: machine.Machine) -> tuple[str, ...]:
    asked = nodes * wish.cores * wish.scale
    if asked <= on.cpus:
        return ()
    return (
        f"{nodes} nodes x {wish.cores} cores at scale {wish.scale:g} are {asked:.2g} CPUs and this machine has "
        f"{on.cpus:g}: the nodes will disturb each other, so figures measured here mean little",
    )
