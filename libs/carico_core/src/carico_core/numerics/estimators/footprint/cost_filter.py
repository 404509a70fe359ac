"""The Kalman filters over the costs of all classes in one dimension."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from carico_core.numerics import arrays, kalman
from carico_core.numerics.estimators import base


class CostFilters:
    """k beliefs of the same costs that learn from the same readings; as one array, each step takes half the time.

    mean (k, m) and covariance (k, m, m) of the parts of all costs.
    """

    __slots__ = ("covariance", "mean")

    def __init__(self, beliefs: int) -> None:
        self.mean: arrays.Array = np.zeros((beliefs, 0))
        self.covariance: arrays.Array = np.zeros((beliefs, 0, 0))

    def surprise(self, belief: int, design: arrays.Array, level: float) -> float:
        """Return e^2 - x' P x of one belief: what its own uncertainty does not explain of a reading's error."""
        error = level - float(self.mean[belief].dot(design))
        return error * error - float(design.dot(self.covariance[belief]).dot(design))

    def step(self, design: arrays.Array, level: float, variance: float, *, at_least: bool) -> None:
        """Update by one reading; Joseph form, multiplied out, so that it takes m^2 operations and not m^3.

        at_least: the costs add up to `level` or more, which adds nothing to a belief that expects as much.
        """
        # e = Y - x' c
        mean, covariance = self.mean, self.covariance
        innovation = level - np.vecdot(mean, design)
        surprised = None
        if at_least:
            surprised = np.flatnonzero(innovation > 0.0)
            if not len(surprised):
                return
            mean, covariance, innovation = mean[surprised], covariance[surprised], innovation[surprised]
        pulled = covariance @ design
        spread = np.vecdot(pulled, design) + variance
        gain = pulled / spread[:, np.newaxis]
        # c <- c + P x e / (x' P x + R)
        mean += gain * innovation[:, np.newaxis]
        # (I - K x') P (I - K x')' + K R K' = P - K (P x)' - (P x) K' + K (x' P x + R) K'
        for rows in arrays.blocks(len(design)):
            block, gains = covariance[:, rows], gain[:, rows, np.newaxis]
            block -= gains * pulled[:, np.newaxis]
            block -= pulled[:, rows, np.newaxis] * gain[:, np.newaxis]
            block += spread[:, np.newaxis, np.newaxis] * (gains * gain[:, np.newaxis])
        if surprised is not None:
            # Indexing made copies.
            self.mean[surprised], self.covariance[surprised] = mean, covariance

    def drift(
        self, share: float, shows: npt.NDArray[np.bool_] | None, dt_s: float, *, kept_below: float = math.inf
    ) -> None:
        """Add process noise: a cost that shows (None: all) drifts by this share of itself per root second.

        A variance that is at most `kept_below` does not grow above it.
        """
        # P_kk <- P_kk + (0.02 c_k)^2 a second, where the class shows
        noise = (share * self.mean) ** 2 * dt_s
        if shows is not None:
            noise *= shows
        beliefs, size = self.mean.shape
        # A view: these arrays are contiguous and written in place.
        variances = self.covariance.reshape(beliefs, size * size)[:, :: size + 1]
        if kept_below == math.inf:
            variances += noise
            return
        grown = variances + noise
        np.minimum(grown, kept_below, out=grown, where=variances <= kept_below)
        variances[:] = grown

    def narrow(self, belief: int, within: float, most: float) -> None:
        """Reduce the variances of one belief that are at most `within` to at most `most`; correlations stay."""
        covariance = self.covariance[belief]
        variances = covariance.diagonal().copy()
        is_above = (variances > most) & (variances <= within)
        if not is_above.any():
            return
        shrunk = np.where(is_above, np.sqrt(most / np.maximum(variances, most)), 1.0)
        covariance *= shrunk[:, np.newaxis] * shrunk
        # Exactly, whatever the roots were rounded to.
        np.fill_diagonal(covariance, np.where(is_above, most, variances))

    def widen(self, belief: int, ratio: float, *, most: float) -> None:
        """Multiply the variances of one belief by `ratio`, none that is smaller to above `most`; correlations stay."""
        covariance = self.covariance[belief]
        variances = np.maximum(covariance.diagonal(), kalman.LEAST_VARIANCE)
        factors = np.sqrt(np.clip(most / variances, 1.0, ratio))
        covariance *= factors[:, np.newaxis] * factors

    def clip(self, most: float) -> None:
        """Clip every mean to [0, `most`]."""
        np.minimum(np.maximum(self.mean, 0.0), most, out=self.mean)

    def resize(self, keep: Sequence[int], new: Sequence[Sequence[base.Evidence]]) -> None:
        """Keep those rows, and append new ones to each belief, independent of all others."""
        kept, mean, covariance = len(keep), self.mean, self.covariance
        size = kept + len(new[0])
        self.mean, self.covariance = np.zeros((len(new), size)), np.zeros((len(new), size, size))
        self.mean[:, :kept] = mean[:, keep]
        self.covariance[:, :kept, :kept] = covariance[:, keep][:, :, keep]
        for belief, begun in enumerate(new):
            self.begin(belief, slice(kept, size), begun)

    def begin(self, belief: int, rows: slice, new: Sequence[base.Evidence]) -> None:
        """Reset those rows of one belief to `new`, independent of all others."""
        covariance = self.covariance[belief]
        covariance[rows] = covariance[:, rows] = 0.0
        for row, (value, variance) in zip(range(rows.start, rows.stop), new, strict=True):
            self.mean[belief, row] = value
            covariance[row, row] = variance
