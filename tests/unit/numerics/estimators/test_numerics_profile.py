"""A broken line over a Pod's age: its sum is that of the definition, and it goes on by its last measured piece."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators.footprint import growth

AGES = st.lists(st.floats(-1.0, 500.0) | st.sampled_from(growth.EDGES_S), max_size=20)


@given(AGES)
def test_what_lies_behind_is_summed_segment_by_segment(ages_s: list[float]) -> None:
    oldest_first = sorted(ages_s, reverse=True)
    shares = np.maximum((np.array(oldest_first)[:, None] - np.array(growth.EDGES_S)) / np.array(growth.WIDTHS_S), 0.0)
    np.minimum(shares[:, :-1], 1.0, out=shares[:, :-1])
    assert growth.behind(oldest_first) == [len(ages_s), *shares.sum(axis=0).tolist()]


@given(st.floats(0.0, 500.0), st.floats(0.0, 50.0))
def test_a_straight_line_is_one_of_them(age_s: float, slope: float) -> None:
    # Whatever grows evenly has parts in proportion to the segments' lengths.
    parts = np.array([0.0, *(slope * width for width in growth.WIDTHS_S)])
    assert float(np.array(growth.behind([age_s])) @ parts) == pytest.approx(slope * age_s, rel=1e-9, abs=1e-9)


def test_what_lies_beyond_goes_on_by_the_last_slope() -> None:
    parts = [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    known = [True, True, True, False, False, False, False, False]
    assert growth.extrapolated(parts, known) == [1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0]
    flat = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert growth.extrapolated(flat, known)[3:] == [0.0] * 5


def test_nothing_measured_says_nothing_of_growth() -> None:
    parts = [1.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert growth.extrapolated(parts, [True] + [False] * 7) == [1.0] + [0.0] * 7
