"""The size of a container, from its own cgroup, and whether its CPU pressure can be read there."""

import dataclasses
import os
import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import cpu_time, hierarchy, working_set
from carico_agent.telemetry.proc import kernel_file, meminfo
from carico_core.domain import errors

# Kubelet and agent take 110 MiB (measured). With less, the kernel would kill the import without an error of ours.
LEAST_MEMORY_BYTES = 192 * 2**20
PROC = pathlib.Path("/proc")
# In a container, its own group is the root of the mounted tree.
OWN_GROUP = "."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a container may use.

    `without`: why its CPU pressure cannot be read from its cgroup; empty where it can. `free_bytes`: free memory of the
    machine, whatever the container's limit is.
    """

    real_cores: float
    memory_bytes: int
    free_bytes: int
    without: str


def read(proc: pathlib.Path = PROC) -> Size:
    """Return the size of this container; the machine's where it has no limits."""
    text = kernel_file.KernelFile(proc / "meminfo").read()
    host_bytes, free_bytes = (int(each) for each in meminfo.parse_meminfo(text))
    machine_cores = float(os.cpu_count() or 1)
    try:
        group = hierarchy.discover(proc / "mounts").group(OWN_GROUP)
    except port.Absent as error:
        return Size(real_cores=machine_cores, memory_bytes=host_bytes, free_bytes=free_bytes, without=str(error))
    return Size(
        real_cores=min(cpu_time.quota_cores(group) or machine_cores, machine_cores),
        memory_bytes=int(working_set.limit_bytes(group, host_bytes=host_bytes)),
        free_bytes=free_bytes,
        without=_without(group),
    )


def check(found: Size) -> None:
    """Raise `EnvironmentUnfit` where kubelet, agent and a first Pod do not fit into the memory."""
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


def _without(group: hierarchy.Group) -> str:
    if group.pressure is None:
        return f"containers have no unified cgroup tree on this machine ({group.layout} cgroups)"
    try:
        # Where the kernel was started with psi=0, the file exists but cannot be read.
        group.pressure.read_bytes()
    except OSError as error:
        return f"{group.pressure}: {error.strerror}"
    return ""
