"""Programs that wait, as most do: phases of computing threads, of waiting for disk, network or time, and of memory.

`carico_twin.nodes.work` has the same ones for the twin.
"""

import dataclasses
import mmap
import threading
from collections.abc import Mapping

from carico_local.workloads import pacing

GIB = 2**30
# Block of the computation: as in `train`, well below a period's share.
_BLOCK_ITEMS = 16 * 1024
_PAGE_BYTES = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """`seconds` alone on a node of threads that compute; threads 0: a wait. memory_bytes: held, times the scale."""

    seconds: float
    threads: int = 0
    memory_bytes: float = 0.0


def _profile(*phases: Phase, rounds: int, first: tuple[Phase, ...] = ()) -> tuple[Phase, ...]:
    return (*first, *phases * rounds)


PROFILES: Mapping[str, tuple[Phase, ...]] = {
    # A duty cycle, as of a crawler.
    "io": _profile(
        Phase(seconds=0.5, threads=1, memory_bytes=0.1 * GIB), Phase(seconds=1.0, memory_bytes=0.1 * GIB), rounds=8
    ),
    # Threads that change, as in the stages of a pipeline.
    "stages": _profile(
        Phase(seconds=1.0, memory_bytes=0.3 * GIB),
        Phase(seconds=1.0, threads=1, memory_bytes=0.3 * GIB),
        Phase(seconds=1.0, threads=4, memory_bytes=0.3 * GIB),
        Phase(seconds=1.5, memory_bytes=0.3 * GIB),
        Phase(seconds=1.0, threads=2, memory_bytes=0.3 * GIB),
        rounds=2,
    ),
    # A peak at the start, as of a runtime that compiles its code.
    "boot": _profile(
        Phase(seconds=0.4, threads=1, memory_bytes=0.3 * GIB),
        Phase(seconds=1.2, memory_bytes=0.3 * GIB),
        rounds=6,
        first=(Phase(seconds=1.0, threads=4, memory_bytes=0.6 * GIB),),
    ),
    # Memory that comes and goes, as of a cache.
    "cache": _profile(
        Phase(seconds=1.0, threads=1, memory_bytes=0.2 * GIB),
        Phase(seconds=2.0, threads=1, memory_bytes=1.2 * GIB),
        Phase(seconds=1.5, memory_bytes=0.2 * GIB),
        rounds=3,
    ),
}


def alone_s(name: str) -> float:
    """Return how long a program takes on a node of its own."""
    return sum(phase.seconds for phase in PROFILES[name])


def cores(name: str) -> float:
    """Return how many cores it uses on average."""
    return sum(phase.threads * phase.seconds for phase in PROFILES[name]) / alone_s(name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result: real CPU seconds used by all threads, seconds waited, and the most memory that was held."""

    cpu_s: float
    waited_s: float
    memory_bytes: int


def compute(name: str, *, seconds: float, scale: float, timer: pacing.Timer) -> Outcome:
    """Go through the program's phases, stretched so that they take `seconds` alone."""
    stretch = seconds / alone_s(name)
    memory = _Memory()
    used_s = waited_s = 0.0
    most = 0
    try:
        for phase in PROFILES[name]:
            memory.resize(round(phase.memory_bytes * scale))
            most = max(most, memory.size)
            if phase.threads:
                used_s += _spin(phase.threads, cpu_s=phase.seconds * stretch * scale, scale=scale, timer=timer)
            else:
                timer.sleep(phase.seconds * stretch)
                waited_s += phase.seconds * stretch
    finally:
        memory.resize(0)
    return Outcome(cpu_s=used_s, waited_s=waited_s, memory_bytes=most)


class _Memory:
    """Pages of the kernel's, which it takes back at once: what an allocator gets it may keep."""

    def __init__(self) -> None:
        self.size = 0
        self._pages: mmap.mmap | None = None

    def resize(self, size: int) -> None:
        """Hold and touch this many bytes."""
        if size == self.size:
            return
        if self._pages is not None:
            self._pages.close()
        self._pages = mmap.mmap(-1, size) if size else None
        self.size = size
        if self._pages is not None:
            for offset in range(0, size, _PAGE_BYTES):
                self._pages[offset] = 1


def _spin(threads: int, *, cpu_s: float, scale: float, timer: pacing.Timer) -> float:
    """Compute for so many CPU seconds in each thread, and return those of all."""
    # Imported here: `carico status` reads this module's figures alone. A node has imported it before.
    import numpy as np

    used: list[float] = []

    def work() -> None:
        # numpy releases the interpreter's lock, so that threads run side by side.
        block = np.full(_BLOCK_ITEMS, 0.5)
        pacer = pacing.Pacer(scale=scale, timer=timer)
        while pacer.cpu_s < cpu_s:
            np.add(block, 1.0, out=block)
            np.sqrt(block, out=block)
            pacer.pace()
        used.append(pacer.cpu_s)

    others = [threading.Thread(target=work) for _ in range(threads - 1)]
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()
    return sum(used)
