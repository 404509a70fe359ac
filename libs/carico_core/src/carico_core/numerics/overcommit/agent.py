"""The node agent's estimator as a predictor of peaks: what it counts for the Pods that run.

Each machine is a node, each series a running Pod of one class, and the limit of a series one core. The estimator counts
a Pod at its cost plus its risk, so the peak that it allows for is baseline + Pods x (cost plus risk).
"""

import math

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import footprint
from carico_core.numerics.overcommit import recent as recents

_DIM = "cpu"
_CLASS = "series"
# Of usage 1.0: the estimator's scale of "cpu" is two tasks a core.
_TASKS_PER_CORE = 2.0
_GAINS = np.ones(1)
# A Pod counts for at least the share of the node that this limit leaves it; so high, that is not felt.
_POD_LIMIT_PER_SERIES = 1000


class Agent:
    """One estimator for each machine; `interval_s` is the time between two samples."""

    __slots__ = ("_estimators", "_steps")

    def __init__(self, interval_s: float) -> None:
        # After a longer gap the estimator learns nothing, so a long interval is divided.
        steps = math.ceil(interval_s / base.MAX_INTERVAL_S)
        self._steps = [interval_s / steps] * steps
        self._estimators: list[footprint.Footprint] = []

    def predict(self, recent: recents.Recent) -> arrays.Array:
        """Return baseline + Pods x (cost plus risk) after learning from the new sample."""
        machines, pods, samples = recent.series.shape
        is_first = not self._estimators
        if is_first:
            self._estimators = [_estimator(pods) for _ in range(machines)]
        usages = recent.total[:, range(samples) if is_first else [samples - 1]] / (_TASKS_PER_CORE * recent.limits)
        peaks = [self._peak(each, row, pods) for each, row in zip(self._estimators, usages, strict=True)]
        return np.minimum(recent.limits, np.array(peaks) * recent.limit)

    def _peak(self, estimator: footprint.Footprint, usages: arrays.Array, pods: int) -> float:
        for usage in usages.tolist():
            for dt_s in self._steps:
                observation = base.Observation(dt_s=dt_s, y=np.array([usage]), gains=_GAINS, pods=pods, signal=0.0)
                found = estimator.update(observation)
        plus = (found.cost_plus or {})[_CLASS][_DIM]
        return found.baseline[_DIM][0] + pods * plus


def _estimator(pods: int) -> footprint.Footprint:
    made = footprint.Footprint(
        base.EstimatorConfig(
            dims=(_DIM,), scale=arrays.vector([_TASKS_PER_CORE * pods], name="scale"), cores=float(pods),
            ceiling=np.ones(1), pod_limit=_POD_LIMIT_PER_SERIES * pods,
        )
    )  # fmt: skip
    made.follow({f"{_CLASS}-{index}": _CLASS for index in range(pods)})
    return made
