"""What the scalar estimators share: from beliefs to Pods, at every edge, and constants that follow a scale."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics import kalman
from carico_core.numerics.estimators import dual, scalar

ANY = st.floats(-1e6, 1e6) | st.floats(-1e-300, 1e-300) | st.floats(0, 2)
VARIANCE = st.floats(0, 1e6) | st.floats(0, 1e-300)


def beliefs(baseline: float, cost: float, variances: tuple[float, float, float]) -> scalar.Beliefs:
    p_baseline, p_cost, covariance = variances
    return scalar.Beliefs(kalman.Belief(baseline, p_baseline), kalman.Belief(cost, p_cost), covariance)


def test_a_prediction_is_what_fits_next_to_the_pods_that_run() -> None:
    believed = beliefs(1.2, 0.15, (0.01, 0.0004, 0.0))
    assert scalar.predicted(believed, 3, most=100)[0] == pytest.approx(5.0)
    assert scalar.predicted(believed, 8, most=100)[0] == pytest.approx(0.0, abs=1e-12)
    assert scalar.predicted(believed, 20, most=100)[0] == 0.0
    assert scalar.predicted(believed, 3, most=2)[0] == 2


@pytest.mark.parametrize("pods", [0, 3, 7])
def test_a_predictions_spread_does_not_depend_on_the_pods_that_run(pods: int) -> None:
    """They are known: baseline / cost - pods moves with baseline / cost alone, and with how its errors go together."""
    variances = (1e-6, 4e-8, 1e-7)
    drawn = np.random.default_rng(1).multivariate_normal([1.2, 0.15], [[1e-6, 1e-7], [1e-7, 4e-8]], size=100_000)
    spread = scalar.predicted(beliefs(1.2, 0.15, variances), pods, most=100)[1]
    assert spread == pytest.approx(float(np.std(drawn[:, 0] / drawn[:, 1])), rel=0.02)


def test_a_measurements_spread_is_the_costs() -> None:
    capacity, spread = scalar.measured(0.6, kalman.Belief(0.15, 1e-8), most=100)
    drawn = np.random.default_rng(1).normal(0.15, 1e-4, size=100_000)
    assert capacity == pytest.approx(4.0)
    assert spread == pytest.approx(float(np.std(0.6 / drawn)), rel=0.02)


@pytest.mark.parametrize("cost", [0.0, -0.2, 5e-324])
def test_a_cost_of_nothing_takes_as_many_as_may_be_and_nothing_where_there_is_no_room(cost: float) -> None:
    belief = kalman.Belief(cost, 0.01)
    assert scalar.measured(0.5, belief, most=50) == (50, 50)
    assert scalar.measured(0.0, belief, most=50)[0] == 0.0


@given(ANY, ANY, st.tuples(VARIANCE, VARIANCE, ANY), st.integers(0, 10**9), st.floats(0, 1000))
def test_any_beliefs_give_pods_between_nothing_and_the_most(
    baseline: float, cost: float, variances: tuple[float, float, float], pods: int, most: float
) -> None:
    believed = beliefs(baseline, cost, variances)
    level = max(baseline, 0.0)
    for capacity, spread in (
        scalar.predicted(believed, pods, most=most),
        scalar.measured(level, believed.cost, most=most),
    ):
        assert 0.0 <= capacity <= most
        assert 0.0 <= spread <= most
        assert math.isfinite(capacity)


def test_constants_follow_a_scale_and_times_and_switches_do_not() -> None:
    scaled = dual.LOGGED.scaled(3.0)
    assert scaled.baseline_start == pytest.approx(3.0 * 1.3)
    assert scaled.cost_start == pytest.approx(3.0)
    for name in ("baseline_variance", "baseline_noise", "cost_variance", "cost_noise", "measurement_noise"):
        assert getattr(scaled, name) == pytest.approx(9.0 * getattr(dual.LOGGED, name))
    assert (scaled.decay_per_s, scaled.skip_saturated) == (dual.LOGGED.decay_per_s, dual.LOGGED.skip_saturated)


def test_forgetting_goes_from_what_is_known_to_the_start() -> None:
    known = kalman.Belief(0.2, 0.01)
    assert scalar.forget(known, dual.LOGGED, 1.0) == pytest.approx(known)
    assert scalar.forget(known, dual.LOGGED, 0.0) == pytest.approx((dual.LOGGED.cost_start, dual.LOGGED.cost_variance))
