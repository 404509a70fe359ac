"""How often Python's garbage collector looks through a process's memory."""

import contextlib
import gc
from collections.abc import Iterator

# By default it looks once there are 700 objects more. What our services take in makes no cycles and is freed by its
# counts; with 100,000 Pods known, looking through them for nothing took a fifth of the time of a scheduler's intake,
# and 10 to 20 % of that of an aggregator that takes in all it can (bench/scheduler.py, bench/aggregator.py).
_THRESHOLDS = (50_000, 50, 100)


@contextlib.contextmanager
def seldom_looked_for() -> Iterator[None]:
    """A stretch of the program in which the collector runs seldom."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
