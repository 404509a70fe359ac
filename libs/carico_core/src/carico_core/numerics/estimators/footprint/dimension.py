"""Facts about a dimension of a node, and the prior cost of a class there, before the node has measured it.

Physical units throughout.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from carico_core.numerics import kalman
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import footprint_constants

# Noise of a reading as a share of full scale, from the quick twin's ablation. Dimensions without a measurement take the
# CPU's, the larger one.
READING_NOISE: Mapping[str, float] = {"cpu": 0.03, "memory": 0.004}


class Facts(NamedTuple):
    """A dimension of this node: scale S, ceiling (share), least cost S / Pod limit, reading variance R, cores."""

    scale: float
    ceiling: float
    least_cost: float
    reading_variance: float
    cores: float

    def clipped(self, cost: float) -> float:
        """Return a Pod's cost, clipped to the range from S / Pod limit (which never fills the node) to a full node."""
        return min(max(cost, self.least_cost), self.scale)

    def unknown_cost(self, empty: float) -> float:
        """Return the cost of a Pod of an unmeasured class, on a node whose usage without workload is `empty`."""
        # c0 = (ceiling S - Y) / cores
        return self.clipped((self.ceiling * self.scale - empty) / self.cores)

    def spread(self, baseline: kalman.Belief | None) -> base.Spread:
        """Return the mean and standard deviation of a baseline; (0, S) if it was never read."""
        return (0.0, self.scale) if baseline is None else (baseline.mean, math.sqrt(baseline.variance))

    def followed(
        self, baseline: kalman.Belief | None, level: float, *, gain_per_s: float, dt_s: float
    ) -> kalman.Belief:
        """Return the baseline after a reading without workload; the first reading becomes the baseline."""
        if baseline is None:
            return kalman.Belief(level, self.reading_variance)
        gain = 1.0 - (1.0 - gain_per_s) ** dt_s
        change = level - baseline.mean
        # b <- b + 0.1 (Y - b) per second, and the mean square of the error in the same way
        return kalman.Belief(
            baseline.mean + gain * change, baseline.variance + gain * (change * change - baseline.variance)
        )


def facts_of(config: base.EstimatorConfig) -> list[Facts]:
    """Return the facts of each dimension, in order."""
    return [
        Facts(
            scale=scale,
            ceiling=ceiling,
            least_cost=scale / config.pod_limit,
            reading_variance=(READING_NOISE.get(dim, READING_NOISE["cpu"]) * scale) ** 2,
            cores=config.cores,
        )
        for dim, scale, ceiling in zip(config.dims, config.scale.tolist(), config.ceiling.tolist(), strict=True)
    ]


# Standard deviation of a part of the profile if peers have measured the whole, as a share of the cost.
_KNOWN_PART = 0.1


class Priors:
    """Prior costs in one dimension, in physical units. `floor`: its baseline as far as known, which they depend on."""

    __slots__ = ("_constants", "_facts", "_parts", "_peers", "_unknown", "floor")

    def __init__(self, facts: Facts, constants: footprint_constants.CostConstants, *, parts: int) -> None:
        self._facts = facts
        self._constants = constants
        self._parts = parts
        # What the other nodes measured: class -> (mean, variance including that between nodes) of a Pod's whole cost.
        self._peers: dict[str, base.Evidence] = {}
        self.set_baseline(0.0)

    def set_baseline(self, floor: float) -> None:
        """Use this baseline from now on."""
        self.floor = floor
        # c0, sd 0.7 c0
        cost = self._facts.unknown_cost(floor)
        self._unknown: base.Evidence = (cost, (self._constants.unknown_sd * cost) ** 2)

    def use_peers(self, peers: Mapping[str, base.Evidence]) -> None:
        """Take in what the other nodes measured (mean, variance)."""
        share = self._constants.between_nodes
        # v_g + (0.2 c_g)^2
        self._peers = {name: (mean, variance + (share * mean) ** 2) for name, (mean, variance) in peers.items()}

    def by_peers(self, name: str) -> base.Evidence | None:
        """Return (mean, variance) of a class as peers measured it; None if they have not."""
        return self._peers.get(name)

    def whole(self, name: str) -> base.Evidence:
        """Return (mean, variance) of the cost of a Pod of a class, as peers measured it, or as unknown."""
        if name not in self._peers:
            return self._unknown
        mean, variance = self._peers[name]
        return self._facts.clipped(mean), variance

    def by_part(self, name: str) -> list[base.Evidence]:
        """Return (mean, variance) of each part of a class that is new on this node."""
        if name not in self._peers:
            return [self._unknown] + [(0.0, self.unknown_part())] * (self._parts - 1)
        mean, variance = self.whole(name)
        # Peers report the whole cost. It counts from the start, which is cautious, until this node has measured the
        # growth.
        return [(mean, variance)] + [(0.0, (_KNOWN_PART * mean) ** 2)] * (self._parts - 1)

    @property
    def unknown_variance(self) -> float:
        """Variance of the cost of a class that no node has measured."""
        return self._unknown[1]

    def unknown_part(self) -> float:
        """Return the variance of a part of the profile that is not measured."""
        return float((self._constants.growth_sd * self._unknown[0]) ** 2)
