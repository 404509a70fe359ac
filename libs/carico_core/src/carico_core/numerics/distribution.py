"""Distributions of usage in buckets with geometric bounds (`domain.usage`): adding, decay and percentiles.

Adding two distributions is adding their weights, so the order in which reports of nodes arrive does not matter. As in
DDSketch (Masson, Rim, Lee, VLDB 2019, section 2.1), the percentile's relative error is at most
(GROWTH - 1) / (GROWTH + 1), however many samples there are.
"""

import math
from collections.abc import Iterable

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


def decay(elapsed_s: float, *, half_life_s: float) -> float:
    """Return the factor of weights after this time; clocks that were set back do not make weights grow."""
    # 2^(-t / T)
    return float(2.0 ** (-max(elapsed_s, 0.0) / half_life_s))


class Distribution:
    """Weights by bucket (BUCKETS,), to read from. `peak`: the highest amount that was measured; None: not known."""

    __slots__ = ("_dimension", "_most", "_reached", "peak", "total", "weights")

    def __init__(self, dimension: str, weights: arrays.Array, *, peak: float | None = None) -> None:
        self.weights = weights
        self.peak = peak
        # A bucket may reach above the highest amount that was measured.
        self._most = math.inf if peak is None else peak
        self._dimension = dimension
        # Methods, not numpy's functions, which take twice as long: an answer has thousands of distributions.
        self._reached: arrays.Array = weights.cumsum()
        self.total: float = self._reached.item(-1)

    def percentiles(self, shares: Iterable[float]) -> list[float] | None:
        """Return the percentile of each share, at most the peak; None without any weight."""
        if not self.total > 0.0:
            return None
        places = self._reached.searchsorted([share * self.total * _ROUNDING for share in shares]).tolist()
        amounts, most = _AMOUNTS_LISTED[self._dimension], self._most
        return [min(amounts[place], most) for place in places]

    def mean(self) -> float | None:
        """Return the weighted mean, at most the peak; None without any weight."""
        if not self.total > 0.0:
            return None
        return min(float(self.weights.dot(_AMOUNTS[self._dimension])) / self.total, self._most)

    def levels(self) -> tuple[float, float] | None:
        """Return the two levels of a distribution that has two, far apart; None if it has one.

        Two levels: there is a gap by a factor of two with at most `_BETWEEN` of the weight in it, and at least `_EACH`
        of the weight on either side.
        """
        reached, total = self._reached, self.total
        # A gap begins after a bucket from `first` on, and has ended before `end`. Most classes have no room for one.
        shares = (_EACH * total * _ROUNDING, (1.0 - _EACH) * total / _ROUNDING)
        first, end = reached.searchsorted(shares).tolist()
        if end - first <= _GAP:
            return None
        between = reached[first + _GAP : end] - reached[first : end - _GAP]
        gaps = (between <= _BETWEEN * total).nonzero()[0]
        if not gaps.size:
            return None
        last = first + int(gaps[0]) + 1
        amounts, below = _AMOUNTS[self._dimension], reached.item(last - 1)
        lower, upper = self.weights[:last].dot(amounts[:last]), self.weights[last:].dot(amounts[last:])
        return float(lower) / below, float(upper) / (total - below)


_AMOUNTS = {name: np.array([amount(name, index) for index in range(usage.BUCKETS)]) for name in usage.DIMS}
_AMOUNTS_LISTED = {name: found.tolist() for name, found in _AMOUNTS.items()}
_GAP = math.ceil(math.log(2.0) / _LOG_GROWTH)
_EACH, _BETWEEN = 0.2, 0.02
