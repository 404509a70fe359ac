"""Pods that use nothing are told from busy ones by what changed as they came; a mean that hides one is corrected."""

import pytest

from carico_core.numerics import kalman
from carico_core.numerics.estimators import idle

LEAST, NOISE = 0.1, 0.01
COST = kalman.Belief(0.5, 0.01)


def settled(level: float = 0.2, shown: float = 0.0, count: float = 0.0) -> idle.IdlePods:
    """On a node where the count has just stood still at `shown`, of which `count` are idle."""
    made = idle.IdlePods(least_cost=LEAST)
    made.clear(level)
    if shown:
        made.settle(level, above_baseline=0.0, shown=shown, held=False, cost=COST, noise=NOISE)
    made.count = count
    return made


def settle(
    made: idle.IdlePods, level: float, shown: float, *, held: bool = False, above: float = 0.0
) -> kalman.Belief | None:
    return made.settle(level, above_baseline=above, shown=shown, held=held, cost=COST, noise=NOISE)


@pytest.mark.parametrize(
    ("shown", "level", "little"),
    [
        (5.0, 0.45, True), (5.0, 0.55, False), (5.0, 0.1, True), (2.5, 0.24, True), (2.5, 0.26, False),
        # Those that go say as much.
        (1.0, 0.15, True), (1.0, 0.05, False), (1.5, 0.16, True), (1.5, 0.14, False),
    ],
)  # fmt: skip
def test_pods_show_little_where_what_changed_with_them_is_less_than_could_ever_fill_the_node(
    shown: float, level: float, little: bool
) -> None:
    made = settled(level=0.2, shown=2.0)
    # Half a Pod is enough to go by; whether the rest of the node is busy does not matter.
    assert made.shows_little(level, above_baseline=9.0, shown=shown, few=0.2) is little


@pytest.mark.parametrize(
    ("shown", "above", "little"), [(2.4, 0.05, True), (2.4, 0.3, False), (2.4, 0.13, True), (2.4, 0.15, False)]
)
def test_a_change_too_small_to_judge_by_leaves_all_that_are_not_idle_yet(
    shown: float, above: float, little: bool
) -> None:
    made = settled(shown=2.0, count=1.0)
    assert made.shows_little(0.2, above_baseline=above, shown=shown, few=0.2) is little


def test_few_pods_say_nothing_of_themselves() -> None:
    made = settled(shown=2.0, count=1.9)
    assert made.shows_little(0.2, above_baseline=9.0, shown=2.05, few=0.2)
    assert not made.shows_little(0.2, above_baseline=9.0, shown=2.1, few=0.2)


def test_a_change_is_compared_with_a_count_that_stood_still_lately() -> None:
    made = settled(shown=2.0)
    made.wait(3.0, idle.COMPARABLE_S)
    assert made.shows_little(0.2, above_baseline=9.0, shown=3.0, few=0.2)
    made.wait(3.0, 0.1)
    assert not made.shows_little(0.2, above_baseline=9.0, shown=3.0, few=0.2)
    # However long it has moved, it is comparable again once it has stood still.
    made.wait(3.0, 1e9)
    settle(made, 0.2, 3.0, held=True)
    assert made.count == 3.0
    assert made.shows_little(0.2, above_baseline=9.0, shown=4.0, few=0.2)


def test_idle_pods_that_leave_count_until_their_change_can_be_judged() -> None:
    made = settled(shown=4.0, count=4.0)
    made.wait(1.0, idle.COMPARABLE_S + 0.1)
    assert made.count == 4.0
    made.wait(1.0, 0.1)
    assert made.count == 1.0


def test_what_came_and_shows_little_is_idle() -> None:
    made = settled(shown=4.0, count=1.0)
    assert settle(made, 0.2, 6.0, held=True) is None
    assert made.count == 3.0
    # Of those that went too; never fewer than none, or more than there are.
    settle(made, 0.2, 5.0, held=True)
    assert made.count == 2.0
    settle(made, 0.2, 1.0, held=True)
    assert made.count == 0.0
    # Nothing came: all that is shown uses little.
    settle(made, 0.2, 1.3, held=True)
    assert made.count == 1.3


def test_a_change_that_contradicts_the_mean_by_a_factor_of_two_is_believed() -> None:
    made = settled(level=0.2, shown=3.0)
    # One Pod of 1.2 comes, where the mean says .5: of four on the node, 1.8 / 1.2 are busy.
    assert settle(made, 1.4, 4.0, above=1.8) == pytest.approx((1.2, (idle.BELIEVED_SD * 1.2) ** 2))
    assert made.count == pytest.approx(4.0 - 1.5)
    # Too many pass for idle: it goes with a tenth, where the mean says .5.
    assert settle(made, 1.3, 3.0, above=0.25) == pytest.approx((0.1, (0.3 * 0.1) ** 2))
    assert made.count == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("level", "shown", "count"),
    [
        # Less than twice the mean, or more than half of it; less than half of it, with none idle to correct.
        (1.1, 4.0, 0.0), (0.5, 4.0, 1.0), (0.4, 4.0, 0.0),
        # Less than a Pod; not seen above the noise; the other way round.
        (1.4, 3.7, 0.0), (0.22, 4.0, 1.0), (-0.8, 4.0, 1.0),
    ],
)  # fmt: skip
def test_what_does_not_contradict_is_not_believed(level: float, shown: float, count: float) -> None:
    made = settled(level=0.2, shown=3.0, count=count)
    assert settle(made, level, shown, above=1.0) is None
    assert made.count == count


def test_what_is_old_is_not_believed() -> None:
    made = settled(level=0.2, shown=3.0)
    made.wait(4.0, idle.COMPARABLE_S + 1.0)
    assert settle(made, 1.4, 4.0, above=1.8) is None
    # And this is what the next one is compared with.
    assert settle(made, 2.6, 5.0, above=3.0) is not None


def test_no_more_are_idle_than_are_shown() -> None:
    made = settled(shown=4.0, count=4.0)
    assert settle(made, 0.2, 3.5) is None
    assert made.count == 3.5
    made.clear(0.2)
    assert made.count == 0.0
    assert settle(made, 5.0, 4.0, above=0.1) == pytest.approx((1.2, (0.3 * 1.2) ** 2))
    assert 0.0 <= made.count <= 4.0


def test_a_node_of_which_nothing_is_known_begins_empty() -> None:
    made = idle.IdlePods(least_cost=LEAST)
    assert made.count == 0.0
    assert made.shows_little(0.05, above_baseline=9.0, shown=1.0, few=0.2)
    assert not made.shows_little(0.15, above_baseline=9.0, shown=1.0, few=0.2)
    assert made.shows_little(0.15, above_baseline=9.0, shown=2.0, few=0.2)
    assert settle(made, 1.2, 1.0, above=1.2) is not None


@pytest.mark.parametrize(("level", "is_seen"), [(0.225, False), (0.235, True)])
def test_a_change_is_seen_above_three_deviations_of_a_reading(level: float, is_seen: bool) -> None:
    made = settled(level=0.2, shown=3.0, count=1.0)
    assert (settle(made, level, 4.0, above=0.1) is not None) is is_seen


def test_a_change_of_just_enough_pods_or_just_in_time_is_judged() -> None:
    made = settled(shown=2.0, count=1.0)
    settle(made, 0.2, 2.0 + idle.PART_CHANGE_PODS, held=True)
    assert made.count == 1.5
    assert settle(settled(level=0.2), 1.4, idle.WHOLE_CHANGE_PODS, above=1.2) is not None
    made = settled(level=0.2, shown=3.0)
    made.wait(4.0, idle.COMPARABLE_S)
    assert settle(made, 1.4, 4.0, above=1.8) is not None


def test_part_of_a_pod_that_passes_for_idle_is_enough_to_believe_that_too_many_do() -> None:
    assert settle(settled(level=0.2, shown=3.0, count=0.5), 0.3, 4.0, above=0.3) == pytest.approx((0.1, 0.03**2))
