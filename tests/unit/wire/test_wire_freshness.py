"""Newer or not, and how old on a receiver whose clock differs."""

import pytest

from carico_core.domain import errors
from carico_core.wire import freshness

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [
        (0.0, "fresh"),
        (2.5, "fresh"),
        (2.6, "ageing"),
        (5.0, "ageing"),
        (5.1, "stale"),
        (10.0, "stale"),
        (10.1, "absent"),
    ],
)
def test_an_age_is_fresh_ageing_stale_or_absent(age_s: float, expected: str) -> None:
    assert freshness.classify(age_s, lease_s=10.0).value == expected


def test_a_sequence_number_counts_once() -> None:
    guard = freshness.SequenceGuard(10.0)
    assert guard.accept("a", "1", 5, 0.0) is None
    assert guard.accept("a", "1", 5, 1.0) is errors.Drop.REPLAYED
    assert guard.accept("a", "1", 4, 1.0) is errors.Drop.REPLAYED
    assert guard.accept("a", "1", 6, 1.0) is None
    assert guard.accept("b", "1", 5, 1.0) is None, "nodes are told apart"


def test_an_older_boot_waits_for_the_lease_of_the_later_one() -> None:
    guard = freshness.SequenceGuard(10.0)
    assert guard.accept("a", "2", 0, 0.0) is None
    assert guard.accept("a", "1", 99, 9.0) is errors.Drop.OLDER_BOOT
    assert guard.accept("a", "3", 0, 9.0) is None, "a later boot is taken at once"
    assert guard.accept("a", "2", 1, 18.0) is errors.Drop.OLDER_BOOT
    assert guard.accept("a", "2", 1, 19.5) is None


def test_writers_that_are_silent_for_long_are_forgotten() -> None:
    guard = freshness.SequenceGuard(10.0)
    for number in range(1000):
        guard.accept(f"node-{number}", "1", 1, 0.0)
    guard.accept("alive", "1", 1, 700.0)
    assert len(guard) == 1


def test_of_names_without_end_those_known_longest_are_remembered() -> None:
    guard, ages = freshness.SequenceGuard(10.0), freshness.AgeTracker()
    for name in ("real", *(f"made-up-{number}" for number in range(3 * freshness.WRITERS_MOST))):
        assert guard.accept(name, "1", 5, 0.0) is None
        ages.age_at_arrival_s(name, sampled_at_ns=0, ts_ns=0, arrival_ns=0)
        assert max(len(guard), len(ages)) <= freshness.WRITERS_MOST
    assert guard.accept("real", "1", 5, 1.0) is errors.Drop.REPLAYED
    late_s = ages.age_at_arrival_s("real", sampled_at_ns=SECOND_NS, ts_ns=SECOND_NS, arrival_ns=3 * SECOND_NS)
    assert late_s == 2.0, "the offset of its clock is still known"


def test_the_offset_of_the_clocks_is_no_age() -> None:
    ages = freshness.AgeTracker()
    for offset_s in (-3600, 3600):
        node = f"n{offset_s}"
        for second in range(3):
            ts_ns = second * SECOND_NS + 10**18
            age_s = ages.age_at_arrival_s(
                node, sampled_at_ns=ts_ns - SECOND_NS // 10, ts_ns=ts_ns, arrival_ns=ts_ns + offset_s * SECOND_NS
            )
            assert age_s == pytest.approx(0.1)


def test_delay_beyond_the_shortest_way_is_age() -> None:
    ages = freshness.AgeTracker()
    ages.age_at_arrival_s("a", sampled_at_ns=0, ts_ns=0, arrival_ns=5 * SECOND_NS)
    late_s = ages.age_at_arrival_s("a", sampled_at_ns=SECOND_NS, ts_ns=SECOND_NS, arrival_ns=9 * SECOND_NS)
    assert late_s == pytest.approx(3.0)


def test_the_shortest_way_is_remembered_for_five_minutes() -> None:
    ages = freshness.AgeTracker()
    ages.age_at_arrival_s("a", sampled_at_ns=0, ts_ns=0, arrival_ns=0)
    for second, expected_s in ((200, 2.0), (400, 0.0)):
        now_ns = second * SECOND_NS
        age_s = ages.age_at_arrival_s("a", sampled_at_ns=now_ns, ts_ns=now_ns, arrival_ns=now_ns + 2 * SECOND_NS)
        assert age_s == pytest.approx(expected_s)


def test_a_sample_stamped_after_its_message_is_not_younger_than_now() -> None:
    ages = freshness.AgeTracker()
    assert ages.age_at_arrival_s("a", sampled_at_ns=9 * SECOND_NS, ts_ns=SECOND_NS, arrival_ns=0) == 0.0


def hear(ages: freshness.AgeTracker, *, ts_s: int, arrival_s: int, boot: str = "1") -> float:
    return ages.age_at_arrival_s(
        "a", sampled_at_ns=ts_s * SECOND_NS, ts_ns=ts_s * SECOND_NS, arrival_ns=arrival_s * SECOND_NS, boot=boot
    )


def test_a_clock_that_is_set_back_does_not_age_what_follows() -> None:
    ages = freshness.AgeTracker()
    assert hear(ages, ts_s=1000, arrival_s=0) == 0.0
    assert [hear(ages, ts_s=940 + second, arrival_s=second) for second in (1, 2, 3)] == [0.0, 0.0, 0.0]
    assert hear(ages, ts_s=944, arrival_s=6) == pytest.approx(2.0), "delay still counts"


def test_a_clock_that_was_set_back_between_two_boots_does_not_age_what_follows() -> None:
    ages = freshness.AgeTracker()
    assert hear(ages, ts_s=1000, arrival_s=0) == 0.0
    assert hear(ages, ts_s=1005, arrival_s=60, boot="2") == 0.0
    assert hear(ages, ts_s=1006, arrival_s=64, boot="2") == pytest.approx(3.0)


def test_a_long_delay_is_no_clock_that_was_set_back() -> None:
    ages = freshness.AgeTracker()
    assert hear(ages, ts_s=1000, arrival_s=0) == 0.0
    assert hear(ages, ts_s=1001, arrival_s=60) == pytest.approx(59.0)
    assert hear(ages, ts_s=1002, arrival_s=60) == pytest.approx(58.0)


def test_ages_of_nodes_that_have_left_are_forgotten() -> None:
    ages = freshness.AgeTracker()
    for number in range(1000):
        ages.age_at_arrival_s(f"node-{number}", sampled_at_ns=0, ts_ns=0, arrival_ns=number * SECOND_NS)
    assert len(ages) <= 300
    ages.age_at_arrival_s("alive", sampled_at_ns=0, ts_ns=0, arrival_ns=2000 * SECOND_NS)
    assert len(ages) == 1
