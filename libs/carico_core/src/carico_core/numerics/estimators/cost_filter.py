"""The Kalman filter over the costs of all classes in one dimension."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carico_core.numerics import arrays
from carico_core.numerics.estimators import base


@dataclass(slots=True)
class CostFilter:
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
        rows = gain[:, np.newaxis]
        crossed = rows * pulled
        self.covariance = self.covariance - crossed - crossed.T + spread * (rows * gain)

    def drift(self, share: float, shows: npt.NDArray[np.bool_] | None, dt_s: float) -> None:
        """Let each cost that shows (None: all) have changed by that share of itself a root second."""
        # P_kk <- P_kk + (0.02 c_k)^2 a second, where the class shows
        noise = (share * self.mean) ** 2 * dt_s
        if shows is not None:
            noise = np.where(shows, noise, 0.0)
        self.covariance.flat[:: len(noise) + 1] += noise

    def resized(self, keep: Sequence[int], new: Sequence[base.Evidence]) -> "CostFilter":
        """Those rows of the old filter, then new ones, independent of all others."""
        size = len(keep) + len(new)
        rows = list(keep)
        covariance = np.zeros((size, size))
        covariance[: len(rows), : len(rows)] = self.covariance[np.ix_(rows, rows)]
        fresh = range(len(rows), size)
        covariance[fresh, fresh] = [variance for _, variance in new]
        return CostFilter(np.concatenate([self.mean[rows], [mean for mean, _ in new]]), covariance)

    def replaced(self, rows: Sequence[int], new: Sequence[base.Evidence]) -> "CostFilter":
        """Those rows begun anew, independent of all others."""
        mean, covariance = self.mean.copy(), self.covariance.copy()
        for row, (value, variance) in zip(rows, new, strict=True):
            mean[row] = value
            covariance[row, :] = covariance[:, row] = 0.0
            covariance[row, row] = variance
        return CostFilter(mean, covariance)
