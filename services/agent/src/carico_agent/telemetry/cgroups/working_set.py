"""Memory of one cgroup in use: (usage - inactive page cache) / limit, as the kubelet's working set."""

import pathlib
from collections.abc import Sequence

from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.telemetry.proc import kernel_file


class CgroupMemory:
    """Memory that cannot be reclaimed at once, as a share of the limit."""

    def __init__(self, group: hierarchy.Group, *, limit_bytes: float) -> None:
        """Raise `Absent` if its memory cannot be read."""
        self._limit_bytes = limit_bytes
        if group.layout is hierarchy.Layout.V2 and group.unified is not None:
            folder, usage, self._inactive = group.unified, "memory.current", b"inactive_file"
        elif "memory" in group.v1:
            folder, usage, self._inactive = group.v1["memory"], "memory.usage_in_bytes", b"total_inactive_file"
        else:
            raise port.Absent("memory of the cgroup", "no memory controller")
        self._usage = kernel_file.KernelFile(folder / usage, size=64)
        self._stat = kernel_file.KernelFile(folder / "memory.stat", size=8192)

    def read(self) -> float:
        """Return the share in use now."""
        usage = kernel_file.whole(self._usage.read(), what="memory usage")
        inactive = kernel_file.keyed(self._stat.read(), self._inactive, what="memory.stat")
        return min(1.0, max(0.0, (usage - inactive) / self._limit_bytes))


def bound(lineage: Sequence[hierarchy.Group], *, host_bytes: float) -> tuple[float, hierarchy.Group]:
    """Return the smallest limit of a cgroup and its parents, and the cgroup whose usage counts against it."""
    # Of equal limits, the topmost: more processes use it.
    limits = [(limit_bytes(group, host_bytes=host_bytes), group) for group in reversed(lineage)]
    least = min(limits, key=lambda limit: limit[0])
    return least if least[0] < host_bytes else (host_bytes, lineage[0])


def limit_bytes(group: hierarchy.Group, *, host_bytes: float) -> float:
    """Return the cgroup's memory limit, or the host's memory if that is smaller or there is no limit.

    v1 also reports the limits of all parents, visible here or not; v2 only the cgroup's own limit.
    """
    limits: list[float | None] = []
    if group.layout is hierarchy.Layout.V2 and group.unified is not None:
        limits = [_number(group.unified / "memory.max")]
    elif (folder := group.v1.get("memory")) is not None:
        limits = [_number(folder / "memory.limit_in_bytes"), _hierarchical(folder / "memory.stat")]
    return min([host_bytes, *(limit for limit in limits if limit is not None)])


def _number(path: pathlib.Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max": no limit
        return None


def _hierarchical(stat: pathlib.Path) -> float | None:
    # Documentation/admin-guide/cgroup-v1/memory.rst, 5.2
    try:
        return float(kernel_file.keyed(stat.read_bytes(), b"hierarchical_memory_limit", what="memory.stat"))
    except (OSError, port.Broken):
        return None
