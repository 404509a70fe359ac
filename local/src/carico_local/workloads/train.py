"""A memory-heavy workload: an array that grows step by step, then several passes of arithmetic over all of it."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from carico_local.workloads import pacing

# Block of a pass: about 0.05 ms an operation, well below the 0.6 ms share of a 1/8-scale period.
_BLOCK_BYTES = 128 * 1024
_ITEM_BYTES = 8
# Blocks are allocated in slabs of this size: the array grows gradually, as a data set being read does.
_SLAB_BLOCKS = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was computed: bytes held, passes made, a checksum of the array, real CPU seconds used."""

    memory_bytes: int
    passes: int
    checksum: float
    cpu_s: float


def compute(*, memory_bytes: int, seconds: float, passes: int, scale: float, timer: pacing.Timer) -> Outcome:
    """Run `seconds` of work on one emulated core: one share builds the array, each pass is another."""
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
    """Yield each new block, not yet touched, and how many there will be."""
    total = max(1, round(memory_bytes / _BLOCK_BYTES))
    items = _BLOCK_BYTES // _ITEM_BYTES
    for first in range(0, total, _SLAB_BLOCKS):
        slab = np.empty((min(_SLAB_BLOCKS, total - first), items))
        for block in slab:
            yield block, total


def _work(block: npt.NDArray[np.float64], pacer: pacing.Pacer, *, until_cpu_s: float, filling: bool) -> None:
    """Write the block at least once, and again until the thread's CPU time has reached its mark."""
    if filling:
        block.fill(0.5)
        pacer.pace()
    while True:
        # A contraction (its fixed point is the golden ratio): every value stays finite for ever.
        np.add(block, 1.0, out=block)
        np.sqrt(block, out=block)
        pacer.pace()
        if pacer.cpu_s >= until_cpu_s:
            return
