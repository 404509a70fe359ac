"""FSVD with r < d by the SVD path: equal to the Gram path at r = d, and what a cut may and may not change."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.numerics import arrays as records
from carico_core.numerics import subspace

Matrix = npt.NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def batches(count: int, d: int, seed: int, rank: int | None = None) -> list[Matrix]:
    """Batches (d, 10) of usages; with `rank`, all in one plane of that many directions."""
    rng = np.random.default_rng(seed)
    if rank is None:
        return [rng.random((d, 10)) for _ in range(count)]
    plane = rng.random((d, rank))
    return [plane @ rng.random((rank, 10)) / rank for _ in range(count)]


def stream(parts: list[Matrix], rank: int, weight: float = 0.5) -> records.Subspace:
    """A node's local model after these batches."""
    model = subspace.svd_of_batch(parts[0], rank)
    for batch in parts[1:]:
        model = subspace.merge_svd(model, subspace.svd_of_batch(batch, rank), weight_a=weight, rank=rank)
    return model


def exact(parts: list[Matrix], weight: float = 0.5) -> Matrix:
    matrix = subspace.gram(parts[0])
    for batch in parts[1:]:
        matrix = subspace.merge_gram(matrix, subspace.gram(batch), weight_a=weight)
    return matrix


@settings(deadline=None)
@given(SEEDS, st.integers(1, 6), st.integers(1, 12), st.floats(0, 1))
def test_at_full_rank_the_stream_is_the_gram_path(seed: int, d: int, count: int, weight: float) -> None:
    parts = batches(count, d, seed)
    model, matrix = stream(parts, d, weight), exact(parts, weight)
    np.testing.assert_allclose(subspace.to_gram(model), matrix, rtol=0, atol=1e-12 * float(np.abs(matrix).max()))
    top, direction = subspace.principal(matrix)
    assert model.sigma[0] == pytest.approx(top, rel=1e-12)
    if d == 1 or (model.sigma[0] - model.sigma[1]) / top > 1e-6:
        np.testing.assert_allclose(np.abs(model.u[:, 0]), direction, rtol=0, atol=1e-9)


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6), st.data())
def test_data_of_rank_r_loses_nothing_at_rank_r(seed: int, d: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, d))
    parts = batches(8, d, seed, rank)
    np.testing.assert_allclose(subspace.to_gram(stream(parts, rank)), exact(parts), rtol=0, atol=1e-12)


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6), st.data())
def test_a_cut_lowers_sigma_1_and_never_by_more_than_it_threw_away(seed: int, d: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, d))
    parts = batches(8, d, seed)
    matrix, lost = subspace.gram(parts[0]), 0.0
    model = subspace.svd_of_batch(parts[0])
    for batch in parts[1:]:
        matrix = subspace.merge_gram(matrix, subspace.gram(batch), weight_a=0.5)
        whole = subspace.merge_svd(model, subspace.svd_of_batch(batch), weight_a=0.5)
        model = subspace.merge_svd(model, subspace.svd_of_batch(batch), weight_a=0.5, rank=rank)
        # A cut takes sigma_(r+1)^2 from the norm; half of what is gone would have been forgotten by now.
        lost = 0.5 * lost + (float(whole.sigma[rank]) ** 2 if whole.rank > rank else 0.0)
    top = subspace.principal(matrix)[0] ** 2
    assert top - lost - 1e-12 <= float(model.sigma[0]) ** 2 <= top + 1e-12


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6), st.floats(0, 1), st.data())
def test_lemma_4_holds_for_what_a_cut_left(seed: int, d: int, weight: float, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, d))
    first, second = (stream(batches(3, d, seed + index), rank) for index in range(2))
    merged = subspace.merge_svd(first, second, weight_a=weight, rank=rank)
    # P(u_1) of a model: u_1' G u_1
    seen = [float(np.sum((merged.u[:, 0] @ (model.u * model.sigma)) ** 2)) for model in (first, second)]
    assert min(seen) - 1e-12 <= float(merged.sigma[0]) ** 2 <= max(seen) + 1e-12


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="rank"):
        subspace.svd_of_batch(np.ones((2, 3)), rank=0)
