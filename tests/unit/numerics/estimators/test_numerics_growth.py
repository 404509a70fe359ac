"""What a Pod holds by its age, in plain numbers: the same as arrays would give."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators.footprint import growth

PART = st.floats(-1e6, 1e6)
PARTS = st.lists(PART, min_size=growth.PARTS, max_size=growth.PARTS)


@given(PARTS, PARTS)
def test_a_sum_of_products_is_that_of_arrays(left: list[float], right: list[float]) -> None:
    size = sum(abs(one * other) for one, other in zip(left, right, strict=True))
    assert math.isclose(growth.dot(left, right), float(np.array(left) @ np.array(right)), abs_tol=1e-15 * size)


def fitted(mean: list[float], *, measured: int) -> growth.Growth:
    """A class of which so many parts are sure, and the others as unsure as before any measurement."""
    variances = [1e-6] * measured + [1.0] * (growth.PARTS - measured)
    return growth.Growth(np.array(mean), np.diag(variances), unknown_part=1.0)


def test_what_is_still_to_come_is_what_the_whole_life_takes_less_what_lies_behind() -> None:
    # A tenth at once, then one a second for four seconds, and nothing more.
    found = fitted([0.1, 1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0], measured=8)
    assert math.isclose(found.whole(4.0)[0], 4.1)
    assert math.isclose(found.left(growth.behind([3.0, 1.0]), 2.0, 4.0), 3.0 + 1.0, abs_tol=0.01)
    assert found.left(growth.behind([9.0, 4.0]), 2.0, 4.0) == 0.0


def test_a_life_counts_where_it_held_most() -> None:
    found = fitted([0.5, 3.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0], measured=8)
    assert math.isclose(found.whole(8.0)[0], 3.5)


def test_unseen_growth_continues_by_the_last_slope() -> None:
    found = fitted([0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], measured=3)
    assert found.is_identified and not fitted([9.0] * 8, measured=1).is_identified
    # Two seconds are identified, six more follow at one a second.
    assert math.isclose(found.plus(8.0, 0.0), 8.0, rel_tol=0.01)


def test_caution_adds_the_doubt_of_what_is_reported_and_expectation_does_not() -> None:
    found = growth.Growth(np.array([1.0] + [0.0] * 7), np.diag([0.04] + [1e-12] * 7), unknown_part=1.0)
    assert math.isclose(found.variance, 0.04, rel_tol=1e-6)
    assert math.isclose(found.plus(4.0, 0.0), 1.0, rel_tol=1e-6)
    assert math.isclose(found.plus(4.0, 2.0), 1.4, rel_tol=1e-6)
    assert found.expected([3.0] + [0.0] * 7) == 3.0


def test_the_doubt_counts_next_to_unseen_growth() -> None:
    found = growth.Growth(
        np.array([0.0, 1.0, 1.0] + [0.0] * 5), np.diag([0.04] + [1e-12] * 2 + [1.0] * 5), unknown_part=1.0
    )
    assert math.isclose(found.plus(8.0, 0.0), 8.0, rel_tol=0.01)
    assert math.isclose(found.plus(8.0, 1.0), 8.2, rel_tol=0.01)


def test_a_part_is_identified_by_how_little_doubt_is_left_of_an_unknown_ones() -> None:
    def is_identified(second: float, third: float, unknown_part: float) -> bool:
        variances = np.diag([1e-6, second, third] + [1e-6] * 5)
        return growth.Growth(np.zeros(8), variances, unknown_part=unknown_part).is_identified

    assert is_identified(0.9, 9.0, 4.0)
    assert not is_identified(0.9, 1e-6, 1.0)
    assert not is_identified(0.3, 1e-6, 1.0)
    assert is_identified(0.2, 9.0, 1.0)


def test_what_is_still_to_come_goes_with_its_doubt_and_on_beyond_what_is_identified() -> None:
    doubted = growth.Growth(
        np.array([0.1, 1.0, 1.0, 2.0] + [0.0] * 4), np.diag([1e-12, 0.04] + [1e-12] * 6), unknown_part=1.0
    )
    assert math.isclose(doubted.left(growth.behind([0.0]), 1.0, 4.0), 4.2, abs_tol=0.01)
    beyond = fitted([0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], measured=3)
    assert math.isclose(beyond.left(growth.behind([0.0]), 1.0, 8.0), 8.0, abs_tol=0.05)
    shrinks = fitted([0.0, -1.0] + [0.0] * 6, measured=8)
    assert shrinks.left(growth.behind([0.0]), 1.0, 8.0) == 0.0
    assert fitted([-1.0] + [0.0] * 7, measured=8).whole(4.0)[0] == 0.0


def test_growth_goes_on_as_far_as_it_is_likely() -> None:
    found = growth.Growth(
        np.array([0.0, 1.0, 1.0] + [0.0] * 5), np.diag([1e-12, 1e-12, 4.0] + [100.0] * 5), unknown_part=100.0
    )
    # Two seconds as they were seen; six more at .3 standard deviations less than the last one.
    assert math.isclose(found.plus(8.0, 0.0), 2.0 + 6.0 * 0.4, abs_tol=0.05)
