"""How old the running Pods of a class are, and how long the last ones lived."""

from hypothesis import strategies as st

from carico_core.numerics.estimators.footprint import growth, population

SECONDS = st.floats(min_value=0.0, max_value=100.0)


def begun() -> population.Lifetimes:
    """After a first sample, so that it sees the starts of all Pods."""
    made = population.Lifetimes()
    made.tick(0.125)
    return made


def aged(*steps: tuple[dict[str, str], float]) -> population.Lifetimes:
    """Which Pods run (UID to class), each for so many seconds."""
    made = begun()
    for running, seconds in steps:
        made.follow(running)
        made.tick(seconds)
    return made


def test_ages_and_lives_are_by_the_clock() -> None:
    made = aged(({"a": "job"}, 3.0), ({"a": "job", "b": "job", "c": "other"}, 2.0))
    assert made.ages_s("job") == [5.0, 2.0]
    assert made.ages_s("job", since_s=0.5) == [4.5, 1.5]
    assert made.counts() == {"job": 2, "other": 1}
    made.follow({"b": "job"})
    assert made.counts() == {"job": 1}
    assert [list(made._ended[name].lifetimes_s) for name in ("job", "other")] == [[5.0], [2.0]]


def test_a_pod_whose_class_becomes_known_keeps_its_age() -> None:
    made = aged(({"a": "?"}, 3.0), ({"a": "job"}, 2.0))
    assert (made.ages_s("job"), made.ages_s("?")) == ([5.0], [])


def test_the_mean_lifetime_counts_the_time_of_those_that_run() -> None:
    made = aged(({"a": "job", "b": "job", "c": "job", "d": "job", "o": "other"}, 10.0), ({"o": "other"}, 0.0))
    # Four have ended, and none runs: nothing is known of those that would be moved.
    assert made.means_s() == {}
    made.follow({"e": "job", "o": "other"})
    assert made.means_s()["job"] == (10.0, 10.0**2 / 4)
    made.tick(3600.0)
    assert made.means_s() == {"job": ((40.0 + 3600.0) / 4, ((40.0 + 3600.0) / 4) ** 2 / 4)}


def test_how_long_those_lived_that_ran_before_is_not_known() -> None:
    """An agent that starts next to three Pods that end ten seconds later does not know that they lived for hours."""
    made = population.Lifetimes()
    made.follow({"a": "job", "b": "job", "c": "job"})
    made.tick(10.0)
    made.follow({"d": "job"})
    assert (made.is_known("job"), made.longest_s("job"), made.means_s()) == (False, growth.UNKNOWN_LIFE_S, {})


def test_pods_that_ran_before_are_older_than_those_that_failed_since() -> None:
    made = population.Lifetimes()
    made.follow({"old": "job"})
    made.tick(0.125)
    for number in range(population.ENOUGH):
        made.follow({"old": "job", f"fails-{number}": "job"})
        made.tick(3.0)
    made.follow({"old": "job"})
    assert (made.is_known("job"), made.longest_s("job")) == (True, growth.UNKNOWN_LIFE_S)


def test_short_lives_do_not_make_those_that_run_short() -> None:
    """One Pod that fails three times at its start says nothing about those that hold their data."""
    made = aged(({"old": "job"}, 30.0))
    for number in range(population.ENOUGH):
        made.follow({"old": "job", f"fails-{number}": "job"})
        made.tick(3.0)
    made.follow({"old": "job"})
    assert made.longest_s("job") == 39.0
    made.tick(3600.0)
    assert made.longest_s("job") == growth.UNKNOWN_LIFE_S
    made.follow({})
    assert made.longest_s("job") == 3639.0


def test_a_class_is_known_from_its_third_life_and_by_the_last_ones() -> None:
    made = begun()
    assert made.longest_s("job") == growth.UNKNOWN_LIFE_S
    for number, life_s in enumerate((9.0, 1.0, 2.0)):
        assert not made.is_known("job")
        made.follow({f"p{number}": "job"})
        made.tick(life_s)
        made.follow({})
    assert made.is_known("job")
    assert made.longest_s("job") == 9.0
    for number in range(population.KEPT):
        made.follow({f"q{number}": "job"})
        made.tick(3.0)
        made.follow({})
    assert made.longest_s("job") == 3.0
    made.follow({"runs": "job"})
    made.forget("job")
    assert (made.is_known("job"), made.longest_s("job")) == (False, growth.UNKNOWN_LIFE_S)
    # Nothing of what was is left: it is known again by three lives, and by those alone.
    for number in range(3):
        assert not made.is_known("job")
        made.tick(7.0)
        made.follow({})
        made.follow({f"r{number}": "job"})
    assert made.longest_s("job") == 7.0
