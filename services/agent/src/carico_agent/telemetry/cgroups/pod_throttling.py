"""How long the Pods of a node were throttled by their own CPU limits, from their cgroups' cpu.stat."""

import contextlib
import dataclasses
import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import cpu_time, hierarchy
from carico_agent.telemetry.proc import kernel_file

# Seconds between two scans for limits while the Pods do not change (limits can be resized in place).
RESCAN_S = 30.0


@dataclasses.dataclass(slots=True, kw_only=True)
class _Limited:
    """One cgroup with a quota, and the last value of its counter."""

    file: kernel_file.KernelFile
    period_s: float
    last_s: float | None = None

    def moved_s(self) -> float:
        try:
            data = self.file.read()
            now_s = _throttled_s(data)
        except (port.Broken, port.Absent):  # the Pod has just ended
            return 0.0
        last_s, self.last_s = self.last_s, now_s
        return 0.0 if last_s is None else max(0.0, now_s - last_s)


class PodThrottling:
    """Throttled CPU-seconds of all limited Pods of a node since the last read."""

    def __init__(self, folder: pathlib.Path) -> None:
        """`folder`: the node's, in the hierarchy with quotas."""
        self._folder = folder
        # Per Pod: its own cgroup, and those of its containers.
        self._pods: dict[pathlib.Path, tuple[list[_Limited], list[_Limited]]] = {}
        self.in_progress_s = 0.0

    @property
    def any_limit(self) -> bool:
        """Whether any Pod has a limit."""
        return bool(self._pods)

    def rescan(self) -> None:
        """Read the limits of the Pods that exist now. Counters of known Pods continue."""
        try:
            found = {pod: self._limits_of(pod) for pod in hierarchy.pods(self._folder)}
        except OSError:
            return  # too many open files: keep the known ones
        self._pods = {pod: limits for pod, limits in found.items() if limits[0] or limits[1]}

    def read(self) -> float:
        """Return throttled CPU-seconds since the last read; `in_progress_s`: at most this much is not counted yet."""
        total_s = 0.0
        self.in_progress_s = 0.0
        for own, containers in self._pods.values():
            # A throttled container prevents throttling of its Pod; if both count time, it is the same time.
            own_s = sum(limited.moved_s() for limited in own)
            inner_s = sum(limited.moved_s() for limited in containers)
            total_s += max(own_s, inner_s)
            self.in_progress_s += max((limited.period_s for limited in (*own, *containers)), default=0.0)
        return total_s

    def _limits_of(self, pod: pathlib.Path) -> tuple[list[_Limited], list[_Limited]]:
        if pod in self._pods:
            known = {limited.file.path.parent for limited in (*self._pods[pod][0], *self._pods[pod][1])}
            now = {path for path in (pod, *hierarchy.folders(pod)) if cpu_time.quota_us(path) is not None}
            if known == now:
                return self._pods[pod]
        return _limited([pod]), _limited(hierarchy.folders(pod))


def throttled_s(pod: pathlib.Path) -> float:
    """Return how long one Pod's own limits have held it back since it began, in CPU-seconds."""
    own_s, inner_s = (_total_s(folders) for folders in ([pod], hierarchy.folders(pod)))
    # A throttled container prevents throttling of its Pod; if both count time, it is the same time.
    return max(own_s, inner_s)


def _total_s(folders: list[pathlib.Path]) -> float:
    total_s = 0.0
    for folder in folders:
        with contextlib.suppress(OSError, port.Broken):  # it has just ended
            total_s += _throttled_s((folder / "cpu.stat").read_bytes())
    return total_s


def _limited(folders: list[pathlib.Path]) -> list[_Limited]:
    limits = [(folder, cpu_time.quota_us(folder)) for folder in folders]
    found: list[_Limited] = []
    for folder, quota in limits:
        if quota is None:
            continue
        try:
            found.append(_Limited(file=kernel_file.KernelFile(folder / "cpu.stat"), period_s=quota[1] * 1e-6))
        except port.Absent:
            continue
    return found


def _throttled_s(data: bytes) -> float:
    if b"throttled_usec " in data:
        return kernel_file.keyed(data, b"throttled_usec", what="cpu.stat") * 1e-6
    return kernel_file.keyed(data, b"throttled_time", what="cpu.stat") * 1e-9
