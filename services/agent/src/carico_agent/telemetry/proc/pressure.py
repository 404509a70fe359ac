"""Pressure (PSI, "some") of the host or of one cgroup, on CPU or I/O.

`Absent` (no CONFIG_PSI, psi=0, cgroup.pressure 0) is raised at construction, `Broken` (a truncated file) by a read.
https://docs.kernel.org/accounting/psi.html
"""

import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import kernel_file
from carico_core.runtime.process import clock as clocks

_SOME = b"some "
_TOTAL = b" total="


class Pressure:
    """d_total_us / d_elapsed_us of the "some" line."""

    def __init__(self, path: pathlib.Path, *, clock: clocks.Clock) -> None:
        """Raise `Absent` if the kernel has no PSI here."""
        self._file = kernel_file.KernelFile(path, size=256)
        self._file.read()
        self._clock = clock
        self._last: tuple[int, float] | None = None

    def read(self) -> float | None:
        """Return the share of time in which a task waited, since the last read."""
        try:
            total_us = parse_some(self._file.read(), what=str(self._file.path))
        except port.Absent as error:
            raise port.Broken(str(self._file.path), error.why) from None
        now_s = self._clock.monotonic_s()
        last, self._last = self._last, (total_us, now_s)
        if last is None:
            return None
        return kernel_file.ratio(last[0], total_us, (now_s - last[1]) * 1e6)


def parse_some(data: bytes, *, what: str = "cpu.pressure") -> int:
    """Return the microseconds of "some".

    >>> parse_some(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=42\\nfull avg10=0.00 avg60=0.00 total=0\\n")
    42

    Raises `Broken`.
    """
    line, newline, _ = data.partition(b"\n")
    start = line.rfind(_TOTAL)
    if not line.startswith(_SOME) or start < 0 or not newline:
        raise port.Broken(what, data)
    return kernel_file.whole(line[start + len(_TOTAL) :], what=what)
