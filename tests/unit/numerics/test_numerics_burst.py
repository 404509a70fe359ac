"""The ceiling for bursts, and the runtime's own work told from that of Pods."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators import base, burst, containers, footprint


def test_a_node_at_rest_may_exceed_its_ceiling_and_a_busy_one_may_not() -> None:
    made = burst.BurstCeiling(0.74, share=0.25, memory_s=15.0)
    assert made.value == pytest.approx(0.8)
    before = made.value
    for _ in range(100):
        made.tick(0.8, 0.1)
        assert 0.74 <= made.value <= before
        before = made.value
    for _ in range(1000):
        made.tick(0.8, 0.1)
    assert made.value == pytest.approx(0.74)


@given(st.floats(0.3, 1.0), st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.05, 30.0)), max_size=5))
def test_what_is_lent_is_a_share_of_what_the_mean_usage_left(
    ceiling: float, stretches: list[tuple[float, float]]
) -> None:
    made = burst.BurstCeiling(ceiling, share=0.4, memory_s=20.0)
    for usage, seconds in stretches:
        for _ in range(5):
            made.tick(usage, seconds / 5)
    # Each stretch of usage counts by how long it lasted, and by how long ago that was.
    ends_s = np.cumsum([0.0, *(seconds for _, seconds in stretches)])
    weights = np.diff(np.exp((ends_s - ends_s[-1]) / 20.0))
    mean = float(weights @ [usage for usage, _ in stretches])
    lent = 0.4 * max(0.0, ceiling - 0.5) * max(0.0, 1.0 - mean / ceiling)
    assert made.value == pytest.approx(max(ceiling, min(ceiling + lent, 0.9)))


def test_nothing_is_lent_above_what_a_reading_can_tell() -> None:
    assert burst.BurstCeiling(0.85, share=0.25, memory_s=15.0).value == 0.9


@pytest.mark.parametrize("ceiling", [0.3, 0.5])
def test_a_ceiling_for_isolation_is_never_exceeded(ceiling: float) -> None:
    assert burst.BurstCeiling(ceiling, share=0.25, memory_s=15.0).value == ceiling


@pytest.mark.parametrize("ceiling", [0.9, 0.95, 1.0])
def test_a_high_ceiling_stays_what_was_set(ceiling: float) -> None:
    assert burst.BurstCeiling(ceiling, share=0.25, memory_s=15.0).value == ceiling


def test_a_pulse_lasts_as_long_as_a_container_takes_whatever_the_steps() -> None:
    for dt_s in (0.02, 0.1, 0.3):
        made = containers.Pulses()
        made.begin()
        total_s = 0.0
        for _ in range(round(5.0 / dt_s)):
            made.tick(1.0, dt_s)
            total_s += made.shown * dt_s
        assert total_s == pytest.approx(containers.PULSE_S, rel=1e-6)


def test_no_time_and_no_gain_move_nothing() -> None:
    made = containers.Pulses()
    made.begin()
    made.tick(1.0, 0.0)
    made.tick(0.0, 0.1)
    assert made.shown == 0.0


def observed(usage: float, pods: int) -> base.Observation:
    return base.Observation(
        dt_s=0.2, y=np.array([usage, 0.1]), gains=np.full(2, 0.5), pods=pods, signal=math.nan, direction=np.ones(2)
    )


def learnt_cost(*, runtime_work: bool) -> float:
    """The cost of a Pod that uses one core of four, as learnt while another container is created each second."""
    dims = ("cpu", "memory")
    node = base.EstimatorConfig(
        dims=dims, scale=np.array([8.0, 8e9]), cores=4.0, ceiling=base.default_ceiling(dims),
        guard=base.default_guard(dims),
    )  # fmt: skip
    made = footprint.Footprint(node, footprint.FootprintConstants(runtime_work=runtime_work, start_lag_s=0.0))
    made.follow({"a": "Job/x"})
    filtered, left_s = 1.0 / 8.0, 0.0
    gains = np.full(2, 0.3)
    for step in range(100):
        if step % 10 == 0:
            made.creating()
            left_s = 0.25
        work_s, left_s = min(left_s, 0.1), max(0.0, left_s - 0.1)
        filtered += 0.3 * ((1.0 + 2.0 * work_s / 0.1) / 8.0 - filtered)
        made.tick(np.array([filtered, 0.1]), gains, 1, 0.1)
        if step % 2 == 1:
            made.update(observed(filtered, 1))
    return made.estimate(observed(filtered, 1)).cost["cpu"][0]


def test_creations_of_containers_do_not_pass_for_what_pods_use() -> None:
    assert learnt_cost(runtime_work=True) == pytest.approx(1.0, abs=0.15)
    assert learnt_cost(runtime_work=False) > 1.3


def test_it_is_eager_for_a_while_after_a_class_has_come() -> None:
    dims = ("cpu", "memory")
    node = base.EstimatorConfig(
        dims=dims, scale=np.array([8.0, 8e9]), cores=4.0, ceiling=base.default_ceiling(dims),
        guard=base.default_guard(dims),
    )  # fmt: skip
    made = footprint.Footprint(node)
    seen = [made.eager]
    made.follow({"a": "Job/x"})
    seen.append(made.eager)
    for _ in range(70):
        made.tick(np.array([0.1, 0.1]), np.full(2, 0.3), 1, 0.1)
    seen.append(made.eager)
    # Another Pod of the same class is nothing new.
    made.follow({"a": "Job/x", "b": "Job/x"})
    seen.append(made.eager)
    # Of two classes a few samples cannot say which of them uses what; of the new one alone they can.
    made.follow({"a": "Job/x", "c": "Job/y"})
    seen.append(made.eager)
    made.follow({"c": "Job/y"})
    seen.append(made.eager)
    assert seen == [False, True, False, False, False, True]
