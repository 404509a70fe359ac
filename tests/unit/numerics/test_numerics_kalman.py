"""Kalman steps against closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics import kalman

readings = st.lists(st.floats(-100, 100), min_size=1, max_size=30)
positive = st.floats(1e-3, 1e3)


@given(readings, st.floats(-10, 10), positive, positive)
def test_without_drift_it_is_the_precision_weighted_mean(
    values: list[float], start: float, p0: float, r: float
) -> None:
    belief = kalman.Belief(start, p0)
    for value in values:
        belief = kalman.update(belief, innovation=value - belief.mean, h=1.0, r=r)
    # 1/P = 1/P0 + n/R;   x = P (x0/P0 + sum z/R)
    precision = 1 / p0 + len(values) / r
    assert belief.variance == pytest.approx(1 / precision, rel=1e-9)
    assert belief.mean == pytest.approx((start / p0 + sum(values) / r) / precision, rel=1e-7, abs=1e-7)


def test_with_drift_the_variance_settles_where_the_riccati_equation_says() -> None:
    q, r = 0.02, 0.5
    belief = kalman.Belief(0.0, 10.0)
    for _ in range(2000):
        belief = kalman.update(kalman.predict(belief, q=q), innovation=0.0, h=1.0, r=r)
    # P = (P + Q) R / (P + Q + R)  =>  P^2 + Q P - Q R = 0
    assert belief.variance == pytest.approx((-q + (q * q + 4 * q * r) ** 0.5) / 2, rel=1e-9)


@given(st.floats(-5, 5), st.floats(0, 1e6), st.floats(-1e3, 1e3), st.floats(0, 1e6))
def test_a_variance_never_grows_by_measuring_nor_turns_negative(e: float, p: float, h: float, r: float) -> None:
    after = kalman.update(kalman.Belief(0.0, p), innovation=e, h=h, r=r)
    assert 0.0 <= after.variance <= p * (1 + 1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 20))
def test_the_vector_filter_is_least_squares_with_a_prior(seed: int, size: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    rows, values = rng.standard_normal((count, size)), rng.standard_normal(count)
    r, p0 = 0.3, 2.0
    mean, covariance = np.zeros(size), p0 * np.eye(size)
    for row, value in zip(rows, values, strict=True):
        mean, covariance = kalman.update_vector(mean, covariance, innovation=float(value - row @ mean), h=row, r=r)
    # (H'H / R + I / P0) x = H'z / R
    information = rows.T @ rows / r + np.eye(size) / p0
    np.testing.assert_allclose(mean, np.linalg.solve(information, rows.T @ values / r), atol=1e-9)
    np.testing.assert_allclose(covariance, np.linalg.inv(information), atol=1e-9)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-15)


def test_a_vector_of_one_is_the_scalar_filter() -> None:
    mean, covariance = kalman.update_vector(
        np.array([1.0]), np.array([[2.0]]), innovation=0.5, h=np.array([3.0]), r=0.7
    )
    scalar = kalman.update(kalman.Belief(1.0, 2.0), innovation=0.5, h=3.0, r=0.7)
    assert float(mean[0]) == pytest.approx(scalar.mean)
    assert float(covariance[0, 0]) == pytest.approx(scalar.variance)


def test_certainty_without_noise_learns_nothing() -> None:
    belief = kalman.Belief(1.0, 0.0)
    assert kalman.update(belief, innovation=5.0, h=1.0, r=0.0) == belief
    mean, covariance = kalman.update_vector(np.ones(1), np.zeros((1, 1)), innovation=5.0, h=np.ones(1), r=0.0)
    assert (mean.tolist(), covariance.tolist()) == ([1.0], [[0.0]])
