"""How often Python's garbage collector looks through the scheduler's memory."""

import contextlib
import gc
from collections.abc import Iterator

# Advertisements and Pods make no cycles and are freed by their counts; with 100,000 Pods known, the default of 700
# spent a fifth of the intake's time on looking through them for nothing (bench/scheduler.py).
_THRESHOLD = (50_000, 50, 100)


@contextlib.contextmanager
def relaxed() -> Iterator[None]:
    """A stretch of the program in which the collector runs seldom."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
