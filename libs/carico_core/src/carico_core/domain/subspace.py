"""The local or global model: where recent work points, and how strongly."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subspace:
    """A d x r orthonormal basis `u` and its r singular values `sigma`, largest first.

    Both arrays are copied and made read-only. `eq=False`: comparing arrays with == gives an array, not a truth.
    Raises ValueError when the shapes do not fit, a number is not finite, or sigma is negative or not in order.
    """

    u: npt.NDArray[np.float64]
    sigma: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        u = np.array(self.u, dtype=np.float64, order="C")
        sigma = np.array(self.sigma, dtype=np.float64)
        if u.ndim != 2 or sigma.ndim != 1 or u.shape[1] != sigma.shape[0] or not 1 <= u.shape[1] <= u.shape[0]:
            raise ValueError(
                f"subspace: expected u (d, r) and sigma (r,) with 1 <= r <= d, got {u.shape} and {sigma.shape}"
            )
        # Few numbers: plain ones are several times quicker than numpy's reductions.
        sizes: list[float] = sigma.tolist()
        if not (all(map(math.isfinite, u.ravel().tolist())) and all(map(math.isfinite, sizes))):
            raise ValueError("subspace: expected finite numbers in u and sigma")
        if sizes[-1] < 0.0 or any(later > before for before, later in itertools.pairwise(sizes)):
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
