"""One dimension of `footprint`: the baseline, and per class what a Pod costs. Physical units.

    Y = b + sum over classes k and parts j of c_kj x_kj + noise

x_kj: the Pods of class k as the filter shows them; a dimension that Pods hold (memory) has further parts, by age
(`growth`). One Kalman filter for all costs together, so that classes that run side by side are kept apart as far as
the data can. What is believed before it has learnt: `priors`.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from carico_core.numerics import arrays, kalman
from carico_core.numerics.estimators import base, cost_filter, dimension, footprint_constants, growth

CostConstants = footprint_constants.CostConstants

# Pods of a class, filtered or as they are: how many, and where Pods grow by part.
Counted = Mapping[str, float]
Shown = Mapping[str, growth.Parts]

# A reading after less time than this counts as one after it: a clock that stands still must not make noise infinite.
_LEAST_READING_S = 0.01
# Of the filters' beliefs: what is known, and what this node alone has measured, with no prior in it.
_KNOWN, _OWN = 0, 1


@dataclasses.dataclass(slots=True, eq=False)
class _Held:
    """A class that is held: its rows in the filters, and what has been worked out of them since they last changed."""

    rows: slice
    # A whole Pod of it has been seen here.
    is_reached: bool = False
    grown: growth.Growth | None = None
    # For a life this long.
    evident: tuple[float, base.Evidence | None] | None = None

    def __reduce__(self) -> tuple[type["_Held"], tuple[slice, bool]]:
        """Without what is worked out."""
        return _Held, (self.rows, self.is_reached)

    def changed(self) -> None:
        """Its rows are others now."""
        self.grown = self.evident = None


class ClassCosts:
    """Learns one dimension for all classes of Pods that run on the node, or ran a short time ago.

    Where Pods do not grow, a class is one number, and plain ones are several times quicker than arrays of one.
    """

    __slots__ = ("_baseline", "_constants", "_filters", "_held", "_means", "_priors", "facts", "grows", "parts")

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
        # The mean of each row, by what is known.
        self._means: list[float] = []

    @property
    def noise(self) -> float:
        """Standard deviation of one reading."""
        return math.sqrt(self.facts.reading_variance)

    @property
    def baseline_spread(self) -> base.Spread:
        """Usage without workload Pods, and its standard deviation; (0, S) while the node was never without."""
        return self.facts.spread(self._baseline)

    @property
    def floor(self) -> float:
        """The baseline as far as it is known."""
        return self._priors.floor

    @property
    def measured(self) -> frozenset[str]:
        """Classes of which a whole Pod has been seen here."""
        return frozenset(name for name, held in self._held.items() if held.is_reached)

    def is_unknown(self, name: str, *, runs: bool) -> bool:
        """Return whether neither this node nor its peers have measured what a Pod of this class takes.

        A class is held from its first start: a Pod that ended before it showed has shown nothing. One that runs is
        telling, though a full node's readings say little.
        """
        if self._priors.heard(name) is not None:
            return False
        return not self._is_identified(name) or (
            not (self.grows or runs) and self._variance(name) >= growth.MEASURED * self._priors.whole(name)[1]
        )

    def hold(self, names: list[str]) -> None:
        """Keep these classes and no others; new ones begin as their peers have it, or unknown."""
        if set(names) == self._held.keys():
            return
        kept = [name for name in self._held if name in names]
        new = [name for name in names if name not in self._held]
        rows = [row for name in kept for row in self._rows_of(name)]
        wide = (self._constants.no_prior * self.facts.scale) ** 2
        known = [part for name in new for part in self._priors.by_part(name)]
        self._filters.resize(rows, [known, [(0.0, wide)] * len(known)])
        reached = self.measured
        self._held = {
            name: _Held(slice(place * self.parts, (place + 1) * self.parts), name in reached)
            for place, name in enumerate(kept + new)
        }
        self._changed()

    def hear(self, peers: Mapping[str, base.Evidence]) -> None:
        """Take in what the other nodes measured (mean, variance): used where it says more than this node knows."""
        self._priors.hear(peers)
        for name in self._held:
            heard = self._priors.heard(name)
            if heard is not None and self._variance(name) > heard[1]:
                self._filters.begin(_KNOWN, self._rows_of(name), self._priors.by_part(name))
                self._changed()

    def learn(self, usage: float, counts: Counted, shown: Shown, *, censored: bool, dt_s: float) -> None:
        """Take in one second: usage in [0, 1], and the filtered Pods by class, and by part where Pods grow.

        censored: the reading says "at least this", so that only a surprise upwards counts.
        """
        level = usage * self.facts.scale
        few_pods = self._constants.few_pods
        if sum(counts.values()) < few_pods:
            is_followed = self._baseline is not None
            self._baseline = self.facts.followed(
                self._baseline, level, gain_per_s=self._constants.baseline_gain, dt_s=dt_s
            )
            identified_below = growth.MEASURED * self._priors.unknown_part()
            self._priors.rest_on(self._baseline.mean)
            if self.grows and is_followed:
                # What was identified stays so where the baseline moves, and with it what counts as identified.
                self._filters.narrow(_KNOWN, identified_below, growth.MEASURED * self._priors.unknown_part())
            self._changed()
            return
        present = [counts.get(name, 0.0) for name in self._held]
        for held, count in zip(self._held.values(), present, strict=True):
            if count >= self._constants.entry_pods:
                held.is_reached = True
        design = self._design(present, shown)
        # Readings in quick succession share their samples: together they say no more than one a second.
        variance = self.facts.reading_variance / min(max(dt_s, _LEAST_READING_S), 1.0)
        shows = None
        if min(present) <= few_pods:
            shows = np.array([count > few_pods for count in present for _ in range(self.parts)])
        # Of what stands still only the sum shows: drift would make the parts unknown, one second after another.
        kept_below = growth.MEASURED * self._priors.unknown_part() if self.grows else math.inf
        self._filters.drift(self._constants.drift, shows, dt_s, kept_below=kept_below)
        self._filters.step(design, level - self.floor, variance, at_least=censored)
        # The parts of a profile are left as they are: one that is held back would leave its opposite standing. Nor is a
        # small cost raised here to the least that is advertised: twenty idle servers would take a busy Pod's with them.
        if not self.grows:
            self._filters.clip(self.facts.scale)
        self._changed()

    def _design(self, present: Sequence[float], shown: Shown) -> arrays.Array:
        """x: the filtered Pods by class and part."""
        if not self.grows:
            return np.array(present)
        none = [0.0] * self.parts
        return np.array([part for name in self._held for part in shown.get(name, none)])

    def plus(self, name: str, life_s: float, risk_sd: float) -> float:
        """c+: what a Pod of a class takes cautiously, at the end of a life this long; in range."""
        if self.grows:
            identified = self._identified(name)
            if identified is not None:
                return max(identified.plus(life_s, risk_sd), self.facts.least_cost)
        elif name in self._held:
            mean, spread = self._single(name)
            return max(mean + risk_sd * spread, self.facts.least_cost)
        mean, variance = self._priors.whole(name)
        return self.facts.held_to_range(mean + risk_sd * math.sqrt(variance))

    def cost(self, name: str, life_s: float) -> base.Spread:
        """Return (mean, sd) of what a Pod of a class takes at the end of a life this long."""
        if not self._is_identified(name):
            mean, variance = self._priors.whole(name)
            return mean, math.sqrt(variance)
        mean, spread = self._growth(name).whole(life_s) if self.grows else self._single(name)
        return self.facts.held_to_range(mean), spread

    def left_to_grow(self, name: str, now: growth.Parts, pods: float, life_s: float) -> float:
        """Return what the running Pods of a class, with these parts behind them, will still take, cautiously.

        Not negative.
        """
        identified = self._identified(name) if self.grows else None
        return 0.0 if identified is None else identified.left(now, pods, life_s)

    def expected(self, pods: Counted) -> float:
        """sum of c_k n_k where Pods do not grow; a class that is not held counts as peers have it, or as unknown."""
        total = 0.0
        for name, count in pods.items():
            held = self._held.get(name)
            total += count * (self._priors.whole(name)[0] if held is None else self._means[held.rows.start])
        return total

    def expected_by_part(self, pods: Shown) -> float:
        """sum of c_kj n_kj; a class that is not held, or not identified, counts as its peers have it, or as unknown."""
        total = 0.0
        for name, parts in pods.items():
            identified = self._identified(name)
            total += parts[0] * self._priors.whole(name)[0] if identified is None else identified.expected(parts)
        return total

    def evidence(self, name: str, life_s: float) -> base.Evidence | None:
        """Return (mean, variance) of what a Pod costs by the end of a life this long, as measured here, no prior in it.

        None before a whole Pod was seen, and where readings do not separate its cost from those of other classes.
        """
        held = self._held.get(name)
        if held is None or not held.is_reached:
            return None
        if held.evident is None or held.evident[0] != life_s:
            held.evident = (life_s, self._measured(held.rows, life_s))
        return held.evident[1]

    def _measured(self, rows: slice, life_s: float) -> base.Evidence | None:
        """Work out `evidence`."""
        identified_below = growth.MEASURED * (self._constants.no_prior * self.facts.scale) ** 2
        if not self.grows:
            mean = self._filters.mean.item(_OWN, rows.start)
            variance = self._filters.covariance.item(_OWN, rows.start, rows.start)
            return (self.facts.held_to_range(mean), max(variance, 0.0)) if variance < identified_below else None
        covariance = self._block(_OWN, rows)
        identified = covariance.diagonal() < identified_below
        if not identified[0]:
            return None
        # Not by `growth.behind`, which keeps what it works out: the age of a Pod that stands is another every second.
        reach = np.array(growth.behind([life_s])) * identified
        variance = float(reach @ covariance @ reach)
        return self.facts.held_to_range(float(reach @ self._filters.mean[_OWN, rows])), max(variance, 0.0)

    def standing_evidence(self, name: str, age_s: float) -> base.Evidence | None:
        """Return (mean, variance) of what a Pod holds of which no life is known, by running ones,
        the oldest of this age.

        What they will still take goes on as it did last, and is doubt besides. None where the doubt is larger than
        nodes differ by, or than what can never fill one.
        """
        found = self.evidence(name, age_s)
        # Without a baseline it would be stated with what the node itself holds.
        if found is None or self._baseline is None:
            return None
        mean, variance = found
        ahead = self._grown(self._held[name].rows, _OWN).left(growth.behind([age_s]), 1.0, growth.UNKNOWN_LIFE_S)
        doubt = math.hypot(math.sqrt(variance), ahead)
        if doubt > max(self._constants.between_nodes * mean, self.facts.least_cost):
            return None
        return self.facts.held_to_range(mean + ahead), doubt * doubt

    def _changed(self) -> None:
        for held in self._held.values():
            held.changed()
        self._means = self._filters.mean[_KNOWN].tolist()

    def _is_identified(self, name: str) -> bool:
        """Return whether readings or peers have identified what a Pod of this class takes."""
        return self._identified(name) is not None if self.grows else name in self._held

    def _rows_of(self, name: str) -> list[int]:
        rows = self._held[name].rows
        return list(range(rows.start, rows.stop))

    def _single(self, name: str) -> base.Spread:
        """Return (mean, sd) of a cost that does not depend on age."""
        row = self._held[name].rows.start
        return self._means[row], math.sqrt(max(0.0, self._filters.covariance.item(_KNOWN, row, row)))

    def _identified(self, name: str) -> growth.Growth | None:
        """Return a class of which readings or peers have identified how it grows, in a dimension in which Pods do.

        Else None.
        """
        if name not in self._held:
            return None
        found = self._growth(name)
        return found if found.is_identified else None

    def _growth(self, name: str) -> growth.Growth:
        """Return a class that is held, in a dimension in which Pods grow."""
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
        row = self._held[name].rows.start
        return max(0.0, self._filters.covariance.item(_KNOWN, row, row))

    def _block(self, belief: int, rows: slice) -> arrays.Array:
        """Return those rows and columns (parts, parts) of one belief's covariance."""
        return self._filters.covariance[belief, rows, rows]
