"""`dual`: the paper's two one-dimensional Kalman filters on `signal = baseline - cost x pods` (dissertation 4.2.4).

With the logged constants and no decay it reproduces the author's published run. Known weaknesses (docs/critiques.md):
at a constant Pod count baseline and cost cannot be told apart, and a moving model moves both.
"""

import dataclasses
import math
from dataclasses import dataclass

from carico_core.numerics import kalman
from carico_core.numerics.estimators import base

# The idle signal of the `trace` mode that the logged constants were chosen for.
LOGGED_IDLE_SIGNAL = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class DualConstants:
    """Start values and noises, in units of the signal (cost: signal per Pod).

    decay_per_s: how fast cost goes back to its start while no Pod runs. skip_saturated: True leaves out every reading
    of 0, as the paper's text says; the logged build, and the default, treat 0 as "at most 0".
    """

    baseline_start: float = LOGGED_IDLE_SIGNAL
    baseline_variance: float = 0.01
    baseline_noise: float = 1e-4
    # One Pod fills the node: a cold start that errs to the safe side.
    cost_start: float = 1.0
    cost_variance: float = 0.2
    cost_noise: float = 1e-3
    measurement_noise: float = 0.5
    # Published source 538bb5f; the build that made figure 4.9 had 0.
    decay_per_s: float = 0.05
    skip_saturated: bool = False

    def scaled(self, factor: float) -> "DualConstants":
        """The same filter for a signal `factor` times as large: means by it, variances by its square."""
        square = factor * factor
        return dataclasses.replace(
            self,
            baseline_start=self.baseline_start * factor,
            cost_start=self.cost_start * factor,
            baseline_variance=self.baseline_variance * square,
            cost_variance=self.cost_variance * square,
            baseline_noise=self.baseline_noise * square,
            cost_noise=self.cost_noise * square,
            measurement_noise=self.measurement_noise * square,
        )


# The author's published source (dualfilter.go) and logs.
LOGGED = DualConstants()


class Dual:
    """Baseline first, then cost with the new baseline; neither learns during churn."""

    __slots__ = ("_baseline", "_config", "_constants", "_cost", "_seen_pods", "_settled_scale")

    def __init__(self, config: base.EstimatorConfig, constants: DualConstants = LOGGED) -> None:
        self._config = config
        # The trace signal is free of scale. Any other is fitted to the first idle signal seen.
        self._settled_scale = config.signal_mode == "trace"
        self._seen_pods = False
        self._begin(constants)

    def tick(self, sample_y: object, gains: object, pods: int, dt_s: float) -> None:
        """Nothing: this model pairs the filtered signal with the Pod count as it is (and so trails it in ramps)."""

    def update(self, observation: base.Observation) -> base.CapacityEstimate:
        """The estimate after learning from one more signal, unless a container is starting or stopping."""
        level = self._level(observation.signal)
        pods = float(max(observation.pods, 0))
        if math.isfinite(observation.signal) and not observation.churning:
            self._fit_scale(level)
            self._learn(level, pods)
        if pods == 0.0:
            self._decay(base.elapsed(observation.dt_s))
        return self.estimate(observation)

    def estimate(self, observation: base.Observation) -> base.CapacityEstimate:
        """signal / cost while the signal can be trusted, else baseline / cost - pods."""
        pods = max(observation.pods, 0)
        level = self._level(observation.signal)
        mode = self._mode(level, observation.churning)
        baseline, cost = self._beliefs(level)
        predicted = mode in ("predicted", "saturated")
        room = baseline.mean - cost.mean * pods if predicted else level
        most = min(self._config.capacity_cap, float(max(0, self._config.pod_limit - pods)))
        # The signal is the measurement itself: only the prediction carries the baseline's variance.
        own = baseline.variance if predicted else 0.0
        capacity, spread = divide(max(0.0, room), cost, most=most, variance=own)
        return base.CapacityEstimate(
            capacity=capacity,
            capacity_sd=spread,
            bottleneck=base.SIGNAL if capacity < most else None,
            mode=mode,
            baseline={base.SIGNAL: (baseline.mean, math.sqrt(baseline.variance))},
            cost={base.SIGNAL: (cost.mean, math.sqrt(cost.variance))},
            filtered_pods=float(pods),
        )

    def _beliefs(self, level: float) -> tuple[kalman.Belief, kalman.Belief]:
        if self._settled_scale or level <= 0.0:
            return self._baseline, self._cost
        # Asked before the first update: one Pod fills the node at whatever scale the signal has.
        fitted = self._constants.scaled(level / LOGGED_IDLE_SIGNAL)
        return (
            kalman.Belief(fitted.baseline_start, fitted.baseline_variance),
            kalman.Belief(fitted.cost_start, fitted.cost_variance),
        )

    def _level(self, signal: float) -> float:
        # The agent caps its signal too; a reading that is no number counts as full, never as room.
        return min(max(signal, 0.0), self._config.capacity_cap) if math.isfinite(signal) else 0.0

    def _begin(self, constants: DualConstants) -> None:
        self._constants = constants
        self._baseline = kalman.Belief(constants.baseline_start, constants.baseline_variance)
        self._cost = kalman.Belief(constants.cost_start, constants.cost_variance)

    def _fit_scale(self, level: float) -> None:
        # s = idle signal / 1.3: x0 and sqrt(P0) scale by s, Q and R by s^2 (spec 3). A node that starts with Pods
        # has no idle signal yet: its first positive one stands in.
        if not self._settled_scale and level > 0.0:
            self._begin(self._constants.scaled(level / LOGGED_IDLE_SIGNAL))
            self._settled_scale = True

    def _learn(self, level: float, pods: float) -> None:
        constants = self._constants
        predicted = self._baseline.mean - self._cost.mean * pods
        # A signal of 0 stands for anything at or below 0: where the prediction is there too, it says nothing.
        if level <= 0.0 and (constants.skip_saturated or predicted <= 0.0):
            return
        # z = baseline - cost n, with cost held: h = 1
        baseline = kalman.predict(self._baseline, q=constants.baseline_noise)
        self._baseline = kalman.update(baseline, innovation=level - predicted, h=1.0, r=constants.measurement_noise)
        if pods == 0.0:
            return
        self._seen_pods = True
        # z = baseline - cost n, with the new baseline held: h = -n
        cost = kalman.predict(self._cost, q=constants.cost_noise)
        innovation = level - (self._baseline.mean - self._cost.mean * pods)
        self._cost = kalman.update(cost, innovation=innovation, h=-pods, r=constants.measurement_noise)

    def _decay(self, dt_s: float) -> None:
        # c <- c0 + (c - c0) exp(-decay dt), and its variance likewise: what is forgotten is no longer certain
        keep = math.exp(-self._constants.decay_per_s * dt_s)
        self._cost = kalman.Belief(
            self._constants.cost_start + (self._cost.mean - self._constants.cost_start) * keep,
            self._constants.cost_variance + (self._cost.variance - self._constants.cost_variance) * keep,
        )

    def _mode(self, level: float, churning: bool) -> base.Mode:
        if level <= 0.0:
            return "saturated"
        if churning:
            return "predicted"
        return "measured" if self._seen_pods else "warming"


def divide(room: float, cost: kalman.Belief, *, most: float, variance: float) -> tuple[float, float]:
    """(room / cost, its standard deviation), both at most `most`; `variance` is the room's own."""
    # A cost of nothing (or less: nothing in the paper's filter forbids it) would admit without end.
    if cost.mean <= 0.0 or room >= most * cost.mean:
        return (most if room > 0.0 else 0.0), most
    capacity = room / cost.mean
    # To first order: sd(a / c)^2 = (sd_a^2 + (a / c)^2 sd_c^2) / c^2
    spread = math.sqrt(variance + capacity * capacity * cost.variance) / cost.mean
    return capacity, min(spread, most)
