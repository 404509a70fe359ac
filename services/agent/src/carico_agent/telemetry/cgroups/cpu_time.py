"""CPU utilisation of one cgroup, relative to the smallest of its quota, its parents' quotas and its cpuset."""

import os
import pathlib
from collections.abc import Sequence

from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.telemetry.proc import kernel_file
from carico_core.runtime.process import clock as clocks

# Samples between two reads of the quota: 10 s at 10 Hz. Nodes are rarely resized.
QUOTA_EVERY = 100


class CgroupUtilisation:
    """d_usage / (d_elapsed x real CPUs the group may use)."""

    def __init__(
        self, lineage: Sequence[hierarchy.Group], *, clock: clocks.Clock, most_cores: float | None = None
    ) -> None:
        """`lineage`: the cgroup and its parents; `most_cores`: an upper bound besides their quotas.

        Raises `Absent` if its CPU time cannot be read.
        """
        self._lineage = lineage
        self._clock = clock
        self._most = most_cores
        self._last: tuple[float, float] | None = None
        self._reads = 0
        self._cores, self._group = self.bound()
        self._file, self._unit_s = _usage_file(self._group)

    @property
    def cores(self) -> float:
        """Real CPUs that the cgroup may use."""
        return self._cores

    def read(self) -> float | None:
        """Return the share of its CPUs that was used since the last read.

        If a parent's quota is the limit, all usage of that parent counts: the Pods of a kubelet in a container with a
        quota share it with the kubelet itself.
        """
        self._reads += 1
        if self._reads % QUOTA_EVERY == 0:
            self._update_bound()
        used_s = self._used_s()
        now_s = self._clock.monotonic_s()
        last, self._last = self._last, (used_s, now_s)
        if last is None:
            return None
        return kernel_file.ratio(last[0], used_s, (now_s - last[1]) * self._cores)

    def _update_bound(self) -> None:
        cores, group = self.bound()
        if group != self._group:
            self._file, self._unit_s = _usage_file(group)
            self._group, self._last = group, None
        self._cores = cores

    def _used_s(self) -> float:
        data = self._file.read()
        if self._group.layout is hierarchy.Layout.V2:
            return kernel_file.keyed(data, b"usage_usec", what="cpu.stat") * self._unit_s
        return kernel_file.whole(data, what="cpuacct.usage") * self._unit_s

    def bound(self) -> tuple[float, hierarchy.Group]:
        """Return the real CPUs that the cgroup may use now, and the cgroup whose usage counts."""
        own = self._lineage[0]
        # Of equal quotas, the topmost: more processes use it.
        quotas = [(quota_cores(group), group) for group in reversed(self._lineage)]
        listed = next((cores for group in self._lineage if (cores := cpuset_cores(group)) is not None), None)
        bounds = [*quotas, (self._most, own), (listed, own)]
        known = [(cores, group) for cores, group in bounds if cores is not None]
        return min(known, key=lambda bound: bound[0], default=(float(os.cpu_count() or 1), own))


def quota_cores(group: hierarchy.Group) -> float | None:
    """Return the CPUs that a cgroup's quota allows; None if it has none."""
    if group.cpu is None:
        return None
    bandwidth = quota_us(group.cpu)
    return None if bandwidth is None else bandwidth[0] / bandwidth[1]


def quota_us(folder: pathlib.Path) -> tuple[int, int] | None:
    """Return (quota, period) of a cgroup's folder in microseconds, v1 or v2; None if it has no quota."""
    try:
        words = _text(folder / "cpu.max").split() or [
            _text(folder / "cpu.cfs_quota_us").strip(),
            _text(folder / "cpu.cfs_period_us").strip(),
        ]
        quota, period = int(words[0]), int(words[1])
    except (ValueError, IndexError):  # "max", or no such files
        return None
    return (quota, period) if quota > 0 and period > 0 else None


def cpuset_cores(group: hierarchy.Group) -> float | None:
    """Return the number of CPUs in a cgroup's effective cpuset; None if it cannot be read."""
    folder = group.unified if group.layout is hierarchy.Layout.V2 else group.v1.get("cpuset")
    if folder is None:
        return None
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus")
    listed = next((text for name in names if (text := _text(folder / name).strip())), "")
    try:
        return float(count_cpus(listed)) if listed else None
    except ValueError:
        return None


def count_cpus(listed: str) -> int:
    """Return the number of CPUs in a kernel list.

    >>> count_cpus("0-3,8,10-11")
    7
    """
    ends = [part.partition("-") for part in listed.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def _usage_file(group: hierarchy.Group) -> tuple[kernel_file.KernelFile, float]:
    if group.layout is hierarchy.Layout.V2 and group.unified is not None:
        return kernel_file.KernelFile(group.unified / "cpu.stat"), 1e-6
    if "cpuacct" not in group.v1:
        raise port.Absent("CPU time of the cgroup", "no cpuacct controller")
    return kernel_file.KernelFile(group.v1["cpuacct"] / "cpuacct.usage", size=64), 1e-9


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
