"""Notices of a waiting Pod are rare: not at once, and sooner where the reasons have changed."""

import math

from carico_core.domain import cluster
from carico_scheduler.report import notices
from tests.unit.scheduler import objects

FULL, DOWN = frozenset({"capacity"}), frozenset({"not_ready"})


class Sink:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def failed(self, pod: cluster.Pod, text: str) -> None:
        self.texts.append(text)


def test_events_are_repeated_and_come_sooner_where_the_reasons_change() -> None:
    sink, waiting = Sink(), objects.make_waiting(objects.make_pod(), since_s=100.0)
    told = notices.Notices(sink, after_s=30.0)
    said = [(at_s, told.notify(waiting, "room", "full", at_s, FULL)) for at_s in (129.0, 130.0, 189.0, 190.0)]
    assert said == [(129.0, False), (130.0, True), (189.0, False), (190.0, True)]
    said = [(at_s, told.notify(waiting, "room", "down", at_s, DOWN)) for at_s in (199.0, 200.0, 259.0, 260.0)]
    assert said == [(199.0, False), (200.0, True), (259.0, False), (260.0, True)]
    assert sink.texts == ["full", "full", "down", "down"]


def test_binds_that_fail_are_reported_next_to_why_there_is_no_room() -> None:
    sink, waiting = Sink(), objects.make_waiting(objects.make_pod())
    told = notices.Notices(sink, after_s=0.0)
    assert told.notify(waiting, "room", "full", 1.0, FULL)
    assert told.notify(waiting, "bind", "refused", 2.0)
    assert not told.notify(waiting, "bind", "refused", 61.9)
    assert told.notify(waiting, "room", "full", 61.0, FULL)
    assert told.notify(waiting, "bind", "refused", 62.0)


def test_what_is_said_once_is_said_again_only_where_the_reasons_change() -> None:
    waiting = objects.make_waiting(objects.make_pod())
    said = [
        notices.is_due(waiting, "record", float(at_s), reasons=reasons, again_s=math.inf)
        for at_s, reasons in ((0, FULL), (10**6, FULL), (10**6 + 1, DOWN), (10**6 + 2, FULL), (10**6 + 11, FULL))
    ]
    assert said == [True, False, True, False, True]
