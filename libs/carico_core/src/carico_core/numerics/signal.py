"""The capacity signal of dissertation 3.4: how many more footprints of recent work fit on a node."""

from typing import Literal, TypeAlias

import numpy as np

from carico_core.numerics import arrays, subspace

SignalMode: TypeAlias = Literal["sigma1u1", "trace"]

# The author's agent reports 0 from this usage on (published source and logs).
GUARD = 0.95


def direction(gram: arrays.Array, mode: SignalMode) -> arrays.Array:
    """Return the footprint w (d,), the signal's divisor, from a (d, d) Gram matrix.

    `sigma1u1` is the paper's formula (it keeps the size of recent work); `trace` is the one that the published logs
    show (independent of scale). A model without usage gives zeros.
    """
    if mode == "sigma1u1":
        sigma_1, u_1 = subspace.principal(gram)
        # w = sigma_1 u_1
        return sigma_1 * u_1
    if mode != "trace":
        raise ValueError(f"signal mode: expected sigma1u1 or trace, got {mode!r}")
    model = subspace.from_gram(gram)
    return trace_direction(model.u, model.sigma)


def trace_direction(u: arrays.Array, sigma: arrays.Array) -> arrays.Array:
    """Return w (d,) of the `trace` signal from a basis (d, r) and its singular values (r,)."""
    total = float(sigma.sum())
    if total <= 0.0:
        return np.zeros(u.shape[0])
    # w_i = sum_j |U_ij| sigma_j / sum_j sigma_j
    weights: arrays.Array = np.abs(u) @ sigma / total
    return weights


def capacity_signal(y: arrays.Array, w: arrays.Array, *, ceiling: arrays.Array, cap: float) -> tuple[float, int | None]:
    """Return (k, index of the dimension that limits it): 0 if a dimension is at the guard, at most `cap` (Pods).

    The index is None if no dimension limits it: there is no recent work, or the cap limits it.
    In the paper the ceiling is 1 in every dimension.
    """
    best = cap
    bottleneck: int | None = None
    for index, (usage, part, top) in enumerate(zip(y.tolist(), w.tolist(), ceiling.tolist(), strict=True)):
        if usage >= GUARD:
            return 0.0, index
        # k = max(0, min_i (ceiling_i - y_i) / w_i) over w_i > 0; compared as products, because a division by a tiny
        # w_i could overflow.
        room = max(0.0, top - usage)
        if part > 0.0 and room < best * part:
            best = room / part
            bottleneck = index
    return best, bottleneck
