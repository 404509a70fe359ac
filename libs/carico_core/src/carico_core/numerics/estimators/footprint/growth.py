"""What a Pod of one class holds, by age: a piecewise linear profile over segments of doubling length.

Memory grows in steps and in slopes: an interpreter loads its data in a second and then stays, a cache fills for a
minute. A single slope would take a step for endless growth. A piecewise linear profile fits both, and its last measured
segment is extrapolated. `Growth` reads the profile from a class's rows of the cost filter.

Plain numbers: with eight parts, numpy's overhead exceeds the arithmetic. Sums of products run from the first part to
the last, as numpy's do up to eight (a test checks that), so both give the same bits.
"""

import bisect
import functools
import itertools
import math
import operator
from collections.abc import Sequence

import numpy as np

from carico_core.numerics import arrays

# The assumed lifetime of a Pod in a class of which too few Pods have ended.
UNKNOWN_LIFE_S = 60.0
# A reading a second is learnt from, so no segment is shorter. Seven reach to the assumed lifetime.
FIRST_S = 1.0
SEGMENTS = 7
# Ages in seconds at which segments begin; the last has no end.
EDGES_S = (0.0, *(FIRST_S * 2.0**index for index in range(SEGMENTS - 1)))
WIDTHS_S = (FIRST_S, *EDGES_S[1:])
# One part for what is held at once, and one for each segment.
PARTS = 1 + len(EDGES_S)
# Edge and width by part: before the first segment only the first part counts.
_BY_PART = ((-math.inf, 1.0), *zip(EDGES_S, WIDTHS_S, strict=True))


def behind(ages_s: Sequence[float]) -> list[float]:
    """Return the parts (PARTS,) of Pods of these ages, oldest first: their number, and how much of each segment passed.

    >>> behind([3.0, 0.5])
    [2.0, 1.5, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    """
    found = [0.0] * PARTS
    if not ages_s:
        return found
    # From the oldest Pod's segment backwards: older Pods are in a Pod's segment as well, or have passed it.
    index = bisect.bisect_left(EDGES_S, ages_s[0])
    edge_s, width_s = _BY_PART[index]
    count = part = 0.0
    for age_s in ages_s:
        while age_s <= edge_s:
            found[index] = part
            index -= 1
            edge_s, width_s = _BY_PART[index]
            part = count
        part += (age_s - edge_s) / width_s
        count += 1.0
    found[index] = part
    found[:index] = [count] * index
    found[0] = count
    return found


def extrapolated(parts: Sequence[float], measured: Sequence[bool]) -> list[float]:
    """Return the parts (PARTS,), extrapolated beyond the last measured segment by its slope; 0 if none is measured."""
    last = max((index for index in range(1, PARTS) if measured[index]), default=0)
    slope = max(0.0, parts[last]) / WIDTHS_S[last - 1] if last else 0.0
    return [*parts[: last + 1], *(slope * width_s for width_s in WIDTHS_S[last:])]


# A cost, or a part of one, counts as measured once its variance is below this share of the initial one,
MEASURED = 0.25
# and is sure enough for extrapolation below this share.
_SURE = 0.1
# Extrapolated growth is reduced by this many standard deviations. At 1, six Pods that grow for 20 s were accepted
# before the first one was known to grow (memory exceeded its limit for 56 node-seconds). At 0, noise counts as growth,
# and the next Pods wait until the first ones end.
_LIKELY_SD = 0.3

# Pods by part (PARTS,): how many, and how much of each segment of age they have passed.
Parts = Sequence[float]


class Growth:
    """The parts of a class in the filter: which are identified, the cost of a whole life, and what is still to come."""

    __slots__ = (
        "_beyond",
        "_covariance",
        "_known",
        "_mean",
        "_unknown",
        "_unknown_part",
        "_variances",
        "_wholes",
        "is_identified",
    )

    def __init__(self, mean: arrays.Array, covariance: arrays.Array, *, unknown_part: float) -> None:
        """mean (PARTS,), covariance (PARTS, PARTS). unknown_part: variance of a part that is not measured."""
        self._mean: list[float] = mean.tolist()
        self._covariance = covariance
        self._unknown_part = unknown_part
        self._variances: list[float] = covariance.diagonal().tolist()
        identified_below = MEASURED * unknown_part
        # 1 for the parts that readings or peers have identified, 0 for the others; and the opposite.
        self._known = [1.0, *(1.0 if variance <= identified_below else 0.0 for variance in self._variances[1:])]
        self._unknown = [1.0 - known for known in self._known]
        # Whether readings or peers show the cost of such a Pod. The first second does not: a program that has not
        # loaded its data yet looks small.
        self.is_identified = self._known[1] > 0.0
        self._beyond: list[float] | None = None
        self._wholes: dict[float, tuple[float, float]] = {}

    @property
    def variance(self) -> float:
        """Variance of the sum of the parts that are identified."""
        return self._variance_of(self._known)

    def whole(self, life_s: float) -> tuple[float, float]:
        """Return (mean, sd) of a Pod's largest cost in a life this long, as far as identified.

        Single parts may be uncertain and cancel each other; their sum, which readings show, is what counts.
        """
        found = self._wholes.get(life_s)
        if found is None:
            found = self._wholes[life_s] = self._computed_whole(life_s)
        return found

    def plus(self, life_s: float, risk_sd: float) -> float:
        """Return the cautious cost of a Pod at the end of a life this long."""
        seen, spread = self.whole(life_s)
        # What was seen, with its risk; beyond that, extrapolated as far as that is sure.
        return seen + risk_sd * spread + self._beyond_identified(behind_life(life_s))

    def expected(self, parts: Parts) -> float:
        """Return sum of c_j n_j."""
        return dot(parts, self._mean)

    def left(self, now: Parts, pods: float, life_s: float) -> float:
        """Return what running Pods with these parts (`now`) will still take, cautiously; at least 0."""
        rest = [pods * each - gone for each, gone in zip(behind_life(life_s), now, strict=True)]
        ahead = [each if each > 0.0 else 0.0 for each in rest]
        ahead[0] = 0.0
        identified_ahead = _times(ahead, self._known)
        identified = 0.0
        if any(identified_ahead):
            # The risk is added, as in c+: Pods that have just started hold little yet, and without the risk one Pod too
            # many was accepted.
            identified = max(0.0, dot(identified_ahead, self._mean) + math.sqrt(self._variance_of(identified_ahead)))
        return identified + self._beyond_identified(ahead)

    def _computed_whole(self, life_s: float) -> tuple[float, float]:
        identified = _times(self._known, self._mean)
        most, passed = -math.inf, 0
        # At the start of a segment, the first part and all segments before it have passed.
        for index, (edge_s, held) in enumerate(zip(EDGES_S, itertools.accumulate(identified), strict=False)):
            if edge_s >= life_s:
                break
            if held > most:
                most, passed = held, index + 1
        parts = _times(behind_life(life_s), self._known)
        at_the_end = dot(parts, self._mean)
        if at_the_end > most:
            most = at_the_end
        else:
            parts = self._known[:passed] + [0.0] * (PARTS - passed)
        return max(0.0, most), math.sqrt(self._variance_of(parts))

    def _beyond_identified(self, parts: Parts) -> float:
        """Return what those of these parts are extrapolated to that are not identified."""
        unknown = _times(parts, self._unknown)
        return dot(unknown, self._with_extrapolation()) if any(unknown) else 0.0

    def _with_extrapolation(self) -> list[float]:
        """Return the parts, extrapolated beyond the last sure one by its likely slope."""
        found = self._beyond
        if found is None:
            variances = [variance if variance > 0.0 else 0.0 for variance in self._variances]
            # A part that was just reached is identified but says little about its slope: the one before it counts.
            sure = [variance < _SURE * self._unknown_part for variance in variances]
            likely = [
                max(mean - _LIKELY_SD * math.sqrt(variance), 0.0)
                for mean, variance in zip(self._mean[1:], variances[1:], strict=True)
            ]
            found = self._beyond = extrapolated([self._mean[0], *likely], sure)
        return found

    def _variance_of(self, parts: Parts) -> float:
        """Return the variance of the sum of these parts."""
        seen = np.array(parts)
        # x' P x; for eight parts `dot` takes half the time of `@`.
        return max(0.0, float(seen.dot(self._covariance).dot(seen)))


def dot(left: Parts, right: Parts) -> float:
    """Return the sum of products, from the first to the last.

    >>> dot([1.0, 2.0], [3.0, 4.0])
    11.0
    """
    return float(sum(map(operator.mul, left, right)))


# Lifetimes of a class change only when its Pods end.
_LIVES_CACHED = 4096


@functools.lru_cache(maxsize=_LIVES_CACHED)
def behind_life(life_s: float) -> tuple[float, ...]:
    """Return the parts (PARTS,) of one Pod at the end of a life this long."""
    return tuple(behind([life_s]))


def _times(left: Parts, right: Parts) -> list[float]:
    return list(map(operator.mul, left, right))
