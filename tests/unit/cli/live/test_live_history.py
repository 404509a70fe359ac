"""The last quarter of an hour: bounded, in order, each summary once; and what happened, in words."""

import dataclasses
import random

from carico_cli.live import history
from carico_core.domain import messages
from tests.fixtures.golden import records

SECOND = 10**9
EVERY_NS = 5 * SECOND


def summary(number: int, **changes: object) -> messages.ClusterSummary:
    """The summary of five seconds times this number."""
    quiet = {"events": (), "left_off": 0, "waiting": 0, "oldest_s": 0.0}
    return dataclasses.replace(records.SUMMARY, seq=number, ts_ns=10**18 + number * EVERY_NS, **(quiet | changes))  # type: ignore[arg-type]


def words(*found: messages.ClusterSummary) -> list[str]:
    return [each.words for each in history.moments(found)]


def test_summaries_are_kept_once_in_order_and_for_a_quarter_of_an_hour() -> None:
    kept = history.History()
    numbers = [*range(300), *range(250, 300)]
    random.Random(1).shuffle(numbers)
    for number in numbers:
        kept.put(summary(number))
    found = [each.seq for each in kept.all()]
    assert found == list(range(300 - 181, 300))
    kept.put(summary(310))
    assert kept.all()[0].seq == 310 - 180


def test_two_schedulers_that_both_wrote_are_both_kept() -> None:
    kept = history.History()
    kept.put(summary(1))
    kept.put(summary(1, boot="17979cfe362a1b2d"))
    kept.put(summary(1))
    assert len(kept.all()) == 2


def test_what_a_clock_that_was_ahead_wrote_ends_with_the_next_summary() -> None:
    """Else the last line stays what was true then, and all that follows is taken for too old."""
    kept = history.History()
    for number in (1000, 1001):
        kept.put(summary(number, boot="17979cfe362a1b2d"), is_new=True)
    for number in (1, 2):
        kept.put(summary(number), is_new=True)
    assert [each.seq for each in kept.all()] == [1, 2]


def test_two_writers_whose_clocks_differ_by_seconds_are_both_kept() -> None:
    kept = history.History()
    for number in (3, 1, 2):
        kept.put(summary(number), is_new=True)
    assert [each.seq for each in kept.all()] == [1, 2, 3]


def test_events_are_worded() -> None:
    events = (
        messages.ClusterEvent(1, "node", "node-1", "absent"), messages.ClusterEvent(2, "node", "node-2", "joined"),
        messages.ClusterEvent(3, "evicted", "default/web", "node-1"),
        messages.ClusterEvent(4, "leader", "host-1", "leads"), messages.ClusterEvent(5, "later", "what", "else"),
        messages.ClusterEvent(6, "moved", "default/web", "node-2"),
    )  # fmt: skip
    assert words(summary(1, events=events, left_off=2)) == [
        "node-1 no longer reports", "node-2 joined",
        "default/web was evicted from node-1, for a Pod of higher priority", "host-1 leads", "later: what else",
        "default/web was moved to node-2 by the rescheduler", "and 2 more events",
    ]  # fmt: skip


def test_pods_that_wait_for_long_begin_and_end_once() -> None:
    found = words(
        summary(1, waiting=3, oldest_s=4.0), summary(2, waiting=3, oldest_s=12.0), summary(3, waiting=9, oldest_s=17.0),
        summary(4, waiting=1, oldest_s=1.0), summary(5),
    )  # fmt: skip
    assert found == ["3 Pods wait for a node, the first for 12 s", "no Pod waits for longer than 10 s any more"]


def test_a_time_of_which_nothing_is_kept_is_stated() -> None:
    assert words(summary(1), summary(3), summary(9)) == ["nothing is kept of the next 30 s"]
