"""The Pod count as telemetry shows it: late by the start lag, then through each dimension's own filter."""

import bisect

# Distinct starts that can be on their way at once: at 10 Hz and a lag of 1.5 s there are fifteen. Later ones join
# the last, so the state has a fixed size.
SLOTS = 16


class FullShare:
    """The share of each filtered usage that comes from samples at the end of their range.

    A filter takes a second or two to reach .97 on a node that went from half full to twice full, and every reading
    on the way falls short of the truth as the full one does.
    """

    __slots__ = ("_full_from", "_shares")

    def __init__(self, dimensions: int, *, full_from: float) -> None:
        self._full_from = full_from
        self._shares = [0.0] * dimensions

    def tick(self, samples: list[float], gains: list[float]) -> None:
        """Move on by one sample with the filter's gains in [0, 1]; a sample that is no number counts as full."""
        shares = self._shares
        for index, (sample, gain) in enumerate(zip(samples, gains, strict=True)):
            full = 0.0 if sample < self._full_from else 1.0
            shares[index] += gain * (full - shares[index])

    def full(self, usages: list[float]) -> list[bool]:
        """Whether each filtered usage may have ended short of the truth (d,)."""
        return [
            usage >= self._full_from or share > MOSTLY_OPEN for usage, share in zip(usages, self._shares, strict=True)
        ]


# Three full samples at the slow gain: what a container's start spike of 0.2 s does not reach.
MOSTLY_OPEN = 0.25


class FilteredCount:
    """x_i: the Pod count behind the same lag and gains as the usage of dimension i.

    A Pod counts from its container's start, but uses nothing until its program runs (`start_lag_s` later); an end
    shows at once. Without this a filtered usage meets a fresh count, and costs are learnt too low in every ramp.
    """

    __slots__ = ("_clock_s", "_hidden", "_pods", "_starts", "_values", "start_lag_s")

    def __init__(self, dimensions: int, *, start_lag_s: float) -> None:
        self.start_lag_s = start_lag_s
        self._values = [0.0] * dimensions
        self._pods = -1.0
        # Starts on their way, the first due first: when they are due, and how many Pods; and the Pods of all of them.
        self._starts: list[tuple[float, float]] = []
        self._hidden = 0.0
        # Runs as long as there are any.
        self._clock_s = 0.0

    def value(self, index: int) -> float:
        """x of one dimension."""
        return self._values[index]

    def tick(self, gains: list[float], pods: float, dt_s: float) -> None:
        """Move on by one sample with the filter's gains in [0, 1]; the first count is taken as it is."""
        before = self._pods
        if before < 0.0:
            self._pods = pods
            self._values = [pods] * len(self._values)
            return
        visible = self._visible(pods, dt_s) if self._starts or pods != before else pods
        values = self._values
        for index, gain in enumerate(gains):
            # x_i <- x_i + alpha_i (n - x_i), alpha_i as the usage of dimension i used it
            values[index] += gain * (visible - values[index])

    def _visible(self, pods: float, dt_s: float) -> float:
        if self._starts:
            self._clock_s += dt_s
            due_s = self._clock_s + DUE_EPSILON_S
            if self._starts[0][0] <= due_s:
                self._wait_for([start for start in self._starts if start[0] > due_s])
        grown = pods - self._pods
        self._pods = pods
        if grown > 0.0 and self.start_lag_s > 0.0:
            self._depart(grown)
        return pods - self._hidden if pods > self._hidden else 0.0

    def _depart(self, grown: float) -> None:
        starts = self._starts
        if len(starts) == SLOTS:
            grown += starts.pop()[1]
        if not starts:
            self._clock_s = 0.0
        bisect.insort(starts, (self._clock_s + self.start_lag_s, grown))
        self._wait_for(starts)

    def _wait_for(self, starts: list[tuple[float, float]]) -> None:
        self._starts = starts
        self._hidden = sum([pods for _, pods in starts], 0.0)


# Samples come every 0.1 s give or take: half a millisecond early is on time.
DUE_EPSILON_S = 5e-4
