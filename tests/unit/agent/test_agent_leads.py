"""Leads: in whatever order it is told of them, once for each Pod, and whatever Pods say of themselves."""

import random

import pytest

from carico_agent.churn import leads

OURS, OTHERS = "a" * 16, "b" * 16


class Desk:
    """Leads, and those that were learnt."""

    def __init__(self, **options: float) -> None:
        self.learnt: list[float] = []
        self.leads = leads.Leads(OURS, self.learnt.append, **options)


def test_from_the_stamp_to_the_start_whichever_is_told_first() -> None:
    desk = Desk()
    desk.leads.stamped(1, 10.0)
    desk.leads.stamped(2, 11.0)
    desk.leads.placed("a", OURS, 1)
    desk.leads.started("a", 10.75)
    desk.leads.started("b", 12.5)
    desk.leads.placed("b", OURS, 2)
    assert desk.learnt == [0.75, 1.5]


def test_a_pod_counts_once_by_its_first_word_and_its_first_start() -> None:
    desk = Desk()
    for seq in (1, 2, 3):
        desk.leads.stamped(seq, float(seq))
    for seq in (1, 2):
        desk.leads.placed("a", OURS, seq)
    for at_s in (2.0, 3.0, 4.0):
        desk.leads.started("a", at_s)
        desk.leads.placed("a", OURS, 3)
    assert desk.learnt == [1.0]


@pytest.mark.parametrize(
    ("boot", "seq", "why"),
    [
        (OTHERS, 2, "another agent's, or of this one before it was started anew"),
        (OURS, 0, "none"),
        (OURS, 3, "not made yet, though it is when the Pod starts"),
        (OURS, -2, "no number of an advertisement"),
        (OURS, 10**17, "far ahead"),
    ],
)
def test_what_no_advertisement_stamped_here_backs_is_not_believed(boot: str, seq: int, why: str) -> None:
    desk = Desk()
    desk.leads.stamped(1, 1.0)
    desk.leads.stamped(2, 2.0)
    desk.leads.placed("a", boot, seq)
    desk.leads.stamped(3, 3.0)
    desk.leads.started("a", 4.0)
    desk.leads.placed("a", OURS, 1)
    assert desk.learnt == [], why


def test_what_took_longer_than_a_start_takes_tells_nothing() -> None:
    for most_s, learnt in ((leads.LEAD_MOST_S, [10.0]), (60.0, [10.0, 10.5])):
        desk = Desk(most_s=most_s)
        desk.leads.stamped(1, 0.0)
        for uid, at_s in (("a", 10.0), ("b", 10.5), ("c", 70.0), ("d", -1.0)):
            desk.leads.placed(uid, OURS, 1)
            desk.leads.started(uid, at_s)
        assert desk.learnt == learnt


def test_what_is_kept_is_bounded_and_old_stamps_are_forgotten() -> None:
    desk = Desk(most_s=1e9)
    desk.leads.stamped(1, 0.0)
    desk.leads.placed("early", OURS, 1)
    for seq in range(2, 2 + leads.STAMPS_KEPT):
        desk.leads.stamped(seq, float(seq))
    desk.leads.started("early", 300.0)
    desk.leads.placed("late", OURS, 1)
    desk.leads.started("late", 300.0)
    assert desk.learnt == []
    for number in range(3 * leads.PODS_KEPT):
        desk.leads.started(f"uid-{number}", 300.0)
    assert (len(desk.leads._pods), len(desk.leads._stamped_s)) == (leads.PODS_KEPT, leads.STAMPS_KEPT)


def test_whatever_is_told_leads_are_between_nothing_and_the_most() -> None:
    rng = random.Random(7)
    desk = Desk()
    now_s = 0.0
    for _ in range(20_000):
        now_s += rng.uniform(0.0, 0.5)
        uid = f"uid-{int(now_s) // 5}-{rng.randrange(4)}"
        match rng.randrange(3):
            case 0:
                desk.leads.stamped(int(now_s), now_s)
            case 1:
                desk.leads.placed(uid, rng.choice((OURS, OTHERS)), int(now_s) + rng.randrange(-20, 5))
            case 2:
                desk.leads.started(uid, now_s - rng.uniform(-1.0, 30.0))
    assert len(desk.learnt) > 10
    assert 0.0 <= min(desk.learnt) <= max(desk.learnt) <= leads.LEAD_MOST_S
