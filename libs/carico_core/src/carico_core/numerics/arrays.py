"""Arrays with checked shapes: vectors (d,), square matrices (..., d, d), and subspaces (d, r)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
# Of a matrix of 2,000 columns, so many rows of each intermediate result stay in the processor's cache (half a MB).
BLOCK_ROWS = 32


def vector(values: npt.ArrayLike, *, name: str, size: int | None = None) -> Array:
    """Return `values` as float64 of shape (d,). Raises ValueError for any other rank, or if d is not `size`."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        raise ValueError(f"{name}: expected shape ({'d' if size is None else size},), got {array.shape}")
    return array


def frozen(values: npt.ArrayLike, *, name: str, size: int | None = None) -> Array:
    """Return a read-only copy of `values` of shape (d,), for records that must not alias the caller's array."""
    array = vector(values, name=name, size=size).copy()
    array.flags.writeable = False
    return array


def square(gram: npt.ArrayLike, *, name: str) -> Array:
    """Return `gram` as float64 of shape (..., d, d). Raises ValueError for any other shape."""
    array = np.asarray(gram, dtype=np.float64)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name}: expected shape (..., d, d), got {array.shape}")
    return array


def blocks(size: int) -> Iterator[slice]:
    """Yield the rows of a matrix by blocks: what is computed of it in several steps need not pass through memory."""
    for begin in range(0, size, BLOCK_ROWS):
        yield slice(begin, begin + BLOCK_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subspace:
    """The directions of recent work and their strength: a d x r orthonormal basis `u`, r singular values `sigma`.

    The largest comes first. Both arrays are copied and made read-only. `eq=False`, because == on arrays gives an array.
    Raises ValueError if the shapes do not fit, a number is not finite, or sigma is negative or not in order.
    """

    u: Array
    sigma: Array

    def __post_init__(self) -> None:
        u = np.array(self.u, dtype=np.float64, order="C")
        sigma = np.array(self.sigma, dtype=np.float64)
        if u.ndim != 2 or sigma.ndim != 1 or u.shape[1] != sigma.shape[0] or not 1 <= u.shape[1] <= u.shape[0]:
            raise ValueError(
                f"subspace: expected u (d, r) and sigma (r,) with 1 <= r <= d, got {u.shape} and {sigma.shape}"
            )
        # For so few numbers plain Python is several times faster than numpy's reductions.
        sizes: list[float] = sigma.tolist()
        if not (all(map(math.isfinite, u.ravel().tolist())) and all(map(math.isfinite, sizes))):
            raise ValueError("subspace: expected finite numbers in u and sigma")
        if sizes[-1] < 0.0 or sizes != sorted(sizes, reverse=True):
            raise ValueError(f"subspace: expected sigma >= 0 and largest first, got {sizes}")
        u.flags.writeable = False
        sigma.flags.writeable = False
        object.__setattr__(self, "u", u)
        object.__setattr__(self, "sigma", sigma)

    @property
    def dimensions(self) -> int:
        """d, the number of resources."""
        return int(self.u.shape[0])

    @property
    def rank(self) -> int:
        """r, the number of directions kept."""
        return int(self.u.shape[1])
