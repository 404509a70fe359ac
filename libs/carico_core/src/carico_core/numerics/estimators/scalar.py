"""What the scalar estimators share: one signal, `signal = baseline - cost x pods`, and the capacity from it.

They differ in how they learn baseline and cost. All of them fit the scale to the first signal and learn nothing during
churn; capacity is `signal / cost` while the signal can be trusted, else `baseline / cost - pods`.
"""

import abc
import dataclasses
import math
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Self, TypeVar

from carico_core.numerics import kalman
from carico_core.numerics.estimators import base

# The idle signal in `trace` mode, which the logged constants were chosen for.
LOGGED_IDLE_SIGNAL = 1.3
# More Pods than any node has; its square times any variance here cannot overflow.
MOST_PODS = 10**9
# How constants scale with the signal: means with its factor, variances with its square.
MEAN = {"power": 1}
VARIANCE = {"power": 2}


class Beliefs(NamedTuple):
    """Baseline and cost (signal per Pod) of a node, and the covariance of their errors."""

    baseline: kalman.Belief
    cost: kalman.Belief
    covariance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Start values and noises, in units of the signal (cost: signal per Pod); noises are per update.

    decay_per_s: how fast the cost returns to its start value while no Pod runs.
    """

    baseline_start: float = field(default=LOGGED_IDLE_SIGNAL, metadata=MEAN)
    # One Pod fills the node: a cold start on the safe side.
    cost_start: float = field(default=1.0, metadata=MEAN)
    cost_variance: float = field(default=0.2, metadata=VARIANCE)
    cost_noise: float = field(default=1e-3, metadata=VARIANCE)
    measurement_noise: float = field(default=0.5, metadata=VARIANCE)
    decay_per_s: float = 0.0

    def scaled(self, factor: float) -> Self:
        """Return the constants for a signal that is `factor` times as large."""
        powers = {one.name: one.metadata["power"] for one in dataclasses.fields(self) if "power" in one.metadata}
        return dataclasses.replace(
            self, **{name: getattr(self, name) * factor**power for name, power in powers.items()}
        )


C = TypeVar("C", bound=Constants)


class Scalar(abc.ABC, Generic[C]):
    """An estimator of one signal; subclasses keep and learn the beliefs."""

    __slots__ = ("_config", "_constants", "_seen_pods", "_settled_scale")

    def __init__(self, config: base.EstimatorConfig, constants: C) -> None:
        self._config = config
        # The trace signal has no scale. The scale of any other is fitted to the first signal.
        self._settled_scale = config.signal_mode == "trace"
        # Whether a cost has been learnt from Pods.
        self._seen_pods = False
        self._constants = constants
        self._begin(constants)

    @abc.abstractmethod
    def _begin(self, constants: C) -> None:
        """Reset everything to these start values."""

    @abc.abstractmethod
    def _beliefs(self) -> Beliefs:
        """Return the current beliefs."""

    @abc.abstractmethod
    def _learn(self, level: float, pods: float) -> None:
        """Learn from a signal that can be trusted; 0 means "0 or below"."""

    def _rest(self, keep: float) -> None:
        """Decay the cost towards its start value, keeping the share `keep`, while no Pod runs."""

    def tick(self, sample_y: object, gains: object, pods: int, dt_s: float) -> None:
        """Do nothing: these models compare the filtered signal with the unfiltered Pod count (and lag in ramps)."""

    def update(self, observation: base.Observation) -> base.CapacityEstimate:
        """Return the estimate after one more signal; learn from it unless a container is starting or stopping."""
        level = self._level(observation.signal)
        pods = _count(observation.pods)
        if math.isfinite(observation.signal) and not observation.churning:
            self._fit_scale(level)
            self._learn(level, pods)
        if pods == 0.0:
            self._rest(math.exp(-self._constants.decay_per_s * base.elapsed(observation.dt_s)))
        return self.estimate(observation)

    def estimate(self, observation: base.Observation) -> base.CapacityEstimate:
        """Return signal / cost while the signal can be trusted, else baseline / cost - pods."""
        pods = _count(observation.pods)
        level = self._level(observation.signal)
        mode = self._mode(level, observation.churning)
        beliefs = self._fitted(level)
        most = min(base.CAPACITY_CAP, max(0.0, self._config.pod_limit - pods))
        if self._predicts(mode):
            capacity, spread = predicted(beliefs, pods, most=most)
        else:
            capacity, spread = measured(level, beliefs.cost, most=most)
        if pods == 0.0 and level > 0.0:
            # An empty node with any room takes one Pod; otherwise a cold cluster would never learn a cost.
            capacity = max(capacity, min(1.0, most))
        baseline, cost, _ = beliefs
        return base.CapacityEstimate(
            capacity=capacity,
            capacity_sd=spread,
            bottleneck=base.SIGNAL if capacity < most else None,
            mode=mode,
            baseline={base.SIGNAL: (baseline.mean, math.sqrt(baseline.variance))},
            cost={base.SIGNAL: (cost.mean, math.sqrt(cost.variance))},
            filtered_pods=pods,
        )

    def _level(self, signal: float) -> float:
        # The agent caps its signal too; a signal that is not finite counts as full, never as room.
        return min(max(signal, 0.0), base.CAPACITY_CAP) if math.isfinite(signal) else 0.0

    def _fit_scale(self, level: float) -> None:
        # s = idle signal / 1.3: x0 and sqrt(P0) scale by s, Q and R by s^2. A node that starts with Pods has
        # no idle signal yet: its first positive signal is used instead.
        if not self._settled_scale and level > 0.0:
            self._constants = self._constants.scaled(level / LOGGED_IDLE_SIGNAL)
            self._begin(self._constants)
            self._settled_scale = True

    def _fitted(self, level: float) -> Beliefs:
        if self._settled_scale or level <= 0.0:
            return self._beliefs()
        # Before the first update: one Pod fills the node, whatever the scale of the signal.
        factor = level / LOGGED_IDLE_SIGNAL
        baseline, cost, covariance = self._beliefs()
        return Beliefs(_times(baseline, factor), _times(cost, factor), covariance * factor * factor)

    def _predicts(self, mode: base.Mode) -> bool:
        """Return whether capacity comes from baseline and cost, since the signal does not show it.

        A full node's may, as long as the baseline is still learnt from readings of 0.
        """
        return mode in ("predicted", "saturated")

    def _mode(self, level: float, churning: bool) -> base.Mode:
        if level <= 0.0:
            return "saturated"
        if churning:
            return "predicted"
        return "measured" if self._seen_pods else "warming"


def measured(level: float, cost: kalman.Belief, *, most: float) -> tuple[float, float]:
    """Return (signal / cost, its standard deviation), both at most `most` Pods; the signal counts as exact."""
    if _endless(level, cost.mean, most):
        return (most if level > 0.0 else 0.0), most
    capacity = level / cost.mean
    # To first order: sd(z / c) = (z / c) sd_c / c
    return capacity, min(capacity * math.sqrt(cost.variance) / cost.mean, most)


def predicted(beliefs: Beliefs, pods: float, *, most: float) -> tuple[float, float]:
    """Return (baseline / cost - pods or 0, its standard deviation), both at most `most` Pods."""
    baseline, cost, covariance = beliefs
    room = max(0.0, baseline.mean - cost.mean * pods)
    if _endless(room, cost.mean, most):
        return (most if room > 0.0 else 0.0), most
    # Clipped to the range of the result, so that the square cannot overflow if the cost is almost 0.
    fits = min(max(baseline.mean / cost.mean, 0.0), most + pods)
    # To first order: var(b / c) = (var_b - 2 (b / c) cov_bc + (b / c)^2 var_c) / c^2
    variance = baseline.variance - 2.0 * fits * covariance + fits * fits * cost.variance
    return room / cost.mean, min(math.sqrt(max(variance, 0.0)) / cost.mean, most)


def forget(belief: kalman.Belief, constants: Constants, keep: float) -> kalman.Belief:
    """Return a cost that decays towards its start value, and its variance likewise."""
    # c <- c0 + (c - c0) exp(-decay dt)
    return kalman.Belief(
        constants.cost_start + (belief.mean - constants.cost_start) * keep,
        constants.cost_variance + (belief.variance - constants.cost_variance) * keep,
    )


def _endless(room: float, cost: float, most: float) -> bool:
    # A cost of 0 or less (these filters allow it) would admit without limit.
    return cost <= 0.0 or room >= most * cost


def _times(belief: kalman.Belief, factor: float) -> kalman.Belief:
    return kalman.Belief(belief.mean * factor, belief.variance * factor * factor)


def _count(pods: int) -> float:
    return float(min(max(pods, 0), MOST_PODS))
