"""How large a container is, by its own cgroup, and whether it can see its CPU pressure there."""

import dataclasses
import os
import pathlib

from carico_agent.telemetry import cgroup_cpu, cgroup_memory, cgroup_tree, kernel_file, meminfo, port
from carico_core.domain import errors

# Kubelet and agent take 110 MiB (measured); importing them in less would end in the kernel's words, not in ours.
LEAST_MEMORY_BYTES = 192 * 2**20
PROC = pathlib.Path("/proc")
# In a container its own group is the root of what is mounted.
OWN_GROUP = "."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a container may use. `without`: why its CPU pressure is not to be had from its cgroup; empty where it is.

    `free_bytes`: of the machine's memory, whatever the container's limit is.
    """

    real_cores: float
    memory_bytes: int
    free_bytes: int
    without: str


def read(proc: pathlib.Path = PROC) -> Size:
    """Return the size of this container; the machine's where it has no limits."""
    said = kernel_file.KernelFile(proc / "meminfo").read()
    host_bytes, free_bytes = (int(each) for each in meminfo.parse_meminfo(said, meminfo.FreeBy.AVAILABLE))
    machine_cores = float(os.cpu_count() or 1)
    try:
        group = cgroup_tree.discover(proc / "mounts").group(OWN_GROUP)
    except port.Absent as error:
        return Size(real_cores=machine_cores, memory_bytes=host_bytes, free_bytes=free_bytes, without=str(error))
    return Size(
        real_cores=min(cgroup_cpu.quota_cores(group) or machine_cores, machine_cores),
        memory_bytes=int(cgroup_memory.limit_bytes(group, host_bytes=host_bytes)),
        free_bytes=free_bytes,
        without=_without(group),
    )


def check(found: Size) -> None:
    """Raise `EnvironmentUnfit` where kubelet, agent and a first Pod have no room."""
    for had_bytes, of, remedy in (
        (found.memory_bytes, "a container of", "raise its limit (CARICO_COMPOSE_NODE_MEMORY)"),
        (
            found.free_bytes,
            "a machine with free memory of",
            "end other programs, or start fewer nodes (--scale node=2)",
        ),
    ):
        if had_bytes < LEAST_MEMORY_BYTES:
            raise errors.EnvironmentUnfit(
                f"got {of} {had_bytes / 2**20:.0f} MiB, expected {LEAST_MEMORY_BYTES / 2**20:.0f} for kubelet, agent "
                f"and a first Pod: {remedy}"
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
