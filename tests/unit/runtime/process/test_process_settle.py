"""A process that has started leaves what lives then to itself, and returns what it does not need."""

import gc
import subprocess
import sys

from carico_core.runtime.process import memory_use


def test_what_lives_is_no_longer_looked_at() -> None:
    before = gc.get_freeze_count()
    try:
        memory_use.settle()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


LARGE = """
import ctypes
from carico_core.runtime.process import memory_use

class Info(ctypes.Structure):
    _fields_ = [(f"f{index}", ctypes.c_size_t) for index in range(10)]

info = getattr(ctypes.CDLL(None), "mallinfo2", None)
print(memory_use.return_large_blocks() and info is not None)
if info is not None:
    info.restype = Info
    for _ in range(2):
        before = info().f3  # blocks that are no part of the heap
        block = bytes(10 ** 6)
        print(info().f3 - before)
        del block
"""


def test_a_large_block_is_no_part_of_the_heap_also_after_one_was_freed() -> None:
    run = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True, timeout=120)
    does, *blocks = run.stdout.split()
    assert does == "False" or blocks == ["1", "1"]
