"""The Pod count behind the telemetry's own lag and filter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics import ewma
from carico_core.numerics.estimators.footprint import admission, population

steps = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 30)), min_size=1, max_size=60)


@given(steps)
def test_without_a_lag_it_is_a_filter_with_the_same_gains(samples: list[tuple[float, float, int]]) -> None:
    measured, expected = ewma.DynamicEma(), np.zeros(2)
    count = population.FilteredCount(2, start_lag_s=0.0)
    for first, second, pods in samples:
        measured.update(np.array([first, second]))
        # y <- y + alpha (x - y), with alpha = 1 for the first sample
        expected = expected + measured.last_gain * (pods - expected)
        count.tick(measured.last_gain.tolist(), float(pods), 0.1)
        np.testing.assert_allclose([count.value(0), count.value(1)], expected, rtol=1e-12, atol=1e-12)


def test_it_moves_on_while_the_usage_reads_the_same() -> None:
    measured, count = ewma.DynamicEma(), population.FilteredCount(1, start_lag_s=0.0)
    measured.update(np.array([0.0]))
    count.tick(measured.last_gain.tolist(), 0.0, 0.1)
    for _ in range(20):
        measured.update(np.array([0.0]))
        count.tick(measured.last_gain.tolist(), 5.0, 0.1)
    assert count.value(0) == pytest.approx(5.0, abs=0.01)


@given(steps, st.floats(0, 2))
def test_it_stays_between_nothing_and_the_most_pods(samples: list[tuple[float, float, int]], lag_s: float) -> None:
    count = population.FilteredCount(2, start_lag_s=lag_s)
    for first, second, pods in samples:
        count.tick([first, second], float(pods), 0.1)
        most = max(pods for *_, pods in samples) + 1e-9
        assert all(0.0 <= count.value(index) <= most for index in range(2))


def test_a_start_shows_after_the_lag_and_an_end_at_once() -> None:
    count = population.FilteredCount(1, start_lag_s=0.2)
    count.tick([1.0], 0.0, 0.1)
    seen = []
    for pods in (2.0, 2.0, 2.0, 5.0, 5.0, 3.0, 3.0, 3.0):
        count.tick([1.0], pods, 0.1)
        seen.append(count.value(0))
    assert seen == [0.0, 0.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0]


def test_pods_that_run_at_the_first_sight_count_in_full() -> None:
    count = population.FilteredCount(2, start_lag_s=0.2)
    count.tick([0.1, 0.1], 7.0, 0.1)
    assert (count.value(0), count.value(1)) == (7.0, 7.0)


def test_more_starts_than_slots_lose_no_pod() -> None:
    count = population.FilteredCount(1, start_lag_s=5.0)
    count.tick([1.0], 0.0, 0.1)
    for pods in range(1, 41):
        count.tick([1.0], float(pods), 0.1)
    assert count.value(0) == 0.0
    for _ in range(60):
        count.tick([1.0], 40.0, 0.1)
    assert count.value(0) == 40.0


def test_readings_on_the_way_to_a_full_node_count_as_full() -> None:
    share = admission.FullShare(2, full_from=0.97)
    assert share.full([0.5, 0.97]) == [False, True]
    for _ in range(2):
        share.tick([1.0, 0.2], [0.09, 0.09])
    # A container's start spike: two full samples.
    assert share.full([0.6, 0.2]) == [False, False]
    for gain in (0.09, 0.333):
        share.tick([1.0, 0.2], [gain, 0.09])
    assert share.full([0.7, 0.2]) == [True, False]
