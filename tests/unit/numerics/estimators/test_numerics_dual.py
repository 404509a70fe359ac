"""`dual`: the paper's filters beyond the replays of tests/golden."""

import math

import pytest

from carico_core.numerics import signal
from carico_core.numerics.estimators import base, dual
from tests.unit.numerics.estimators import scalar_filters as scalar


def learnt(baseline: float = 1.2, cost: float = 0.15, mode: signal.SignalMode = "trace") -> dual.Dual:
    """A filter that has seen a varying load of Pods of this cost."""
    estimator = dual.Dual(scalar.config(mode), dual.DualConstants(decay_per_s=0.0))
    for second in range(400):
        pods = (0, 2, 5, 3, 1)[second // 10 % 5]
        estimator.update(scalar.seen(baseline - cost * pods, pods))
    return estimator


def test_a_cold_node_takes_one_pod() -> None:
    estimate = dual.Dual(scalar.config()).estimate(scalar.seen(1.3, 0))
    assert 1.0 <= estimate.capacity < 2.0
    assert estimate.mode == "warming"


def test_it_finds_baseline_and_cost_of_a_varying_load() -> None:
    estimate = learnt().estimate(scalar.seen(0.9, 2))
    assert estimate.baseline[base.SIGNAL][0] == pytest.approx(1.2, abs=0.05)
    assert estimate.cost[base.SIGNAL][0] == pytest.approx(0.15, abs=0.02)


def test_a_trusted_signal_is_divided_by_the_cost() -> None:
    estimator = learnt()
    estimate = estimator.estimate(scalar.seen(0.6, 4))
    assert estimate.mode == "measured"
    assert estimate.capacity == pytest.approx(0.6 / estimate.cost[base.SIGNAL][0])


@pytest.mark.parametrize(("level", "churning", "mode"), [(0.9, True, "predicted"), (0.0, False, "saturated")])
def test_in_churn_and_saturation_the_model_speaks(level: float, churning: bool, mode: str) -> None:
    estimate = learnt().estimate(scalar.seen(level, 3, churning=churning))
    assert estimate.mode == mode
    baseline, cost = estimate.baseline[base.SIGNAL][0], estimate.cost[base.SIGNAL][0]
    assert estimate.capacity == pytest.approx(baseline / cost - 3)


def test_churn_teaches_nothing() -> None:
    estimator = learnt()
    before = estimator.estimate(scalar.seen(0.9, 2))
    after = estimator.update(scalar.seen(0.1, 2, churning=True))
    assert (after.baseline, after.cost) == (before.baseline, before.cost)


def test_a_full_node_teaches_only_what_it_contradicts() -> None:
    estimator = learnt()
    before = estimator.estimate(scalar.seen(0.5, 3))
    expected_full = estimator.update(scalar.seen(0.0, 20))
    assert expected_full.cost == before.cost
    unexpected = estimator.update(scalar.seen(0.0, 4))
    assert unexpected.cost[base.SIGNAL][0] > before.cost[base.SIGNAL][0]


def test_without_pods_the_cost_goes_back_to_its_start() -> None:
    estimator = dual.Dual(scalar.config())
    for _ in range(100):
        busy = estimator.update(scalar.seen(0.9, 3))
    forgotten = busy
    for _ in range(14):
        forgotten = estimator.update(scalar.seen(1.2, 0))
    start = dual.LOGGED.cost_start
    # Half of the way in ln 2 / .05 = 13.9 s.
    assert (start - forgotten.cost[base.SIGNAL][0]) / (start - busy.cost[base.SIGNAL][0]) == pytest.approx(
        0.5, abs=0.01
    )


def test_with_no_decay_an_idle_node_remembers() -> None:
    estimator = learnt()
    before = estimator.estimate(scalar.seen(1.2, 0)).cost
    for _ in range(50):
        after = estimator.update(scalar.seen(1.2, 0)).cost
    assert after[base.SIGNAL] == pytest.approx(before[base.SIGNAL])


def test_a_signal_of_another_scale_gives_the_same_pods() -> None:
    """Spec 3: x0 and sqrt(P0) scale by s, Q and R by s squared."""
    plain = dual.Dual(scalar.config(), dual.LOGGED)
    scaled = dual.Dual(scalar.config("sigma1u1"), dual.LOGGED)
    for second in range(60):
        pods = (0, 1, 3, 2)[second // 5 % 4]
        level = 1.3 - 0.2 * pods
        first, second_estimate = (
            plain.update(scalar.seen(level, pods)),
            scaled.update(scalar.seen(7.0 * level, pods)),
        )
        assert second_estimate.capacity == pytest.approx(first.capacity, rel=1e-9)
        assert second_estimate.capacity_sd == pytest.approx(first.capacity_sd, rel=1e-9)
        assert second_estimate.cost[base.SIGNAL][0] == pytest.approx(7.0 * first.cost[base.SIGNAL][0], rel=1e-9)


def test_asked_before_the_first_update_one_pod_fills_a_node_at_any_scale() -> None:
    assert dual.Dual(scalar.config("sigma1u1")).estimate(scalar.seen(40.0, 0)).capacity == pytest.approx(1.3)


@pytest.mark.parametrize(("level", "churning", "capacity"), [(0.9, True, 0.9), (0.0, False, 0.0)])
def test_the_published_source_divides_every_signal_by_the_cost(level: float, churning: bool, capacity: float) -> None:
    estimator = dual.Dual(scalar.config(), dual.PUBLISHED)
    for _ in range(50):
        estimator.update(scalar.seen(0.9, 2))
    estimate = estimator.estimate(scalar.seen(level, 3, churning=churning))
    assert estimate.capacity == pytest.approx(capacity / estimate.cost[base.SIGNAL][0])


def test_a_node_that_has_rested_learns_slowly_in_the_published_source() -> None:
    learnt_by, rested = {}, {}
    for constants in (dual.LOGGED, dual.PUBLISHED):
        estimator = dual.Dual(scalar.config(), constants)
        for _ in range(60):
            rested[constants] = estimator.update(scalar.seen(1.3, 0)).cost[base.SIGNAL][1]
        for _ in range(5):
            estimate = estimator.update(scalar.seen(1.1, 1))
        learnt_by[constants] = 1.0 - estimate.cost[base.SIGNAL][0]
    # The variance at rest: P = Q / (1 - F^2) = .001 / (1 - exp(-.1)) = .0105 instead of .2.
    assert 5.0 * learnt_by[dual.PUBLISHED] < learnt_by[dual.LOGGED]
    assert rested[dual.PUBLISHED] == pytest.approx(math.sqrt(0.0105), rel=0.03)
    assert rested[dual.LOGGED] == pytest.approx(math.sqrt(0.2))
