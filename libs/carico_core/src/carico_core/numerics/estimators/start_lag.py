"""The start lag, measured: which delay of the Pod count explains best how usage changed."""

import math

from carico_core.numerics.estimators import counts

# Lags told apart. A container's program uses CPU about 0.2 s after its start (research/estimator.md); an agent that
# counts a Pod at its sandbox's creation sees 0.55 s median, 0.98 s at p90 (published event log).
CANDIDATES_S = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5)
# Comings and goings forgotten with this time constant: some rounds of Pods, yet soon enough when an image changes.
MEMORY_S = 120.0
# Another lag is taken from this many squared Pods of change on (the first two Pods of a cold node: waiting for more
# let a closed loop overshoot by half), where it leaves this share of what the present one leaves unexplained.
ENOUGH_CHANGE = 1.5
BETTER = 0.7

# Samples that wait to be taken through every candidate's filter together: one at a time, calls cost more than sums.
_WAITING_MOST = 16
# In squared Pods: less is a filter's tail, and dividing by it amplifies rounding.
LEAST_CHANGE = 1e-9


class StartLag:
    """One filtered count per candidate lag, and how well the changes of each explain the changes of usage."""

    __slots__ = ("_counts", "_level", "_products", "_shown", "_squares", "_usage_squares", "_waiting", "value_s")

    def __init__(self, start_lag_s: float) -> None:
        self.value_s = start_lag_s
        lags = sorted({*CANDIDATES_S, start_lag_s})
        self._counts = [counts.FilteredCount(1, start_lag_s=lag_s) for lag_s in lags]
        self._shown = [0.0] * len(lags)
        self._squares = [0.0] * len(lags)
        self._products = [0.0] * len(lags)
        self._usage_squares = 0.0
        # Samples not taken yet: gain, Pods and seconds.
        self._waiting: list[tuple[float, float, float]] = []
        # Usage at the last call, negative before the first and across readings that say nothing.
        self._level = -1.0

    def tick(self, gain: float, pods: float, dt_s: float) -> None:
        """Move every candidate on by one sample of the filter with its gain in [0, 1]."""
        self._waiting.append((gain, pods, dt_s))
        if len(self._waiting) == _WAITING_MOST:
            self._take()

    def judge(self, level: float, *, informative: bool, dt_s: float) -> float:
        """The lag to use (s), after one more usage reading; a full node's readings say nothing."""
        self._take()
        shown = [count.value(0) for count in self._counts]
        if informative and self._level >= 0.0:
            self._compare(level - self._level, shown, math.exp(-dt_s / MEMORY_S))
        self._level = level if informative else -1.0
        self._shown = shown
        return self.value_s

    def _take(self) -> None:
        for count in self._counts:
            count.tick_all(self._waiting)
        self._waiting = []

    def _compare(self, change: float, shown: list[float], keep: float) -> None:
        self._usage_squares = keep * self._usage_squares + change * change
        for index, (now, before) in enumerate(zip(shown, self._shown, strict=True)):
            came = now - before
            self._squares[index] = keep * self._squares[index] + came * came
            self._products[index] = keep * self._products[index] + came * change
        errors = [self._unexplained(index) for index in range(len(shown))]
        best = min(range(len(errors)), key=errors.__getitem__)
        used = next(index for index, count in enumerate(self._counts) if count.start_lag_s == self.value_s)
        if self._squares[best] >= ENOUGH_CHANGE and errors[best] < BETTER * errors[used]:
            self.value_s = self._counts[best].start_lag_s

    def _unexplained(self, index: int) -> float:
        # sum (dY - c dx)^2 at the best c >= 0:  sum dY^2 - (sum dx dY)^2 / sum dx^2
        product = self._products[index]
        if product <= 0.0 or self._squares[index] < LEAST_CHANGE:
            return self._usage_squares
        return self._usage_squares - product * product / self._squares[index]
