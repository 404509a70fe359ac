"""What a member counts for its report: since its start, in the last minute, and since it may commit."""

from carico_core.runtime.process import clock as clocks
from carico_scheduler.sharing import tally


def test_claims_of_the_last_minute_are_those_of_shared_pods() -> None:
    clock = clocks.FakeClock()
    counted = tally.Tally(clock)
    counted.note_stored(is_shared=True)
    counted.note_stored(is_shared=True)
    counted.note_stored(is_shared=False)
    clock.advance(30.0)
    counted.note_stored(is_shared=True)
    assert (counted.stored, counted.recent) == (4, 3)
    clock.advance(31.5)
    assert (counted.stored, counted.recent) == (4, 1)
    clock.advance(tally.RECENT_S)
    assert (counted.stored, counted.recent) == (4, 0)


def test_a_member_that_stops_for_a_moment_is_ready_from_then_on() -> None:
    clock = clocks.FakeClock()
    counted = tally.Tally(clock)
    assert counted.ready_s == 0.0
    counted.note_ready(True)
    clock.advance(10.0)
    counted.note_ready(True)
    assert counted.ready_s == 10.0
    counted.note_ready(False)
    assert counted.ready_s == 0.0
    counted.note_ready(True)
    clock.advance(1.0)
    assert counted.ready_s == 1.0
