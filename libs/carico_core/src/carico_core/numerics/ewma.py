"""The dynamic EMA of dissertation 4.2.2: slow while a change is new, fast once it lasts.

The spike of a container's start or stop lasts about 200 ms, so at 10 Hz a change is real from the fourth sample on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class EmaConstants:
    """Gains per sample. From `fast_from` consecutive samples in one direction on, the fast gain is used."""

    up_slow: float = 0.09
    up_fast: float = 0.333
    down_slow: float = 0.0625
    down_fast: float = 0.2
    fast_from: int = 4

    def __post_init__(self) -> None:
        gains = (self.up_slow, self.up_fast, self.down_slow, self.down_fast)
        if not all(0 < gain <= 1 for gain in gains) or self.fast_from < 1:
            raise ValueError(f"ema: expected gains in (0, 1] and fast_from >= 1, got {gains} and {self.fast_from}")


# The author's published agent log of 2025-05-21 shows these four gains and no other.
LOGGED = EmaConstants()


class DynamicEma:
    """A filter per dimension, whose gain depends on how long the change has lasted.

    Consecutive samples are counted per dimension. With `shared_counter` all dimensions share one counter, in their
    order, as in the author's logged build. Plain floats inside: at d = 2 the overhead of numpy calls exceeds the
    arithmetic.
    """

    __slots__ = ("_constants", "_gains", "_runs", "_shared", "_values")

    def __init__(self, constants: EmaConstants = LOGGED, shared_counter: bool = False) -> None:
        self._constants = constants
        self._shared = shared_counter
        self._values: list[float] | None = None
        self._gains: list[float] = []
        # Consecutive samples in one direction: positive upwards, negative downwards, limited to +-fast_from.
        self._runs: list[int] = []

    @property
    def value(self) -> arrays.Array | None:
        """The filtered values (d,); None before the first sample."""
        return None if self._values is None else np.array(self._values)

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

    def follow(self, values: arrays.Array, gain: arrays.Array) -> arrays.Array:
        """Return the values (d,) of a filter that uses another filter's gains, so that both lag equally.

        The counters do not change: a filter either measures its own direction or follows, never both.
        """
        if self._values is None:
            self._start(values.tolist())
            return np.array(self._values)
        held = self._values
        self._gains = gain.tolist()
        for index, (sample, factor) in enumerate(zip(values.tolist(), self._gains, strict=True)):
            held[index] += factor * (sample - held[index])
        return np.array(held)

    def _start(self, samples: Sequence[float]) -> None:
        self._values = list(samples)
        # The first sample is taken as it is.
        self._gains = [1.0] * len(samples)
        self._runs = [0] * (1 if self._shared else len(samples))

    def _gain(self, counter: int, change: float) -> float:
        constants = self._constants
        run = self._runs[counter]
        if change > 0:
            self._runs[counter] = run = min(run, constants.fast_from - 1) + 1 if run > 0 else 1
            return constants.up_fast if run >= constants.fast_from else constants.up_slow
        if change < 0:
            self._runs[counter] = run = max(run, 1 - constants.fast_from) - 1 if run < 0 else -1
            return constants.down_fast if -run >= constants.fast_from else constants.down_slow
        # No change: neither direction is counted. The gain has no effect here, but a filter that follows this one (the
        # Pod count) must keep moving when an idle node reads the same number twice.
        return constants.up_fast
