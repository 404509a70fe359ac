"""`joint`: the two-state filter against least squares, and what the covariance lets it do that `dual` cannot."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.numerics.estimators import base, dual, joint
from tests.unit.numerics.estimators import scalar_filters as scalar

STEADY = dataclasses.replace(joint.DEFAULT, decay_per_s=0.0)


def means(estimate: base.CapacityEstimate) -> tuple[float, float]:
    return estimate.baseline[base.SIGNAL][0], estimate.cost[base.SIGNAL][0]


def learnt(constants: joint.JointConstants = STEADY, *, baseline: float = 1.2, cost: float = 0.15) -> joint.Joint:
    """A filter that has seen a varying load of Pods of this cost."""
    estimator = joint.Joint(scalar.config(), constants)
    for second in range(400):
        pods = (0, 2, 5, 3, 1)[second // 10 % 5]
        estimator.update(scalar.seen(baseline - cost * pods, pods))
    return estimator


# Signals above 0, so that nothing is censored.
READINGS = st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 12)), min_size=1, max_size=25)


@settings(deadline=None)
@given(READINGS)
def test_without_noise_of_its_own_it_is_bayesian_least_squares(readings: list[tuple[float, int]]) -> None:
    constants = dataclasses.replace(STEADY, baseline_noise=0.0, cost_noise=0.0)
    estimator = joint.Joint(scalar.config(), constants)
    for level, pods in readings:
        estimate = estimator.update(scalar.seen(level, pods))
    rows = np.array([[1.0, -pods] for _, pods in readings])
    values = np.array([level for level, _ in readings])
    start = np.array([constants.baseline_start, constants.cost_start])
    prior = np.diag([1 / constants.baseline_variance, 1 / constants.cost_variance])
    # (H'H / R + P0^-1) x = H'z / R + P0^-1 x0
    information = rows.T @ rows / constants.measurement_noise + prior
    expected = np.linalg.solve(information, rows.T @ values / constants.measurement_noise + prior @ start)
    np.testing.assert_allclose(means(estimate), expected, rtol=1e-9, atol=1e-12)
    deviations = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose((estimate.baseline[base.SIGNAL][1], estimate.cost[base.SIGNAL][1]), deviations)


@settings(deadline=None)
@given(READINGS)
def test_with_drift_it_is_least_squares_over_the_whole_path(readings: list[tuple[float, int]]) -> None:
    """The state of the last second, from all states at once: the random walk as equations of its own."""
    estimator = joint.Joint(scalar.config(), STEADY)
    for level, pods in readings:
        estimate = estimator.update(scalar.seen(level, pods))
    count = len(readings)
    rows, values = [], []
    for index, (level, pods) in enumerate(readings):
        for state, (q, p0) in enumerate(((1e-4, 0.01), (1e-3, 0.2))):
            row = np.zeros(2 * count)
            row[2 * index + state] = 1.0
            deviation = math.sqrt(q + p0 if index == 0 else q)
            if index > 0:
                row[2 * index - 2 + state] = -1.0
            rows.append(row / deviation)
            values.append((1.3, 1.0)[state] / deviation if index == 0 else 0.0)
        row = np.zeros(2 * count)
        row[2 * index : 2 * index + 2] = 1.0, -pods
        rows.append(row / math.sqrt(0.5))
        values.append(level / math.sqrt(0.5))
    expected = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0][-2:]
    np.testing.assert_allclose(means(estimate), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("constants", [STEADY, joint.LOGGED])
def test_it_finds_baseline_and_cost_of_a_varying_load(constants: joint.JointConstants) -> None:
    baseline, cost = means(learnt(constants).estimate(scalar.seen(0.9, 2)))
    assert baseline == pytest.approx(1.2, abs=0.05)
    assert cost == pytest.approx(0.15, abs=0.02)


def test_a_load_that_changes_shows_what_a_constant_one_hid() -> None:
    """Spec 7, 4: at a constant count, baseline and cost cannot be separated; `dual` then keeps a wrong cost."""
    errors = {}
    for name, estimator in (
        ("joint", joint.Joint(scalar.config(), STEADY)),
        ("dual", dual.Dual(scalar.config(), dual.DualConstants(decay_per_s=0.0))),
    ):
        for second in range(320):
            pods = 5 if second < 200 else (2, 4, 1, 5)[second // 10 % 4]
            estimate = estimator.update(scalar.seen(1.0 - 0.13 * pods, pods))
        errors[name] = abs(means(estimate)[1] - 0.13)
    assert errors["joint"] < 0.5 * errors["dual"]


def test_in_churn_and_saturation_the_model_speaks_and_its_errors_go_together() -> None:
    estimator = learnt()
    trusted = estimator.estimate(scalar.seen(0.75, 3))
    assert trusted.mode == "measured"
    assert trusted.capacity == pytest.approx(0.75 / means(trusted)[1])
    for held in (scalar.seen(0.75, 3, churning=True), scalar.seen(0.0, 3)):
        estimate = estimator.estimate(held)
        baseline, cost = means(estimate)
        assert estimate.mode in ("predicted", "saturated")
        assert estimate.capacity == pytest.approx(baseline / cost - 3)


def test_the_spread_of_a_prediction_is_that_of_drawn_beliefs() -> None:
    estimator = learnt()
    estimate = estimator.estimate(scalar.seen(0.75, 3, churning=True))
    mean, covariance = estimator._mean, estimator._covariance
    assert abs(covariance[0, 1]) > 0.1 * math.sqrt(covariance[0, 0] * covariance[1, 1])
    # So narrow that the ratio is straight over it.
    drawn = np.random.default_rng(2).multivariate_normal(mean, 1e-4 * covariance, size=40_000)
    assert estimate.capacity_sd == pytest.approx(100 * np.std(drawn[:, 0] / drawn[:, 1]), rel=0.03)


def test_churn_teaches_nothing_and_a_full_node_only_what_it_contradicts() -> None:
    estimator = learnt()
    before = means(estimator.estimate(scalar.seen(0.5, 3)))
    assert means(estimator.update(scalar.seen(0.1, 2, churning=True))) == before
    assert means(estimator.update(scalar.seen(0.0, 20))) == before
    assert means(estimator.update(scalar.seen(0.0, 4)))[1] > before[1]


def test_without_pods_the_cost_goes_back_to_its_start_and_stays_a_valid_covariance() -> None:
    estimator = learnt(joint.DEFAULT)
    busy = means(estimator.estimate(scalar.seen(0.9, 2)))[1]
    for _ in range(14):
        estimate = estimator.update(scalar.seen(1.2, 0))
        assert (np.linalg.eigvalsh(estimator._covariance) >= 0).all()
    # Half of the way in ln 2 / .05 = 13.9 s; what the idle readings say of the baseline moves it a little.
    assert (1.0 - means(estimate)[1]) / (1.0 - busy) == pytest.approx(0.5, abs=0.02)


def test_surprises_raise_the_adaptive_noise_and_agreement_lowers_it() -> None:
    adaptive = joint.Joint(scalar.config(), joint.LOGGED)
    plain = joint.Joint(scalar.config(), dataclasses.replace(joint.LOGGED, adaptive_share=0.0))
    for estimator in (adaptive, plain):
        for second in range(15):
            estimator.update(scalar.seen(1.2 - 0.15 * 4, 4 if second > 2 else 0))
    assert abs(means(adaptive.estimate(scalar.seen(0.6, 4)))[1] - 0.2) < abs(
        means(plain.estimate(scalar.seen(0.6, 4)))[1] - 0.2
    )
    raised = adaptive._cost_noise
    for _ in range(200):
        adaptive.update(scalar.seen(1.2 - 0.15 * 4, 4))
    assert joint.LOGGED.cost_noise < raised
    assert adaptive._cost_noise < raised


def test_a_signal_of_another_scale_gives_the_same_pods() -> None:
    for constants in (joint.DEFAULT, joint.LOGGED):
        # The first idle signal of 1.3 fixes the scale.
        plain, scaled = (
            joint.Joint(scalar.config(), constants),
            joint.Joint(scalar.config("sigma1u1"), constants),
        )
        for second in range(60):
            pods = (0, 1, 3, 2)[second // 5 % 4]
            level = 1.3 - 0.2 * pods
            first, other = (
                plain.update(scalar.seen(level, pods)),
                scaled.update(scalar.seen(7.0 * level, pods)),
            )
            assert other.capacity == pytest.approx(first.capacity, rel=1e-9)
            assert other.capacity_sd == pytest.approx(first.capacity_sd, rel=1e-9)
            assert means(other)[1] == pytest.approx(7.0 * means(first)[1], rel=1e-9)
