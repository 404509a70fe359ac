"""One dimension of `footprint`: the baseline, and the cost of a Pod per class. Physical units.

    Y = b + sum over classes k and parts j of c_kj x_kj + noise

x_kj: the filtered Pods of class k. In a dimension that Pods hold (memory) there are further parts, by age (`growth`).
One Kalman filter learns all costs together, so classes that run at the same time are distinguished as far as the data
allow. What is assumed before anything is measured: `dimension.Priors`.

The noise of a reading is that of the sensor and that of the Pods, which compute and wait in turns: R + v x. v, the
variance of one Pod's usage over time, is learnt from how far readings differ from what the costs explain (ADR 71).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from carico_core.numerics import arrays, kalman
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import cost_filter, dimension, footprint_constants, growth

CostConstants = footprint_constants.CostConstants

# Pods by class, filtered or unfiltered: how many; and by part, in a dimension in which Pods grow.
Counted = Mapping[str, float]
Shown = Mapping[str, growth.Parts]

# Minimum interval of a reading: a clock that stands still must not make the noise infinite.
_LEAST_READING_S = 0.01
# The filters' two beliefs: with all that is known, and with this node's measurements alone (no prior).
_KNOWN, _OWN = range(2)


@dataclasses.dataclass(slots=True, eq=False)
class _Held:
    """A class in the filters: its rows, and what has been computed from them since they last changed."""

    rows: slice
    # Whether a whole Pod of it has been seen here.
    is_reached: bool
    grown: growth.Growth | None = None
    # The lifetime that the evidence is for, and the evidence.
    evident: tuple[float, base.Evidence | None] | None = None

    def __reduce__(self) -> tuple[type["_Held"], tuple[slice, bool]]:
        """Leave out what can be computed again."""
        return _Held, (self.rows, self.is_reached)

    def changed(self) -> None:
        """Discard what was computed from the rows."""
        self.grown = self.evident = None


class ClassCosts:
    """Learns one dimension for all classes of Pods that run on the node, or ran a short time ago.

    If Pods do not grow, the cost of a class is one number, and plain numbers are several times faster than arrays.
    """

    __slots__ = (
        "_baseline",
        "_constants",
        "_filters",
        "_held",
        "_means",
        "_own_variance",
        "_priors",
        "_variances",
        "facts",
        "grows",
        "parts",
    )

    def __init__(self, facts: dimension.Facts, constants: CostConstants, *, grows: bool) -> None:
        self.facts = facts
        self._constants = constants
        self.parts = growth.PARTS if grows and constants.growth_sd > 0.0 else 1
        # Whether a Pod's cost depends on its age.
        self.grows = self.parts > 1
        self._baseline: kalman.Belief | None = None
        self._priors = dimension.Priors(facts, constants, parts=self.parts)
        # In the order of their rows in the filters.
        self._held: dict[str, _Held] = {}
        self._filters = cost_filter.CostFilters(2)
        # v, of one Pod.
        self._own_variance = 0.0
        # The mean and variance of each row of the first belief.
        self._means: list[float] = []
        self._variances: list[float] = []

    @property
    def _wide(self) -> float:
        """Variance of a cost in the belief without a prior, before anything is measured."""
        return (self._constants.no_prior * self.facts.scale) ** 2

    @property
    def noise(self) -> float:
        """Standard deviation of one reading."""
        return math.sqrt(self.facts.reading_variance)

    @property
    def baseline_spread(self) -> base.Spread:
        """Usage without workload Pods, and its standard deviation; (0, S) if the node was never without workload."""
        return self.facts.spread(self._baseline)

    @property
    def floor(self) -> float:
        """The baseline as far as it is known."""
        return self._priors.floor

    @property
    def measured(self) -> frozenset[str]:
        """The classes of which a whole Pod has been seen here."""
        return frozenset([name for name, held in self._held.items() if held.is_reached])

    def is_measured(self, name: str) -> bool:
        """Return whether this node has seen a whole Pod of this class, or its peers have measured one."""
        held = self._held.get(name)
        return (held is not None and held.is_reached) or self._priors.by_peers(name) is not None

    def is_unknown(self, name: str, *, runs: bool) -> bool:
        """Return whether neither this node nor its peers have measured the cost of a Pod of this class.

        A class is in the filters from its first start, and a Pod that ended before telemetry showed it adds nothing.
        A running Pod does add information, though the readings of a full node say little.
        """
        if self._priors.by_peers(name) is not None:
            return False
        return not self._is_identified(name) or (
            not (self.grows or runs) and self._variance(name) >= growth.MEASURED * self._priors.whole(name)[1]
        )

    def hold(self, names: list[str]) -> None:
        """Keep these classes only; new ones start from the peers' measurements, or as unknown."""
        if set(names) == self._held.keys():
            return
        kept = [name for name in self._held if name in names]
        new = [name for name in names if name not in self._held]
        rows = [row for name in kept for row in self._rows_of(name)]
        known = [part for name in new for part in self._priors.by_part(name)]
        self._filters.resize(rows, [known, [(0.0, self._wide)] * len(known)])
        reached = self.measured
        self._held = {
            name: _Held(slice(place * self.parts, (place + 1) * self.parts), name in reached)
            for place, name in enumerate(kept + new)
        }
        self._changed()

    def use_peers(self, peers: Mapping[str, base.Evidence]) -> None:
        """Take in what the other nodes measured (mean, variance); it is used if surer than this node's estimate."""
        self._priors.use_peers(peers)
        for name in self._held:
            peers_found = self._priors.by_peers(name)
            if peers_found is not None and self._variance(name) > peers_found[1]:
                self._filters.begin(_KNOWN, self._held[name].rows, self._priors.by_part(name))
                self._changed()

    def learn(self, usage: float, counts: Counted, shown: Shown, *, censored: bool, dt_s: float) -> None:
        """Learn from one second: usage in [0, 1], and the filtered Pods by class (and by part, if Pods grow).

        censored: the reading means "at least this", so only a surprise upwards counts.
        """
        level = usage * self.facts.scale
        few_pods = self._constants.few_pods
        if sum(counts.values()) < few_pods:
            is_followed = self._baseline is not None
            self._baseline = self.facts.followed(
                self._baseline, level, gain_per_s=self._constants.baseline_gain, dt_s=dt_s
            )
            identified_below = growth.MEASURED * self._priors.unknown_part()
            self._priors.set_baseline(self._baseline.mean)
            if self.grows and is_followed:
                # The baseline moves, and with it the limit below which a part counts as identified: parts stay
                # identified.
                self._filters.narrow(_KNOWN, identified_below, growth.MEASURED * self._priors.unknown_part())
            self._changed()
            return
        present = [counts.get(name, 0.0) for name in self._held]
        for held, count in zip(self._held.values(), present, strict=True):
            if count >= self._constants.entry_pods:
                held.is_reached = True
        design = self._design(present, shown)
        shows = None
        if min(present) <= few_pods:
            shows = np.array([count > few_pods for count in present for _ in range(self.parts)])
        # While nothing changes, readings show only the sum of the parts: drift would slowly make the parts unknown.
        kept_below = growth.MEASURED * self._priors.unknown_part() if self.grows else math.inf
        self._filters.drift(self._constants.drift, shows, dt_s, kept_below=kept_below)
        variance = self._noise(design, level, pods=max(1.0, sum(present)), learns=not censored, dt_s=dt_s)
        self._filters.step(design, level - self.floor, variance, at_least=censored)
        # The parts of a profile are not clipped: two parts may cancel each other, and only one would change. Small
        # costs are not raised to the advertised minimum here: twenty idle servers would take away from a busy Pod's
        # cost.
        if not self.grows:
            self._filters.clip(self.facts.scale)
        self._changed()

    def _noise(self, design: arrays.Array, level: float, *, pods: float, learns: bool, dt_s: float) -> float:
        """Return the variance of a reading of these filtered Pods, after learning from it how much theirs is."""
        before = self._variance_of_reading(pods)
        # What Pods hold comes and goes as their profile by age says.
        if learns and not self.grows:
            gain = 1.0 - 0.5 ** (dt_s / self._constants.own_half_life_s)
            # Without the prior: that a guess was wrong is no variance of the Pods.
            surprise = max(0.0, self._filters.surprise(_OWN, design, level - self.floor))
            # v <- v + g ((e^2 - x' P x - R) / x - v), which is below 0 for half of the readings where v is 0
            self._own_variance += gain * ((surprise - self.facts.reading_variance) / pods - self._own_variance)
        after = self._variance_of_reading(pods)
        if after > before:
            # Earlier readings were as noisy: a covariance is in units of the noise, and at most that of the prior.
            # Without a bound, what no reading shows (the difference of classes that run together) would overflow.
            self._filters.widen(_OWN, after / before, most=self._wide)
            self._filters.widen(_KNOWN, after / before, most=self._priors.unknown_variance)
        # Readings in quick succession share their samples: together they are worth one reading a second.
        return after / min(max(dt_s, _LEAST_READING_S), 1.0)

    def _variance_of_reading(self, pods: float) -> float:
        """Return R + v x."""
        return self.facts.reading_variance + max(0.0, self._own_variance) * pods

    def _design(self, present: Sequence[float], shown: Shown) -> arrays.Array:
        """Return x, the filtered Pods by class and part."""
        if not self.grows:
            return np.array(present)
        none = [0.0] * self.parts
        return np.array([part for name in self._held for part in shown.get(name, none)])

    def plus(self, name: str, life_s: float, risk_sd: float) -> float:
        """Return c+, the cautious cost of a Pod of a class at the end of a life this long, within range."""
        if self.grows:
            identified = self._identified(name)
            if identified is not None:
                return max(identified.plus(life_s, risk_sd), self.facts.least_cost)
        elif name in self._held:
            mean, spread = self._single(name)
            return max(mean + risk_sd * spread, self.facts.least_cost)
        mean, variance = self._priors.whole(name)
        return self.facts.clipped(mean + risk_sd * math.sqrt(variance))

    def cost(self, name: str, life_s: float) -> base.Spread:
        """Return (mean, sd) of the cost of a Pod of a class at the end of a life this long."""
        if not self._is_identified(name):
            mean, variance = self._priors.whole(name)
            return mean, math.sqrt(variance)
        mean, spread = self._growth(name).whole(life_s) if self.grows else self._single(name)
        return self.facts.clipped(mean), spread

    def left_to_grow(self, name: str, now: growth.Parts, pods: float, life_s: float) -> float:
        """Return what the running Pods of a class will still take, cautiously; at least 0. now: their parts."""
        identified = self._identified(name) if self.grows else None
        return 0.0 if identified is None else identified.left(now, pods, life_s)

    def expected(self, pods: Counted) -> float:
        """Return sum of c_k n_k, if Pods do not grow; a class that is not in the filters has its prior cost."""
        total = 0.0
        for name, count in pods.items():
            held = self._held.get(name)
            total += count * (self._priors.whole(name)[0] if held is None else self._means[held.rows.start])
        return total

    def expected_by_part(self, pods: Shown) -> float:
        """Return sum of c_kj n_kj; for classes that are not identified see `_expected_together`."""
        total = 0.0
        for name, parts in pods.items():
            identified = self._identified(name)
            if identified is None:
                return self._expected_together(pods)
            total += identified.expected(parts)
        return total

    def _expected_together(self, pods: Shown) -> float:
        """Return what Pods hold of which some are of classes that are not identified.

        Of classes that started together readings show only the sum, for as long as nothing changes. It counts for Pods
        that are in the last segment of the profile; for younger ones, which may still grow, the prior cost does.
        """
        seen = np.zeros(len(self._means))
        young = prior = 0.0
        for name, parts in pods.items():
            identified, count, old = self._identified(name), parts[0], parts
            if identified is None:
                cost = self._priors.whole(name)[0]
                # A Pod is old to the share of the last but one segment that it has passed.
                passed = min(parts[-2], count) if name in self._held else 0.0
                old = [*[passed] * (len(parts) - 1), parts[-1]]
                young += (count - passed) * cost
                prior += count * cost
            else:
                prior += identified.expected(parts)
            if name in self._held:
                seen[self._held[name].rows] = old
        variance = float(seen @ self._filters.covariance[_KNOWN] @ seen)
        if variance > growth.MEASURED * self._priors.unknown_part():
            return prior
        return young + max(0.0, float(seen @ self._filters.mean[_KNOWN]))

    def evidence(self, name: str, life_s: float) -> base.Evidence | None:
        """Return (mean, variance) of a Pod's cost at the end of a life this long, as measured here, without prior.

        None before a whole Pod was seen, or if readings do not separate its cost from that of other classes.
        """
        held = self._held.get(name)
        if held is None or not held.is_reached:
            return None
        if held.evident is None or held.evident[0] != life_s:
            held.evident = (life_s, self._measured(held.rows, life_s))
        return held.evident[1]

    def _measured(self, rows: slice, life_s: float) -> base.Evidence | None:
        """Compute `evidence`."""
        identified_below = growth.MEASURED * self._wide
        if not self.grows:
            mean = self._filters.mean.item(_OWN, rows.start)
            variance = self._filters.covariance.item(_OWN, rows.start, rows.start)
            return (self.facts.clipped(mean), max(variance, 0.0)) if variance < identified_below else None
        covariance = self._block(_OWN, rows)
        identified = covariance.diagonal() < identified_below
        if not identified[0]:
            return None
        # Not `growth.behind_life`, which caches: the age of a running Pod is different every second.
        reach = np.array(growth.behind([life_s])) * identified
        variance = float(reach.dot(covariance).dot(reach))
        return self.facts.clipped(float(reach.dot(self._filters.mean[_OWN, rows]))), max(variance, 0.0)

    def standing_evidence(self, name: str, age_s: float) -> base.Evidence | None:
        """Return (mean, variance) of a Pod's cost in a class without known lifetimes. age_s: of the oldest running Pod.

        Its further growth is extrapolated, and counts as doubt as well. None if the doubt exceeds both the usual
        difference between nodes and the least cost.
        """
        found = self.evidence(name, age_s)
        # Without a baseline, it would include what the node itself holds.
        if found is None or self._baseline is None:
            return None
        mean, variance = found
        ahead = self._grown(self._held[name].rows, _OWN).left(growth.behind([age_s]), 1.0, growth.UNKNOWN_LIFE_S)
        doubt = math.hypot(math.sqrt(variance), ahead)
        if doubt > max(self._constants.between_nodes * mean, self.facts.least_cost):
            return None
        return self.facts.clipped(mean + ahead), doubt * doubt

    def _changed(self) -> None:
        for held in self._held.values():
            held.changed()
        self._means = self._filters.mean[_KNOWN].tolist()
        self._variances = self._filters.covariance[_KNOWN].diagonal().tolist()

    def _is_identified(self, name: str) -> bool:
        """Return whether readings or peers have identified the cost of a Pod of this class."""
        return self._identified(name) is not None if self.grows else name in self._held

    def _rows_of(self, name: str) -> list[int]:
        rows = self._held[name].rows
        return list(range(rows.start, rows.stop))

    def _single(self, name: str) -> base.Spread:
        """Return (mean, sd) of a cost that does not depend on age."""
        row = self._held[name].rows.start
        return self._means[row], math.sqrt(max(0.0, self._variances[row]))

    def _identified(self, name: str) -> growth.Growth | None:
        """Return the growth of a class, in a dimension in which Pods grow, if readings or peers have identified it."""
        if name not in self._held:
            return None
        found = self._growth(name)
        return found if found.is_identified else None

    def _growth(self, name: str) -> growth.Growth:
        """Return the growth of a class in the filters, in a dimension in which Pods grow."""
        held = self._held[name]
        if held.grown is None:
            held.grown = self._grown(held.rows, _KNOWN)
        return held.grown

    def _grown(self, rows: slice, belief: int) -> growth.Growth:
        return growth.Growth(
            self._filters.mean[belief, rows], self._block(belief, rows), unknown_part=self._priors.unknown_part()
        )

    def _variance(self, name: str) -> float:
        if self.grows:
            return self._growth(name).variance
        variance: float = self._variances[self._held[name].rows.start]
        return max(0.0, variance)

    def _block(self, belief: int, rows: slice) -> arrays.Array:
        """Return those rows and columns (parts, parts) of one belief's covariance."""
        return self._filters.covariance[belief, rows, rows]
