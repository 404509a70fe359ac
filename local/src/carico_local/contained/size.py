"""How large a container is, by its own cgroup, and whether it can see its CPU pressure there."""

import dataclasses
import os
import pathlib

from carico_agent.telemetry import cgroup_cpu, cgroup_memory, cgroup_tree, meminfo, port

PROC = pathlib.Path("/proc")
# In a container its own group is the root of what is mounted.
OWN_GROUP = "."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a container may use. `without`: why its CPU pressure is not to be had from its cgroup; empty where it is."""

    real_cores: float
    memory_bytes: int
    without: str


def read(proc: pathlib.Path = PROC) -> Size:
    """The size of this container; the machine's where it has no limits."""
    host_bytes = meminfo.total_bytes(proc)
    machine_cores = float(os.cpu_count() or 1)
    try:
        group = cgroup_tree.discover(proc / "mounts").group(OWN_GROUP)
    except port.Absent as error:
        return Size(real_cores=machine_cores, memory_bytes=int(host_bytes), without=str(error))
    return Size(
        real_cores=min(cgroup_cpu.quota_cores(group) or machine_cores, machine_cores),
        memory_bytes=int(cgroup_memory.limit_bytes(group, host_bytes=host_bytes)),
        without=_without(group),
    )


def _without(group: cgroup_tree.Group) -> str:
    if group.pressure is None:
        return f"a container sees no unified tree on this machine ({group.layout} cgroups)"
    try:
        # It is there and cannot be read where the kernel was started with psi=0.
        group.pressure.read_bytes()
    except OSError as error:
        return f"{group.pressure}: {error.strerror}"
    return ""
