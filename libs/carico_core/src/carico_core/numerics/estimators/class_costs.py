"""One dimension of `footprint`: the baseline, and per class the cost of a Pod and how it grows. Physical units.

    Y = b + sum over classes k of c_k x_k + g_k a_k + noise

x_k: the Pod count as the filter shows it. a_k: the sum of the Pods' ages less what the filter lags. One Kalman filter
for all costs together, so that classes that run side by side are told apart as far as the data can.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.estimators import base, resource

# A filtered usage trails a Pod's true one by about this much (design, section 7, step 10).
GROWTH_LAG_S = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class CostConstants:
    """Numbers of the design's section 7, steps 3 to 6 and 10.

    few_pods: filtered Pods below which usage is baseline. baseline_gain: per second. drift: of a cost per root second,
    as a share of it. unknown_sd: of a cost nobody measured, as a share of it. between_nodes: difference of a class's
    cost between nodes, as a share of it. entry_pods: filtered Pods from which a measurement is evidence for others.
    growth_sd: of an unknown growth, in full scales a second; 0: growth is not modelled.
    """

    few_pods: float = 0.2
    baseline_gain: float = 0.1
    drift: float = 0.02
    unknown_sd: float = 0.7
    between_nodes: float = 0.2
    entry_pods: float = 1.0
    growth_sd: float = 0.01
    # A prior this wide, in full scales, leaves the node's own evidence free of any prior.
    no_prior: float = 10.0


@dataclass(slots=True)
class _Filter:
    """Mean (m,) and covariance (m, m) of costs, then growths."""

    mean: arrays.Array
    covariance: arrays.Array

    def step(self, design: arrays.Array, innovation: float, variance: float) -> None:
        """Kalman update by one reading; Joseph form."""
        pulled = self.covariance @ design
        gain = pulled / (design @ pulled + variance)
        # c <- c + P x e / (x' P x + R)
        self.mean = self.mean + gain * innovation
        # P <- (I - K x') P (I - K x')' + K R K'
        kept = np.eye(len(design)) - np.outer(gain, design)
        self.covariance = kept @ self.covariance @ kept.T + variance * np.outer(gain, gain)

    def resized(self, keep: list[int], means: list[float], variances: list[float]) -> "_Filter":
        """Those rows of the old filter, then new ones, independent of all others."""
        size = len(keep) + len(means)
        covariance = np.zeros((size, size))
        covariance[: len(keep), : len(keep)] = self.covariance[np.ix_(keep, keep)]
        covariance[range(len(keep), size), range(len(keep), size)] = variances
        return _Filter(np.concatenate([self.mean[keep], means]), covariance)


class ClassCosts:
    """Learns one dimension for all classes of Pods that run, or ran lately, on the node."""

    __slots__ = ("_baseline", "_constants", "_facts", "_main", "_names", "_own", "_peers", "_reached", "grows")

    def __init__(self, facts: resource.Facts, constants: CostConstants, *, grows: bool) -> None:
        self._facts = facts
        self._constants = constants
        self.grows = grows and constants.growth_sd > 0.0
        self._baseline: tuple[float, float] | None = None
        self._names: list[str] = []
        self._main = _Filter(np.zeros(0), np.zeros((0, 0)))
        # The same with no prior: what this node alone has measured.
        self._own = _Filter(np.zeros(0), np.zeros((0, 0)))
        self._reached: set[str] = set()
        # What the other nodes measured: class -> (mean, variance between nodes included), of cost and of growth.
        self._peers: dict[str, tuple[base.Evidence, base.Evidence | None]] = {}

    @property
    def scale(self) -> float:
        """What usage 1.0 is."""
        return self._facts.scale

    @property
    def noise(self) -> float:
        """Standard deviation of one reading."""
        return math.sqrt(self._facts.reading_variance)

    @property
    def baseline_spread(self) -> base.Spread:
        """Usage without workload Pods, and its standard deviation; (0, S) while the node was never without."""
        if self._baseline is None:
            return 0.0, self._facts.scale
        return self._baseline[0], math.sqrt(self._baseline[1])

    @property
    def floor(self) -> float:
        """The baseline as far as it is known."""
        return 0.0 if self._baseline is None else self._baseline[0]

    @property
    def measured(self) -> frozenset[str]:
        """Classes of which a whole Pod has been seen here."""
        return frozenset(self._reached)

    def hold(self, names: list[str]) -> None:
        """Keep these classes and no others; new ones begin as their peers have it, or unknown."""
        if names == self._names:
            return
        keep = [self._names.index(name) for name in names if name in self._names]
        new = [name for name in names if name not in self._names]
        old = len(self._names)
        self._names = [self._names[index] for index in keep] + new
        self._reached &= set(self._names)
        rows = [*keep, *(old + index for index in keep)] if self.grows else keep
        priors = [self._prior(name) for name in new]
        wide = (self._constants.no_prior * self._facts.scale) ** 2
        main = self._main.resized(rows, [p[0] for p in priors], [p[1] for p in priors])
        own = self._own.resized(rows, [0.0] * len(new), [wide] * len(new))
        if self.grows:
            growths = [self._growth_prior(name) for name in new]
            main = main.resized(list(range(len(main.mean))), [g[0] for g in growths], [g[1] for g in growths])
            own = own.resized(list(range(len(own.mean))), [0.0] * len(new), [wide] * len(new))
            order = self._order(len(keep), len(new))
            main, own = main.resized(order, [], []), own.resized(order, [], [])
        self._main, self._own = main, own

    def hear(self, peers: Mapping[str, tuple[base.Evidence, base.Evidence | None]]) -> None:
        """Take in what the other nodes measured (mean, variance): used where it says more than this node knows."""
        share = self._constants.between_nodes
        self._peers = {
            name: (_widened(cost, share), None if growth is None else _widened(growth, share))
            for name, (cost, growth) in peers.items()
        }
        for index, name in enumerate(self._names):
            if name not in self._peers:
                continue
            cost, growth = self._peers[name]
            self._adopt(index, (self._hold_to_range(cost[0]), cost[1]))
            if self.grows and growth is not None:
                self._adopt(len(self._names) + index, growth)

    def learn(
        self, usage: float, shown: Mapping[str, float], ages_s: Mapping[str, float], *, censored: bool, dt_s: float
    ) -> None:
        """Take in one second: usage in [0, 1], filtered Pods (x) and sums of ages (s) by class.

        censored: the reading says "at least this", so that only a surprise upwards counts.
        """
        level = usage * self._facts.scale
        x = np.array([shown.get(name, 0.0) for name in self._names])
        if x.sum() < self._constants.few_pods:
            self._learn_baseline(level, dt_s)
            return
        design = x
        if self.grows:
            a = [
                max(0.0, ages_s.get(name, 0.0) - GROWTH_LAG_S * count)
                for name, count in zip(self._names, x.tolist(), strict=True)
            ]
            design = np.concatenate([x, a])
        self._reached |= {
            name for name, count in zip(self._names, x.tolist(), strict=True) if count >= self._constants.entry_pods
        }
        for each in (self._main, self._own):
            self._drift(each, x, dt_s)
            innovation = level - self.floor - float(design @ each.mean)
            if not censored or innovation > 0.0:
                each.step(design, innovation, self._facts.reading_variance)
            self._clip(each)

    def cost(self, name: str) -> base.Spread:
        """(mean, sd) of a Pod's cost of a class that is held."""
        index = self._names.index(name)
        return float(self._main.mean[index]), math.sqrt(max(0.0, float(self._main.covariance[index, index])))

    def cautious_growth(self, name: str) -> float:
        """How fast a Pod of a class grows at least, per second: the mean less one sd, never negative."""
        if not self.grows:
            return 0.0
        if name in self._names:
            index = len(self._names) + self._names.index(name)
            mean, variance = float(self._main.mean[index]), float(self._main.covariance[index, index])
        else:
            mean, variance = self._growth_prior(name)
        return max(0.0, mean - math.sqrt(max(0.0, variance)))

    def unheld(self, name: str) -> base.Spread:
        """(mean, sd) of a class that is not held: as its peers have it, or unknown."""
        mean, variance = self._prior(name)
        return mean, math.sqrt(variance)

    def evidence(self, name: str) -> base.Evidence | None:
        """(mean, variance) of a Pod's cost as measured here, no prior in it; None before a whole Pod was seen."""
        if name not in self._reached:
            return None
        index = self._names.index(name)
        return self._hold_to_range(float(self._own.mean[index])), float(self._own.covariance[index, index])

    def growth_evidence(self, name: str) -> base.Evidence | None:
        """(mean, variance) of its growth a second as measured here."""
        if name not in self._reached or not self.grows:
            return None
        index = len(self._names) + self._names.index(name)
        return float(self._own.mean[index]), float(self._own.covariance[index, index])

    def expected(self, counts: Mapping[str, float]) -> float:
        """sum of c_k n_k; a class that is not held counts as its peers have it, or as unknown."""
        means: dict[str, float] = dict(zip(self._names, self._main.mean.tolist(), strict=False))
        return sum(
            count * (means[name] if name in means else self._prior(name)[0]) for name, count in counts.items() if count
        )

    def _learn_baseline(self, level: float, dt_s: float) -> None:
        if self._baseline is None:
            self._baseline = (level, self._facts.reading_variance)
            return
        gain = 1.0 - (1.0 - self._constants.baseline_gain) ** dt_s
        mean, variance = self._baseline
        change = level - mean
        # b <- b + 0.1 (Y - b) a second, and the mean square of what it missed likewise
        self._baseline = (mean + gain * change, variance + gain * (change * change - variance))

    def _drift(self, each: _Filter, x: arrays.Array, dt_s: float) -> None:
        # P_kk <- P_kk + (0.02 c_k)^2 a second, where the class shows
        present = x > self._constants.few_pods
        noises = np.where(present, (self._constants.drift * each.mean[: len(x)]) ** 2 * dt_s, 0.0)
        if self.grows:
            growth = np.where(present, (self._constants.drift * each.mean[len(x) :]) ** 2 * dt_s, 0.0)
            noises = np.concatenate([noises, growth])
        each.covariance = each.covariance + np.diag(noises)

    def _clip(self, each: _Filter) -> None:
        count = len(self._names)
        each.mean[:count] = np.clip(each.mean[:count], self._facts.least_cost, self._facts.scale)

    def _adopt(self, index: int, found: base.Evidence) -> None:
        if float(self._main.covariance[index, index]) <= found[1]:
            return
        self._main.mean = self._main.mean.copy()
        self._main.mean[index] = found[0]
        covariance = self._main.covariance.copy()
        covariance[index, :] = covariance[:, index] = 0.0
        covariance[index, index] = found[1]
        self._main.covariance = covariance

    def _prior(self, name: str) -> base.Evidence:
        if name in self._peers:
            mean, variance = self._peers[name][0]
            return self._hold_to_range(mean), variance
        # c0 = (ceiling S - Y) / cores, sd 0.7 c0
        facts = self._facts
        cost = self._hold_to_range((facts.ceiling * facts.scale - self.floor) / facts.cores)
        return cost, (self._constants.unknown_sd * cost) ** 2

    def _growth_prior(self, name: str) -> base.Evidence:
        growth = self._peers[name][1] if name in self._peers else None
        return growth if growth is not None else (0.0, (self._constants.growth_sd * self._facts.scale) ** 2)

    def _hold_to_range(self, cost: float) -> float:
        # c >= S / Pod limit: less could never fill the node. c <= S: more than a full node cannot be read.
        return min(max(cost, self._facts.least_cost), self._facts.scale)

    @staticmethod
    def _order(kept: int, new: int) -> list[int]:
        """Rows [old costs, old growths, new costs, new growths] brought to [costs, growths]."""
        costs = [*range(kept), *range(2 * kept, 2 * kept + new)]
        growths = [*range(kept, 2 * kept), *range(2 * kept + new, 2 * (kept + new))]
        return costs + growths


def _widened(found: base.Evidence, share: float) -> base.Evidence:
    # v_g + (0.2 c_g)^2
    return found[0], found[1] + (share * found[0]) ** 2
