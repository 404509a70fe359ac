"""One cgroup, with the same path in every tree in use: created, limited, read, emptied and removed."""

import contextlib
import dataclasses
import math
import os
import pathlib
import signal
import time
from collections.abc import Iterator, Sequence

from carico_local.cgroups import delegation
from carico_local.cgroups import layout as layouts

# An empty group may be busy while the kernel frees its last task: retry for 2 s.
_REMOVE_TRIES = 200
_REMOVE_PAUSE_S = 0.01
# Documentation/scheduler/sched-bwc.rst
_QUOTA_LEAST_US = 1000
_PERIOD_MOST_US = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cgroup at `path`, relative to the mount point of every tree of `layout`."""

    layout: layouts.Layout
    path: str

    def child(self, name: str) -> "Group":
        """Return the group `name` below this one."""
        return Group(layout=self.layout, path=f"{self.path}/{name}")

    @property
    def directories(self) -> tuple[pathlib.Path, ...]:
        """The group's directory in each tree."""
        return tuple(root / self.path for root in self.layout.roots)

    @property
    def procs_files(self) -> tuple[str, ...]:
        """The files to which a process id is written to move the process here."""
        return tuple(str(directory / "cgroup.procs") for directory in self.directories)

    def exists(self) -> bool:
        """Return True where the group exists in any tree."""
        return any(directory.is_dir() for directory in self.directories)

    def create(self, *, welcome: Sequence[str] = ()) -> None:
        """Create the group in every tree; on v2 with cpu, memory, and the available ones of `welcome`.

        Raises OSError.
        """
        for directory in self.directories:
            directory.mkdir(parents=True, exist_ok=True)
        if self.layout.version is layouts.Version.V2:
            delegation.pass_down_to(self.path, root=self.layout.trees[layouts.UNIFIED], welcome=welcome)

    def set_cpu(self, *, cores: float, period_us: int) -> None:
        """Limit the group to `cores` real CPUs per period, which may be lengthened (see `quota`). Raises OSError."""
        quota_us, period_us = quota(cores=cores, period_us=period_us)
        if "cpu" in self.layout.trees:
            directory = self.layout.trees["cpu"] / self.path
            (directory / "cpu.cfs_period_us").write_text(str(period_us), encoding="ascii")
            (directory / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")
        elif layouts.UNIFIED in self.layout.trees:
            (self.layout.trees[layouts.UNIFIED] / self.path / "cpu.max").write_text(
                f"{quota_us} {period_us}", encoding="ascii"
            )

    def set_cpu_weight(self, *, shares: int) -> None:
        """Set the group's CPU weight among its siblings, 2 to 2**18 as on v1. Raises OSError."""
        if "cpu" in self.layout.trees:
            (self.layout.trees["cpu"] / self.path / "cpu.shares").write_text(str(shares), encoding="ascii")
        elif layouts.UNIFIED in self.layout.trees:
            file = self.layout.trees[layouts.UNIFIED] / self.path / "cpu.weight"
            file.write_text(str(weight(shares)), encoding="ascii")

    def set_memory(self, limit_bytes: int) -> None:
        """Limit the group's memory, on v2 without swap, as a kubelet does. Raises OSError."""
        if "memory" in self.layout.trees:
            directory = self.layout.trees["memory"] / self.path
            (directory / "memory.limit_in_bytes").write_text(str(limit_bytes), encoding="ascii")
        elif layouts.UNIFIED in self.layout.trees:
            directory = self.layout.trees[layouts.UNIFIED] / self.path
            (directory / "memory.max").write_text(str(limit_bytes), encoding="ascii")
            # Otherwise memory above the limit would go to swap, and no process would ever be OOMKilled.
            if (directory / "memory.swap.max").exists():
                (directory / "memory.swap.max").write_text("0", encoding="ascii")

    def end_as_one(self) -> None:
        """Have the kernel kill all of the group's processes when one is OOM-killed; only on v2. Raises OSError.

        A kubelet does the same for containers on v2 (its singleProcessOOMKill is off by default).
        """
        if "memory" not in self.layout.trees and layouts.UNIFIED in self.layout.trees:
            file = self.layout.trees[layouts.UNIFIED] / self.path / "memory.oom.group"
            # Linux 4.19
            if file.exists():
                file.write_text("1", encoding="ascii")

    def oom_kills(self) -> int:
        """Return how many processes of this group the kernel has OOM-killed; 0 where that is unknown."""
        if "memory" in self.layout.trees:
            text = _read(self.layout.trees["memory"] / self.path / "memory.oom_control")
        else:
            text = _read(
                self.layout.trees.get(layouts.UNIFIED, pathlib.Path("/nonexistent")) / self.path / "memory.events"
            )
        return int(parse_flat(text).get("oom_kill", 0))

    def memory_used_bytes(self) -> int | None:
        """Return the memory in use without reclaimable cache: usage - inactive_file; None if unknown."""
        tree = "memory" if "memory" in self.layout.trees else layouts.UNIFIED
        if tree not in self.layout.trees:
            return None
        directory = self.layout.trees[tree] / self.path
        usage = _read(directory / ("memory.usage_in_bytes" if tree == "memory" else "memory.current"))
        stat = parse_flat(_read(directory / "memory.stat"))
        if not usage.strip().isdigit():
            return None
        inactive = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        return max(0, int(usage) - inactive)

    def pids(self) -> frozenset[int]:
        """Return the processes in this group and all groups below it, in any tree."""
        found: set[int] = set()
        for top in self.directories:
            for directory in _walk(top):
                found.update(int(word) for word in _read(directory / "cgroup.procs").split() if word != "0")
        return frozenset(found)

    def kill(self) -> None:
        """Send SIGKILL to every process in this group and below, including those forked meanwhile."""
        if layouts.UNIFIED in self.layout.trees:
            with contextlib.suppress(OSError):
                # A single write that covers concurrent forks too (Linux 5.14, Documentation/admin-guide/cgroup-v2.rst).
                (self.layout.trees[layouts.UNIFIED] / self.path / "cgroup.kill").write_text("1", encoding="ascii")
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to every process in this group and below."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def try_remove(self) -> bool:
        """Remove the group with all groups below; return False while processes are still in it."""
        for top in self.directories:
            for directory in _walk(top):
                with contextlib.suppress(OSError):
                    directory.rmdir()
        return not self.exists()

    def destroy(self) -> bool:
        """Kill every process here and remove the group; return False where that fails. Blocks for about 2 s at most."""
        for _ in range(_REMOVE_TRIES):
            self.kill()
            if self.try_remove():
                return True
            time.sleep(_REMOVE_PAUSE_S)
        return False


def quota(*, cores: float, period_us: int) -> tuple[int, int]:
    """Return quota and period in microseconds: the kernel accepts quotas of at least 1 ms in periods of 1 ms to 1 s.

    >>> quota(cores=0.5, period_us=10_000), quota(cores=0.025, period_us=10_000)
    ((5000, 10000), (1000, 40000))
    """
    fitting_us = min(max(period_us, round(_QUOTA_LEAST_US / cores)), _PERIOD_MOST_US)
    return max(_QUOTA_LEAST_US, round(cores * fitting_us)), fitting_us


def weight(shares: int) -> int:
    """Return v2's cpu.weight for v1's cpu.shares: a curve through minimum, default and maximum of both scales.

    Source: ConvertCPUSharesToCgroupV2Value of opencontainers/cgroups v0.0.6, used by the kubelet 1.36 and by runc from
    1.3.2 on. Earlier versions interpolate linearly, which gives 39 for 1024 shares.

    >>> weight(2), weight(102), weight(1024), weight(2**18)
    (1, 17, 100, 10000)
    """
    if shares <= 2:
        return 1
    if shares >= 2**18:
        return 10_000
    scale = math.log2(shares)
    return math.ceil(math.pow(10.0, (scale * scale + 125.0 * scale) / 612.0 - 7.0 / 34.0))


def parse_flat(text: str) -> dict[str, int]:
    """Return keys and numbers of a flat keyed file such as memory.stat; other lines are skipped.

    >>> parse_flat("oom_kill_disable 0\\noom_kill 2")
    {'oom_kill_disable': 0, 'oom_kill': 2}
    """
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].lstrip("-").isdigit()}


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _walk(top: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield directories at and below `top`, deepest first, as rmdir needs them."""
    for directory, _, _ in os.walk(top, topdown=False):
        yield pathlib.Path(directory)
