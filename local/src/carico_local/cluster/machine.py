"""What this machine offers to emulated nodes: processors that may really be used, and free memory."""

import dataclasses
import os
import pathlib
import platform


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Processors (a quota on the whole container counts) and memory that can be had without swapping."""

    cpus: float
    memory_available_bytes: int
    memory_total_bytes: int
    processor: str
    kernel: str


def read_machine(root: pathlib.Path = pathlib.Path("/")) -> Machine:
    """Return the machine as the kernel describes it under `root`/proc and `root`/sys."""
    meminfo = _parse_meminfo(_read_text(root / "proc/meminfo"))
    total_bytes = meminfo.get("MemTotal", 0)
    return Machine(
        cpus=min(float(len(os.sched_getaffinity(0))), _quota_cpus(root)),
        memory_available_bytes=meminfo.get("MemAvailable", total_bytes),
        memory_total_bytes=total_bytes,
        processor=_parse_processor(_read_text(root / "proc/cpuinfo")) or platform.machine(),
        kernel=platform.release(),
    )


def _read_text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _parse_meminfo(text: str) -> dict[str, int]:
    """Return bytes by field of /proc/meminfo, whose unit "kB" is 1024 bytes (proc_meminfo(5))."""
    fields = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            fields[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return fields


def _parse_processor(text: str) -> str:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""


def _quota_cpus(root: pathlib.Path) -> float:
    """Return processors that a quota on the root cgroup (a container's own) leaves; infinite where there is none."""
    limit, _, period = _read_text(root / "sys/fs/cgroup/cpu.max").strip().partition(" ")
    if not limit:
        limit = _read_text(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").strip()
        period = _read_text(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()
    if not limit.isdigit() or not period.isdigit():  # "max", -1 or absent
        return float("inf")
    return int(limit) / int(period)
