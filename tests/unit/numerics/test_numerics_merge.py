"""Both ways to keep the cluster's model: what they remember, and what order and repetition do to them."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics import merge

Matrix = npt.NDArray[np.float64]


def grams(count: int, seed: int = 0) -> Matrix:
    batches = np.random.default_rng(seed).random((count, 2, 10))
    return batches @ batches.swapaxes(1, 2) / 10


def whole_round(
    way: merge.Round | merge.Sequential, model: Matrix, matrices: Matrix, weights: Matrix, dt_s: float
) -> Matrix:
    """The model after every node has reported once."""
    if isinstance(way, merge.Round):
        return way.step(model, matrices, weights, dt_s)
    for matrix in matrices:
        model = way.arrive(model, matrix, len(matrices))
    return model


def test_the_first_round_is_the_mean_weighted_by_cores() -> None:
    matrices = grams(3)
    model = merge.Round().step(None, matrices, np.array([2.0, 4.0, 2.0]), 1.0)
    np.testing.assert_allclose(model, 0.25 * matrices[0] + 0.5 * matrices[1] + 0.25 * matrices[2])


def test_a_round_forgets_by_elapsed_time() -> None:
    old, new = grams(2)
    model = merge.Round(horizon_s=10.0).step(old, new[None], np.ones(1), 5.0)
    rho = math.exp(-0.5)
    np.testing.assert_allclose(model, rho * old + (1 - rho) * new)


@given(st.lists(st.floats(0.01, 30), min_size=1, max_size=8))
def test_a_round_in_many_steps_is_one_long_step(steps: list[float]) -> None:
    start, held = grams(1)[0], grams(4, seed=1)
    model = start
    for dt_s in steps:
        model = merge.Round().step(model, held, np.ones(4), dt_s)
    np.testing.assert_allclose(model, merge.Round().step(start, held, np.ones(4), sum(steps)), atol=1e-12)


@given(st.permutations(range(6)))
def test_a_round_does_not_depend_on_the_order(order: list[int]) -> None:
    matrices, weights = grams(6), np.arange(1.0, 7.0)
    expected = merge.Round().step(None, matrices, weights, 1.0)
    np.testing.assert_allclose(merge.Round().step(None, matrices[order], weights[order], 1.0), expected, atol=1e-15)


def test_a_round_of_the_same_entries_is_the_same_to_the_bit() -> None:
    matrices, weights = grams(1000), np.random.default_rng(2).random(1000)
    first = merge.Round().step(None, matrices, weights, 1.0)
    second = merge.Round().step(None, matrices.copy(), weights.copy(), 1.0)
    assert first.tobytes() == second.tobytes()


def test_sequential_merges_by_n_minus_one_to_one() -> None:
    old, new = grams(2)
    np.testing.assert_allclose(merge.Sequential().arrive(old, new, 4), 0.75 * old + 0.25 * new)


@pytest.mark.parametrize("nodes", [2, 19, 1000])
def test_one_sequential_round_keeps_the_known_share_of_the_old_model(nodes: int) -> None:
    model = np.eye(2)
    for _ in range(nodes):
        model = merge.Sequential().arrive(model, np.zeros((2, 2)), nodes)
    # (1 - 1/N)^N, which tends to 1/e: whatever N, one round forgets most of the model.
    assert model[0, 0] == pytest.approx((1 - 1 / nodes) ** nodes)


def test_the_last_of_a_sequential_round_counts_e_times_the_first() -> None:
    nodes, zero = 19, np.zeros((2, 2))
    shares = []
    for marked in (0, nodes - 1):
        model = zero
        for index in range(nodes):
            model = merge.Sequential().arrive(model, np.eye(2) if index == marked else zero, nodes)
        shares.append(model[0, 0])
    assert shares[1] / shares[0] == pytest.approx((1 - 1 / nodes) ** (1 - nodes))


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 12), st.floats(0, 60))
def test_lemma_4_holds_over_a_whole_round(seed: int, d: int, nodes: int, dt_s: float) -> None:
    """sigma_1^2 lies between the least and the largest P_n(u_1) of the old model and every node's."""
    rng = np.random.default_rng(seed)
    # Some nodes idle, some with work in one dimension alone.
    batches = rng.random((nodes + 1, d, 10)) * rng.integers(0, 2, (nodes + 1, d, 1))
    matrices = batches @ batches.swapaxes(1, 2) / 10
    weights = rng.random(nodes) + 0.01
    for way in (merge.Round(), merge.Sequential()):
        model = whole_round(way, matrices[0], matrices[1:], weights, dt_s)
        values, vectors = np.linalg.eigh(model)
        # P_n(u_1) = u_1' G_n u_1
        seen = [float(vectors[:, -1] @ matrix @ vectors[:, -1]) for matrix in matrices]
        assert min(seen) - 1e-12 <= values[-1] <= max(seen) + 1e-12


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(0, 60))
def test_lemma_2_more_usage_on_any_node_never_lowers_the_clusters_sigma_1(seed: int, d: int, dt_s: float) -> None:
    rng = np.random.default_rng(seed)
    batches = rng.random((5, d, 10))
    more = batches + (1 - batches) * rng.random(batches.shape) * rng.integers(0, 2, (5, 1, 1))
    for way in (merge.Round(), merge.Sequential()):
        tops = []
        for stack in (batches, more):
            matrices = stack @ stack.swapaxes(1, 2) / 10
            model = whole_round(way, matrices[0], matrices[1:], np.ones(4), dt_s)
            tops.append(float(np.linalg.eigvalsh(model)[-1]))
        assert tops[1] >= tops[0] - 1e-12


@pytest.mark.parametrize("way", [merge.Round(), merge.Sequential()])
def test_both_modes_leave_their_input_alone(way: merge.Round | merge.Sequential) -> None:
    model, matrices = np.eye(2), grams(3)
    before = (model.tobytes(), matrices.tobytes())
    after = whole_round(way, model, matrices, np.ones(3), 1.0)
    assert not np.array_equal(after, model)
    assert (model.tobytes(), matrices.tobytes()) == before


def test_the_first_arrival_is_copied() -> None:
    first = grams(1)[0]
    model = merge.Sequential().arrive(None, first, 3)
    first[:] = 9.0
    assert (model < 9.0).all()


def test_bad_weights_times_and_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="positive sum"):
        merge.Round().step(None, grams(2), np.zeros(2), 1.0)
    with pytest.raises(ValueError, match="dt_s"):
        merge.Round().step(None, grams(2), np.ones(2), -1.0)
    with pytest.raises(ValueError, match="shape"):
        merge.Round().step(None, grams(2), np.ones(3), 1.0)
    with pytest.raises(ValueError, match="live_nodes"):
        merge.Sequential().arrive(None, np.eye(2), 0)
    with pytest.raises(ValueError, match="horizon_s"):
        merge.Round(horizon_s=0.0)
