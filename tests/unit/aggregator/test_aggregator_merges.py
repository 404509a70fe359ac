"""Both ways to keep the cluster's model: what they remember, and what order and repetition do to them."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_aggregator import merges
from carico_core.numerics import subspace

Matrix = npt.NDArray[np.float64]


def grams(count: int, seed: int = 0) -> Matrix:
    batches = np.random.default_rng(seed).random((count, 2, 10))
    return batches @ batches.swapaxes(1, 2) / 10


def in_a_round(model: Matrix, matrices: Matrix, weights: Matrix) -> Matrix:
    """The model after a round of `round` whose entries have kept some of the model before it."""
    return subspace.merge_gram(model, merges.mean(matrices, weights), weight_a=math.exp(-0.1))


def in_sequence(model: Matrix, matrices: Matrix, _: Matrix) -> Matrix:
    """The model after every node has reported once."""
    for matrix in matrices:
        model = merges.sequential(model, matrix, len(matrices))
    return model


WAYS: tuple[Callable[[Matrix, Matrix, Matrix], Matrix], ...] = (in_a_round, in_sequence)


def test_the_first_round_is_the_mean_weighted_by_cores() -> None:
    matrices = grams(3)
    model = merges.mean(matrices, np.array([2.0, 4.0, 2.0]))
    np.testing.assert_allclose(model, 0.25 * matrices[0] + 0.5 * matrices[1] + 0.25 * matrices[2])


@given(st.permutations(range(6)))
def test_a_round_does_not_depend_on_the_order(order: list[int]) -> None:
    matrices, weights = grams(6), np.arange(1.0, 7.0)
    expected = merges.mean(matrices, weights)
    np.testing.assert_allclose(merges.mean(matrices[order], weights[order]), expected, atol=1e-15)


def test_a_round_of_the_same_entries_is_the_same_to_the_bit() -> None:
    matrices, weights = grams(1000), np.random.default_rng(2).random(1000)
    first = merges.mean(matrices, weights)
    second = merges.mean(matrices.copy(), weights.copy())
    assert first.tobytes() == second.tobytes()


def test_sequential_merges_by_n_minus_one_to_one() -> None:
    old, new = grams(2)
    np.testing.assert_allclose(merges.sequential(old, new, 4), 0.75 * old + 0.25 * new)


@pytest.mark.parametrize("nodes", [2, 19, 1000])
def test_one_sequential_round_keeps_the_known_share_of_the_old_model(nodes: int) -> None:
    model = np.eye(2)
    for _ in range(nodes):
        model = merges.sequential(model, np.zeros((2, 2)), nodes)
    # (1 - 1/N)^N, which tends to 1/e: whatever N, one round forgets most of the model.
    assert model[0, 0] == pytest.approx((1 - 1 / nodes) ** nodes)


def test_the_last_of_a_sequential_round_counts_e_times_the_first() -> None:
    nodes, zero = 19, np.zeros((2, 2))
    shares = []
    for marked in (0, nodes - 1):
        model = zero
        for index in range(nodes):
            model = merges.sequential(model, np.eye(2) if index == marked else zero, nodes)
        shares.append(model[0, 0])
    assert shares[1] / shares[0] == pytest.approx((1 - 1 / nodes) ** (1 - nodes))


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 12))
def test_lemma_4_holds_over_a_whole_round(seed: int, d: int, nodes: int) -> None:
    """sigma_1^2 lies between the least and the largest P_n(u_1) of the old model and every node's."""
    rng = np.random.default_rng(seed)
    # Some nodes idle, some with work in one dimension alone.
    batches = rng.random((nodes + 1, d, 10)) * rng.integers(0, 2, (nodes + 1, d, 1))
    matrices = batches @ batches.swapaxes(1, 2) / 10
    weights = rng.random(nodes) + 0.01
    for way in WAYS:
        model = way(matrices[0], matrices[1:], weights)
        values, vectors = np.linalg.eigh(model)
        # P_n(u_1) = u_1' G_n u_1
        seen = [float(vectors[:, -1] @ matrix @ vectors[:, -1]) for matrix in matrices]
        assert min(seen) - 1e-12 <= values[-1] <= max(seen) + 1e-12


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_lemma_2_more_usage_on_any_node_never_lowers_the_clusters_sigma_1(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    batches = rng.random((5, d, 10))
    more = batches + (1 - batches) * rng.random(batches.shape) * rng.integers(0, 2, (5, 1, 1))
    for way in WAYS:
        tops = []
        for stack in (batches, more):
            matrices = stack @ stack.swapaxes(1, 2) / 10
            model = way(matrices[0], matrices[1:], np.ones(4))
            tops.append(float(np.linalg.eigvalsh(model)[-1]))
        assert tops[1] >= tops[0] - 1e-12


@pytest.mark.parametrize("way", WAYS)
def test_both_modes_leave_their_input_alone(way: Callable[[Matrix, Matrix, Matrix], Matrix]) -> None:
    model, matrices = np.eye(2), grams(3)
    before = (model.tobytes(), matrices.tobytes())
    after = way(model, matrices, np.ones(3))
    assert not np.array_equal(after, model)
    assert (model.tobytes(), matrices.tobytes()) == before


def test_the_first_arrival_is_copied() -> None:
    first = grams(1)[0]
    model = merges.sequential(None, first, 3)
    first[:] = 9.0
    assert (model < 9.0).all()


def test_bad_weights_and_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="positive sum"):
        merges.mean(grams(2), np.zeros(2))
    with pytest.raises(ValueError, match="shape"):
        merges.mean(grams(2), np.ones(3))
    with pytest.raises(ValueError, match="live_nodes"):
        merges.sequential(None, np.eye(2), 0)
