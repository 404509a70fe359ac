"""PRONTO's streaming PCA against the weighted PCA that it must equal."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.numerics import fpca, subspace

Matrix = npt.NDArray[np.float64]
SEEDS = st.integers(0, 2**32 - 1)


def stream(blocks: list[Matrix], *, rank: int, gamma: float) -> fpca.Centred:
    held = None
    for block in blocks:
        held = fpca.merge_block(held, block, rank=rank, gamma=gamma)
    assert held is not None
    return held


def blocks(seed: int, d: int, count: int, size: int = 10) -> list[Matrix]:
    """Blocks of usages with a mean that moves."""
    rng = np.random.default_rng(seed)
    return [np.clip(rng.random((d, 1)) + 0.2 * rng.standard_normal((d, size)), 0, 1) for _ in range(count)]


def weighted(parts: list[Matrix], gamma: float) -> tuple[Matrix, Matrix, float]:
    """(scatter, mean, total weight) of all samples at once, a block's weight being gamma^(2 x age)."""
    samples = np.hstack(parts)
    weights = np.repeat([gamma ** (2 * age) for age in reversed(range(len(parts)))], [part.shape[1] for part in parts])
    mean = samples @ weights / weights.sum()
    centred = samples - mean[:, None]
    return centred * weights @ centred.T, mean, float(weights.sum())


@settings(deadline=None)
@given(SEEDS, st.integers(1, 6), st.integers(1, 12), st.floats(0.05, 1))
def test_it_is_the_pca_of_all_samples_weighted_by_age(seed: int, d: int, count: int, gamma: float) -> None:
    parts = blocks(seed, d, count)
    held = stream(parts, rank=d, gamma=gamma)
    scatter, mean, total = weighted(parts, gamma)
    np.testing.assert_allclose(subspace.to_gram(held.model), scatter, rtol=0, atol=1e-12 * max(1.0, total))
    np.testing.assert_allclose(held.mean, mean, rtol=0, atol=1e-12)
    assert held.weight == pytest.approx(total)


def test_without_forgetting_it_is_numpys_covariance() -> None:
    parts = blocks(5, 3, 20)
    held = stream(parts, rank=3, gamma=1.0)
    values, vectors = np.linalg.eigh(np.cov(np.hstack(parts), bias=True))
    np.testing.assert_allclose(held.model.sigma**2 / held.weight, values[::-1], rtol=1e-10)
    np.testing.assert_allclose(np.abs(held.model.u.T @ vectors[:, ::-1]), np.eye(3), atol=1e-7)


def test_centring_is_what_sets_it_apart_from_fsvd() -> None:
    """A load that stands still is everything to FSVD and nothing to FPCA."""
    still = [np.full((2, 10), 0.6)] * 5
    assert stream(still, rank=2, gamma=0.9).model.sigma.max() < 1e-12
    assert subspace.svd_of_batch(still[0]).sigma[0] == pytest.approx(0.6 * math.sqrt(2))


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6), st.data())
def test_a_lower_rank_never_finds_more_and_nothing_is_lost_in_a_plane(seed: int, d: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, d))
    parts = blocks(seed, d, 6)
    whole, cut = stream(parts, rank=d, gamma=0.9), stream(parts, rank=rank, gamma=0.9)
    assert cut.model.rank == rank
    assert (cut.model.sigma <= whole.model.sigma[:rank] + 1e-12).all()
    rng = np.random.default_rng(seed)
    plane = rng.random((d, rank))
    flat = [plane @ rng.standard_normal((rank, 10)) for _ in range(6)]
    scatter = subspace.to_gram(stream(flat, rank=rank, gamma=0.9).model)
    np.testing.assert_allclose(scatter, weighted(flat, 0.9)[0], rtol=0, atol=1e-11 * max(1.0, np.abs(scatter).max()))


def test_it_forgets_by_gamma_squared_a_block() -> None:
    wide, calm = blocks(1, 2, 1)[0], np.full((2, 10), 0.5)
    held = fpca.merge_block(None, wide - wide.mean(axis=1, keepdims=True) + 0.5, rank=2, gamma=0.9)
    for _ in range(7):
        after = fpca.merge_block(held, calm, rank=2, gamma=0.9)
        np.testing.assert_allclose(after.model.sigma, 0.9 * held.model.sigma, rtol=1e-9)
        held = after


def test_directions_keep_their_sign() -> None:
    rng = np.random.default_rng(3)
    held = None
    for index in range(200):
        load = 0.5 + 0.3 * math.sin(index / 7)
        noise = rng.standard_normal((2, 10))
        block = np.array([[load], [0.3 + 0.1 * load]]) + np.array([[0.1], [0.02]]) * noise
        after = fpca.merge_block(held, block, rank=2, gamma=0.95)
        assert after.model.u[:, 0].sum() > 0
        if held is not None:
            assert ((after.model.u * held.model.u).sum(axis=0) >= 0).all()
        held = after


def test_input_is_left_alone_and_nothing_aliases_it() -> None:
    block = blocks(2, 2, 1)[0]
    before = block.tobytes()
    held = fpca.merge_block(None, block, rank=2, gamma=0.9)
    fpca.merge_block(held, block, rank=2, gamma=0.9)
    assert block.tobytes() == before
    mean = held.mean.tobytes()
    block[:] = 9.0
    assert held.mean.tobytes() == mean
    with pytest.raises(ValueError, match="read-only"):
        held.mean[0] = 1.0


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="block"):
        fpca.merge_block(None, np.ones(3), rank=1, gamma=0.9)
