"""Who is likely to end soon: worked out with plain numbers, to the same bits as with arrays, life by life."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics import arrays
from carico_core.numerics.estimators import lives

SECONDS = st.floats(min_value=0.0, max_value=100.0)


def chances(ended: arrays.Array, ages: arrays.Array, span: float) -> arrays.Array:
    """Kaplan and Meier's: S(t) = product over lives t_i <= t of 1 - 1 / (lives and ages that reached t_i)."""
    reached = len(ended) - np.arange(len(ended)) + (ages[None, :] >= ended[:, None]).sum(axis=1)
    survival = np.concatenate([[1.0], np.cumprod(1.0 - 1.0 / reached)])
    now = survival[np.searchsorted(ended, ages, side="right")]
    later = survival[np.searchsorted(ended, ages + span, side="right")]
    return np.where(now > 0.0, 1.0 - later / np.where(now > 0.0, now, 1.0), 0.0)


@given(
    ended=st.lists(SECONDS, min_size=3, max_size=48),
    ages=st.lists(SECONDS, min_size=1, max_size=20),
    span=st.floats(min_value=1e-3, max_value=50.0),
    tied=st.booleans(),
)
def test_each_pods_chance_is_that_of_the_definition(
    ended: list[float], ages: list[float], span: float, tied: bool
) -> None:
    if tied:
        ages = [ended[0], *ages[1:]]
    expected = chances(np.array(sorted(ended)), np.array(ages), span)
    assert lives._chances(sorted(ended), ages, span) == expected.tolist()


def aged(*steps: tuple[dict[str, str], float], cpu: float = 0.2) -> lives.Lives:
    """Which Pods run (UID to class), each for so many seconds."""
    made = lives.Lives()
    for running, seconds in steps:
        made.follow(running)
        made.tick(cpu, seconds)
    return made


def test_ages_are_by_the_clock_and_lives_by_what_a_thread_got() -> None:
    made = aged(({"a": "job"}, 3.0), ({"a": "job", "b": "job", "c": "other"}, 2.0), cpu=1.0)
    assert made.ages_s("job") == [5.0, 2.0]
    assert made.ages_s("job", since_s=0.5) == [4.5, 1.5]
    assert made.counts() == {"job": 2, "other": 1}
    assert made.follow({"b": "job"}) == 2
    assert made.counts() == {"job": 1}
    # Half a CPU's share each, as a reading of 1 says.
    ended = made._ended["job"]
    assert (list(ended.shares_s), list(ended.lives_s)) == ([2.5], [5.0])


def test_a_pod_whose_class_becomes_known_keeps_its_age() -> None:
    made = aged(({"a": "?"}, 3.0), ({"a": "job"}, 2.0))
    assert (made.ages_s("job"), made.ages_s("?")) == ([5.0], [])


def test_a_class_is_known_from_its_third_life_and_by_the_last_ones() -> None:
    made = lives.Lives()
    assert made.longest_s("job") == lives.UNKNOWN_LIFE_S
    for number, life_s in enumerate((9.0, 1.0, 2.0)):
        assert not made.is_known("job")
        made.follow({f"p{number}": "job"})
        made.tick(0.2, life_s)
        made.follow({})
    assert made.is_known("job")
    assert made.longest_s("job") == 9.0
    for number in range(lives.KEPT):
        made.follow({f"q{number}": "job"})
        made.tick(0.2, 3.0)
        made.follow({})
    assert made.longest_s("job") == 3.0
    made.follow({"runs": "job"})
    assert made.ending_within("job", 5.0) == 1.0
    made.forget("job")
    assert (made.is_known("job"), made.longest_s("job")) == (False, lives.UNKNOWN_LIFE_S)
    assert made.ending_within("job", 5.0) == 0.0
    # Nothing of what was is left: it is known again by three lives, and by those alone.
    for number in range(3):
        assert not made.is_known("job")
        made.tick(0.2, 7.0)
        made.follow({})
        made.follow({f"r{number}": "job"})
    assert (made.longest_s("job"), made.ending_within("job", 5.0), made.ending_within("job", 7.0)) == (7.0, 0.0, 1.0)


def test_pods_of_a_class_are_expected_to_end_as_the_ones_before_them() -> None:
    made = aged(*(({f"p{number}": "job"}, 4.0) for number in range(3)))
    made.follow({"old": "job", "other": "else"})
    made.tick(0.2, 3.0)
    made.follow({"old": "job", "young": "job", "other": "else"})
    assert made.ending_within("job", 0.5) == 0.0
    assert made.ending_within("job", 1.0) == 1.0
    assert made.ending_within("job", 4.0) == 2.0
    assert made.ending_within("job", 0.0) == 0.0
    assert made.ending_within("else", 9.0) == 0.0


def test_many_pods_are_expected_to_end_as_few_are() -> None:
    made = aged(*(({f"p{number}": "job"}, 4.0) for number in range(3)))
    made.follow({f"q{number}": "job" for number in range(20)})
    assert made.ending_within("job", 4.0) == 20.0
    assert made.ending_within("job", 3.9) == 0.0


def test_a_thread_has_a_core_up_to_half_of_the_reading_and_its_share_beyond() -> None:
    assert [lives.speed(cpu) for cpu in (0.0, 0.5, 0.625, 1.0)] == [1.0, 1.0, 0.8, 0.5]
