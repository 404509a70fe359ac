"""Memory of one cgroup in use: (usage - inactive page cache) / limit, as the kubelet's working set."""

import pathlib

from carico_agent.telemetry import cgroup_tree, kernel_file, port


class CgroupMemory:
    """What could not be taken back at once, as a share of the limit."""

    def __init__(self, group: cgroup_tree.Group, *, limit_bytes: float) -> None:
        """Raises `Absent` where its memory cannot be read."""
        self._limit_bytes = limit_bytes
        if group.layout is cgroup_tree.Layout.V2 and group.unified is not None:
            folder, usage, self._inactive = group.unified, "memory.current", b"inactive_file"
        elif "memory" in group.v1:
            folder, usage, self._inactive = group.v1["memory"], "memory.usage_in_bytes", b"total_inactive_file"
        else:
            raise port.Absent("memory of the cgroup", "no memory controller")
        self._usage = kernel_file.KernelFile(folder / usage, size=64)
        self._stat = kernel_file.KernelFile(folder / "memory.stat", size=8192)

    def read(self) -> float:
        """The share in use now."""
        usage = kernel_file.whole(self._usage.read(), what="memory usage")
        inactive = kernel_file.keyed(self._stat.read(), self._inactive, what="memory.stat")
        return min(1.0, max(0.0, (usage - inactive) / self._limit_bytes))


def limit_bytes(group: cgroup_tree.Group, *, host_bytes: float) -> float:
    """The group's memory limit, or the host's memory where that is smaller or there is no limit."""
    folder = group.unified if group.layout is cgroup_tree.Layout.V2 else group.v1.get("memory")
    if folder is None:
        return host_bytes
    name = "memory.max" if group.layout is cgroup_tree.Layout.V2 else "memory.limit_in_bytes"
    limit = _number(folder / name)
    return host_bytes if limit is None else min(limit, host_bytes)


def _number(path: pathlib.Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max": no limit
        return None
