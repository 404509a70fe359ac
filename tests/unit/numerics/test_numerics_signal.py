"""The capacity signal: the largest k below every ceiling, its guard and its cap."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics import signal, subspace

ONES = np.ones(2)
GUARD = np.full(2, 0.95)
usage = st.floats(0, 1)


def paper(y: list[float], w: list[float], cap: float = 1e6) -> tuple[float, int | None]:
    return signal.capacity_signal(np.array(y), np.array(w), ceiling=ONES, cap=cap)


def test_the_tightest_dimension_sets_it() -> None:
    k, index = paper([0.2, 0.5], [0.4, 0.1])
    assert (k, index) == (2.0, 0)
    k, index = paper([0.2, 0.9], [0.4, 0.1])
    assert k == pytest.approx(1.0)
    assert index == 1


def test_a_dimension_at_its_guard_closes_the_node() -> None:
    assert paper([0.1, 0.95], [0.5, 0.0]) == (0.0, 1)


def test_a_dimension_without_recent_work_sets_nothing() -> None:
    assert paper([0.5, 0.5], [0.0, 0.25]) == (2.0, 1)
    assert paper([0.5, 0.5], [0.0, 0.0], cap=250.0) == (250.0, None)


def test_an_idle_cluster_is_capped_and_does_not_overflow() -> None:
    assert paper([0.0, 0.0], [5e-324, 5e-324], cap=250.0) == (250.0, None)


def test_a_ceiling_takes_the_place_of_the_one() -> None:
    k, index = signal.capacity_signal(np.array([0.1, 0.1]), np.array([0.1, 0.1]), ceiling=np.array([0.5, 0.9]), cap=1e6)
    assert k == pytest.approx(4.0)
    assert index == 0


@given(usage, usage, st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0.05, 1), st.floats(0.05, 1))
def test_k_footprints_fit_and_a_few_more_do_not(
    y0: float, y1: float, w0: float, w1: float, c0: float, c1: float
) -> None:
    y, w, ceiling = np.array([y0, y1]), np.array([w0, w1]), np.array([c0, c1])
    k, index = signal.capacity_signal(y, w, ceiling=ceiling, cap=1e4)
    assert 0.0 <= k <= 1e4
    if k > 0:
        assert (y + k * w <= np.maximum(ceiling, y) + 1e-9).all()
    if index is not None and k > 0:
        assert y[index] + 1.01 * k * w[index] > ceiling[index]
    if index is None:
        assert k == 1e4


def test_the_two_directions() -> None:
    batch = np.array([[0.6, 0.6, 0.5], [0.1, 0.2, 0.1]])
    gram = subspace.gram(batch)
    model = subspace.svd_of_batch(batch)
    np.testing.assert_allclose(signal.direction(gram, "sigma1u1"), model.sigma[0] * np.abs(model.u[:, 0]))
    expected = [sum(abs(model.u[i, j]) * model.sigma[j] for j in range(2)) / model.sigma.sum() for i in range(2)]
    np.testing.assert_allclose(signal.direction(gram, "trace"), expected)


@given(st.floats(1e-3, 1e3))
def test_sigma1u1_carries_the_size_of_work_and_trace_does_not(factor: float) -> None:
    gram = subspace.gram(np.array([[0.6, 0.6, 0.5], [0.1, 0.2, 0.1]]))
    scaled = factor * factor * gram
    np.testing.assert_allclose(signal.direction(scaled, "sigma1u1"), factor * signal.direction(gram, "sigma1u1"))
    np.testing.assert_allclose(signal.direction(scaled, "trace"), signal.direction(gram, "trace"))


def test_a_model_of_nothing_has_no_direction() -> None:
    assert signal.direction(np.zeros((2, 2)), "trace").tolist() == [0.0, 0.0]
    assert signal.direction(np.zeros((2, 2)), "sigma1u1").tolist() == [0.0, 0.0]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="expected sigma1u1 or trace, got 'x'"):
        signal.direction(np.eye(2), "x")  # type: ignore[arg-type]  # what a setting read as text could hold


def test_peers_with_cpu_work_take_capacity_from_a_cpu_node_and_give_it_to_a_memory_node() -> None:
    """Figures 4.6 and 4.7: the signal is on the merged model, so what peers do changes what a node states."""
    light = subspace.gram(np.array([[0.1] * 10, [0.3] * 10]))
    heavy_cpu = subspace.gram(np.array([[0.8] * 10, [0.1] * 10]))
    merged = subspace.merge_gram(light, heavy_cpu, weight_a=0.5)
    states = {}
    for name, y in (("cpu", np.array([0.5, 0.1])), ("memory", np.array([0.05, 0.7]))):
        for mode in ("trace", "sigma1u1"):
            before, after = (
                signal.capacity_signal(y, signal.direction(gram, mode), ceiling=ONES, cap=math.inf)[0]
                for gram in (light, merged)
            )
            states[name, mode] = after / before
    assert states["cpu", "trace"] < 1.0
    assert states["cpu", "sigma1u1"] < 1.0
    assert states["memory", "trace"] > 1.0
    assert states["memory", "sigma1u1"] > 1.0
