"""The dynamic EMA: when it turns fast, and what its counters share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics import ewma

usages = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=60)


def one(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values)


def test_the_first_sample_is_taken_as_it_is() -> None:
    ema = ewma.DynamicEma()
    assert ema.update(one(0.3, 0.7)).tolist() == [0.3, 0.7]
    assert ema.last_gain.tolist() == [1.0, 1.0]


def test_a_rise_is_slow_for_three_samples_and_fast_from_the_fourth() -> None:
    ema = ewma.DynamicEma()
    ema.update(one(0.0))
    gains = [float(ema.update(one(1.0))[0] * 0 + ema.last_gain[0]) for _ in range(6)]
    assert gains == [0.09, 0.09, 0.09, 0.333, 0.333, 0.333]


def test_a_fall_is_slow_for_three_samples_and_fast_from_the_fourth() -> None:
    ema = ewma.DynamicEma()
    ema.update(one(1.0))
    gains = [float(ema.update(one(0.0))[0] * 0 + ema.last_gain[0]) for _ in range(5)]
    assert gains == [0.0625, 0.0625, 0.0625, 0.2, 0.2]


def test_a_change_of_direction_starts_the_count_afresh() -> None:
    ema = ewma.DynamicEma()
    ema.update(one(0.5))
    for sample in (1.0, 1.0, 1.0, 1.0, 0.0):
        ema.update(one(sample))
    assert ema.last_gain[0] == 0.0625
    ema.update(one(1.0))
    assert ema.last_gain[0] == 0.09


def test_a_shared_counter_turns_fast_after_two_samples_of_two_dimensions() -> None:
    shared = ewma.DynamicEma(shared_counter=True)
    shared.update(one(0.0, 0.0))
    shared.update(one(1.0, 1.0))
    assert shared.last_gain.tolist() == [0.09, 0.09]
    shared.update(one(1.0, 1.0))
    assert shared.last_gain.tolist() == [0.09, 0.333]


def test_dimensions_count_apart_by_default() -> None:
    ema = ewma.DynamicEma()
    ema.update(one(0.0, 0.5))
    for step in range(4):
        ema.update(one(1.0, float(step % 2)))
    assert ema.last_gain[0] == 0.333
    assert ema.last_gain[1] in (0.09, 0.0625)


@given(usages)
def test_the_filter_stays_within_what_it_was_given(samples: list[tuple[float, float]]) -> None:
    ema = ewma.DynamicEma()
    for sample in samples:
        value = ema.update(np.array(sample))
    seen = np.array(samples)
    assert (value >= seen.min(axis=0) - 1e-12).all()
    assert (value <= seen.max(axis=0) + 1e-12).all()


def test_results_are_not_windows_into_the_filter() -> None:
    ema = ewma.DynamicEma()
    sample = one(0.5, 0.5)
    out = ema.update(sample)
    out[:] = 9.0
    sample[:] = 9.0
    ema.last_gain[:] = 9.0
    assert ema.update(one(0.5, 0.5)).tolist() == [0.5, 0.5]


def test_another_number_of_dimensions_is_refused() -> None:
    ema = ewma.DynamicEma()
    ema.update(one(0.5, 0.5))
    with pytest.raises(ValueError, match="expected 2 dimensions, got 1"):
        ema.update(one(0.5))
