"""`delta`: the cost alone, from how far the signal falls when Pods start."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators import base, delta
from tests.unit.numerics.estimators import scalar_filters as scalar


def cost(estimate: base.CapacityEstimate) -> float:
    return estimate.cost[base.SIGNAL][0]


def waves(estimator: delta.Delta, *, of: float, baseline: float = 1.3, slope: float = 0.0) -> base.CapacityEstimate:
    """The estimate after four starts of two Pods on a level that moves by `slope` a second."""
    for second in range(80):
        pods = 2 if second // 10 % 2 else 0
        estimate = estimator.update(scalar.seen(baseline + slope * second - of * pods, pods))
    return estimate


@given(st.lists(st.tuples(st.integers(1, 6), st.floats(0.01, 2)), min_size=1, max_size=12))
def test_without_noise_of_its_own_it_is_bayesian_least_squares(starts: list[tuple[int, float]]) -> None:
    constants = dataclasses.replace(delta.DEFAULT, cost_noise=0.0)
    estimator = delta.Delta(scalar.config(), constants)
    level, pods = 100.0, 0
    for came, drop in starts:
        estimator.update(scalar.seen(level, pods))
        level, pods = level - drop, pods + came
        estimate = estimator.update(scalar.seen(level, pods))
    # 1/P = 1/P0 + sum dn^2 / R;   c = P (c0/P0 + sum dn drop / R)
    precision = 1 / constants.cost_variance + sum(came**2 for came, _ in starts) / constants.measurement_noise
    pull = sum(came * drop for came, drop in starts) / constants.measurement_noise
    expected = (constants.cost_start / constants.cost_variance + pull) / precision
    assert cost(estimate) == pytest.approx(expected, rel=1e-9)
    assert estimate.cost[base.SIGNAL][1] == pytest.approx(precision**-0.5, rel=1e-9)


@pytest.mark.parametrize("slope", [0.0, 0.01, -0.005])
def test_a_level_that_moves_slowly_does_not_disturb_it(slope: float) -> None:
    assert cost(waves(delta.Delta(scalar.config()), of=0.2, slope=slope)) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize(
    ("level", "pods"), [(1.1, 2), (0.5, 1), (0.9995, 4), (1.1, 4)], ids=["rise", "end", "too little", "rise at a start"]
)
def test_only_falls_at_starts_teach(level: float, pods: int) -> None:
    estimator = delta.Delta(scalar.config())
    estimator.update(scalar.seen(1.0, 2))
    assert cost(estimator.update(scalar.seen(level, pods))) == delta.DEFAULT.cost_start


def test_churn_is_stepped_over_and_what_it_brought_is_counted_after_it() -> None:
    held, plain = delta.Delta(scalar.config()), delta.Delta(scalar.config())
    for estimator in (held, plain):
        estimator.update(scalar.seen(1.3, 0))
    for level in (1.1, 0.4):
        assert cost(held.update(scalar.seen(level, 2, churning=True))) == delta.DEFAULT.cost_start
    assert cost(held.update(scalar.seen(0.9, 2))) == cost(plain.update(scalar.seen(0.9, 2)))


def test_a_fall_to_nothing_is_at_least_that_far() -> None:
    expected, logged = delta.Delta(scalar.config()), delta.Delta(scalar.config(), delta.LOGGED)
    for estimator in (expected, logged):
        estimator.update(scalar.seen(0.5, 1))
    # One Pod is thought to cost 1.0: that a signal of 0.5 is used up by it tells nothing new.
    assert cost(expected.update(scalar.seen(0.0, 2))) == 1.0
    assert cost(logged.update(scalar.seen(0.0, 2))) < 1.0
    cheap = delta.Delta(scalar.config())
    waves(cheap, of=0.05)
    cheap.update(scalar.seen(1.0, 1))
    before = cost(cheap.estimate(scalar.seen(1.0, 1)))
    assert cost(cheap.update(scalar.seen(0.0, 3))) > before


def test_the_last_trusted_signal_stands_in_for_the_baseline() -> None:
    estimator = delta.Delta(scalar.config())
    waves(estimator, of=0.2)
    now = estimator.update(scalar.seen(0.7, 3))
    assert now.mode == "measured"
    assert now.capacity == pytest.approx(0.7 / cost(now))
    assert now.baseline[base.SIGNAL][0] == pytest.approx(0.7 + 3 * cost(now))
    estimate = estimator.estimate(scalar.seen(0.7, 5, churning=True))
    # Two more Pods than at the last signal.
    assert estimate.mode == "predicted"
    assert estimate.capacity == pytest.approx(0.7 / cost(now) - 2)
    assert estimate.capacity_sd == pytest.approx(0.7 / cost(now) ** 2 * now.cost[base.SIGNAL][1], rel=1e-6)


def test_a_full_node_offers_nothing_since_no_reading_corrects_the_baseline() -> None:
    estimator = delta.Delta(scalar.config())
    waves(estimator, of=0.2)
    estimator.update(scalar.seen(1.1, 1))
    full = estimator.estimate(scalar.seen(0.0, 2))
    assert (full.mode, full.capacity) == ("saturated", 0.0)


def test_a_signal_of_another_scale_gives_the_same_pods() -> None:
    plain, scaled = delta.Delta(scalar.config()), delta.Delta(scalar.config("sigma1u1"))
    for second in range(60):
        pods = (0, 1, 3, 2)[second // 5 % 4]
        level = 1.3 - 0.2 * pods
        first, other = (
            plain.update(scalar.seen(level, pods)),
            scaled.update(scalar.seen(7.0 * level, pods)),
        )
        assert other.capacity == pytest.approx(first.capacity, rel=1e-9)
        assert other.capacity_sd == pytest.approx(first.capacity_sd, rel=1e-9)


def test_an_idle_node_remembers_unless_it_is_set_to_forget() -> None:
    keeps, forgets = (
        delta.Delta(scalar.config()),
        delta.Delta(scalar.config(), dataclasses.replace(delta.DEFAULT, decay_per_s=0.05)),
    )
    for estimator in (keeps, forgets):
        waves(estimator, of=0.2)
        for _ in range(200):
            estimate = estimator.update(scalar.seen(1.3, 0))
        assert cost(estimate) == pytest.approx(0.2 if estimator is keeps else 1.0, abs=0.03)
