"""Kalman steps in Joseph form.

The Joseph form keeps variances non-negative, whatever rounding does to the gain.
"""

import sys
from typing import NamedTuple

import numpy as np

from carico_core.numerics import arrays

# An innovation variance below the smallest normal number has lost its digits: dividing by it gives no useful result.
LEAST_VARIANCE = sys.float_info.min


class Belief(NamedTuple):
    """A scalar state: mean and variance. A NamedTuple, because it is replaced several times a second."""

    mean: float
    variance: float


def predict(belief: Belief, *, q: float) -> Belief:
    """Return the belief after a random walk of variance `q`."""
    # P <- P + Q
    return Belief(belief.mean, belief.variance + q)


def update(belief: Belief, *, innovation: float, h: float, r: float) -> Belief:
    """Return the belief after a measurement z = h x + noise of variance `r`, given as its innovation z - h x."""
    variance = h * h * belief.variance + r
    if variance < LEAST_VARIANCE:
        return belief
    # K = P h / (h P h + R)
    gain = belief.variance * h / variance
    rest = 1.0 - gain * h
    # x <- x + K e;   P <- (1 - K h)^2 P + K^2 R   (Joseph form)
    return Belief(belief.mean + gain * innovation, rest * rest * belief.variance + gain * r * gain)


def update_vector(
    mean: arrays.Array, covariance: arrays.Array, *, innovation: float, h: arrays.Array, r: float
) -> tuple[arrays.Array, arrays.Array]:
    """Return mean (k,) and covariance (k, k) after one scalar measurement z = h . x + noise of variance `r`."""
    spread = covariance @ h
    variance = float(h @ spread) + r
    if variance < LEAST_VARIANCE:
        return mean.copy(), covariance.copy()
    # K = P h / (h' P h + R)
    gain = spread / variance
    rest = np.eye(mean.shape[0]) - np.outer(gain, h)
    # x <- x + K e;   P <- (I - K h') P (I - K h')' + K R K'   (Joseph form)
    return mean + gain * innovation, rest @ covariance @ rest.T + r * np.outer(gain, gain)
