"""Two ways to merge the nodes' local models into the cluster's (dissertation 4.3), as pure functions.

Both are exact on Gram matrices: at d <= 8, keeping every direction costs nothing.
"""

import math
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays, subspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Independent of order: every live node counts once, weighted by its live cores, however often it reported.

    horizon_s: time after which the old model has lost 63 % of its weight.
    """

    # Our choice (spec 4): ten reports of every node at 1 Hz.
    horizon_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.horizon_s > 0:
            raise ValueError(f"round: expected horizon_s > 0, got {self.horizon_s}")

    def step(self, model: arrays.Array | None, grams: arrays.Array, weights: arrays.Array, dt_s: float) -> arrays.Array:
        """Return the next (d, d) model from grams (n, d, d), weights (n,) and the time since the last step.

        It sums in the given order and without BLAS, so replicas with the same entries agree to the bit.
        """
        matrices = arrays.square(grams, name="round.step grams")
        shares = arrays.vector(weights, name="round.step weights", size=matrices.shape[0])
        total = float(shares.sum())
        if matrices.ndim != 3 or (shares < 0).any() or not 0 < total < math.inf or dt_s < 0:
            raise ValueError("round.step: expected grams (n, d, d), weights >= 0 with a positive sum, and dt_s >= 0")
        # mean_n(G_n), weighted by live cores
        mean: arrays.Array = (matrices * (shares / total)[:, None, None]).sum(axis=0)
        if model is None:
            return mean
        # G <- rho G + (1 - rho) mean_n(G_n), rho = exp(-dt / T)
        return subspace.merge_gram(model, mean, weight_a=math.exp(-dt_s / self.horizon_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """The paper's merge: each arrival is merged with weights (N - 1) : 1.

    It depends on the order: the last node of a round counts e times as much as the first, and one round forgets 63 %
    of the model.
    """

    def arrive(self, model: arrays.Array | None, gram: arrays.Array, live_nodes: int) -> arrays.Array:
        """Return the next (d, d) model after one node's local model (d, d) arrived, with N = live_nodes."""
        if live_nodes < 1:
            raise ValueError(f"sequential.arrive: expected live_nodes >= 1, got {live_nodes}")
        if model is None:
            return np.array(gram, dtype=np.float64)
        # G <- (N - 1)/N G + 1/N G_n
        return subspace.merge_gram(model, gram, weight_a=(live_nodes - 1) / live_nodes)
