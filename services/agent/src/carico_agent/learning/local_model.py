"""A node's own model of its usage, updated by batches: all directions, FSVD with fewer, or PRONTO's."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np

from carico_core.domain import messages
from carico_core.numerics import arrays as records
from carico_core.numerics import fpca, spikes, subspace

Kind: TypeAlias = Literal["gram", "svd", "fpca"]


class LocalModel(Protocol):
    """Keeps the model. `rejecting`: PRONTO's Reject-Job, where the model has one."""

    @property
    def rejecting(self) -> bool:
        """Whether the node should take no Pod now."""
        ...

    def see(self, usage: Sequence[float]) -> None:
        """Take in one filtered usage (d,)."""
        ...

    def take(self, batch: messages.Array, weight: float) -> messages.Array:
        """Return the Gram matrix (d, d) after one more batch (d, b) of this weight, from 0 to 1."""
        ...

    def follow(self, cluster: messages.Array | None, *, weight: float) -> None:
        """Take in the cluster's model (d, d), None if none is known; weight: that of the own one against it."""
        ...


class Gram:
    """All directions, by Gram matrices: exact, with one product per batch."""

    rejecting = False

    def __init__(self) -> None:
        self._held: messages.Array | None = None

    def see(self, usage: Sequence[float]) -> None:
        """Do nothing."""

    def follow(self, cluster: messages.Array | None, *, weight: float) -> None:
        """Do nothing."""

    def take(self, batch: messages.Array, weight: float) -> messages.Array:
        """Return the Gram matrix (d, d) after one more batch (d, b)."""
        newest = subspace.gram(batch)
        # G <- (1 - w) G + w A A^T / b
        self._held = newest if self._held is None else subspace.merge_gram(self._held, newest, weight_a=1.0 - weight)
        return self._held


class Svd:
    """The first `rank` directions, by SVD: the dissertation's FSVD, for r < d. The rest is discarded."""

    rejecting = False

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._held: records.Subspace | None = None

    def see(self, usage: Sequence[float]) -> None:
        """Do nothing."""

    def follow(self, cluster: messages.Array | None, *, weight: float) -> None:
        """Do nothing."""

    def take(self, batch: messages.Array, weight: float) -> messages.Array:
        """Return the Gram matrix (d, d), of rank r, after one more batch (d, b)."""
        newest = subspace.svd_of_batch(batch, self._rank)
        held = self._held
        # SVD of [sqrt(1 - w) U S, sqrt(w) U_A S_A]
        self._held = (
            newest if held is None else subspace.merge_svd(held, newest, weight_a=1.0 - weight, rank=self._rank)
        )
        return subspace.to_gram(self._held)


class Fpca:
    """PRONTO's: the first directions of the variation around the mean, with its Reject-Job signal.

    Reject-Job projects on the directions of this node and of the cluster together, around this node's own mean.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._held: fpca.Centred | None = None
        self._merged: fpca.Centred | None = None
        self._reject = spikes.RejectJob(rank)
        # Raised by a sample since the last batch, and by one of the last batch.
        self._raised = False
        self._was_raised = False

    @property
    def rejecting(self) -> bool:
        """Whether there was a spike in this batch or the last one: it lasts a few samples, and readers see batches."""
        return self._raised or self._was_raised

    def see(self, usage: Sequence[float]) -> None:
        """Update Reject-Job with one more usage (d,), once there are `rank` directions."""
        if self._merged is not None and self._merged.model.rank == self._rank:
            self._raised |= self._reject.observe(np.array(usage), self._merged).rejected

    def take(self, batch: messages.Array, weight: float) -> messages.Array:
        """Return the variation (d, d) around the mean after one more batch (d, b).

        It forgets by gamma, not by weight.
        """
        self._held = fpca.merge_block(self._held, batch, rank=self._rank, gamma=fpca.GAMMA)
        self._raised, self._was_raised = False, self._raised
        return fpca.variation(self._held)

    def follow(self, cluster: messages.Array | None, *, weight: float) -> None:
        """Merge the cluster's variation (d, d) with this node's."""
        if self._held is not None:
            self._merged = fpca.merged(self._held, cluster, weight=weight, rank=self._rank, before=self._merged)


def make(kind: Kind, *, rank: int | None, dimensions: int) -> LocalModel:
    """Return a new model. Raises ValueError for a rank that the model cannot have."""
    directions = dimensions if rank is None else rank
    if not 1 <= directions <= dimensions:
        raise ValueError(f"model rank: expected 1 to {dimensions}, as many as there are dimensions, got {directions}")
    if kind == "gram":
        if directions < dimensions:
            raise ValueError(f"model rank {directions}: the model `gram` keeps all {dimensions}; use `svd` or `fpca`")
        return Gram()
    return Svd(directions) if kind == "svd" else Fpca(directions)
