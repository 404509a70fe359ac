"""Pressure without what Pods' own limits explain, against the kernel's way of aggregating."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_agent.telemetry import contention


def kernel_pressure(per_cpu: list[list[float]]) -> float:
    """some: the non-idle-weighted mean over CPUs; per CPU [share of time with a waiter, non-idle share]."""
    weight = sum(nonidle for _, nonidle in per_cpu)
    return sum(some * nonidle for some, nonidle in per_cpu) / weight if weight else 0.0


def run(
    correction: contention.Correction, *, pressure: float, running: float, limit: float, seconds: float
) -> list[float]:
    """Readings at 10 Hz of one Pod held to `limit`, whose throttled time is booked when its 100 ms periods end."""
    rng = random.Random(1)
    now_s, booked, out = rng.random() * 0.1, 0, []
    while now_s < seconds:
        step_s = 0.1 + rng.uniform(-0.02, 0.02)
        now_s += step_s
        periods = int(now_s / 0.1)
        span = contention.Span(
            elapsed_s=step_s,
            pressed_s=pressure * step_s,
            ran_s=running * step_s,
            throttled_s=(periods - booked) * 0.1 * (1 - limit),
        )
        booked = periods
        out.append(correction.apply(pressure, span, in_progress_s=0.1))
    return out


@pytest.mark.parametrize("cpus", [1, 2, 4, 8])
@pytest.mark.parametrize("limit", [0.05, 0.2, 0.5, 0.9])
def test_one_limited_pod_on_an_idle_node_reads_no_pressure(cpus: int, limit: float) -> None:
    pressure = kernel_pressure([[1 - limit, 1.0], *[[0.0, 0.0]] * (cpus - 1)])
    assert pressure == pytest.approx(1 - limit), "the trap"
    readings = run(contention.Correction(cpus=cpus), pressure=pressure, running=limit, limit=limit, seconds=30)
    settled = readings[25:]
    assert max(settled) < 0.05
    assert min(readings) >= 0.0


@pytest.mark.parametrize("cpus", [2, 4, 8])
def test_real_contention_next_to_a_limited_pod_stays_visible(cpus: int) -> None:
    # cpus + 1 free spinners; the limited Pod shares one CPU. Alone the spinners would read 1 / cpus.
    limit = 0.2
    pressure = kernel_pressure([[1.0, 1.0], [1 - limit, 1.0], *[[0.0, 1.0]] * (cpus - 2)])
    readings = run(contention.Correction(cpus=cpus), pressure=pressure, running=cpus, limit=limit, seconds=30)
    alone = 1.0 / cpus
    assert readings[-1] == pytest.approx(alone, abs=0.3 / cpus)


def test_without_limits_pressure_is_untouched() -> None:
    correction = contention.Correction(cpus=4)
    span = contention.Span(elapsed_s=0.1, pressed_s=0.07, ran_s=0.4, throttled_s=0.0)
    assert correction.apply(0.7, span, in_progress_s=0.1) == 0.7
    assert contention.without_throttling(0.7, running=4, throttled=0.0, cpus=4) == 0.7


def test_a_saturated_node_errs_low_by_throttled_over_cpus_at_most() -> None:
    assert contention.without_throttling(1.0, running=4, throttled=0.8, cpus=4) == pytest.approx(1 - 0.8 / 4)


@given(st.floats(0, 1), st.floats(0, 64), st.floats(0, 64), st.integers(1, 64))
def test_never_negative_and_never_above_what_was_read(
    pressure: float, running: float, throttled: float, cpus: int
) -> None:
    left = contention.without_throttling(pressure, running=min(running, cpus), throttled=throttled, cpus=cpus)
    assert 0.0 <= left <= pressure


@given(st.floats(0.01, 0.99), st.floats(0, 8))
def test_waiting_tasks_give_the_pressure_back(pressure: float, running: float) -> None:
    waiting = contention.waiting_tasks(pressure, running=running, cpus=8)
    busy = min(8.0, max(1.0, running + waiting))
    assert waiting / busy == pytest.approx(pressure, rel=0.02) or running + waiting > 8
