"""PRONTO's FPCA on one node: streaming PCA of mean-centred telemetry, for comparison (dissertation 2.3.5).

Blocks of b samples are merged by SVD; U S is first multiplied by a forgetting factor gamma, and the first r directions
are kept. The running mean forgets as the scatter does, so the result is exactly the PCA of all samples weighted by
gamma^(2 x age in blocks), except for what r < d discards. How PRONTO's program keeps its mean is not published.
"""

import math
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays, subspace

# The share of U S that remains after each block: a memory of about ten blocks, each of a second. Not PRONTO's, which is
# not published.
GAMMA = math.sqrt(0.9)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Centred:
    """A model of the variation around a mean (d,), and the total weight of its samples.

    sigma^2 / weight is the variance along a direction; sigma itself grows with the length of the memory.
    """

    model: arrays.Subspace
    mean: arrays.Array
    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", arrays.frozen(self.mean, name="fpca mean", size=self.model.dimensions))

    def project(self, y: arrays.Array) -> arrays.Array:
        """Return the projection (r,) of usage `y` (d,), relative to the mean, on each of the r directions."""
        projections: arrays.Array = self.model.u.T @ (y - self.mean)
        return projections


def merge_block(held: Centred | None, block: arrays.Array, *, rank: int, gamma: float) -> Centred:
    """Return the model after one more block (d, b); `held` is None before the first.

    Directions keep their sign from block to block, and initially point to more usage: a projection must not jump
    because an SVD changed a sign.
    """
    if block.ndim != 2 or block.shape[1] == 0:
        raise ValueError(f"fpca: expected a block (d, b) with b >= 1, got {block.shape}")
    count = block.shape[1]
    mean = block.mean(axis=1)
    centred = block - mean[:, None]
    if held is None:
        return Centred(model=_left(centred, rank, None), mean=mean, weight=float(count))
    weight = gamma * gamma * held.weight
    total = weight + count
    moved = mean - held.mean
    # SVD of [gamma U S, B - m_B, sqrt(n b / (n + b)) (m_B - m)], n = gamma^2 (samples so far)
    apart = math.sqrt(weight * count / total) * moved[:, None]
    matrix = np.hstack([gamma * held.model.u * held.model.sigma, centred, apart])
    # m <- m + b / (n + b) (m_B - m)
    return Centred(model=_left(matrix, rank, held.model), mean=held.mean + count / total * moved, weight=total)


def variation(held: Centred) -> arrays.Array:
    """Return the variation (d, d) per sample around the mean: what nodes share."""
    found: arrays.Array = subspace.to_gram(held.model) / held.weight
    return found


def merged(held: Centred, cluster: arrays.Array | None, *, weight: float, rank: int, before: Centred | None) -> Centred:
    """Return the node's model with the cluster's variation (d, d) merged into it, with the node's mean.

    weight: that of the node's own variation. Directions keep the sign that they had `before`.
    """
    own = variation(held)
    gram = own if cluster is None else subspace.merge_gram(own, cluster, weight_a=weight)
    # SVD of U S, which is U S again, with the signs and the rank that are wanted
    whole = subspace.from_gram(gram)
    return Centred(
        model=_left(whole.u * whole.sigma, rank, None if before is None else before.model), mean=held.mean, weight=1.0
    )


def _left(matrix: arrays.Array, rank: int, before: arrays.Subspace | None) -> arrays.Subspace:
    u, sigma, _ = np.linalg.svd(matrix, full_matrices=False)
    u, sigma = u[:, :rank], sigma[:rank]
    reference = 1.0 if before is None or before.u.shape != u.shape else before.u
    along = (u * reference).sum(axis=0)
    return arrays.Subspace(u=np.where(along < 0.0, -u, u), sigma=sigma)
