"""What a dimension is on a node, and what costs may be there. Physical units throughout."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from carico_core.numerics import kalman
from carico_core.numerics.estimators import base

# Noise of a reading as a share of full scale, from the quick twin's ablation (research/estimator.md). Dimensions
# without a measurement take the CPU's, the larger one.
READING_NOISE: Mapping[str, float] = {"cpu": 0.03, "memory": 0.004}
OTHER_NOISE = 0.03


class Facts(NamedTuple):
    """What a dimension is on this node: scale S, ceiling (share), least cost S / Pod limit, R, and the cores."""

    scale: float
    ceiling: float
    least_cost: float
    reading_variance: float
    cores: float

    def held_to_range(self, cost: float) -> float:
        """A Pod's cost between what could never fill the node (S / Pod limit) and a full node, more than which cannot
        be read.
        """
        return min(max(cost, self.least_cost), self.scale)

    def unknown_cost(self, empty: float) -> float:
        """The cost of a Pod nobody has measured, on a node that uses `empty` without workload."""
        # c0 = (ceiling S - Y) / cores
        return self.held_to_range((self.ceiling * self.scale - empty) / self.cores)

    def spread(self, baseline: kalman.Belief | None) -> base.Spread:
        """Mean and standard deviation of a baseline; (0, S) of one that was never read."""
        return (0.0, self.scale) if baseline is None else (baseline.mean, math.sqrt(baseline.variance))

    def followed(
        self, baseline: kalman.Belief | None, level: float, *, gain_per_s: float, dt_s: float
    ) -> kalman.Belief:
        """The baseline after a reading without workload; the first one is taken as it is."""
        if baseline is None:
            return kalman.Belief(level, self.reading_variance)
        gain = 1.0 - (1.0 - gain_per_s) ** dt_s
        change = level - baseline.mean
        # b <- b + 0.1 (Y - b) a second, and the mean square of what it missed likewise
        return kalman.Belief(
            baseline.mean + gain * change, baseline.variance + gain * (change * change - baseline.variance)
        )


def facts_of(config: base.EstimatorConfig) -> list[Facts]:
    """The facts of each dimension, in order."""
    return [
        Facts(
            scale=scale,
            ceiling=ceiling,
            least_cost=scale / config.pod_limit,
            reading_variance=(READING_NOISE.get(dim, OTHER_NOISE) * scale) ** 2,
            cores=config.cores,
        )
        for dim, scale, ceiling in zip(config.dims, config.scale.tolist(), config.ceiling.tolist(), strict=True)
    ]
