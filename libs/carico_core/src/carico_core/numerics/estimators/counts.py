"""The Pod count as telemetry shows it: late by the start lag, then through each dimension's own filter."""

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
        """Move on by one sample with the filter's gains; a sample that is no number counts as full."""
        shares = self._shares
        for index, (sample, gain) in enumerate(zip(samples, gains, strict=True)):
            full = 0.0 if sample < self._full_from else 1.0
            shares[index] += (gain if 0.0 <= gain <= 1.0 else min(max(gain, 0.0), 1.0)) * (full - shares[index])

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

    __slots__ = ("_due_s", "_pods", "_started", "_used", "_values", "_waiting", "start_lag_s", "steady_s")

    def __init__(self, dimensions: int, *, start_lag_s: float) -> None:
        self.start_lag_s = start_lag_s
        self._values = [0.0] * dimensions
        self._pods = -1.0
        # How long the count has stood still, to STEADY_LIMIT_S.
        self.steady_s = 0.0
        # Starts on their way: what is left of their lag, and how many Pods.
        self._due_s = [0.0] * SLOTS
        self._started = [0.0] * SLOTS
        # Slots from here on are free.
        self._used = 0
        self._waiting = False

    @property
    def values(self) -> list[float]:
        """x (d,); a copy."""
        return list(self._values)

    def value(self, index: int) -> float:
        """x of one dimension."""
        return self._values[index]

    @property
    def known(self) -> bool:
        """Whether a count has been seen."""
        return self._pods >= 0.0

    def tick(self, gains: list[float], pods: float, dt_s: float) -> None:
        """Move on by one sample with the filter's gains; the first count is taken as it is."""
        before = self._pods
        if before < 0.0:
            self._pods = pods
            self._values = [pods] * len(self._values)
            return
        if pods != before:
            self.steady_s = 0.0
        elif self.steady_s < STEADY_LIMIT_S:
            self.steady_s = min(self.steady_s + dt_s, STEADY_LIMIT_S)
        visible = self._visible(pods, dt_s) if self._waiting or pods != before else pods
        values = self._values
        for index, gain in enumerate(gains):
            # x_i <- x_i + alpha_i (n - x_i), alpha_i as the usage of dimension i used it
            values[index] += (gain if 0.0 <= gain <= 1.0 else min(max(gain, 0.0), 1.0)) * (visible - values[index])

    def tick_all(self, samples: list[tuple[float, float, float]]) -> None:
        """As `tick` for each (gain in [0, 1], Pods, seconds), for a count of one dimension; `steady_s` stays."""
        value = self._values[0]
        for gain, pods, dt_s in samples:
            before = self._pods
            if before < 0.0:
                self._pods = value = pods
                continue
            visible = self._visible(pods, dt_s) if self._waiting or pods != before else pods
            value += gain * (visible - value)
        self._values[0] = value

    def _visible(self, pods: float, dt_s: float) -> float:
        if self._waiting:
            self._arrive(dt_s)
        grown = pods - self._pods
        self._pods = pods
        if grown > 0.0 and self.start_lag_s > 0.0:
            self._depart(grown)
        return max(0.0, pods - sum(self._started)) if self._waiting else pods

    def _arrive(self, dt_s: float) -> None:
        due_s, started = self._due_s, self._started
        for slot in range(self._used):
            if not started[slot]:
                continue
            due_s[slot] -= dt_s
            if due_s[slot] <= DUE_EPSILON_S:
                due_s[slot] = started[slot] = 0.0
        self._waiting = any(started)
        if not self._waiting:
            self._used = 0

    def _depart(self, grown: float) -> None:
        started = self._started
        slot = started.index(0.0) if 0.0 in started else max(range(SLOTS), key=self._due_s.__getitem__)
        self._due_s[slot] = self.start_lag_s
        started[slot] += grown
        self._used = max(self._used, slot + 1)
        self._waiting = True


STEADY_LIMIT_S = 60.0
# Samples come every 0.1 s give or take: half a millisecond early is on time.
DUE_EPSILON_S = 5e-4
