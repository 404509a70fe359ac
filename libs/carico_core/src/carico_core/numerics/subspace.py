"""FSVD on data that is not mean-centred: by Gram matrices, and by SVD for r < d and as the oracle of the tests.

With r = d the weighted subspace merge is exactly a weighted sum of Gram matrices G = U S^2 U^T, so one small `eigh`
replaces an SVD per message. Gram matrices are divided by the batch size, so sigma_1 does not grow with sqrt(b).
Functions on Gram matrices also accept stacks (..., d, d). Source: dissertation 3.2, 3.3 and appendix A.
"""

import math

import numpy as np

from carico_core.numerics import arrays

# Shares are at most 1, so every element of a Gram matrix divided by its batch size is too; the rest is rounding.
GRAM_MOST = 1.0 + 1e-6


def gram(batch: arrays.Array) -> arrays.Array:
    """Return the (d, d) Gram matrix of a (d, b) batch, or (..., d, d) of a stack (..., d, b).

    >>> gram(np.array([[1.0, 1.0], [0.0, 2.0]])).tolist()
    [[1.0, 1.0], [1.0, 2.0]]
    """
    if batch.ndim < 2 or batch.shape[-1] == 0:
        raise ValueError(f"gram: expected a batch (..., d, b) with b >= 1, got {batch.shape}")
    # G = A A^T / b
    product: arrays.Array = batch @ batch.swapaxes(-1, -2) / batch.shape[-1]
    return product


def from_gram(matrix: arrays.Array) -> arrays.Subspace:
    """Return the full-rank subspace of a (d, d) Gram matrix; an eigenvalue rounded below zero counts as 0."""
    values, vectors = _eigen(_single(matrix))
    # G = U S^2 U^T, the smallest first.
    return arrays.Subspace(u=vectors[:, ::-1], sigma=np.sqrt(np.maximum(values[::-1], 0.0)))


def to_gram(model: arrays.Subspace) -> arrays.Array:
    """Return the (d, d) Gram matrix of a subspace."""
    scaled = model.u * model.sigma
    # G = (U S) (U S)^T
    product: arrays.Array = scaled @ scaled.T
    return product


def stack_to_gram(u: arrays.Array, sigma: arrays.Array) -> arrays.Array:
    """Return the (n, d, d) Gram matrices of n subspaces given as (n, d, r) and (n, r)."""
    scaled = u * sigma[..., None, :]
    product: arrays.Array = scaled @ scaled.swapaxes(-1, -2)
    return product


def svd_of_batch(batch: arrays.Array, rank: int | None = None) -> arrays.Subspace:
    """Return the subspace of a (d, b) batch by SVD, divided by sqrt(b) as `gram` is by b, truncated to `rank`."""
    if batch.ndim != 2 or batch.shape[1] == 0:
        raise ValueError(f"svd_of_batch: expected a batch (d, b) with b >= 1, got {batch.shape}")
    # A / sqrt(b) = U S V^T
    return _left(batch / math.sqrt(batch.shape[1]), rank)


def merge_gram(a: arrays.Array, b: arrays.Array, *, weight_a: float) -> arrays.Array:
    """Return the Gram matrix of the weighted merge; the weights are `weight_a` and 1 - `weight_a`."""
    _check_weight(weight_a)
    # G <- w_A G_A + w_B G_B
    return weight_a * a + (1.0 - weight_a) * b


def merge_svd(a: arrays.Subspace, b: arrays.Subspace, *, weight_a: float, rank: int | None = None) -> arrays.Subspace:
    """Return the weighted merge of two subspaces by SVD, truncated to `rank`: the only way for r < d."""
    _check_weight(weight_a)
    # SVD of [sqrt(w_A) U_A S_A, sqrt(w_B) U_B S_B]
    return _left(np.hstack([math.sqrt(weight_a) * (a.u * a.sigma), math.sqrt(1.0 - weight_a) * (b.u * b.sigma)]), rank)


def principal(matrix: arrays.Array) -> tuple[float, arrays.Array]:
    """Return (sigma_1, |u_1|) of a (d, d) Gram matrix: the size and direction (d,) of recent work.

    |u_1|: by Perron and Frobenius, a non-negative Gram matrix has a leading eigenvector without negative components.
    """
    values, vectors = _eigen(_single(matrix))
    return math.sqrt(max(float(values[-1]), 0.0)), np.abs(vectors[:, -1])


def _eigen(matrix: arrays.Array) -> tuple[arrays.Array, arrays.Array]:
    """Return the eigenvalues (d,), the smallest first, and eigenvectors (d, d) in columns, of a symmetric matrix."""
    if len(matrix) != 2:
        return np.linalg.eigh(matrix)
    # Of CPU and memory, which is the default, in a tenth of the time: eigh was 5 % of a run of the twin.
    (a, b), (_, c) = matrix.tolist()
    middle, half = 0.5 * (a + c), 0.5 * (a - c)
    radius = math.hypot(half, b)
    # (half + r, b) and (b, r - half) are the same direction: the one in which nothing cancels.
    x, y = (half + radius, b) if half >= 0.0 else (b, radius - half)
    length = math.hypot(x, y)
    x, y = (x / length, y / length) if length > 0.0 else (1.0, 0.0)
    # l = (a + c) / 2 +- r
    return np.array([middle - radius, middle + radius]), np.array([[-y, x], [x, y]])


def _left(matrix: arrays.Array, rank: int | None) -> arrays.Subspace:
    if rank is not None and rank < 1:
        raise ValueError(f"rank: expected at least 1, got {rank}")
    u, sigma, _ = np.linalg.svd(matrix, full_matrices=False)
    keep = sigma.shape[0] if rank is None else min(rank, sigma.shape[0])
    return arrays.Subspace(u=u[:, :keep], sigma=sigma[:keep])


def _single(matrix: arrays.Array) -> arrays.Array:
    if matrix.ndim != 2:
        raise ValueError(f"gram matrix: expected shape (d, d), got {matrix.shape}")
    return arrays.square(matrix, name="gram matrix")


def _check_weight(weight_a: float) -> None:
    if not 0.0 <= weight_a <= 1.0:
        raise ValueError(f"merge: expected a weight from 0 to 1, got {weight_a}")
