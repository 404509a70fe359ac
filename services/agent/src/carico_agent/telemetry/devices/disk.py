"""The dimension "disk": the mean of the busiest device's busy share and the I/O pressure (PSI, "some").

A device is busy while it has a request, so a fast device reads full long before it is; the pressure shows whether tasks
wait for it. A cgroup's busy time is not counted (io.stat counts bytes): it is estimated by the cgroup's share of the
device's bytes. If the machine has only one of the two, that one is used.
https://docs.kernel.org/admin-guide/iostats.html, https://docs.kernel.org/admin-guide/cgroup-v2.html#io
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

from carico_agent.telemetry import port
from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.telemetry.proc import kernel_file, pressure
from carico_core.runtime.process import clock as clocks

# In /proc/diskstats, whatever the device's own sector size.
SECTOR_BYTES = 512
# major minor name, then ten fields up to the milliseconds of I/O; later kernels have more.
_FIELDS = 13
_READS, _SECTORS_READ, _WRITES, _SECTORS_WRITTEN, _BUSY_MS = 3, 5, 7, 9, 12


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The counters of one device since boot: time with a request, bytes read and written."""

    busy_ms: int
    moved_bytes: int


class Disk:
    """(busy + pressure) / 2, or the one of them that exists."""

    # A share of the busiest device's time.
    full = 1.0

    def __init__(self, parts: tuple[port.Gauge, ...]) -> None:
        self._parts = parts

    def read(self) -> float | None:
        """Return the share since the last read."""
        shares = [part.read() for part in self._parts]
        known = [share for share in shares if share is not None]
        return sum(known) / len(known) if len(known) == len(shares) else None


class HostBusy:
    """The busy share of the busiest device; partitions and volumes are listed too, but are never busier."""

    def __init__(self, proc: pathlib.Path, *, clock: clocks.Clock) -> None:
        """Raise `Absent` if no device is listed."""
        self._devices = _open_devices(proc)
        self._clock = clock
        self._last: tuple[Mapping[str, Device], float] | None = None

    def read(self) -> float | None:
        """Return the share of time in which the device had a request, since the last read."""
        found, now_s = parse_diskstats(self._devices.read_all()), self._clock.monotonic_s()
        last, self._last = self._last, (found, now_s)
        if last is None:
            return None
        before, elapsed_ms = last[0], (now_s - last[1]) * 1e3
        return _most(
            kernel_file.ratio(before[name].busy_ms, device.busy_ms, elapsed_ms)
            for name, device in found.items()
            if name in before  # a device that is new is measured from now on
        )


class CgroupBusy:
    """The busy share of the device that one cgroup keeps busiest."""

    def __init__(self, folder: pathlib.Path, proc: pathlib.Path, *, clock: clocks.Clock) -> None:
        """`folder`: of the cgroup in the unified tree. Raises `Absent` if its I/O is not counted."""
        self._stat = kernel_file.KernelFile(folder / "io.stat")
        self._devices = _open_devices(proc)
        self._clock = clock
        self._last: tuple[Mapping[str, Device], Mapping[str, int], float] | None = None

    def read(self) -> float | None:
        """Return the share of a device's time for the cgroup's requests, since the last read."""
        moved = parse_io_stat(self._stat.read_all())
        found, now_s = parse_diskstats(self._devices.read_all()), self._clock.monotonic_s()
        last, self._last = self._last, (found, moved, now_s)
        if last is None:
            return None
        before, moved_before, elapsed_ms = last[0], last[1], (now_s - last[2]) * 1e3
        shares = [
            # A device that the cgroup has not used yet is not listed: its count is 0.
            _part(before[name], device, (moved_before.get(name, 0), moved.get(name, 0)), elapsed_ms)
            for name, device in found.items()
            if name in before
        ]
        return _most(shares)


def open_disk(proc: pathlib.Path, *, clock: clocks.Clock, group: hierarchy.Group | None, notes: list[str]) -> Disk:
    """Return the disk of the host or of one cgroup.

    A missing part is noted in `notes`. Raises `Absent` if both are missing.
    """
    folder = proc / "pressure" if group is None else group.unified
    parts: list[port.Gauge] = []
    try:
        if folder is None:
            raise port.Absent("I/O of the cgroup", "no unified cgroup hierarchy is mounted")
        parts.append(HostBusy(proc, clock=clock) if group is None else CgroupBusy(folder, proc, clock=clock))
    except port.Absent as error:
        notes.append(f"no busy time of the disk, only I/O pressure is used: {error}")
    try:
        if folder is None:
            raise port.Absent("io.pressure", "no unified cgroup hierarchy is mounted")
        parts.append(pressure.Pressure(folder / ("io" if group is None else "io.pressure"), clock=clock))
    except port.Absent as error:
        if not parts:
            raise
        notes.append(f"no I/O pressure, only the disk's busy time is used: {error}")
    return Disk(tuple(parts))


def parse_diskstats(data: bytes) -> dict[str, Device]:
    """Return the devices that were ever used, by "major:minor"; machines list dozens of unused loop devices.

    >>> parse_diskstats(b"254 0 vda 9 0 16 5 9 0 8 5 0 70 10\\n")
    {'254:0': Device(busy_ms=70, moved_bytes=12288)}

    Raises `Broken`.
    """
    if not data.endswith(b"\n"):
        raise port.Broken("/proc/diskstats", data)
    found = {}
    for line in data.splitlines():
        words = line.split()
        if len(words) < _FIELDS:
            raise port.Broken("/proc/diskstats", line)
        if words[_READS] == words[_WRITES] == b"0":
            continue
        sectors = _whole(words[_SECTORS_READ]) + _whole(words[_SECTORS_WRITTEN])
        found[f"{_whole(words[0])}:{_whole(words[1])}"] = Device(
            busy_ms=_whole(words[_BUSY_MS]), moved_bytes=sectors * SECTOR_BYTES
        )
    return found


def parse_io_stat(data: bytes) -> dict[str, int]:
    """Return the bytes that a cgroup read and wrote, by "major:minor".

    >>> parse_io_stat(b"7:7 254:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\\n")
    {'254:0': 4608}

    Raises `Broken`.
    """
    found: dict[str, int] = {}
    device = ""
    # Some kernels print devices without counters on the line of the next one.
    for word in data.split():
        key, equals, value = word.partition(b"=")
        if not equals:
            if not word.replace(b":", b"", 1).isdigit():
                raise port.Broken("io.stat", data)
            device = word.decode("ascii")
        elif key in (b"rbytes", b"wbytes"):
            if not device:
                raise port.Broken("io.stat", data)
            found[device] = found.get(device, 0) + kernel_file.whole(value, what="io.stat")
    return found


def _part(before: Device, after: Device, moved: tuple[int, int], elapsed_ms: float) -> float | None:
    busy = kernel_file.ratio(before.busy_ms, after.busy_ms, elapsed_ms)
    if busy is None or moved[1] < moved[0] or after.moved_bytes < before.moved_bytes:
        return None
    # The cgroup's writes are in the page cache first, so they may be counted before the device's bytes.
    whole = max(after.moved_bytes - before.moved_bytes, moved[1] - moved[0])
    return busy * (moved[1] - moved[0]) / whole if whole else 0.0


def _open_devices(proc: pathlib.Path) -> kernel_file.KernelFile:
    file = kernel_file.KernelFile(proc / "diskstats", size=16384)
    if not file.read():
        raise port.Absent(str(file.path), "no block device is listed")
    return file


def _whole(word: bytes) -> int:
    return kernel_file.whole(word, what="/proc/diskstats")


def _most(shares: Iterable[float | None]) -> float | None:
    """Return the largest share; 0 if there is none, None if one has no sample."""
    found = list(shares)
    known = [share for share in found if share is not None]
    return max(known, default=0.0) if len(known) == len(found) else None
