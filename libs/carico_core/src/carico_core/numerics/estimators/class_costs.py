"""One dimension of `footprint`: the baseline, and per class what a Pod costs. Physical units.

    Y = b + sum over classes k and parts j of c_kj x_kj + noise

x_kj: the Pods of class k as the filter shows them; a dimension that Pods hold (memory) has further parts, by age
(`profile`). One Kalman filter for all costs together, so that classes that run side by side are told apart as far as
the data can.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays, kalman
from carico_core.numerics.estimators import base, containers, cost_filter, profile, resource

# Pods of a class, filtered or as they are: how many, and where Pods grow by part.
Counted = Mapping[str, float]
Shown = Mapping[str, arrays.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostConstants:
    """Numbers of the design's section 7, steps 3 to 6 and 10.

    few_pods: filtered Pods below which usage is baseline. baseline_gain: per second. drift: of a cost per root second,
    as a share of it. unknown_sd: of a cost nobody measured, as a share of it. between_nodes: difference of a class's
    cost between nodes, as a share of it. entry_pods: filtered Pods from which a measurement is evidence for others.
    growth_sd: of a part of the profile that nobody measured, as a share of an unknown cost; 0: Pods do not grow.
    """

    few_pods: float = 0.2
    baseline_gain: float = 0.1
    drift: float = 0.02
    unknown_sd: float = 0.7
    between_nodes: float = 0.2
    entry_pods: float = 1.0
    growth_sd: float = 0.5
    # A prior this wide, in full scales, leaves the node's own evidence free of any prior.
    no_prior: float = 10.0


# A part counts as measured once its variance is below this share of the prior's.
_MEASURED = 0.25
# ... and is sure enough to say how what a Pod holds goes on.
_SURE = 0.1
# Spread left to a part of the profile that peers have measured as a whole, as a share of the cost.
_KNOWN_PART = 0.1
# Standard deviations by which a growth that goes on must differ from none. At 1, six Pods that grow for 20 s were
# taken before the first of them was known to grow (memory overran by 56 node-seconds); at 0, noise passes for growth,
# and the next Pods wait for the first ones to end.
_LIKELY_SD = 0.3
# A reading after less time than this counts as one after it: a clock that stands still must not make noise infinite.
_LEAST_READING_S = 0.01
# What is worked out from what it knows, and left out of a pickle.
_WORKED_OUT = frozenset({"_knowns", "_beyonds", "_wholes", "_means", "_guess"})
# Below this a peer's variance counts as none, and weights stay far from overflow.
_EXACT_BELOW = 1e-200
# Of the cluster's weight, a node's own share may be this much: beyond it rounding and a message's delay decide.
_MOST_TAKEN = 0.95


class ClassCosts:
    """Learns one dimension for all classes of Pods that run, or ran lately, on the node.

    Where Pods do not grow, a class is one number, and plain ones are several times quicker than arrays of one.
    """

    __slots__ = (
        "_baseline", "_beyonds", "_constants", "_facts", "_guess", "_knowns", "_main", "_means", "_names", "_own",
        "_peers", "_reached", "_rows", "_wholes", "grows", "parts",
    )  # fmt: skip

    def __init__(self, facts: resource.Facts, constants: CostConstants, *, grows: bool) -> None:
        self._facts = facts
        self._constants = constants
        self.parts = profile.PARTS if grows and constants.growth_sd > 0.0 else 1
        # Whether a Pod's cost depends on its age.
        self.grows = self.parts > 1
        self._baseline: kalman.Belief | None = None
        self._names: list[str] = []
        # The rows of each class in the filters.
        self._rows: dict[str, slice] = {}
        self._main = cost_filter.CostFilter(np.zeros(0), np.zeros((0, 0)))
        # The same with no prior: what this node alone has measured.
        self._own = cost_filter.CostFilter(np.zeros(0), np.zeros((0, 0)))
        self._reached: set[str] = set()
        # What the other nodes measured: class -> (mean, variance between nodes included) of a Pod's whole cost.
        self._peers: dict[str, base.Evidence] = {}
        # What was worked out since the filter last changed, by class (and life).
        self._knowns: dict[str, arrays.Array] = {}
        self._beyonds: dict[str, arrays.Array] = {}
        self._wholes: dict[tuple[str, float], tuple[arrays.Array, float, float]] = {}
        self._means: list[float] = []
        self._guess: base.Evidence | None = None

    def __getstate__(self) -> dict[str, object]:
        """What it knows, without what is worked out from it."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in _WORKED_OUT}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._knowns, self._beyonds, self._wholes, self._guess = {}, {}, {}, None
        self._means = self._main.mean.tolist()

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
        return self._baseline.mean, math.sqrt(self._baseline.variance)

    @property
    def floor(self) -> float:
        """The baseline as far as it is known."""
        return 0.0 if self._baseline is None else self._baseline.mean

    @property
    def measured(self) -> frozenset[str]:
        """Classes of which a whole Pod has been seen here."""
        return frozenset(self._reached)

    def is_unknown(self, name: str) -> bool:
        """Whether neither this node nor its peers know what a Pod of this class takes."""
        return name not in self._peers and not self._is_told(name)

    def hold(self, names: list[str]) -> None:
        """Keep these classes and no others; new ones begin as their peers have it, or unknown."""
        if set(names) == set(self._names):
            return
        kept = [name for name in self._names if name in names]
        new = [name for name in names if name not in self._names]
        rows = [row for name in kept for row in self._rows_of(name)]
        wide = (self._constants.no_prior * self._facts.scale) ** 2
        self._main = self._main.resized(rows, [part for name in new for part in self._prior(name)])
        self._own = self._own.resized(rows, [(0.0, wide)] * (len(new) * self.parts))
        self._names = kept + new
        self._rows = {
            name: slice(place * self.parts, (place + 1) * self.parts) for place, name in enumerate(self._names)
        }
        self._changed()
        self._reached &= set(self._names)

    def hear(self, peers: Mapping[str, base.Evidence]) -> None:
        """Take in what the other nodes measured (mean, variance): used where it says more than this node knows."""
        share = self._constants.between_nodes
        # v_g + (0.2 c_g)^2
        self._peers = {name: (mean, variance + (share * mean) ** 2) for name, (mean, variance) in peers.items()}
        for name in self._names:
            if name in self._peers and self._variance(name) > self._peers[name][1]:
                self._main = self._main.replaced(self._rows_of(name), self._prior(name))
        self._changed()

    def learn(self, usage: float, counts: Counted, shown: Shown, *, censored: bool, dt_s: float) -> None:
        """Take in one second: usage in [0, 1], and the filtered Pods by class, and by part where Pods grow.

        censored: the reading says "at least this", so that only a surprise upwards counts.
        """
        level = usage * self._facts.scale
        few_pods = self._constants.few_pods
        if sum(counts.values()) < few_pods:
            self._baseline = self._facts.followed(
                self._baseline, level, gain_per_s=self._constants.baseline_gain, dt_s=dt_s
            )
            self._changed()
            return
        present = [counts.get(name, 0.0) for name in self._names]
        entry_pods = self._constants.entry_pods
        whole = {name for name, count in zip(self._names, present, strict=True) if count >= entry_pods}
        self._reached |= whole.difference(containers.KINDS)
        design = self._design(present, shown)
        # Readings in quick succession share their samples: together they say no more than one a second.
        variance = self._facts.reading_variance / min(max(dt_s, _LEAST_READING_S), 1.0)
        shows = None if min(present) > few_pods else np.repeat([count > few_pods for count in present], self.parts)
        for each in (self._main, self._own):
            each.drift(self._constants.drift, shows, dt_s)
            innovation = level - self.floor - float(design @ each.mean)
            if not censored or innovation > 0.0:
                each.step(design, innovation, variance)
            self._clip(each)
        self._changed()

    def _design(self, present: Sequence[float], shown: Shown) -> arrays.Array:
        """x: the filtered Pods by class and part."""
        if not self.grows:
            return np.array(present)
        none = np.zeros(self.parts)
        return np.concatenate([shown.get(name, none) for name in self._names])

    def plus(self, name: str, life_s: float, risk_sd: float) -> float:
        """c+: what a Pod of a class takes cautiously, at the end of a life this long; in range."""
        if not self._is_told(name):
            mean, variance = self._whole_prior(name)
            return self._facts.held_to_range(mean + risk_sd * math.sqrt(variance))
        if not self.grows:
            mean, spread = self._single(name)
            return max(mean + risk_sd * spread, self._facts.least_cost)
        reach, seen, spread = self._whole(name, life_s)
        # What was seen, with its risk; what lies beyond goes on as it did last, as far as that is sure.
        beyond = float((reach * (1.0 - self._known(name))) @ self._beyond(name))
        return max(seen + risk_sd * spread + beyond, self._facts.least_cost)

    def cost(self, name: str, life_s: float) -> base.Spread:
        """(mean, sd) of what a Pod of a class takes at the end of a life this long."""
        if not self._is_told(name):
            mean, variance = self._whole_prior(name)
            return mean, math.sqrt(variance)
        if not self.grows:
            mean, spread = self._single(name)
            return self._facts.held_to_range(mean), spread
        _, seen, spread = self._whole(name, life_s)
        return self._facts.held_to_range(seen), spread

    def left_to_grow(self, name: str, now: arrays.Array, pods: float, life_s: float) -> float:
        """What the running Pods of a class, with these parts behind them, will still take, cautiously; not negative."""
        if not self.grows or not self._is_told(name):
            return 0.0
        ahead = np.maximum(pods * _reach(life_s) - now, 0.0)
        ahead[0] = 0.0
        known = self._known(name)
        told_ahead = ahead * known
        # What is told goes with its risk, as it does in c+: Pods that have just started hold little yet, and where
        # the doubt counted for them the next one was let in beside them.
        told = float(told_ahead @ self._main.mean[self._rows[name]]) + math.sqrt(self._variance_of(name, told_ahead))
        return max(0.0, told) + float((ahead * (1.0 - known)) @ self._beyond(name))

    def expected(self, pods: Counted) -> float:
        """sum of c_k n_k where Pods do not grow; a class that is not held counts as peers have it, or as unknown."""
        total = 0.0
        for name, count in pods.items():
            rows = self._rows.get(name)
            total += count * (self._whole_prior(name)[0] if rows is None else self._means[rows.start])
        return total

    def expected_by_part(self, pods: Shown) -> float:
        """sum of c_kj n_kj; a class that is not held, or not told, counts as its peers have it, or as unknown."""
        total = 0.0
        for name, parts in pods.items():
            if self._is_told(name):
                total += float(parts @ self._main.mean[self._rows[name]])
            else:
                total += float(parts[0]) * self._whole_prior(name)[0]
        return total

    def evidence(self, name: str, life_s: float | None) -> base.Evidence | None:
        """(mean, variance) of a Pod's whole cost as measured here, no prior in it; None before a whole Pod was seen.

        Of what Pods hold, only once whole lives have been seen (`life_s` given): others take it for all there is.
        """
        if name not in self._reached or life_s is None:
            return None
        rows = self._rows[name]
        told_below = _MEASURED * (self._constants.no_prior * self._facts.scale) ** 2
        if not self.grows:
            mean, variance = self._own.mean.item(rows.start), self._own.covariance.item(rows.start, rows.start)
            told = variance < told_below
            return self._facts.held_to_range(mean if told else 0.0), max(variance if told else 0.0, 0.0)
        reach = _reach(life_s) * (self._own.covariance.diagonal()[rows] < told_below)
        variance = float(reach @ _block(self._own.covariance, rows) @ reach)
        return self._facts.held_to_range(float(reach @ self._own.mean[rows])), max(variance, 0.0)

    def _changed(self) -> None:
        self._knowns.clear()
        self._beyonds.clear()
        self._wholes.clear()
        self._guess = None
        self._means = self._main.mean.tolist()

    def _is_told(self, name: str) -> bool:
        """Whether readings or peers have told what a Pod of this class takes.

        Of what Pods hold, the first second says nothing: a program that has not yet loaded its data looks small.
        """
        return name in self._rows and (not self.grows or bool(self._known(name)[1]))

    def _rows_of(self, name: str) -> list[int]:
        rows = self._rows[name]
        return list(range(rows.start, rows.stop))

    def _single(self, name: str) -> base.Spread:
        """(mean, sd) of a cost that does not depend on age."""
        row = self._rows[name].start
        return self._means[row], math.sqrt(max(0.0, self._main.covariance.item(row, row)))

    def _known(self, name: str) -> arrays.Array:
        """1 for the parts that readings or peers have told, 0 for the others (parts,)."""
        found = self._knowns.get(name)
        if found is None:
            found = self._knowns[name] = np.ones(self.parts)
            if self.grows:
                spread = self._main.covariance.diagonal()[self._rows[name]]
                found[1:] = spread[1:] < _MEASURED * self._unknown_part()
        return found

    def _whole(self, name: str, life_s: float) -> tuple[arrays.Array, float, float]:
        """(parts behind it, mean, sd) of a Pod at that age of a life this long at which it takes most, as far as told.

        Single parts may be unsure and cancel each other; their sum, which readings show, is what counts.
        """
        found = self._wholes.get((name, life_s))
        if found is None:
            found = self._wholes[name, life_s] = self._worked_out(name, life_s)
        return found

    def _worked_out(self, name: str, life_s: float) -> tuple[arrays.Array, float, float]:
        mean, known = self._main.mean[self._rows[name]], self._known(name)
        reaches = _reaches(life_s)
        totals = [float((reach * known) @ mean) for reach in reaches]
        most = max(range(len(totals)), key=totals.__getitem__)
        # The whole life lies behind it, whenever it held most.
        return reaches[-1], max(0.0, totals[most]), math.sqrt(self._variance_of(name, reaches[most] * known))

    def _beyond(self, name: str) -> arrays.Array:
        """The parts of a class, those beyond the last one told by its slope: growth goes on as far as it is likely."""
        found = self._beyonds.get(name)
        if found is None:
            rows = self._rows[name]
            parts = self._main.mean[rows].copy()
            variance = np.maximum(self._main.covariance.diagonal()[rows], 0.0)
            # A part just reached is told, yet says little about its slope: the one before stands until then.
            sure = variance < _SURE * self._unknown_part()
            parts[1:] = np.maximum(parts[1:] - _LIKELY_SD * np.sqrt(variance[1:]), 0.0)
            found = self._beyonds[name] = profile.extrapolated(parts, sure.tolist())
        return found

    def _variance_of(self, name: str, seen: arrays.Array) -> float:
        """Variance of the sum of these parts."""
        return max(0.0, float(seen @ _block(self._main.covariance, self._rows[name]) @ seen))

    def _variance(self, name: str) -> float:
        return self._variance_of(name, self._known(name))

    def _clip(self, each: cost_filter.CostFilter) -> None:
        # The parts of a profile are left as they are: one that is held back would leave its opposite standing. Nor is a
        # small cost raised here to the least that is advertised: twenty idle servers would take a busy Pod's with them.
        if self.grows:
            return
        means, scale = each.mean.tolist(), self._facts.scale
        if min(means) < 0.0 or max(means) > scale:
            each.mean = np.array([min(max(mean, 0.0), scale) for mean in means])

    def _prior(self, name: str) -> list[base.Evidence]:
        """(mean, variance) of each part of a class that begins here."""
        if name in containers.PRIOR:
            return [containers.PRIOR[name]]
        if name not in self._peers:
            return self._unknown()
        mean, variance = self._whole_prior(name)
        # Peers tell the whole: taken as there at once, which is cautious, until this node has seen how it comes.
        return [(mean, variance)] + [(0.0, (_KNOWN_PART * mean) ** 2)] * (self.parts - 1)

    def _unknown(self) -> list[base.Evidence]:
        return [self._unknown_whole()] + [(0.0, self._unknown_part())] * (self.parts - 1)

    def _unknown_whole(self) -> base.Evidence:
        found = self._guess
        if found is None:
            # c0, sd 0.7 c0
            cost = self._facts.unknown_cost(self.floor)
            found = self._guess = (cost, (self._constants.unknown_sd * cost) ** 2)
        return found

    def _unknown_part(self) -> float:
        """Variance of a part of the profile that nobody measured."""
        return float((self._constants.growth_sd * self._unknown_whole()[0]) ** 2)

    def _whole_prior(self, name: str) -> base.Evidence:
        if name not in self._peers:
            return self._unknown_whole()
        mean, variance = self._peers[name]
        return self._facts.held_to_range(mean), variance


# Lives of a class change as its Pods end, and no more often.
@functools.lru_cache(maxsize=4096)
def _reach(life_s: float) -> arrays.Array:
    """The parts that lie behind a Pod at the end of a life this long (PARTS,); read-only."""
    found = profile.reached([life_s])
    found.flags.writeable = False
    return found


@functools.lru_cache(maxsize=4096)
def _reaches(life_s: float) -> tuple[arrays.Array, ...]:
    """The same at the edge of each segment before the end, and at the end."""
    return (*(_reach(edge_s) for edge_s in profile.EDGES_S if edge_s < life_s), _reach(life_s))


def _block(covariance: arrays.Array, rows: slice) -> arrays.Array:
    """Those rows and columns (parts, parts)."""
    return covariance[rows, rows] if len(covariance) == rows.stop - rows.start else covariance[rows, rows].copy()


def without(fused: base.Evidence, own: base.Evidence | None, share: float) -> base.Evidence | None:
    """A fused (mean, variance) with one part taken out; None where nothing is left. Weights 1 / (v + (share c)^2)."""
    mean, variance = fused
    if own is None:
        return fused
    part = own[1] + (share * own[0]) ** 2
    if part < _EXACT_BELOW:
        return None
    # Of the whole weight 1 / variance, the part's share.
    taken = variance / part
    if not taken <= _MOST_TAKEN:
        return None
    return (mean - own[0] * taken) / (1.0 - taken), variance / (1.0 - taken)
