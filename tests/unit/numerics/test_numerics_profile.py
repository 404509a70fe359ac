"""A broken line over a Pod's age: its sum is that of the definition, and it goes on by its last measured piece."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators import lives, profile

AGES = st.lists(st.floats(-1.0, 500.0) | st.sampled_from(profile.EDGES_S), max_size=20)


@given(AGES)
def test_what_lies_behind_is_summed_segment_by_segment(ages_s: list[float]) -> None:
    oldest_first = sorted(ages_s, reverse=True)
    shares = np.maximum((np.array(oldest_first)[:, None] - np.array(profile.EDGES_S)) / np.array(profile.WIDTHS_S), 0.0)
    np.minimum(shares[:, :-1], 1.0, out=shares[:, :-1])
    assert profile.behind(oldest_first) == [len(ages_s), *shares.sum(axis=0).tolist()]


@given(st.floats(0.0, 500.0), st.floats(0.0, 50.0))
def test_a_straight_line_is_one_of_them(age_s: float, slope: float) -> None:
    # Whatever grows evenly has parts in proportion to the segments' lengths.
    parts = np.array([0.0, *(slope * width for width in profile.WIDTHS_S)])
    assert float(np.array(profile.behind([age_s])) @ parts) == pytest.approx(slope * age_s, rel=1e-9, abs=1e-9)


def test_what_lies_beyond_goes_on_by_the_last_slope() -> None:
    parts = [1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    known = [True, True, True, False, False, False, False, False]
    assert profile.extrapolated(parts, known) == [1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0]
    flat = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert profile.extrapolated(flat, known)[3:] == [0.0] * 5


def test_nothing_measured_says_nothing_of_growth() -> None:
    parts = [1.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert profile.extrapolated(parts, [True] + [False] * 7) == [1.0] + [0.0] * 7


def aged(*lives_s: float, running_s: float = 0.0) -> lives.Lives:
    """Pods of one class with these lives on an idle node, and one that has run for `running_s`."""
    made = lives.Lives()
    for index, life_s in enumerate(lives_s):
        made.follow({f"pod-{index}": "job"})
        made.tick(0.1, life_s)
        made.follow({})
    if running_s:
        made.follow({"running": "job"})
        made.tick(0.1, running_s)
    return made


def test_a_pod_near_the_end_of_known_lives_is_expected_to_end() -> None:
    found = aged(5.0, 5.1, 4.9, 5.0, running_s=4.5)
    assert found.ending_within("job", 1.0) > 0.8
    assert found.ending_within("job", 0.2) == 0.0
    assert aged(5.0, 5.1, 4.9, 5.0, running_s=1.0).ending_within("job", 1.0) == 0.0


def test_two_lives_are_not_enough_to_expect_anything() -> None:
    assert aged(5.0, 5.0, running_s=4.9).ending_within("job", 1.0) == 0.0


def test_pods_that_still_run_count_as_lives_that_last_at_least_so_long() -> None:
    alone = aged(1.0, 1.0, 1.0, running_s=0.5)
    among = aged(1.0, 1.0, 1.0)
    running = {f"old-{index}": "job" for index in range(9)}
    among.follow(running)
    among.tick(0.1, 20.0)
    among.follow({**running, "running": "job"})
    among.tick(0.1, 0.5)
    assert among.ending_within("job", 1.0) < 0.5 * alone.ending_within("job", 1.0)


def test_load_stretches_no_life() -> None:
    made = lives.Lives()
    made.follow({"a": "job", "b": "job"})
    # Twice as many tasks as cores: half the speed, so that ten seconds are five of work.
    made.tick(1.0, 10.0)
    made.follow({})
    assert list(made._ended["job"].shares_s) == pytest.approx([5.0, 5.0])
    assert list(made._ended["job"].lives_s) == pytest.approx([10.0, 10.0])


def test_a_class_that_becomes_known_late_keeps_the_pods_age() -> None:
    made = lives.Lives()
    made.follow({"a": "*"})
    made.tick(0.1, 3.0)
    made.follow({"a": "Job/default/pi"})
    assert made.ages_s("Job/default/pi") == [3.0]
    assert made.counts() == {"Job/default/pi": 1}
