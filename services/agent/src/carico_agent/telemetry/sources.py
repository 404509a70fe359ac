"""Open the panel of a node from the settings: of the host, one cgroup, or the node's processes."""

import dataclasses
import enum
import os
import pathlib
from collections.abc import Callable, Mapping

from carico_agent.telemetry import cpu as cpus
from carico_agent.telemetry import panel, port
from carico_agent.telemetry.cgroups import cpu_time, hierarchy, pod_ledger, pod_throttling, working_set
from carico_agent.telemetry.devices import disk, gpu, network
from carico_agent.telemetry.proc import host_cpu, meminfo, pressure, process_accounting
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

PROCESS_FALLBACK = "process-accounting"


class Scope(enum.StrEnum):
    """What is measured as the node. NODE: whatever this agent's own Pod runs on, the host or one cgroup."""

    HOST = "host"
    CGROUP = "cgroup"
    PROCESS = "process"
    NODE = "node"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The node as the settings describe it; None: as the machine reports it."""

    scope: Scope
    dims: tuple[str, ...] = ("cpu", "memory")
    cgroup: str = ""
    cores: float | None = None
    # Real CPUs and memory of an emulated node, as a share of those that it has; 1 for a real one.
    scale: float = 1.0
    memory_bytes: float | None = None
    root_pid: int | None = None
    network_interface: str = ""
    network_mbit_per_s: float | None = None
    proc: pathlib.Path = pathlib.Path("/proc")
    cgroup_root: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What an optional dimension is opened with. notes: degradations are added here."""

    wanted: Wanted
    clock: clocks.Clock
    group: hierarchy.Group | None
    notes: list[str]


# Optional dimensions: each is off unless the settings name it.
OPTIONAL: Mapping[str, Callable[[Place], port.Dimension]] = {
    "disk": lambda at: disk.open_disk(at.wanted.proc, clock=at.clock, group=at.group, notes=at.notes),
    "network": lambda at: network.open_network(
        at.wanted.proc,
        clock=at.clock,
        interface=at.wanted.network_interface,
        mbit_per_s=at.wanted.network_mbit_per_s,
        classes=pathlib.Path("/sys/class/net"),
    ),
    "gpu": lambda _: gpu.GpuUtilisation(gpu.open_gpus()),
    "gpu_memory": lambda _: gpu.GpuMemory(gpu.open_gpus()),
}
DIMS = ("cpu", "memory", *OPTIONAL)


def open_panel(wanted: Wanted, *, clock: clocks.Clock) -> panel.Panel:
    """Return the panel of a node. Raises `Absent` if a required source does not exist (yet).

    Raises `EnvironmentUnfit` if an optional dimension cannot be measured: the user has to choose. If the cgroup cannot
    be read and `root_pid` is given, the node's processes are measured instead.
    """
    if wanted.scope is Scope.HOST:
        return _host(wanted, clock)
    if wanted.scope is Scope.PROCESS:
        return _processes(wanted, clock, notes=())
    try:
        return _cgroup(wanted, clock)
    except port.Absent as error:
        if wanted.root_pid is None:
            raise
        return _processes(wanted, clock, notes=(f"{PROCESS_FALLBACK} instead of the cgroup: {error}",))


def open_ledger(wanted: Wanted, *, clock: clocks.Clock) -> pod_ledger.CgroupLedger | None:
    """Return the ledger of the node's Pods; None if it cannot be read, as without cgroups."""
    if wanted.scope is Scope.PROCESS:
        return None
    try:
        tree = hierarchy.discover(wanted.proc / "mounts", below=wanted.cgroup_root)
        return pod_ledger.CgroupLedger(tree.group(wanted.cgroup or "."), clock=clock)
    except port.Absent:
        return None


def _host(wanted: Wanted, clock: clocks.Clock) -> panel.Panel:
    if wanted.cores is not None or wanted.memory_bytes is not None:
        raise errors.EnvironmentUnfit(
            "the whole machine is measured, so that it is the node's size: remove --cores and --memory-bytes "
            "(CARICO_AGENT_CORES, CARICO_AGENT_MEMORY_BYTES), or give --scope cgroup"
        )
    notes: list[str] = []
    utilisation = host_cpu.HostUtilisation(wanted.proc)
    cpu = cpus.Cpu(
        utilisation,
        _pressure(wanted.proc / "pressure" / "cpu", clock, notes),
        clock=clock,
        throttling=_host_throttling(wanted, notes),
        cpus=utilisation.cores,
    )
    return _panel(
        wanted,
        cpu,
        meminfo.HostMemory(wanted.proc),
        cores=utilisation.cores,
        memory_bytes=meminfo.total_bytes(wanted.proc),
        source="host",
        further=_further(wanted, clock, notes),
        notes=notes,
    )


def _cgroup(wanted: Wanted, clock: clocks.Clock) -> panel.Panel:
    notes: list[str] = []
    lineage = hierarchy.discover(wanted.proc / "mounts", below=wanted.cgroup_root).lineage(wanted.cgroup)
    group = lineage[0]
    most_cores = None if wanted.cores is None else wanted.cores * wanted.scale
    utilisation = cpu_time.CgroupUtilisation(lineage, clock=clock, most_cores=most_cores)
    cpu = cpus.Cpu(
        utilisation,
        _pressure(group.pressure, clock, notes),
        clock=clock,
        throttling=None if group.cpu is None else pod_throttling.PodThrottling(group.cpu),
        cpus=float(os.cpu_count() or 1),
        shared=True,
    )
    host_bytes = meminfo.total_bytes(wanted.proc)
    memory_bytes, holder = wanted.memory_bytes, group
    if memory_bytes is None:
        memory_bytes, holder = working_set.bound(lineage, host_bytes=host_bytes)

    def size() -> panel.Size:
        """Return what the settings leave to the cgroup."""
        return (
            wanted.cores or utilisation.bound()[0],
            (wanted.memory_bytes or working_set.bound(lineage, host_bytes=host_bytes)[0]) / wanted.scale,
        )

    return _panel(
        wanted,
        cpu,
        working_set.CgroupMemory(holder, limit_bytes=memory_bytes),
        cores=wanted.cores or utilisation.cores / wanted.scale,
        memory_bytes=memory_bytes,
        source=f"cgroup-{group.layout}",
        further=_further(wanted, clock, notes, group=group),
        notes=notes,
        size=size,
    )


def _processes(wanted: Wanted, clock: clocks.Clock, notes: tuple[str, ...]) -> panel.Panel:
    if wanted.root_pid is None:
        raise port.Absent(PROCESS_FALLBACK, "--root-pid is not set")
    noted = list(notes)
    table = process_accounting.ProcessTable(wanted.root_pid, clock=clock, proc=wanted.proc)
    cores = wanted.cores or float(os.cpu_count() or 1)
    utilisation = process_accounting.ProcessUtilisation(table, quota_cores=cores * wanted.scale, clock=clock)
    waiting = process_accounting.ProcessPressure(table, utilisation, cores=cores, clock=clock)
    memory_bytes = wanted.memory_bytes or meminfo.total_bytes(wanted.proc)
    return _panel(
        wanted,
        cpus.Cpu(utilisation, waiting, clock=clock, shared=True),
        process_accounting.ProcessMemory(table, limit_bytes=memory_bytes),
        cores=cores,
        memory_bytes=memory_bytes,
        source=PROCESS_FALLBACK,
        further=_further(wanted, clock, noted),
        notes=noted,
    )


def _panel(
    wanted: Wanted,
    cpu: cpus.Cpu,
    memory: port.Gauge,
    *,
    cores: float,
    memory_bytes: float,
    source: str,
    further: Mapping[str, port.Dimension],
    notes: list[str],
    size: Callable[[], panel.Size] | None = None,
) -> panel.Panel:
    full = {"cpu": cpu.tasks_per_core * cores, "memory": memory_bytes / wanted.scale}
    full |= {dim: gauge.full for dim, gauge in further.items()}
    facts = panel.Facts(
        dims=wanted.dims,
        scale=tuple(full[dim] for dim in wanted.dims),
        cores=cores,
        source=source,
        notes=tuple(notes),
    )
    return panel.Panel(facts, {"cpu": cpu, "memory": memory, **further}, size=size)


def _further(
    wanted: Wanted, clock: clocks.Clock, notes: list[str], *, group: hierarchy.Group | None = None
) -> dict[str, port.Dimension]:
    """Return the named optional dimensions. Raises `EnvironmentUnfit` if one cannot be measured here."""
    place = Place(wanted=wanted, clock=clock, group=group, notes=notes)
    opened: dict[str, port.Dimension] = {}
    for dim in wanted.dims:
        if dim not in OPTIONAL:
            continue
        try:
            opened[dim] = OPTIONAL[dim](place)
        except (port.Absent, port.Broken) as error:
            raise errors.EnvironmentUnfit(
                f"dimension {dim} cannot be measured: {error}; or remove it from --dims (CARICO_AGENT_DIMS)"
            ) from error
        if wanted.scope is not Scope.HOST and (dim != "disk" or group is None):
            notes.append(f"{dim} is measured for the whole machine, which other work uses too")
    return opened


def _pressure(path: pathlib.Path | None, clock: clocks.Clock, notes: list[str]) -> pressure.Pressure | None:
    try:
        if path is None:
            raise port.Absent("cpu.pressure", "no unified cgroup hierarchy is mounted")
        return pressure.Pressure(path, clock=clock)
    except port.Absent as error:
        notes.append(f"no CPU pressure, only utilisation is used: {error}")
        return None


def _host_throttling(wanted: Wanted, notes: list[str]) -> pod_throttling.PodThrottling | None:
    try:
        tree = hierarchy.discover(wanted.proc / "mounts", below=wanted.cgroup_root)
        lineage = tree.lineage(wanted.cgroup or ".")
    except port.Absent:
        return None
    # The root of a host's tree has no quota.
    if (cores := cpu_time.quota_cores(lineage[-1])) is not None:
        notes.append(
            f"the whole machine is measured from a container with {cores:g} CPUs: if the container is the node, give "
            "--scope cgroup --cgroup ."
        )
    return None if lineage[0].cpu is None else pod_throttling.PodThrottling(lineage[0].cpu)
