"""Measures the node's processes, if no cgroup may be created or read: the fallback of emulated nodes.

A node's processes are the descendants of one process (the emulated node). The node's quota is not enforced on them, so
usage above it counts as pressure, as throttling would: with u CPUs used, w tasks waiting for a CPU (run delay), a
quota of q real CPUs and n cores,

    utilisation = min(1, u / q)        pressure = min(1, max(0, u / q - 1) + w / n)

which for paced Pods rises like the cgroup's figures: full utilisation at n Pods, full pressure at 2 n.
"""

import dataclasses
import os
import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import kernel_file
from carico_core.runtime.process import clock as clocks

# Seconds between two scans of /proc for new processes (1.5 ms each on a machine with a hundred of them).
SCAN_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """The fields of /proc/<pid>/stat that are used."""

    parent: int
    cpu_s: float
    threads: int
    started_ticks: int


@dataclasses.dataclass(slots=True, kw_only=True)
class _Known:
    started_ticks: int
    cpu_s: float
    delay_s: float


class ProcessTable:
    """Totals of the processes below `root_pid`. They only grow: the usage of ended processes stays."""

    def __init__(self, root_pid: int, *, clock: clocks.Clock, proc: pathlib.Path) -> None:
        """Raise `Absent` if the process does not exist."""
        self._root_pid = root_pid
        self._proc = proc
        self._clock = clock
        self._known: dict[int, _Known] = {}
        self._scanned_s: float | None = None
        self.cpu_s = 0.0
        self.delay_s = 0.0
        if self._stat(root_pid) is None:
            raise port.Absent(f"process {root_pid}", "not running")

    def refresh(self) -> None:
        """Update the totals."""
        now_s = self._clock.monotonic_s()
        if self._scanned_s is None or now_s - self._scanned_s >= SCAN_S:
            self._find(first=self._scanned_s is None)
            self._scanned_s = now_s
        for pid in list(self._known):
            self._follow(pid)

    def resident_bytes(self) -> float:
        """Return the private memory of the processes: resident without shared."""
        pages = 0
        for pid in self._known:
            words = self._read(pid, "statm").split()
            if len(words) >= 3:
                pages += kernel_file.whole(words[1], what="statm") - kernel_file.whole(words[2], what="statm")
        return float(pages * _PAGE_BYTES)

    def _follow(self, pid: int) -> None:
        known = self._known[pid]
        stat = self._stat(pid)
        if stat is None or stat.started_ticks != known.started_ticks:  # ended, or its pid was reused
            del self._known[pid]
            return
        delay_s = self._delay_s(pid, stat.threads)
        self.cpu_s += max(0.0, stat.cpu_s - known.cpu_s)
        self.delay_s += max(0.0, delay_s - known.delay_s)
        known.cpu_s, known.delay_s = stat.cpu_s, delay_s

    def _find(self, *, first: bool) -> None:
        stats = {int(name): stat for name in self._pids() if (stat := self._stat(int(name))) is not None}
        below = {self._root_pid}
        # A parent may have a higher pid than its child: repeat until nothing is added.
        while grown := {pid for pid, stat in stats.items() if stat.parent in below and pid not in below}:
            below |= grown
        for pid in below - {self._root_pid} - self._known.keys():
            stat = stats[pid]
            # Usage before the first scan is older than this agent, and does not count.
            cpu_s, delay_s = (stat.cpu_s, self._delay_s(pid, stat.threads)) if first else (0.0, 0.0)
            self._known[pid] = _Known(started_ticks=stat.started_ticks, cpu_s=cpu_s, delay_s=delay_s)

    def _delay_s(self, pid: int, threads: int) -> float:
        if threads <= 1:
            return parse_delay_s(self._read(pid, "schedstat"))
        names = kernel_names(self._proc / str(pid) / "task")
        return sum(parse_delay_s(self._read(pid, f"task/{name}/schedstat")) for name in names)

    def _stat(self, pid: int) -> ProcessStat | None:
        data = self._read(pid, "stat")
        return parse_stat(data) if data else None

    def _pids(self) -> list[str]:
        return [name for name in kernel_names(self._proc) if name.isdigit()]

    def _read(self, pid: int, name: str) -> bytes:
        try:
            return (self._proc / str(pid) / name).read_bytes()
        except OSError as error:  # it has ended
            if kernel_file.is_exhausted(error):
                raise port.Broken(str(self._proc), error.strerror) from None
            return b""


class ProcessUtilisation:
    """min(1, u / q)."""

    def __init__(self, table: ProcessTable, *, quota_cores: float, clock: clocks.Clock) -> None:
        self._table = table
        self._clock = clock
        self._last: tuple[float, float] | None = None
        self.cores = quota_cores
        # u / q of the last read; the pressure needs the part above 1.
        self.demand = 0.0

    def read(self) -> float | None:
        """Return the share of the quota used since the last read."""
        self._table.refresh()
        now_s, cpu_s = self._clock.monotonic_s(), self._table.cpu_s
        last, self._last = self._last, (now_s, cpu_s)
        if last is None or now_s <= last[0]:
            return None
        self.demand = (cpu_s - last[1]) / (now_s - last[0]) / self.cores
        return min(1.0, self.demand)


class ProcessPressure:
    """min(1, max(0, u / q - 1) + w / n); read after the utilisation of the same table."""

    def __init__(
        self, table: ProcessTable, utilisation: ProcessUtilisation, *, cores: float, clock: clocks.Clock
    ) -> None:
        self._table = table
        self._utilisation = utilisation
        self._cores = cores
        self._clock = clock
        self._last: tuple[float, float] | None = None

    def read(self) -> float | None:
        """Return the pressure since the last read."""
        now_s, delay_s = self._clock.monotonic_s(), self._table.delay_s
        last, self._last = self._last, (now_s, delay_s)
        if last is None or now_s <= last[0]:
            return None
        waiting = (delay_s - last[1]) / (now_s - last[0])
        return min(1.0, max(0.0, self._utilisation.demand - 1.0) + waiting / self._cores)


class ProcessMemory:
    """Resident memory of the processes over the node's."""

    def __init__(self, table: ProcessTable, *, limit_bytes: float) -> None:
        self._table = table
        self._limit_bytes = limit_bytes

    def read(self) -> float:
        """Return the share in use now."""
        return min(1.0, max(0.0, self._table.resident_bytes() / self._limit_bytes))


def parse_stat(data: bytes) -> ProcessStat:
    """Return one process. The command may contain spaces and brackets, so fields are counted from the last bracket.

    Raises `Broken`.
    """
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        raise port.Broken("/proc/<pid>/stat", data)
    # proc(5) counts from 1 with pid and comm: ppid 4, utime 14, stime 15, num_threads 20, starttime 22.
    parent, utime, stime, threads, started = (
        kernel_file.whole(fields[place - 3], what="/proc/<pid>/stat") for place in (4, 14, 15, 20, 22)
    )
    return ProcessStat(parent=parent, cpu_s=(utime + stime) / _TICKS_PER_S, threads=threads, started_ticks=started)


def parse_delay_s(data: bytes) -> float:
    """Return seconds spent waiting for a CPU, the second field of schedstat; 0 if the thread has ended.

    >>> parse_delay_s(b"1000000 2500000000 7\\n")
    2.5
    """
    words = data.split()
    return kernel_file.whole(words[1], what="schedstat") * 1e-9 if len(words) == 3 else 0.0


def kernel_names(folder: pathlib.Path) -> list[str]:
    """Return the names in a folder of /proc; none if it disappeared.

    Raises `Broken` if file descriptors or memory are exhausted.
    """
    try:
        return os.listdir(folder)
    except OSError as error:
        if kernel_file.is_exhausted(error):
            raise port.Broken(str(folder), error.strerror) from None
        return []
