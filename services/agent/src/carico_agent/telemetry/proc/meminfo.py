"""Host memory in use, from /proc/meminfo."""

import pathlib

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import kernel_file


class HostMemory:
    """1 - MemAvailable / MemTotal. The paper's MemFree + Buffers + Cached would count tmpfs as free."""

    def __init__(self, proc: pathlib.Path) -> None:
        """Raise `Absent` without /proc/meminfo."""
        self._file = kernel_file.KernelFile(proc / "meminfo")

    def read(self) -> float:
        """Return the share in use now."""
        total, free = parse_meminfo(self._file.read())
        return min(1.0, max(0.0, 1.0 - free / total))


def total_bytes(proc: pathlib.Path = pathlib.Path("/proc")) -> float:
    """Return the host's memory. Raises `Absent` or `Broken`."""
    return _total(kernel_file.KernelFile(proc / "meminfo").read())


def parse_meminfo(data: bytes) -> tuple[float, float]:
    """Return (total, free) in bytes. Raises `Broken`."""
    return _total(data), _bytes(data, b"MemAvailable")


def _total(data: bytes) -> float:
    total = _bytes(data, b"MemTotal")
    if total <= 0:
        raise port.Broken("/proc/meminfo", data)
    return total


def _bytes(data: bytes, key: bytes) -> float:
    start = 0 if data.startswith(key + b":") else data.find(b"\n" + key + b":") + 1
    words = data[start + len(key) + 1 :].split(b"\n", 1)[0].split()
    if not data[start:].startswith(key + b":") or len(words) != 2 or words[1] != b"kB":
        raise port.Broken("/proc/meminfo", data)
    return kernel_file.whole(words[0], what="/proc/meminfo") * 1024.0
