"""Distributions of usage in buckets with geometric bounds (`domain.usage`): adding, decay and percentiles.

Adding two distributions is adding their weights, so the order in which reports of nodes arrive does not matter. As in
DDSketch (Masson, Rim, Lee, VLDB 2019, section 2.1), the percentile's relative error is at most
(GROWTH - 1) / (GROWTH + 1), however many samples there are.
"""

import math
from collections.abc import Sequence

import numpy as np

from carico_core.domain import usage
from carico_core.numerics import arrays

RELATIVE_ERROR = (usage.GROWTH - 1.0) / (usage.GROWTH + 1.0)
_LOG_GROWTH = math.log(usage.GROWTH)
# A sum of weights that should reach p of the total may fall short of it by rounding.
_ROUNDING = 1.0 - 1e-12


def bucket(dimension: str, amount: float) -> int:
    """Return the bucket of an amount.

    >>> bucket("cpu", 0.0), bucket("cpu", 0.001), bucket("cpu", 0.00104), bucket("cpu", 1e9)
    (0, 0, 1, 351)
    """
    share = amount / usage.LOWEST[dimension]
    if not share > 1.0:
        return 0
    # LOWEST g^(i-1) < amount <= LOWEST g^i
    return min(math.ceil(math.log(share) / _LOG_GROWTH), usage.BUCKETS - 1)


def amount(dimension: str, index: int) -> float:
    """Return the amount that stands for a bucket: as far from one bound as from the other, in proportion.

    Bucket 0 is represented by its upper bound, so that nothing that was used is rounded to zero.
    """
    if index == 0:
        return usage.LOWEST[dimension]
    # 2 g^i / (g + 1)
    return usage.LOWEST[dimension] * 2.0 * usage.GROWTH**index / (usage.GROWTH + 1.0)


def weights(found: usage.Buckets) -> arrays.Array:
    """Return the weight of every bucket (BUCKETS,)."""
    array = np.zeros(usage.BUCKETS)
    for index, weight in found.items():
        array[index] += weight
    return array


def buckets(array: arrays.Array) -> dict[int, float]:
    """Return the buckets that have a weight; the inverse of `weights`."""
    places = np.nonzero(array)[0]
    return dict(zip(places.tolist(), array[places].tolist(), strict=True))


def percentiles(dimension: str, array: arrays.Array, shares: Sequence[float]) -> list[float] | None:
    """Return the percentile of each share; None without any weight."""
    # Methods, not functions of numpy: an answer has thousands of distributions, and the functions take twice as long.
    reached = array.cumsum()
    total = float(reached[-1])
    if not total > 0.0:
        return None
    places = reached.searchsorted([share * total * _ROUNDING for share in shares]).tolist()
    return [_AMOUNTS_LISTED[dimension][place] for place in places]


def mean(dimension: str, array: arrays.Array) -> float | None:
    """Return the weighted mean; None without any weight."""
    total = float(array.sum())
    return float(array.dot(_AMOUNTS[dimension])) / total if total > 0.0 else None


def decay(elapsed_s: float, *, half_life_s: float) -> float:
    """Return the factor of weights after this time; clocks that were set back do not make weights grow."""
    # 2^(-t / T)
    return float(2.0 ** (-max(elapsed_s, 0.0) / half_life_s))


def levels(dimension: str, array: arrays.Array) -> tuple[float, float] | None:
    """Return the two levels of a distribution that has two, far apart; None if it has one.

    Two levels: there is a gap by a factor of two with at most `_BETWEEN` of the weight in it, and at least `_EACH` of
    the weight on either side.
    """
    places = array.nonzero()[0]
    if places.size < 2 or places[-1] - places[0] <= _GAP:
        return None
    # Only as far as there is weight: most classes use few buckets.
    first = int(places[0])
    array = array[first : int(places[-1]) + 1]
    reached = array.cumsum() / array.sum()
    below, above = reached[:-_GAP], 1.0 - reached[_GAP:]
    between = reached[_GAP:] - reached[:-_GAP]
    gaps = np.nonzero((below >= _EACH) & (above >= _EACH) & (between <= _BETWEEN))[0]
    if not gaps.size:
        return None
    last = int(gaps[0]) + 1
    amounts = _AMOUNTS[dimension][first : first + array.size]
    lower, upper = array[:last], array[last:]
    return float(lower.dot(amounts[:last]) / lower.sum()), float(upper.dot(amounts[last:]) / upper.sum())


_AMOUNTS = {name: np.array([amount(name, index) for index in range(usage.BUCKETS)]) for name in usage.DIMS}
_AMOUNTS_LISTED = {name: found.tolist() for name, found in _AMOUNTS.items()}
_GAP = math.ceil(math.log(2.0) / _LOG_GROWTH)
_EACH, _BETWEEN = 0.2, 0.02
