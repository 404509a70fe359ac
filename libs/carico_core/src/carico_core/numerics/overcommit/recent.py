"""What every predictor receives and returns, and whether a peak exceeded it."""

import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from carico_core.numerics import arrays

# A difference by this share of the limits, or of a larger peak, is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Recent:
    """The last h samples of k series on each of m machines, and the limit of one series, in the same unit.

    Without slots, because of the sums that are computed once.
    """

    series: arrays.Array
    limit: float

    @functools.cached_property
    def total(self) -> arrays.Array:
        """Usage of each machine (m, h)."""
        total: arrays.Array = self.series.sum(axis=1)
        return total

    @property
    def limits(self) -> float:
        """The sum of the limits of one machine's series."""
        count: int = self.series.shape[1]
        return self.limit * count


class Predictor(Protocol):
    """Predicts peaks. It has no clock: it is called once a sample, each time with one sample more."""

    def predict(self, recent: Recent) -> arrays.Array:
        """Return the largest usage (m,) expected of each machine within the horizon."""
        ...


def exceeded(predicted: arrays.Array, peaks: arrays.Array, limits: float) -> npt.NDArray[np.bool_]:
    """Return which predictions were below the peak by more than rounding, all in the same unit."""
    return np.asarray(predicted < peaks - ROUNDING * np.maximum(peaks, limits))
