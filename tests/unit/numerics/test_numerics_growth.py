"""What a Pod holds by its age, in plain numbers: the same as arrays would give."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators import growth, profile

PART = st.floats(-1e6, 1e6)
PARTS = st.lists(PART, min_size=profile.PARTS, max_size=profile.PARTS)


@given(PARTS, PARTS)
def test_a_sum_of_products_is_that_of_arrays(left: list[float], right: list[float]) -> None:
    size = sum(abs(one * other) for one, other in zip(left, right, strict=True))
    assert math.isclose(growth.dot(left, right), float(np.array(left) @ np.array(right)), abs_tol=1e-15 * size)


def told(mean: list[float], *, measured: int) -> growth.Growth:
    """A class of which so many parts are sure, and the others as unsure as those that nobody measured."""
    variances = [1e-6] * measured + [1.0] * (profile.PARTS - measured)
    return growth.Growth(np.array(mean), np.diag(variances), unknown_part=1.0)


def test_what_is_still_to_come_is_what_the_whole_life_takes_less_what_lies_behind() -> None:
    # A tenth at once, then one a second for four seconds, and nothing more.
    found = told([0.1, 1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0], measured=8)
    assert math.isclose(found.whole(4.0)[0], 4.1)
    assert math.isclose(found.left(profile.behind([1.0, 3.0]), 2.0, 4.0), 3.0 + 1.0, abs_tol=0.01)
    assert found.left(profile.behind([4.0, 9.0]), 2.0, 4.0) == 0.0


def test_a_life_counts_where_it_held_most() -> None:
    found = told([0.5, 3.0, -3.0, 0.0, 0.0, 0.0, 0.0, 0.0], measured=8)
    assert math.isclose(found.whole(8.0)[0], 3.5)


def test_growth_nobody_has_seen_goes_on_by_the_last_slope() -> None:
    found = told([0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], measured=3)
    assert found.is_told and not told([9.0] * 8, measured=1).is_told
    # Two seconds are told, six more at one a second.
    assert math.isclose(found.plus(8.0, 0.0), 8.0, rel_tol=0.01)
