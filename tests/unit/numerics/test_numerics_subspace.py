"""Gram path against SVD path, and the four lemmas of the dissertation's appendix A as properties."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from carico_core.numerics import arrays as records
from carico_core.numerics import subspace

Matrix = npt.NDArray[np.float64]


# Usages as telemetry has them: sixths of a thousandth and no denormals, which only test the rounding of numpy.
def usage() -> st.SearchStrategy[float]:
    return st.integers(0, 6000).map(lambda value: value / 6000)


def batches(d: int | None = None) -> st.SearchStrategy[Matrix]:
    sizes = st.integers(1, 6) if d is None else st.just(d)
    return st.tuples(sizes, st.integers(1, 12)).flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=usage()))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Matrix, Matrix]:
    d = draw(st.integers(1, 6))
    return draw(batches(d)), draw(batches(d))


def sigma_1(matrix: Matrix) -> float:
    return float(np.linalg.norm(matrix, 2))


def projected(batch: Matrix, u: Matrix) -> float:
    """P_M(u) of a batch, per sample: the sum of squared projections of its columns."""
    return float(((u @ batch) ** 2).sum() / batch.shape[1])


@given(batches())
def test_gram_and_svd_describe_the_same_batch(batch: Matrix) -> None:
    matrix = subspace.gram(batch)
    oracle = subspace.svd_of_batch(batch)
    size = max(float(np.abs(matrix).max()), 1e-300)
    np.testing.assert_allclose(subspace.to_gram(oracle), matrix, rtol=0, atol=1e-12 * size)
    top, direction = subspace.principal(matrix)
    assert top == pytest.approx(oracle.sigma[0], rel=1e-12, abs=1e-15)
    second = oracle.sigma[1] if oracle.rank > 1 else 0.0
    if top > 0 and (top - second) / top > 1e-6:
        np.testing.assert_allclose(direction, np.abs(oracle.u[:, 0]), rtol=0, atol=1e-9)


@given(pairs(), st.floats(0, 1))
def test_merging_grams_is_merging_subspaces(pair: tuple[Matrix, Matrix], weight: float) -> None:
    a, b = pair
    matrix = subspace.merge_gram(subspace.gram(a), subspace.gram(b), weight_a=weight)
    oracle = subspace.merge_svd(subspace.svd_of_batch(a), subspace.svd_of_batch(b), weight_a=weight)
    size = max(float(np.abs(matrix).max()), 1e-300)
    np.testing.assert_allclose(subspace.to_gram(oracle), matrix, rtol=0, atol=1e-12 * size)
    top, direction = subspace.principal(matrix)
    assert top == pytest.approx(oracle.sigma[0], rel=1e-12, abs=1e-15)
    second = oracle.sigma[1] if oracle.rank > 1 else 0.0
    if top > 0 and (top - second) / top > 1e-6:
        np.testing.assert_allclose(direction, np.abs(oracle.u[:, 0]), rtol=0, atol=1e-9)


@given(batches())
def test_from_gram_gives_back_the_gram(batch: Matrix) -> None:
    matrix = subspace.gram(batch)
    model = subspace.from_gram(matrix)
    np.testing.assert_allclose(subspace.to_gram(model), matrix, rtol=0, atol=1e-12 * max(1e-300, np.abs(matrix).max()))
    np.testing.assert_allclose(model.u.T @ model.u, np.eye(model.dimensions), atol=1e-12)


def test_four_thousand_merges_drift_no_further_than_rounding() -> None:
    rng = np.random.default_rng(3)
    for d in (2, 4, 8):
        batch = rng.random((d, 10))
        matrix, oracle = subspace.gram(batch), subspace.svd_of_batch(batch)
        for _ in range(4000 // d):
            batch = rng.random((d, 10))
            matrix = subspace.merge_gram(matrix, subspace.gram(batch), weight_a=0.5)
            oracle = subspace.merge_svd(oracle, subspace.svd_of_batch(batch), weight_a=0.5)
        assert subspace.principal(matrix)[0] == pytest.approx(oracle.sigma[0], rel=1e-12)


@given(batches(), st.integers(1, 5))
def test_the_batch_size_does_not_matter(batch: Matrix, times: int) -> None:
    repeated = np.tile(batch, times)
    np.testing.assert_allclose(subspace.gram(repeated), subspace.gram(batch), rtol=1e-12, atol=1e-15)


def test_rank_one_is_the_best_rank_one_of_numpy() -> None:
    batch = np.random.default_rng(5).random((4, 10))
    model = subspace.svd_of_batch(batch, rank=1)
    assert model.u.shape == (4, 1)
    assert model.sigma[0] == pytest.approx(sigma_1(batch) / math.sqrt(10))
    assert subspace.merge_svd(model, model, weight_a=0.5, rank=1).rank == 1


def test_stacks_agree_with_single_matrices() -> None:
    stack = np.random.default_rng(7).random((5, 3, 10))
    matrices = subspace.gram(stack)
    for index, matrix in enumerate(matrices):
        np.testing.assert_allclose(matrix, subspace.gram(stack[index]), rtol=1e-14)
    models = [subspace.from_gram(matrix) for matrix in matrices]
    rebuilt = subspace.stack_to_gram(np.stack([one.u for one in models]), np.stack([one.sigma for one in models]))
    np.testing.assert_allclose(rebuilt, matrices, rtol=1e-12, atol=1e-14)


# --- Appendix A of the dissertation ---


@given(batches())
def test_lemma_1_the_direction_is_a_non_negative_weighted_sum_of_the_samples(batch: Matrix) -> None:
    matrix = subspace.gram(batch)
    model = subspace.from_gram(matrix)
    second = model.sigma[1] if model.rank > 1 else 0.0
    # A tie of the two leading values leaves the direction free in their plane.
    assume(model.sigma[0] > 0 and (model.sigma[0] - second) / model.sigma[0] > 1e-3)
    top, direction = subspace.principal(matrix)
    # u_1 = sum_j w_j a_j,  w_j = a_j . u_1 / sigma_1^2
    weights = direction @ batch / (batch.shape[1] * top * top)
    assert (weights >= 0).all()
    np.testing.assert_allclose(batch @ weights, direction, atol=1e-9)


@given(batches(), st.integers(0, 2**32 - 1))
def test_lemma_2_more_usage_never_lowers_sigma_1(batch: Matrix, seed: int) -> None:
    more = batch + (1 - batch) * np.random.default_rng(seed).random(batch.shape)
    lower, _ = subspace.principal(subspace.gram(batch))
    higher, _ = subspace.principal(subspace.gram(more))
    assert higher >= lower - 1e-12


@given(pairs())
def test_lemma_3_without_weights_sigma_1_only_grows(pair: tuple[Matrix, Matrix]) -> None:
    a, b = pair
    assert sigma_1(np.hstack([a, b])) >= max(sigma_1(a), sigma_1(b)) - 1e-12


@given(pairs(), st.floats(0, 1))
def test_lemma_4_with_weights_sigma_1_lies_between_the_projections(pair: tuple[Matrix, Matrix], weight: float) -> None:
    a, b = pair
    matrix = subspace.merge_gram(subspace.gram(a), subspace.gram(b), weight_a=weight)
    top, vectors = np.linalg.eigh(matrix)
    of_a, of_b = projected(a, vectors[:, -1]), projected(b, vectors[:, -1])
    assert min(of_a, of_b) - 1e-12 <= top[-1] <= max(of_a, of_b) + 1e-12


# --- the record and what is refused ---


def test_a_subspace_neither_aliases_nor_can_be_written() -> None:
    u, sigma = np.eye(2), np.array([2.0, 1.0])
    model = records.Subspace(u=u, sigma=sigma)
    u[:] = 9
    sigma[:] = 9
    assert model.sigma.tolist() == [2.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        model.u[0, 0] = 5


@pytest.mark.parametrize(
    ("u", "sigma"),
    [
        (np.eye(2), np.array([1.0])),
        (np.eye(2)[0], np.array([1.0])),
        (np.eye(2), np.array([1.0, 2.0])),
        (np.eye(2), np.array([1.0, -2.0])),
        (np.eye(2), np.array([math.nan, 0.0])),
        (np.ones((2, 3)), np.ones(3)),
    ],
)
def test_what_is_no_subspace_is_refused(u: Matrix, sigma: Matrix) -> None:
    with pytest.raises(ValueError, match="subspace"):
        records.Subspace(u=u, sigma=sigma)


def test_weights_and_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="weight"):
        subspace.merge_gram(np.eye(2), np.eye(2), weight_a=1.5)
    with pytest.raises(ValueError, match="batch"):
        subspace.gram(np.ones(3))
    with pytest.raises(ValueError, match="shape"):
        subspace.principal(np.ones((2, 3)))
