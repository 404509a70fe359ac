"""`dual`: the paper's two one-dimensional Kalman filters on `signal = baseline - cost x pods` (dissertation 4.2.4).

With the logged constants and no decay it reproduces the author's published run. Known weaknesses (docs/critiques.md):
at a constant Pod count baseline and cost cannot be separated, and a moving model moves both.
"""

from dataclasses import dataclass, field

from carico_core.numerics import kalman
from carico_core.numerics.estimators import base, scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class DualConstants(scalar.Constants):
    """Start values and noises; those of the cost are in scalar.Constants.

    skip_saturated: True skips every reading of 0, as the paper's text says; the logged build, and the default, treat 0
    as "at most 0". signal_only: capacity is always signal / cost (equation 3.5); the default predicts it from baseline
    and cost (3.6) where the signal cannot be trusted. rests_certain: while no Pod runs, the cost's variance shrinks
    as the cost nears its start, so that a node that has rested learns slowly; by default it returns to its start too.
    """

    baseline_variance: float = field(default=0.01, metadata=scalar.VARIANCE)
    baseline_noise: float = field(default=1e-4, metadata=scalar.VARIANCE)
    # Published source 538bb5f; the build that made figure 4.9 had 0.
    decay_per_s: float = 0.05
    skip_saturated: bool = False
    signal_only: bool = False
    rests_certain: bool = False


# The author's published source (dualfilter.go) and logs.
LOGGED = DualConstants()
# The published source's filter, as it behaved on the author's cluster: it never calls equation 3.6, and its prediction
# decays the variance with the mean.
PUBLISHED = DualConstants(signal_only=True, rests_certain=True)


class Dual(scalar.Scalar[DualConstants]):
    """Updates the baseline first, then the cost with the new baseline; neither learns during churn."""

    __slots__ = ("_baseline", "_cost")

    def __init__(self, config: base.EstimatorConfig, constants: DualConstants = LOGGED) -> None:
        super().__init__(config, constants)

    def _begin(self, constants: DualConstants) -> None:
        self._baseline = kalman.Belief(constants.baseline_start, constants.baseline_variance)
        self._cost = kalman.Belief(constants.cost_start, constants.cost_variance)

    def _beliefs(self) -> scalar.Beliefs:
        return scalar.Beliefs(self._baseline, self._cost)

    def _learn(self, level: float, pods: float) -> None:
        constants = self._constants
        predicted = self._baseline.mean - self._cost.mean * pods
        # A signal of 0 means "0 or below": if the prediction is there too, it adds no information.
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

    def _mode(self, level: float, churning: bool) -> base.Mode:
        return super()._mode(level, churning and not self._constants.signal_only)

    def _predicts(self, mode: base.Mode) -> bool:
        return super()._predicts(mode) and not self._constants.signal_only

    def _rest(self, keep: float) -> None:
        if self._constants.rests_certain:
            # c <- c0 + F (c - c0), P <- F^2 P + Q
            start = self._constants.cost_start
            mean = start + (self._cost.mean - start) * keep
            self._cost = kalman.Belief(mean, self._cost.variance * keep * keep + self._constants.cost_noise)
            return
        self._cost = scalar.forget(self._cost, self._constants, keep)
