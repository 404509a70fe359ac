"""`joint`: one Kalman filter with the state [baseline, cost] on `signal = baseline - cost x pods`.

Because it keeps the covariance of the two errors, a later Pod count corrects both: what looked like baseline during a
constant load becomes cost once the load changes. The dissertation (4.2.4) abandoned it because of oscillations. Its
published program computed each state from the one before the last, and its log shows the two interleaved chains
(tests/golden). Without that error, the filter does not oscillate on the same log.
"""

from dataclasses import dataclass, field

import numpy as np

from carico_core.numerics import arrays, kalman
from carico_core.numerics.estimators import base, scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class JointConstants(scalar.Constants):
    """Start values and noises; those of the cost are in scalar.Constants. The defaults are those of `dual`.

    adaptive_share: how far the cost's noise moves to its target with each update that has Pods, so that surprises
    (e^2 / S) make it learn faster; 0: not at all. calm_gain, surprised_gain: the gains of one Pod that the target aims
    at, below and above a surprise of `surprised_from`. Without Pods the noise is reset.
    """

    baseline_variance: float = field(default=0.01, metadata=scalar.VARIANCE)
    baseline_noise: float = field(default=1e-4, metadata=scalar.VARIANCE)
    decay_per_s: float = 0.05
    adaptive_share: float = 0.0
    calm_gain: float = 0.05
    surprised_gain: float = 0.3
    surprised_from: float = 0.1


# `dual`'s start and noises: on the author's own log they fit better than the ones published for this filter.
DEFAULT = JointConstants()
# From the header of the author's published log of 2025-05-21. The adaptive constants (here and in the fields' defaults)
# follow from the noises that the log prints; tests/golden replays them.
LOGGED = JointConstants(
    baseline_start=1.4,
    baseline_variance=1e-4,
    cost_variance=1e-3,
    cost_noise=1e-4,
    measurement_noise=1.0,
    decay_per_s=0.0,
    adaptive_share=0.1,
)


class Joint(scalar.Scalar[JointConstants]):
    """Learns baseline and cost together, with their covariance; not during churn."""

    __slots__ = ("_cost_noise", "_covariance", "_mean")

    def __init__(self, config: base.EstimatorConfig, constants: JointConstants = DEFAULT) -> None:
        super().__init__(config, constants)

    def _begin(self, constants: JointConstants) -> None:
        self._mean: arrays.Array = np.array([constants.baseline_start, constants.cost_start])
        self._covariance: arrays.Array = np.diag([constants.baseline_variance, constants.cost_variance])
        self._cost_noise = constants.cost_noise

    def _beliefs(self) -> scalar.Beliefs:
        (baseline, cost), (p_baseline, p_cost) = self._mean.tolist(), self._covariance.diagonal().tolist()
        return scalar.Beliefs(
            kalman.Belief(baseline, p_baseline), kalman.Belief(cost, p_cost), float(self._covariance[0, 1])
        )

    def _learn(self, level: float, pods: float) -> None:
        # z = baseline - cost n:  h = [1, -n]
        h = np.array([1.0, -pods])
        # e = z - h x
        innovation = level - float(h @ self._mean)
        # A signal of 0 means "0 or below": if the prediction is there too, it adds no information.
        if level <= 0.0 and innovation >= 0.0:
            return
        # P <- P + Q
        covariance = self._covariance + np.diag([self._constants.baseline_noise, self._cost_noise])
        r = self._constants.measurement_noise
        self._seen_pods = self._seen_pods or pods > 0.0
        self._adapt(innovation, float(h @ covariance @ h) + r, pods)
        mean, covariance = kalman.update_vector(self._mean, covariance, innovation=innovation, h=h, r=r)
        self._mean, self._covariance = mean, _sound(covariance)

    def _adapt(self, innovation: float, variance: float, pods: float) -> None:
        constants = self._constants
        if pods == 0.0:
            self._cost_noise = constants.cost_noise
        elif constants.adaptive_share > 0.0 and variance >= kalman.LEAST_VARIANCE:
            # v = e^2 / S,  S = h P h' + R
            surprise = innovation * innovation / variance
            surprised = surprise > constants.surprised_from
            gain = (constants.surprised_gain if surprised else constants.calm_gain) / pods
            # q <- (1 - a) q + a v R g / ((1 - g) n)
            target = surprise * constants.measurement_noise * gain / ((1.0 - gain) * pods)
            self._cost_noise += constants.adaptive_share * (target - self._cost_noise)

    def _rest(self, keep: float) -> None:
        cost = scalar.forget(self._beliefs().cost, self._constants, keep)
        # The covariance decays with the memory of the cost, which keeps the matrix positive semidefinite.
        shared = float(self._covariance[0, 1]) * keep
        self._mean = np.array([self._mean[0], cost.mean])
        self._covariance = np.array([[self._covariance[0, 0], shared], [shared, cost.variance]])


def _sound(covariance: arrays.Array) -> arrays.Array:
    # Keep it symmetric and its variances non-negative, however large a Pod count amplified the rounding.
    symmetric = 0.5 * (covariance + covariance.T)
    np.fill_diagonal(symmetric, np.maximum(symmetric.diagonal(), 0.0))
    return symmetric
