"""Host memory in use, from /proc/meminfo."""

import enum
import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import kernel_file


class FreeBy(enum.StrEnum):
    """What counts as free: MemAvailable (default), or the paper's MemFree + Buffers + Cached, which includes tmpfs."""

    AVAILABLE = "available"
    PAPER = "paper"


_KEYS = {FreeBy.AVAILABLE: (b"MemAvailable",), FreeBy.PAPER: (b"MemFree", b"Buffers", b"Cached")}


class HostMemory:
    """1 - free / MemTotal."""

    def __init__(self, proc: pathlib.Path = pathlib.Path("/proc"), *, free_by: FreeBy = FreeBy.AVAILABLE) -> None:
        """Raise `Absent` without /proc/meminfo."""
        self._file = kernel_file.KernelFile(proc / "meminfo")
        self._free_by = free_by

    def read(self) -> float:
        """Return the share in use now."""
        total, free = parse_meminfo(self._file.read(), self._free_by)
        return min(1.0, max(0.0, 1.0 - free / total))


def total_bytes(proc: pathlib.Path = pathlib.Path("/proc")) -> float:
    """Return the host's memory. Raises `Absent` or `Broken`."""
    return parse_meminfo(kernel_file.KernelFile(proc / "meminfo").read(), FreeBy.PAPER)[0]


def parse_meminfo(data: bytes, free_by: FreeBy) -> tuple[float, float]:
    """Return (total, free) in bytes. Raises `Broken`."""
    total = _bytes(data, b"MemTotal")
    free = sum(_bytes(data, key) for key in _KEYS[free_by])
    if total <= 0:
        raise port.Broken("/proc/meminfo", data)
    return total, free


def _bytes(data: bytes, key: bytes) -> float:
    start = 0 if data.startswith(key + b":") else data.find(b"\n" + key + b":") + 1
    words = data[start + len(key) + 1 :].split(b"\n", 1)[0].split()
    if not data[start:].startswith(key + b":") or len(words) != 2 or words[1] != b"kB":
        raise port.Broken("/proc/meminfo", data)
    return kernel_file.whole(words[0], what="/proc/meminfo") * 1024.0
