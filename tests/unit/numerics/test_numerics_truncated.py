"""FSVD with r < d by the SVD path: equal to the Gram path at r = d, and what a cut may and may not change."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.domain import subspace as records
from carico_core.numerics import merge, subspace

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


def gathered(parts: list[Matrix], *arrived: int, dt_s: float = 1.0, seed: int = 0) -> merge.Gathered:
    grams = np.stack([subspace.gram(batch) for batch in parts])
    weights = np.random.default_rng(seed).random(len(parts)) + 0.1
    return merge.Gathered(grams=grams, weights=weights, arrived=arrived, dt_s=dt_s)


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


@settings(deadline=None)
@given(SEEDS, st.integers(2, 5), st.data())
def test_lemma_3_holds_for_what_a_cut_left(seed: int, d: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, d))
    parts = [stream(batches(3, d, seed + index), rank) for index in range(4)]
    grown = 0.0
    for count in range(1, 5):
        # Without weights sigma_1 only grows.
        top = float(subspace.merge_svd_stack(parts[:count], np.ones(count), rank=rank).sigma[0])
        assert top >= max(grown, float(parts[count - 1].sigma[0])) - 1e-12
        grown = top


@settings(deadline=None)
@given(SEEDS, st.integers(1, 5), st.permutations(range(5)))
def test_a_stack_merges_in_any_order_as_grams_do(seed: int, d: int, order: list[int]) -> None:
    models = [subspace.svd_of_batch(batch) for batch in batches(5, d, seed)]
    weights = np.random.default_rng(seed).random(5)
    merged = subspace.merge_svd_stack([models[index] for index in order], weights[order], rank=d)
    expected = sum(weight * subspace.to_gram(model) for weight, model in zip(weights, models, strict=True))
    np.testing.assert_allclose(subspace.to_gram(merged), expected, rtol=0, atol=1e-12)


@settings(deadline=None)
@given(SEEDS, st.integers(1, 5), st.floats(0, 30))
def test_at_full_rank_both_truncated_merges_are_the_exact_ones(seed: int, d: int, dt_s: float) -> None:
    # Singular values pass through a root and back between the steps: 1e-8 of the small ones is lost there.
    parts = batches(4, d, seed)
    pairs: list[tuple[merge.Merge, merge.Merge]] = [
        (merge.TruncatedRound(rank=d), merge.Round()),
        (merge.TruncatedSequential(rank=d), merge.Sequential()),
    ]
    for truncated, plain in pairs:
        model = expected = None
        for step in range(3):
            held = gathered(parts, step, step + 1, dt_s=dt_s, seed=step)
            model, expected = truncated.advance(model, held), plain.advance(expected, held)
            assert model is not None
            assert expected is not None
            np.testing.assert_allclose(model, expected, rtol=0, atol=1e-12 * float(np.abs(expected).max()))


def rank_1_ratios(way: merge.Merge, plain: merge.Merge) -> list[float]:
    """sigma_1 with a cut to one direction by sigma_1 without, over made-up clusters whose work changes."""
    rng = np.random.default_rng(11)
    ratios = []
    for _ in range(30):
        model = expected = None
        for _ in range(3):
            # Twenty nodes, each with either CPU or memory work.
            sides = rng.integers(0, 2, 20)
            mixes = rng.random((20, 2)) * np.where(np.arange(2) == sides[:, None], 1.0, 0.1)
            parts = [mix[:, None] * (0.8 + 0.2 * rng.random((2, 10))) for mix in mixes]
            held = gathered(parts, *rng.permutation(20).tolist())
            model, expected = way.advance(model, held), plain.advance(expected, held)
        assert model is not None
        assert expected is not None
        assert np.linalg.matrix_rank(model, tol=1e-9) == 1
        ratios.append(subspace.principal(model)[0] / subspace.principal(expected)[0])
    return ratios


def test_rank_1_over_differing_nodes_costs_what_the_module_says() -> None:
    ratios = rank_1_ratios(merge.TruncatedSequential(rank=1), merge.Sequential())
    assert max(ratios) < 1.0
    assert min(ratios) > 0.85
    assert 0.95 < float(np.mean(ratios)) < 0.985
    # A round cuts once, after the mean of all.
    assert min(rank_1_ratios(merge.TruncatedRound(rank=1), merge.Round())) > 0.98


@pytest.mark.parametrize("way", [merge.TruncatedRound(rank=1), merge.TruncatedSequential(rank=1)])
def test_input_is_left_alone_and_an_empty_round_changes_nothing(way: merge.Merge) -> None:
    held, model = gathered(batches(3, 2, 1), 0, 2), np.eye(2)
    before = (held.grams.tobytes(), held.weights.tobytes(), model.tobytes())
    assert way.advance(model, held) is not model
    assert (held.grams.tobytes(), held.weights.tobytes(), model.tobytes()) == before
    nothing = merge.Gathered(grams=np.empty((0, 2, 2)), weights=np.empty(0), arrived=(), dt_s=1.0)
    assert way.advance(model, nothing) is model
    assert way.advance(None, nothing) is None


def test_what_makes_no_sense_is_refused() -> None:
    model = subspace.svd_of_batch(np.ones((2, 3)))
    with pytest.raises(ValueError, match="rank"):
        merge.TruncatedRound(rank=0)
    with pytest.raises(ValueError, match="rank"):
        merge.TruncatedSequential(rank=0)
    with pytest.raises(ValueError, match="rank"):
        subspace.svd_of_batch(np.ones((2, 3)), rank=0)
    with pytest.raises(ValueError, match="live_nodes"):
        merge.TruncatedSequential(rank=1).arrive(None, model, 0)
    with pytest.raises(ValueError, match="weights"):
        merge.TruncatedRound(rank=1).step(None, [model], np.array([-1.0]), 1.0)
    with pytest.raises(ValueError, match="weights"):
        subspace.merge_svd_stack([model], np.array([-1.0]), rank=1)
