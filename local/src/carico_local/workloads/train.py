"""A memory-heavy workload: an array that grows step by step, then several passes of arithmetic over all of it."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from carico_local.workloads import pacing

# Block of a pass: about 0.05 ms per operation, well below the 0.3 ms share of a period at scale 1/8.
_BLOCK_BYTES = 128 * 1024
_ITEM_BYTES = 8
# Blocks are allocated in slabs of this size, so that the array grows gradually, like a data set being read.
_SLAB_BLOCKS = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result: bytes allocated, passes made, a checksum of the array, real CPU seconds used."""

    memory_bytes: int
    passes: int
    checksum: float
    cpu_s: float


def compute(*, memory_bytes: int, seconds: float, passes: int, scale: float, timer: pacing.Timer) -> Outcome:
    """Do `seconds` of work on one emulated core, in equal shares for building the array and for each pass."""
    pacer = pacing.Pacer(scale=scale, timer=timer)
    share_s = seconds * scale / (passes + 1)
    blocks: list[npt.NDArray[np.float64]] = []
    for block, total in _grow(memory_bytes):
        blocks.append(block)
        _work(block, pacer, until_cpu_s=share_s * len(blocks) / total, filling=True)
    for number in range(1, passes + 1):
        for index, block in enumerate(blocks, start=1):
            _work(block, pacer, until_cpu_s=share_s * (number + index / len(blocks)), filling=False)
    return Outcome(
        memory_bytes=sum(block.nbytes for block in blocks),
        passes=passes,
        checksum=float(sum(block[0] for block in blocks)),
        cpu_s=pacer.cpu_s,
    )


def _grow(memory_bytes: int) -> Iterator[tuple[npt.NDArray[np.float64], int]]:
    """Yield each new block, not yet touched, and the number of all blocks."""
    total = max(1, round(memory_bytes / _BLOCK_BYTES))
    items = _BLOCK_BYTES // _ITEM_BYTES
    for first in range(0, total, _SLAB_BLOCKS):
        slab = np.empty((min(_SLAB_BLOCKS, total - first), items))
        for block in slab:
            yield block, total


def _work(block: npt.NDArray[np.float64], pacer: pacing.Pacer, *, until_cpu_s: float, filling: bool) -> None:
    """Write the block at least once, and repeat until the thread's CPU time has reached `until_cpu_s`."""
    if filling:
        block.fill(0.5)
        pacer.pace()
    while True:
        # A contraction (its fixed point is the golden ratio), so every value stays finite.
        np.add(block, 1.0, out=block)
        np.sqrt(block, out=block)
        pacer.pace()
        if pacer.cpu_s >= until_cpu_s:
            return
