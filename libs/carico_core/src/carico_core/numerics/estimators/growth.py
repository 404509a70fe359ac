"""What a Pod of one class holds by its age: a broken line over segments of doubling length.

Memory comes in steps and in slopes: an interpreter that loads its data in a second and then stays, a cache that fills
for a minute. A single slope takes the step for growth without end; a broken line fits both, and its last measured
piece says how it goes on. `Growth` reads the line from a class's rows of the cost filter.

Plain numbers: at eight parts numpy's overhead costs more than the arithmetic. Sums of products go from the first part
to the last, as numpy's do up to eight (a test holds that), so that both ways give the same bits.
"""

import functools
import math
import operator
from collections.abc import Iterable, Sequence

import numpy as np

from carico_core.numerics import arrays

# Of a class of which too few Pods have ended a Pod is taken to last this long (design, section 7, step 10).
UNKNOWN_LIFE_S = 60.0
# Ages in seconds at which segments begin; the last has no end.
EDGES_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
WIDTHS_S = (1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# What is there at once, and one part for each segment.
PARTS = 1 + len(EDGES_S)
# And the time before the first, in which a Pod is only there.
_LAST_FIRST = (*zip(reversed(EDGES_S), reversed(WIDTHS_S), strict=True), (-math.inf, 1.0))


def behind(ages_s: Iterable[float]) -> list[float]:
    """Return how many Pods of these ages, oldest first, there are,
    and how much of each segment lies behind them (PARTS,).

    >>> behind([3.0, 0.5])
    [2.0, 1.5, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    """
    # From the last segment on: what a Pod is in, those that are older are in as well or have behind them.
    segments = iter(_LAST_FIRST)
    edge_s, width_s = next(segments)
    found: list[float] = []
    count = part = 0.0
    for age_s in ages_s:
        while age_s <= edge_s:
            found.append(part)
            edge_s, width_s = next(segments)
            part = count
        part += (age_s - edge_s) / width_s
        count += 1.0
    found.append(part)
    found += [count] * (PARTS - len(found))
    found[-1] = count
    found.reverse()
    return found


def extrapolated(parts: Sequence[float], measured: Sequence[bool]) -> list[float]:
    """Return the parts (PARTS,), those beyond the last measured segment by its slope; none of them where none is."""
    last = max((index for index in range(1, PARTS) if measured[index]), default=0)
    slope = max(0.0, parts[last]) / WIDTHS_S[last - 1] if last else 0.0
    return [*parts[: last + 1], *(slope * width_s for width_s in WIDTHS_S[last:])]


# A cost, or a part of one, counts as measured once its variance is below this share of what it began with.
MEASURED = 0.25
# ... and is sure enough to say how what a Pod holds goes on.
_SURE = 0.1
# Standard deviations by which a growth that goes on must differ from none. At 1, six Pods that grow for 20 s were
# taken before the first of them was known to grow (memory overran by 56 node-seconds); at 0, noise passes for growth,
# and the next Pods wait for the first ones to end.
_LIKELY_SD = 0.3

# Pods by part: how many, and how much of each segment of their age lies behind them (PARTS,).
Parts = Sequence[float]


class Growth:
    """The parts of a class as the filter has them: which are known, what a whole life takes, what is still to come."""

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
        """mean (PARTS,), covariance (PARTS, PARTS); unknown_part: variance of a part that is not measured."""
        self._mean: list[float] = mean.tolist()
        self._covariance = covariance
        self._unknown_part = unknown_part
        self._variances: list[float] = covariance.diagonal().tolist()
        identified_below = MEASURED * unknown_part
        # 1 for the parts that readings or peers have identified, 0 for the others, and the reverse.
        self._known = [1.0, *(1.0 if variance <= identified_below else 0.0 for variance in self._variances[1:])]
        self._unknown = [1.0 - known for known in self._known]
        # Whether readings or peers show what such a Pod takes. The first second says nothing: a program that has
        # not yet loaded its data looks small.
        self.is_identified = self._known[1] > 0.0
        self._beyond: list[float] | None = None
        self._wholes: dict[float, tuple[float, float]] = {}

    @property
    def variance(self) -> float:
        """Variance of the sum of the parts that are identified."""
        return self._variance_of(self._known)

    def whole(self, life_s: float) -> tuple[float, float]:
        """Return (mean, sd) of a Pod at that age of a life this long at which it takes most, as far as identified.

        Single parts may be unsure and cancel each other; their sum, which readings show, is what counts.
        """
        found = self._wholes.get(life_s)
        if found is None:
            found = self._wholes[life_s] = self._worked_out(life_s)
        return found

    def plus(self, life_s: float, risk_sd: float) -> float:
        """Return what a Pod takes cautiously at the end of a life this long."""
        seen, spread = self.whole(life_s)
        # What was seen, with its risk; what lies beyond goes on as it did last, as far as that is sure.
        return seen + risk_sd * spread + dot(_times(behind_life(life_s), self._unknown), self._goes_on())

    def expected(self, parts: Parts) -> float:
        """sum of c_j n_j."""
        return dot(parts, self._mean)

    def left(self, now: Parts, pods: float, life_s: float) -> float:
        """Return what the running Pods, with these parts behind them, will still take, cautiously; not negative."""
        rest = [pods * each - gone for each, gone in zip(behind_life(life_s), now, strict=True)]
        ahead = [0.0, *(each if each > 0.0 else 0.0 for each in rest[1:])]
        identified_ahead = _times(ahead, self._known)
        identified = 0.0
        if any(identified_ahead):
            # It goes with its risk, as it does in c+: Pods that have just started hold little yet, and where
            # the doubt counted for them the next one was let in as well.
            identified = max(0.0, dot(identified_ahead, self._mean) + math.sqrt(self._variance_of(identified_ahead)))
        return identified + dot(_times(ahead, self._unknown), self._goes_on())

    def _worked_out(self, life_s: float) -> tuple[float, float]:
        identified = _times(self._known, self._mean)
        total, parts = max(((dot(parts, identified), parts) for parts in _stages(life_s)), key=operator.itemgetter(0))
        return max(0.0, total), math.sqrt(self._variance_of(_times(parts, self._known)))

    def _goes_on(self) -> list[float]:
        """Return the parts; those beyond the last identified one go on by its slope, as far as that is likely."""
        found = self._beyond
        if found is None:
            variances = [variance if variance > 0.0 else 0.0 for variance in self._variances]
            # A part just reached is identified, yet says little about its slope: the one before stands until then.
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
        return max(0.0, float(seen @ self._covariance @ seen))


def dot(left: Parts, right: Parts) -> float:
    """Return the sum of products, from the first to the last.

    >>> dot([1.0, 2.0], [3.0, 4.0])
    11.0
    """
    return float(sum(map(operator.mul, left, right)))


# Lives of a class change as its Pods end, and no more often.
@functools.lru_cache(maxsize=4096)
def behind_life(life_s: float) -> tuple[float, ...]:
    """Return the parts that lie behind a Pod at the end of a life this long (PARTS,)."""
    return tuple(behind([life_s]))


@functools.lru_cache(maxsize=4096)
def _stages(life_s: float) -> tuple[tuple[float, ...], ...]:
    """Return the same at the edge of each segment before the end, and at the end."""
    return (*(behind_life(edge_s) for edge_s in EDGES_S if edge_s < life_s), behind_life(life_s))


def _times(left: Parts, right: Parts) -> list[float]:
    return list(map(operator.mul, left, right))
