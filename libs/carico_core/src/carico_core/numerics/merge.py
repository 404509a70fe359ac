"""The ways to keep the cluster's model from the nodes' local ones (dissertation 4.3), as pure functions of it.

`Round` and `Sequential` are exact on Gram matrices. Their truncated forms keep r < d directions, by the SVD path: what
the cut throws away is gone, so sigma_1 comes out low where some nodes do CPU and others memory work: at r = 1 and one
arrival at a time by 2 to 3 % and up to 14 % (a round, which cuts once after the mean, loses a tenth of that). They
exist to compare with; at d <= 8 keeping everything costs nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from carico_core.domain import subspace as records
from carico_core.numerics import arrays, subspace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gathered:
    """What an aggregator holds at one moment.

    grams: (n, d, d), the newest local model of every live node, in the order of node names.
    weights: (n,), live cores of each. arrived: indices that are new since the last step, in order of arrival.
    """

    grams: arrays.Array
    weights: arrays.Array
    arrived: tuple[int, ...]
    dt_s: float


class Merge(Protocol):
    """A way to move the cluster's model on."""

    def advance(self, model: arrays.Array | None, gathered: Gathered) -> arrays.Array | None:
        """The (d, d) Gram matrix after what was gathered; `model` itself where nothing was."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Order-free: every live node counts once, by its live cores, however often it reported.

    horizon_s: the time after which the old model has lost 63 % of its weight.
    """

    # Ours, spec 4: ten reports of every node at 1 Hz.
    horizon_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.horizon_s > 0:
            raise ValueError(f"round: expected horizon_s > 0, got {self.horizon_s}")

    def step(self, model: arrays.Array | None, grams: arrays.Array, weights: arrays.Array, dt_s: float) -> arrays.Array:
        """The next (d, d) model from grams (n, d, d), weights (n,) and the time since the last step.

        Sums in the order given and without BLAS, so that replicas with the same entries agree to the bit.
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

    def advance(self, model: arrays.Array | None, gathered: Gathered) -> arrays.Array | None:
        """`step` over everything held; `model` where no node is live."""
        if gathered.grams.shape[0] == 0:
            return model
        return self.step(model, gathered.grams, gathered.weights, gathered.dt_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """The paper's: each arrival is merged by (N - 1) : 1.

    Depends on the order: the last node of a round counts e times the first, and one round forgets 63 % of the model.
    """

    def arrive(self, model: arrays.Array | None, gram: arrays.Array, live_nodes: int) -> arrays.Array:
        """The next (d, d) model after one node's local model (d, d) arrived, with N = live_nodes."""
        if live_nodes < 1:
            raise ValueError(f"sequential.arrive: expected live_nodes >= 1, got {live_nodes}")
        if model is None:
            return np.array(gram, dtype=np.float64)
        # G <- (N - 1)/N G + 1/N G_n
        return subspace.merge_gram(model, gram, weight_a=(live_nodes - 1) / live_nodes)

    def advance(self, model: arrays.Array | None, gathered: Gathered) -> arrays.Array | None:
        """`arrive` for each new entry, in the order of arrival."""
        for index in gathered.arrived:
            model = self.arrive(model, gathered.grams[index], gathered.grams.shape[0])
        return model


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedRound:
    """`Round` with the first `rank` directions kept after each step."""

    rank: int
    horizon_s: float = 10.0

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.horizon_s > 0:
            raise ValueError(f"round: expected rank >= 1 and horizon_s > 0, got {self.rank} and {self.horizon_s}")

    def step(
        self,
        model: records.Subspace | None,
        models: Sequence[records.Subspace],
        weights: arrays.Array,
        dt_s: float,
    ) -> records.Subspace:
        """The next model from the nodes' models, their weights (n,) and the time since the last step."""
        shares = arrays.vector(weights, name="round.step weights", size=len(models))
        total = float(shares.sum())
        if (shares < 0).any() or not 0 < total < math.inf or dt_s < 0:
            raise ValueError("round.step: expected weights >= 0 with a positive sum, and dt_s >= 0")
        # The weights of rho G + (1 - rho) mean_n(G_n), in one decomposition
        rho = 0.0 if model is None else math.exp(-dt_s / self.horizon_s)
        parts = [*models] if model is None else [*models, model]
        kept = [] if model is None else [rho]
        return subspace.merge_svd_stack(parts, np.append((1.0 - rho) * shares / total, kept), rank=self.rank)

    def advance(self, model: arrays.Array | None, gathered: Gathered) -> arrays.Array | None:
        """`step` over everything held, as Gram matrices; `model` where no node is live."""
        if gathered.grams.shape[0] == 0:
            return model
        held = None if model is None else subspace.from_gram(model)
        models = [subspace.from_gram(gram) for gram in gathered.grams]
        return subspace.to_gram(self.step(held, models, gathered.weights, gathered.dt_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedSequential:
    """`Sequential` with the first `rank` directions kept after each arrival."""

    rank: int

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"sequential: expected rank >= 1, got {self.rank}")

    def arrive(self, model: records.Subspace | None, arrived: records.Subspace, live_nodes: int) -> records.Subspace:
        """The next model after one node's local model arrived, with N = live_nodes."""
        if live_nodes < 1:
            raise ValueError(f"sequential.arrive: expected live_nodes >= 1, got {live_nodes}")
        if model is None:
            return subspace.merge_svd_stack([arrived], np.ones(1), rank=self.rank)
        # SVD of [sqrt((N - 1)/N) U S, sqrt(1/N) U_n S_n]
        return subspace.merge_svd(model, arrived, weight_a=(live_nodes - 1) / live_nodes, rank=self.rank)

    def advance(self, model: arrays.Array | None, gathered: Gathered) -> arrays.Array | None:
        """`arrive` for each new entry, as Gram matrices, in the order of arrival."""
        held = None if model is None else subspace.from_gram(model)
        for index in gathered.arrived:
            held = self.arrive(held, subspace.from_gram(gathered.grams[index]), gathered.grams.shape[0])
        return model if held is None or not gathered.arrived else subspace.to_gram(held)
