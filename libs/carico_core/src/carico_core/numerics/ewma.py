"""The dynamic EMA of dissertation 4.2.2: slow while a change is new, fast once it lasts.

The spike of a container's start or stop lasts about 200 ms, so at 10 Hz a change is real from the fourth sample on.
"""

from collections.abc import Sequence

import numpy as np

from carico_core.numerics import arrays

# Gains per sample: the author's published agent log of 2025-05-21 shows these four and no other.
UP_SLOW = 0.09
UP_FAST = 0.333
DOWN_SLOW = 0.0625
DOWN_FAST = 0.2
# From this many consecutive samples in one direction on, the fast gain is used.
FAST_FROM = 4


class DynamicEma:
    """A filter per dimension, whose gain depends on how long the change has lasted.

    Consecutive samples are counted per dimension. With `shared_counter` all dimensions share one counter, in their
    order, as in the author's logged build. Plain floats inside: at d = 2 the overhead of numpy calls exceeds the
    arithmetic.
    """

    __slots__ = ("_gains", "_runs", "_shared", "_values")

    def __init__(self, *, shared_counter: bool = False) -> None:
        self._shared = shared_counter
        self._values: list[float] | None = None
        self._gains: list[float] = []
        # Consecutive samples in one direction: positive upwards, negative downwards, limited to +-FAST_FROM.
        self._runs: list[int] = []

    @property
    def last_gain(self) -> arrays.Array:
        """The gain of each dimension in the last update (d,); all 1 for the first sample, empty before it."""
        return np.array(self._gains)

    @property
    def gains(self) -> Sequence[float]:
        """The same as `last_gain`, to read before the next update."""
        return self._gains

    def update(self, values: arrays.Array) -> arrays.Array:
        """Return the filtered values (d,) after one more sample; the first sample passes unchanged."""
        return np.array(self.step(values.tolist()))

    def step(self, samples: Sequence[float]) -> list[float]:
        """Do the same with plain numbers."""
        held = self._values
        if held is None:
            self._start(samples)
            return list(samples)
        if len(samples) != len(held):
            raise ValueError(f"ema: expected {len(held)} dimensions, got {len(samples)}")
        for index, sample in enumerate(samples):
            change = sample - held[index]
            gain = self._gain(0 if self._shared else index, change)
            self._gains[index] = gain
            # y <- y + alpha (x - y)
            held[index] += gain * change
        return held.copy()

    def _start(self, samples: Sequence[float]) -> None:
        self._values = list(samples)
        # The first sample is taken as it is.
        self._gains = [1.0] * len(samples)
        self._runs = [0] * (1 if self._shared else len(samples))

    def _gain(self, counter: int, change: float) -> float:
        run = self._runs[counter]
        if change > 0:
            self._runs[counter] = run = min(run, FAST_FROM - 1) + 1 if run > 0 else 1
            return UP_FAST if run >= FAST_FROM else UP_SLOW
        if change < 0:
            self._runs[counter] = run = max(run, 1 - FAST_FROM) - 1 if run < 0 else -1
            return DOWN_FAST if -run >= FAST_FROM else DOWN_SLOW
        # No change: neither direction is counted. The gain has no effect here, but the Pod count, which is filtered by
        # the same gains, must keep moving when an idle node reads the same number twice.
        return UP_FAST
