"""Array types and the one check of rank that each argument gets."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]


def vector(values: npt.ArrayLike, *, name: str, size: int | None = None) -> Array:
    """Return `values` as float64 of shape (d,); raises ValueError on any other rank, or when d is not `size`."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        raise ValueError(f"{name}: expected shape ({'d' if size is None else size},), got {array.shape}")
    return array


def frozen(values: npt.ArrayLike, *, name: str, size: int | None = None) -> Array:
    """Return a read-only copy of `values` of shape (d,), for records that must not alias their caller's array."""
    array = vector(values, name=name, size=size).copy()
    array.flags.writeable = False
    return array


def square(gram: npt.ArrayLike, *, name: str) -> Array:
    """Return `gram` as float64 of shape (..., d, d); raises ValueError otherwise."""
    array = np.asarray(gram, dtype=np.float64)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise ValueError(f"{name}: expected shape (..., d, d), got {array.shape}")
    return array
