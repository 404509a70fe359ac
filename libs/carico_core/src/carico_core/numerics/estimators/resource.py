"""One dimension of `vector`: its baseline, the cost of one Pod, and what is free now. Physical units throughout."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from carico_core.numerics import kalman
from carico_core.numerics.estimators import base, idle

# Noise of a reading as a share of full scale, from the quick twin's ablation (research/estimator.md). Dimensions
# without a measurement take the CPU's, the larger one.
READING_NOISE: Mapping[str, float] = {"cpu": 0.03, "memory": 0.004}
OTHER_NOISE = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConstants:
    """Numbers of the design's section 7, steps 3 to 5, found on the quick twin (research/estimator.md).

    few_pods: filtered Pods below which usage is baseline. baseline_gain: per second. drift: of a cost per root second,
    as a share of it. unknown_sd: of a cost nobody measured, as a share of it. entry_pods: filtered Pods from which a
    node's own measurement is evidence for others (a count only approaches 1).
    """

    few_pods: float = 0.2
    baseline_gain: float = 0.1
    drift: float = 0.02
    unknown_sd: float = 0.7
    entry_pods: float = 0.999
    # A prior this wide, in full scales, leaves the node's own evidence free of any prior.
    no_prior: float = 10.0


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


class View(NamedTuple):
    """What a dimension offers now: cost (mean, sd), c+, H and the standard deviation of one reading."""

    cost: base.Spread
    cost_plus: float
    headroom: float
    noise: float


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


class Resource:
    """Learns one dimension; `idle.IdlePods` keeps Pods that use none of it out of the mean cost."""

    __slots__ = ("_baseline", "_constants", "_cost", "_facts", "_own", "_reached", "idle_pods", "measured")

    def __init__(self, facts: Facts, constants: ResourceConstants) -> None:
        self._facts = facts
        self._constants = constants
        # Known from the first second without Pods on; until then a cost carries the baseline too (safe, too high).
        self._baseline: kalman.Belief | None = None
        self._cost: kalman.Belief | None = None
        self._own = kalman.Belief(0.0, (constants.no_prior * facts.scale) ** 2)
        self._reached = False
        self.measured = False
        self.idle_pods = idle.IdlePods(least_cost=facts.least_cost)

    @property
    def scale(self) -> float:
        """What usage 1.0 is, in physical units."""
        return self._facts.scale

    @property
    def baseline_spread(self) -> base.Spread:
        """Usage without workload Pods, and its standard deviation; (0, S) while the node was never without."""
        return self._facts.spread(self._baseline)

    @property
    def evidence(self) -> base.Evidence | None:
        """Mean and variance of a Pod's cost as measured here, no prior in it; None before a whole Pod was seen."""
        if not self._reached:
            return None
        return self._facts.held_to_range(self._own.mean), self._own.variance

    def shows_little(self, usage: float, *, shown: float, full: bool) -> bool:
        """Whether what the present Pods (or those that came or went last) use here is next to nothing."""
        if full:
            return False
        level = usage * self._facts.scale
        return self.idle_pods.shows_little(
            level, above_baseline=level - self._floor(), shown=shown, few=self._constants.few_pods
        )

    def learn(self, usage: float, *, shown: float, full: bool, settled: bool, held: bool, dt_s: float) -> None:
        """Take in one second: usage in [0, 1], `shown` filtered Pods (x).

        full: the reading may have ended short of the truth. settled: the count stands still and telemetry shows all
        of it. held: these Pods are idle, so their cost is no evidence of the next Pod's.
        """
        level = usage * self._facts.scale
        if shown < self._constants.few_pods:
            self.idle_pods.clear(level)
            self._learn_baseline(level, dt_s)
            return
        if self._cost is None:
            self._cost = self._unknown(level, shown)
        if settled and not full:
            self._settle(level, shown, held=held)
        else:
            self.idle_pods.wait(shown, dt_s)
        busy = shown - self.idle_pods.count
        if busy >= self._constants.few_pods and not held:
            self._learn_cost(level, busy, censored=full, dt_s=dt_s)
            self._reached = self._reached or busy >= self._constants.entry_pods
        elif busy < self._constants.few_pods and settled:
            self._learn_baseline(level, dt_s)

    def view(self, usage: float, *, shown: float, pods: float, full: bool, risk_sd: float) -> View:
        """Steps 7 and 8: cost plus risk, and what is free below the ceiling once Pods not shown yet are added."""
        facts = self._facts
        level = usage * facts.scale
        cost = self._cost if self._cost is not None else self._unknown(level, shown)
        spread = math.sqrt(cost.variance)
        now = self._now(level, cost.mean, shown=shown, pods=pods)
        if full:
            # A full node reads the same whatever is on it: the model knows better where it says more.
            now = max(now, self._floor() + cost.mean * max(0.0, pods - self.idle_pods.count))
        return View(
            cost=(cost.mean, spread),
            # c+ = c + 1 sd
            cost_plus=cost.mean + risk_sd * spread,
            # H = ceiling S - now
            headroom=facts.ceiling * facts.scale - now,
            noise=math.sqrt(facts.reading_variance),
        )

    def _now(self, level: float, cost: float, *, shown: float, pods: float) -> float:
        ahead = pods - shown
        if ahead >= 0.0 or shown <= 0.0:
            # now = Y + c (n - x)
            return level + cost * max(ahead, 0.0)
        # Pods that left but still show: of those shown only the busy share takes usage along, never the baseline.
        busy_share = max(0.0, shown - self.idle_pods.count) / shown
        return max(level + cost * busy_share * ahead, min(level, self._floor()))

    def _learn_baseline(self, level: float, dt_s: float) -> None:
        self._baseline = self._facts.followed(
            self._baseline, level, gain_per_s=self._constants.baseline_gain, dt_s=dt_s
        )
        if not self.measured:
            self._cost = self._unknown(level, 0.0)

    def _learn_cost(self, level: float, busy: float, *, censored: bool, dt_s: float) -> None:
        cost = self._cost
        if cost is None:
            return
        # P <- P + (0.02 c)^2 a second
        drift = (self._constants.drift * cost.mean) ** 2 * dt_s
        # e = Y - b - c x;   c <- c + P x e / (x P x + R)
        self._cost = self._step(cost, level, busy, drift=drift, censored=censored)
        self._own = self._step(self._own, level, busy, drift=drift, censored=censored)
        self.measured = True

    def _step(self, belief: kalman.Belief, level: float, busy: float, *, drift: float, censored: bool) -> kalman.Belief:
        moved = kalman.predict(belief, q=drift)
        innovation = level - self._floor() - moved.mean * busy
        variance = self._facts.reading_variance
        if censored:
            # A full node says "at least this": only e > 0 counts.
            moved = kalman.update_censored(moved, innovation=innovation, h=busy, r=variance, side="at_least")
        else:
            moved = kalman.update(moved, innovation=innovation, h=busy, r=variance)
        return kalman.Belief(self._facts.held_to_range(moved.mean), moved.variance)

    def _settle(self, level: float, shown: float, *, held: bool) -> None:
        if self._cost is None:
            return
        believed = self.idle_pods.settle(
            level,
            above_baseline=level - self._floor(),
            shown=shown,
            held=held,
            cost=self._cost,
            noise=math.sqrt(self._facts.reading_variance),
        )
        if believed is not None:
            self._cost = kalman.Belief(self._facts.held_to_range(believed.mean), believed.variance)
            self._own = self._cost

    def _unknown(self, level: float, shown: float) -> kalman.Belief:
        empty = level if shown < self._constants.few_pods else self._floor()
        # c0, sd 0.7 c0
        cost = self._facts.unknown_cost(empty)
        return kalman.Belief(cost, (self._constants.unknown_sd * cost) ** 2)

    def _floor(self) -> float:
        return 0.0 if self._baseline is None else self._baseline.mean
