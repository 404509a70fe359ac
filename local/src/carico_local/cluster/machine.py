"""What this machine offers to a cluster: usable processors, free memory, disk space."""

import asyncio
import dataclasses
import os
import pathlib
import platform
import shutil

from carico_agent.telemetry.cgroups import cpu_time
from carico_agent.telemetry.proc import kernel_file, meminfo
from carico_core.domain import amounts

# A job of some minutes writes a few MB (measured); no start fits into less than one.
LEAST_FREE_BYTES = 16 * 2**20
# Twice what a start needs, so that a disk does not count as full and as free again within one job.
ROOM_BYTES = 2 * LEAST_FREE_BYTES
DISK_LOOK_EVERY_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Processors (within a quota on the whole container) and memory that is available without swapping."""

    cpus: float
    memory_available_bytes: int
    processor: str
    kernel: str

    def described(self) -> dict[str, object]:
        """Return what a report states of it."""
        return {"cpus": self.cpus, "processor": self.processor, "kernel": self.kernel}


def read_machine(root: pathlib.Path = pathlib.Path("/")) -> Machine:
    """Read the machine's properties from `root`/proc and `root`/sys. Raises `Absent` or `Broken` as the agent does."""
    _, free_bytes = meminfo.parse_meminfo(kernel_file.KernelFile(root / "proc/meminfo").read())
    return Machine(
        cpus=min(float(len(os.sched_getaffinity(0))), _quota_cpus(root)),
        memory_available_bytes=int(free_bytes),
        processor=_parse_processor(_read_text(root / "proc/cpuinfo")) or platform.machine(),
        kernel=platform.release(),
    )


def _read_text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _parse_processor(text: str) -> str:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return ""


def _quota_cpus(root: pathlib.Path) -> float:
    """Return the processors that a quota on the root cgroup (a container's own) allows; infinite without a quota."""
    folder = root / "sys/fs/cgroup"
    found = cpu_time.quota_us(folder) or cpu_time.quota_us(folder / "cpu")
    return float("inf") if found is None else found[0] / found[1]


async def until_disk_recovers(folder: pathlib.Path) -> None:
    """Wait until the disk of a folder was seen full and has room again; changes between two looks are not seen."""
    was_full = False
    while True:
        await asyncio.sleep(DISK_LOOK_EVERY_S)
        try:
            free_bytes = shutil.disk_usage(folder).free
        except OSError:
            # The folder or its disk was removed: its state is unknown, and no service has to end for that.
            continue
        was_full = was_full or free_bytes < LEAST_FREE_BYTES
        if was_full and free_bytes >= ROOM_BYTES:
            return


def disk_shortage(folder: pathlib.Path) -> str | None:
    """Return a line that reports a full disk; None where the disk has room.

    It warns before services end, while a few minutes of logs, decisions and objects still fit.
    """
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes >= ROOM_BYTES:
        return None
    free = amounts.text("memory", free_bytes)
    return f"the disk of {folder} is full ({free} free): nothing is stored until there is room, and services may end"
