"""The last quarter of an hour: the summaries that the scheduler writes and the bus keeps, and what happened in it."""

import bisect
import operator
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from carico_core.domain import amounts, messages, names

SPAN_NS = 900 * 10**9
KEPT = 400
# A summary comes every 5 s; the time between two that are further apart is not known.
APART_NS = 16 * 10**9
# Pods that wait for a shorter time are no event: most wait for a moment.
WAITS_FROM_S = 10.0
_NODE_WORDS = {
    "joined": "joined", "gone": "is gone", "ready": "is ready", "unready": "is not ready",
    "cordon": "is cordoned", "stale": "reports late", "absent": "no longer reports",
}  # fmt: skip


class Moment(NamedTuple):
    """Something that happened, in words. `is_trouble`: worth a look."""

    at_ns: int
    words: str
    is_trouble: bool = False


class History:
    """The summaries of the last quarter of an hour, by time."""

    def __init__(self) -> None:
        self._summaries: list[messages.ClusterSummary] = []

    def put(self, summary: messages.ClusterSummary, *, is_new: bool = False) -> None:
        """Take in a summary; one that is known already changes nothing.

        `is_new`: it has just been published, so that none is later: those whose time is were written by another clock.
        """
        found, key = self._summaries, operator.attrgetter("ts_ns", "boot", "seq")
        while is_new and found and found[-1].ts_ns - summary.ts_ns > APART_NS:
            found.pop()
        place = bisect.bisect_left(found, key(summary), key=key)
        if place < len(found) and key(found[place]) == key(summary):
            return
        found.insert(place, summary)
        oldest = bisect.bisect_left(found, found[-1].ts_ns - SPAN_NS, key=operator.attrgetter("ts_ns"))
        del found[: max(oldest, len(found) - KEPT)]

    def forget(self, summaries: Iterable[messages.ClusterSummary]) -> None:
        """Drop these summaries: they are of another cluster."""
        dropped = set(map(id, summaries))
        self._summaries = [each for each in self._summaries if id(each) not in dropped]

    def all(self) -> tuple[messages.ClusterSummary, ...]:
        """Return the summaries, oldest first."""
        return tuple(self._summaries)


def moments(summaries: Iterable[messages.ClusterSummary]) -> Iterator[Moment]:
    """Yield what happened, oldest first; times of which nothing is kept are stated, too."""
    before: messages.ClusterSummary | None = None
    for each in summaries:
        if before is not None and each.ts_ns - before.ts_ns > APART_NS:
            gap_s = (each.ts_ns - before.ts_ns) / 1e9
            yield Moment(before.ts_ns, f"nothing is kept of the next {gap_s:.0f} s", is_trouble=True)
        yield from map(_moment, each.events)
        if each.left_off:
            yield Moment(each.ts_ns, f"and {amounts.plural(each.left_off, 'more event')}")
        waited, waits = before is not None and _is_long(before), _is_long(each)
        if waits and not waited:
            verb = "waits" if each.waiting == 1 else "wait"
            words = f"{amounts.plural(each.waiting, 'Pod')} {verb} for a node, the first for {each.oldest_s:.0f} s"
            yield Moment(each.ts_ns, words, is_trouble=True)
        elif waited and not waits:
            yield Moment(each.ts_ns, f"no Pod waits for longer than {WAITS_FROM_S:.0f} s any more")
        before = each


def _is_long(summary: messages.ClusterSummary) -> bool:
    return summary.oldest_s >= WAITS_FROM_S


def _moment(found: messages.ClusterEvent) -> Moment:
    match found.kind:
        case "node":
            is_trouble = found.state in ("gone", "unready", "absent")
            return Moment(found.at_ns, f"{found.about} {_NODE_WORDS.get(found.state, found.state)}", is_trouble)
        case "evicted":
            words = f"{found.about} was evicted from {found.state}, for a Pod of higher priority"
            return Moment(found.at_ns, words, is_trouble=True)
        case "moved":
            return Moment(found.at_ns, f"{found.about} was moved to {found.state} by the rescheduler")
        case "leader":
            return Moment(found.at_ns, f"{names.replica_of(found.about)} leads")
    return Moment(found.at_ns, f"{found.kind}: {found.about} {found.state}")
