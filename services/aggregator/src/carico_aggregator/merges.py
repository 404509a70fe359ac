"""Two ways to merge the nodes' local models into the cluster's (dissertation 4.3), as pure functions.

Both are exact on Gram matrices: at d <= 8, keeping every direction costs nothing.
"""

import math

import numpy as np

from carico_core.numerics import arrays, subspace


def mean(grams: arrays.Array, weights: arrays.Array) -> arrays.Array:
    """Return the (d, d) mean of grams (n, d, d) by weights (n,): one round, in which every live node counts once.

    It sums in the given order and without BLAS, so replicas with the same entries agree to the bit.
    """
    matrices = arrays.square(grams, name="merges.mean grams")
    shares = arrays.vector(weights, name="merges.mean weights", size=matrices.shape[0])
    total = float(shares.sum())
    if matrices.ndim != 3 or (shares < 0).any() or not 0 < total < math.inf:
        raise ValueError("merges.mean: expected grams (n, d, d), and weights >= 0 with a positive sum")
    # mean_n(G_n), weighted by live cores
    found: arrays.Array = (matrices * (shares / total)[:, None, None]).sum(axis=0)
    return found


def sequential(model: arrays.Array | None, gram: arrays.Array, live_nodes: int) -> arrays.Array:
    """Return the next (d, d) model after one node's local model (d, d) arrived, with N = live_nodes.

    The paper's merge, with weights (N - 1) : 1. It depends on the order: the last node of a round counts e times as
    much as the first, and one round forgets 63 % of the model.
    """
    if live_nodes < 1:
        raise ValueError(f"merges.sequential: expected live_nodes >= 1, got {live_nodes}")
    if model is None:
        return np.array(gram, dtype=np.float64)
    # G <- (N - 1)/N G + 1/N G_n
    return subspace.merge_gram(model, gram, weight_a=(live_nodes - 1) / live_nodes)
