"""Host CPU utilisation from the first line of /proc/stat."""

import os
import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import kernel_file

# user nice system idle iowait irq softirq steal; guest and guest_nice follow, and are already included in user and
# nice: https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat
FIELDS = 8
IDLE = 3
IOWAIT = 4


class HostUtilisation:
    """1 - (d_idle + d_iowait) / d_all, over all CPUs of the host."""

    def __init__(self, proc: pathlib.Path) -> None:
        self._file = kernel_file.KernelFile(proc / "stat")
        self._last: tuple[int, int] | None = None
        self._cores = float(os.cpu_count() or 1)

    @property
    def cores(self) -> float:
        """Online CPUs of the host."""
        return self._cores

    def read(self) -> float | None:
        """Return the busy share since the last read."""
        idle, total = parse_cpu_line(self._file.read())
        last, self._last = self._last, (idle, total)
        if last is None:
            return None
        free = kernel_file.share(last[0], idle, last[1], total)
        return None if free is None else 1.0 - free


def parse_cpu_line(data: bytes) -> tuple[int, int]:
    """Return (idle + iowait, all) in ticks.

    >>> parse_cpu_line(b"cpu  4 0 2 90 4 0 0 0 0 0\\ncpu0 ...")
    (94, 100)

    Raises `Broken`.
    """
    line = data.split(b"\n", 1)[0].split()
    if len(line) <= IOWAIT + 1 or line[0] != b"cpu" or b"\n" not in data:
        raise port.Broken("/proc/stat", data)
    fields = [kernel_file.whole(field, what="/proc/stat") for field in line[1 : FIELDS + 1]]
    return fields[IDLE] + fields[IOWAIT], sum(fields)
