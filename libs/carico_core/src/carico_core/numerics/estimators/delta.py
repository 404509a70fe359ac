"""`delta`: one Kalman filter on the cost alone, which learns from the fall of the signal when Pods start.

`change of signal = -cost x change of pods` (dissertation 4.2.4). A slowly moving level does not disturb it, since only
changes count. It has no baseline: during churn it uses the last signal that could be trusted, with the Pods of that
moment, and a full node offers nothing. Known weakness: the filtered signal is still falling when a start is first read,
so costs come out low (0.12 when two Pods took 0.19 each in the author's log), and nothing corrects that later.
"""

import math
from dataclasses import dataclass, field

from carico_core.numerics import kalman
from carico_core.numerics.estimators import base, scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaConstants(scalar.Constants):
    """Start value and noises of the cost.

    least_drop: a smaller fall of the signal (or a rise) when Pods start is ignored. one_sided: a fall to 0 counts as
    "at least this far"; the logged build took it literally, and so learnt too little on a full node.
    """

    cost_variance: float = field(default=0.1, metadata=scalar.VARIANCE)
    cost_noise: float = field(default=0.01, metadata=scalar.VARIANCE)
    measurement_noise: float = field(default=0.1, metadata=scalar.VARIANCE)
    least_drop: float = field(default=1e-3, metadata=scalar.MEAN)
    one_sided: bool = True


# From the author's published source (generator.go) and the header of the log of 2025-05-21, which show no decay.
LOGGED = DeltaConstants(one_sided=False)
# The same numbers: no better ones are known.
DEFAULT = DeltaConstants()


class Delta(scalar.Scalar[DeltaConstants]):
    """Learns the cost; keeps the last signal that could be trusted, and the Pods of that moment."""

    __slots__ = ("_anchor", "_cost", "_last")

    def __init__(self, config: base.EstimatorConfig, constants: DeltaConstants = DEFAULT) -> None:
        super().__init__(config, constants)

    def _begin(self, constants: DeltaConstants) -> None:
        self._cost = kalman.Belief(constants.cost_start, constants.cost_variance)
        # Signal and Pods at the last update (none before the first), and at the last one above 0.
        self._last = (math.nan, 0.0)
        self._anchor = (constants.baseline_start, 0.0)

    def _beliefs(self) -> scalar.Beliefs:
        level, pods = self._anchor
        # b = z + c n at the anchor, so that var_b = n^2 P and cov_bc = n P
        baseline = kalman.Belief(level + self._cost.mean * pods, pods * pods * self._cost.variance)
        return scalar.Beliefs(baseline, self._cost, pods * self._cost.variance)

    def _predicts(self, mode: base.Mode) -> bool:
        # The substitute for a baseline is not measured again while the signal is 0.
        return mode == "predicted"

    def _learn(self, level: float, pods: float) -> None:
        constants = self._constants
        self._cost = kalman.predict(self._cost, q=constants.cost_noise)
        before, pods_before = self._last
        came, drop = pods - pods_before, before - level
        self._last = (level, pods)
        if level > 0.0:
            self._anchor = self._last
        # Also False before the first signal, when there is no drop yet.
        if not (came > 0.0 and drop > constants.least_drop):
            return
        # dz = -cost dn: h = -dn;  e = dz - h c
        innovation = came * self._cost.mean - drop
        if constants.one_sided and level <= 0.0 and innovation >= 0.0:
            # It fell by at least this much, as expected.
            return
        self._seen_pods = True
        self._cost = kalman.update(self._cost, innovation=innovation, h=-came, r=constants.measurement_noise)

    def _rest(self, keep: float) -> None:
        self._cost = scalar.forget(self._cost, self._constants, keep)
