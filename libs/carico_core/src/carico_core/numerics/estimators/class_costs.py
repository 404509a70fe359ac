"""One dimension of `footprint`: the baseline, and per class what a Pod costs. Physical units.

    Y = b + sum over classes k and parts j of c_kj x_kj + noise

x_kj: the Pods of class k as the filter shows them; a dimension that Pods hold (memory) has further parts, by age
(`profile`). One Kalman filter for all costs together, so that classes that run side by side are told apart as far as
the data can.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays, kalman
from carico_core.numerics.estimators import base, containers, profile, resource

# Pods of a class by part: filtered, or as they are.
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
# Below this a peer's variance counts as none, and weights stay far from overflow.
_EXACT_BELOW = 1e-200
# Of the cluster's weight, a node's own share may be this much: beyond it rounding and a message's delay decide.
_MOST_TAKEN = 0.95


@dataclass(slots=True)
class _Filter:
    """Mean (m,) and covariance (m, m) of the parts of all costs."""

    mean: arrays.Array
    covariance: arrays.Array

    def step(self, design: arrays.Array, innovation: float, variance: float) -> None:
        """Kalman update by one reading; Joseph form, multiplied out, so that it takes m x m steps and not m^3."""
        pulled = self.covariance @ design
        spread = float(design @ pulled) + variance
        gain = pulled / spread
        # c <- c + P x e / (x' P x + R)
        self.mean = self.mean + gain * innovation
        # (I - K x') P (I - K x')' + K R K' = P - K (P x)' - (P x) K' + K (x' P x + R) K'
        crossed = np.outer(gain, pulled)
        self.covariance = self.covariance - crossed - crossed.T + spread * np.outer(gain, gain)

    def resized(self, keep: Sequence[int], new: Sequence[base.Evidence]) -> "_Filter":
        """Those rows of the old filter, then new ones, independent of all others."""
        size = len(keep) + len(new)
        rows = list(keep)
        covariance = np.zeros((size, size))
        covariance[: len(rows), : len(rows)] = self.covariance[np.ix_(rows, rows)]
        fresh = range(len(rows), size)
        covariance[fresh, fresh] = [variance for _, variance in new]
        return _Filter(np.concatenate([self.mean[rows], [mean for mean, _ in new]]), covariance)

    def replaced(self, rows: Sequence[int], new: Sequence[base.Evidence]) -> "_Filter":
        """Those rows begun anew, independent of all others."""
        mean, covariance = self.mean.copy(), self.covariance.copy()
        for row, (value, variance) in zip(rows, new, strict=True):
            mean[row] = value
            covariance[row, :] = covariance[:, row] = 0.0
            covariance[row, row] = variance
        return _Filter(mean, covariance)


class ClassCosts:
    """Learns one dimension for all classes of Pods that run, or ran lately, on the node."""

    __slots__ = (
        "_baseline", "_constants", "_facts", "_knowns", "_main", "_names", "_own", "_peers", "_reached", "_wholes",
        "parts",
    )  # fmt: skip

    def __init__(self, facts: resource.Facts, constants: CostConstants, *, grows: bool) -> None:
        self._facts = facts
        self._constants = constants
        self.parts = profile.PARTS if grows and constants.growth_sd > 0.0 else 1
        self._baseline: kalman.Belief | None = None
        self._names: list[str] = []
        self._main = _Filter(np.zeros(0), np.zeros((0, 0)))
        # The same with no prior: what this node alone has measured.
        self._own = _Filter(np.zeros(0), np.zeros((0, 0)))
        self._reached: set[str] = set()
        # What the other nodes measured: class -> (mean, variance between nodes included) of a Pod's whole cost.
        self._peers: dict[str, base.Evidence] = {}
        # What was worked out since the filter last changed, by class (and life).
        self._knowns: dict[str, arrays.Array] = {}
        self._wholes: dict[tuple[str, float], tuple[arrays.Array, float, float]] = {}

    def __getstate__(self) -> dict[str, object]:
        """What it knows, without what is worked out from it."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in ("_knowns", "_wholes")}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._knowns, self._wholes = {}, {}

    @property
    def scale(self) -> float:
        """What usage 1.0 is."""
        return self._facts.scale

    @property
    def noise(self) -> float:
        """Standard deviation of one reading."""
        return math.sqrt(self._facts.reading_variance)

    @property
    def grows(self) -> bool:
        """Whether a Pod's cost depends on its age."""
        return self.parts > 1

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
        rows = [row for name in kept for row in self._rows(name)]
        wide = (self._constants.no_prior * self._facts.scale) ** 2
        self._main = self._main.resized(rows, [part for name in new for part in self._prior(name)])
        self._own = self._own.resized(rows, [(0.0, wide)] * (len(new) * self.parts))
        self._names = kept + new
        self._changed()
        self._reached &= set(self._names)

    def hear(self, peers: Mapping[str, base.Evidence]) -> None:
        """Take in what the other nodes measured (mean, variance): used where it says more than this node knows."""
        share = self._constants.between_nodes
        # v_g + (0.2 c_g)^2
        self._peers = {name: (mean, variance + (share * mean) ** 2) for name, (mean, variance) in peers.items()}
        for name in self._names:
            if name in self._peers and self._variance(name) > self._peers[name][1]:
                self._main = self._main.replaced(self._rows(name), self._prior(name))
        self._changed()

    def learn(self, usage: float, shown: Shown, *, censored: bool, dt_s: float) -> None:
        """Take in one second: usage in [0, 1], and the filtered Pods by class and part.

        censored: the reading says "at least this", so that only a surprise upwards counts.
        """
        level = usage * self._facts.scale
        counts = {name: float(parts[0]) for name, parts in shown.items()}
        if sum(counts.values()) < self._constants.few_pods:
            self._baseline = self._facts.followed(
                self._baseline, level, gain_per_s=self._constants.baseline_gain, dt_s=dt_s
            )
            self._changed()
            return
        design = np.concatenate([shown.get(name, np.zeros(self.parts)) for name in self._names])
        whole = {name for name in self._names if counts.get(name, 0.0) >= self._constants.entry_pods}
        self._reached |= whole.difference(containers.KINDS)
        present = np.repeat([counts.get(name, 0.0) > self._constants.few_pods for name in self._names], self.parts)
        # Readings in quick succession share their samples: together they say no more than one a second.
        variance = self._facts.reading_variance / min(max(dt_s, _LEAST_READING_S), 1.0)
        for each in (self._main, self._own):
            # P_kk <- P_kk + (0.02 c_k)^2 a second, where the class shows
            noise = np.where(present, (self._constants.drift * each.mean) ** 2 * dt_s, 0.0)
            each.covariance[np.diag_indices_from(each.covariance)] += noise
            innovation = level - self.floor - float(design @ each.mean)
            if not censored or innovation > 0.0:
                each.step(design, innovation, variance)
            self._clip(each)
        self._changed()

    def plus(self, name: str, life_s: float, risk_sd: float) -> float:
        """c+: what a Pod of a class takes cautiously, at the end of a life this long; in range."""
        if not self._is_told(name):
            mean, variance = self._whole_prior(name)
            return self._facts.held_to_range(mean + risk_sd * math.sqrt(variance))
        reach, seen, spread = self._whole(name, life_s)
        # What was seen, with its risk; what lies beyond goes on as it did last, as far as that is sure.
        beyond = float((reach * (1.0 - self._known(name))) @ self._beyond(name))
        return max(seen + risk_sd * spread + beyond, self._facts.least_cost)

    def cost(self, name: str, life_s: float) -> base.Spread:
        """(mean, sd) of what a Pod of a class takes at the end of a life this long."""
        if not self._is_told(name):
            mean, variance = self._whole_prior(name)
            return mean, math.sqrt(variance)
        _, seen, spread = self._whole(name, life_s)
        return self._facts.held_to_range(seen), spread

    def left_to_grow(self, name: str, now: arrays.Array, pods: float, life_s: float) -> float:
        """What the running Pods of a class, with these parts behind them, will still take, cautiously; not negative."""
        if not self.grows or not self._is_told(name):
            return 0.0
        ahead = np.maximum(pods * self._reach(life_s) - now, 0.0)
        ahead[0] = 0.0
        known = self._known(name)
        rows = self._rows(name)
        # What is told goes with its risk, as it does in c+: Pods that have just started hold little yet, and where
        # the doubt counted for them the next one was let in beside them.
        told = float((ahead * known) @ self._main.mean[rows]) + math.sqrt(self._whole_variance(name, ahead))
        return max(0.0, told) + float((ahead * (1.0 - known)) @ self._beyond(name))

    def expected(self, pods: Shown) -> float:
        """sum of c_kj n_kj; a class that is not held counts as its peers have it, or as unknown."""
        total = 0.0
        for name, parts in pods.items():
            if self._is_told(name):
                total += float(parts @ self._main.mean[self._rows(name)])
            else:
                total += float(parts[0]) * self._whole_prior(name)[0]
        return total

    def evidence(self, name: str, life_s: float | None) -> base.Evidence | None:
        """(mean, variance) of a Pod's whole cost as measured here, no prior in it; None before a whole Pod was seen.

        Of what Pods hold, only once whole lives have been seen (`life_s` given): others take it for all there is.
        """
        if name not in self._reached or life_s is None:
            return None
        rows = self._rows(name)
        wide = (self._constants.no_prior * self._facts.scale) ** 2
        seen = self._own.covariance[rows, rows] < _MEASURED * wide
        reach = self._reach(life_s) * seen
        variance = float(reach @ self._own.covariance[np.ix_(rows, rows)] @ reach)
        return self._facts.held_to_range(float(reach @ self._own.mean[rows])), max(variance, 0.0)

    def _changed(self) -> None:
        self._knowns.clear()
        self._wholes.clear()

    def _is_told(self, name: str) -> bool:
        """Whether readings or peers have told what a Pod of this class takes.

        Of what Pods hold, the first second says nothing: a program that has not yet loaded its data looks small.
        """
        return name in self._names and (not self.grows or bool(self._known(name)[1]))

    def _rows(self, name: str) -> list[int]:
        first = self._names.index(name) * self.parts
        return list(range(first, first + self.parts))

    def _reach(self, life_s: float) -> arrays.Array:
        return profile.reached([life_s]) if self.grows else np.ones(1)

    def _known(self, name: str) -> arrays.Array:
        """1 for the parts that readings or peers have told, 0 for the others (parts,)."""
        found = self._knowns.get(name)
        if found is None:
            found = np.ones(self.parts)
            if self.grows:
                rows = self._rows(name)
                spread = self._main.covariance[rows, rows]
                unknown = np.array([variance for _, variance in self._unknown()])
                found[1:] = spread[1:] < _MEASURED * unknown[1:]
            self._knowns[name] = found
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
        mean, known = self._main.mean[self._rows(name)], self._known(name)
        if not self.grows:
            return known, float(mean[0]), math.sqrt(self._whole_variance(name, known))
        ages_s = [edge_s for edge_s in profile.EDGES_S if edge_s < life_s] + [life_s]
        reaches = [self._reach(age_s) for age_s in ages_s]
        totals = [float((reach * known) @ mean) for reach in reaches]
        most = max(range(len(totals)), key=totals.__getitem__)
        # The whole life lies behind it, whenever it held most.
        return reaches[-1], max(0.0, totals[most]), math.sqrt(self._whole_variance(name, reaches[most]))

    def _beyond(self, name: str) -> arrays.Array:
        """The parts of a class, those beyond the last one told by its slope: growth goes on as far as it is likely."""
        rows = self._rows(name)
        parts = self._main.mean[rows].copy()
        if not self.grows:
            return parts
        variance = np.maximum(self._main.covariance[rows, rows], 0.0)
        # A part that has just been reached is told, yet says little about its slope: the one before stands until then.
        sure = variance < _SURE * np.array([prior for _, prior in self._unknown()])
        parts[1:] = np.maximum(parts[1:] - _LIKELY_SD * np.sqrt(variance[1:]), 0.0)
        return profile.extrapolated(parts, [bool(one) for one in sure])

    def _whole_variance(self, name: str, reach: arrays.Array) -> float:
        rows = self._rows(name)
        seen = reach * self._known(name)
        return max(0.0, float(seen @ self._main.covariance[np.ix_(rows, rows)] @ seen))

    def _variance(self, name: str) -> float:
        return self._whole_variance(name, np.ones(self.parts))

    def _clip(self, each: _Filter) -> None:
        # The parts of a profile are left as they are: one that is held back would leave its opposite standing. Nor is a
        # small cost raised here to the least that is advertised: twenty idle servers would take a busy Pod's with them.
        if not self.grows:
            np.clip(each.mean, 0.0, self._facts.scale, out=each.mean)

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
        # c0, sd 0.7 c0
        cost = self._facts.unknown_cost(self.floor)
        first = (cost, (self._constants.unknown_sd * cost) ** 2)
        return [first] + [(0.0, (self._constants.growth_sd * cost) ** 2)] * (self.parts - 1)

    def _whole_prior(self, name: str) -> base.Evidence:
        if name not in self._peers:
            return self._unknown()[0]
        mean, variance = self._peers[name]
        return self._facts.held_to_range(mean), variance


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
