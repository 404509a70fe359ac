"""Which members are alive, and whose names may be in the Lease."""

import dataclasses

import pytest

from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_scheduler.sharing import heartbeats
from tests.fixtures.golden import records


def beats(name: str, clock: clocks.FakeClock, changes: list[str], *, lease_s: float = 15.0) -> heartbeats.Heartbeats:
    return heartbeats.Heartbeats(
        f"scheduler-{name}", boot=name * 16, identity=lambda: f"identity-{name}", clock=clock,
        lease_s=lease_s, on_change=lambda: changes.append(name), on_drop=changes.append,
    )  # fmt: skip


def test_a_member_that_may_not_commit_has_no_share_and_may_hold_the_lease() -> None:
    clock, changes = clocks.FakeClock(), list[str]()
    one, other = beats("a", clock, changes), beats("b", clock, changes)
    one.take(*other.next(is_leaving=True))
    assert (one.others(), one.knows("identity-b"), changes) == ([], True, [])
    one.take(*other.next(is_leaving=False))
    assert (one.others(), changes) == (["scheduler-b"], ["a"])
    one.take(*other.next(is_leaving=True))
    assert (one.others(), one.knows("identity-b"), changes) == ([], True, ["a", "a"])


def test_a_member_that_is_silent_is_gone_and_its_name_is_known_for_a_while() -> None:
    clock, changes = clocks.FakeClock(), list[str]()
    one, other, third = (beats(name, clock, changes) for name in "abc")
    one.take(*other.next(is_leaving=False))
    clock.advance(heartbeats.ALIVE_S + 0.1)
    assert (one.others(), one.knows("identity-b"), one.knows("identity-c")) == ([], True, False)
    clock.advance(heartbeats.IDENTITY_KEPT_S)
    one.take(*third.next(is_leaving=False))
    assert (one.knows("identity-b"), one.knows("identity-c"), one.knows("identity-a")) == (False, True, True)


def test_the_name_of_the_only_other_member_is_forgotten_though_no_other_is_heard() -> None:
    clock, changes = clocks.FakeClock(), list[str]()
    one, other = beats("a", clock, changes), beats("b", clock, changes)
    one.take(*other.next(is_leaving=False))
    clock.advance(heartbeats.IDENTITY_KEPT_S)
    assert not one.knows("identity-b")


def test_the_name_of_a_member_is_known_until_its_lease_has_ended() -> None:
    clock, changes = clocks.FakeClock(), list[str]()
    one, other, third = (beats(name, clock, changes, lease_s=300.0) for name in "abc")
    one.take(*other.next(is_leaving=False))
    clock.advance(300.0 + 200.0)
    one.take(*third.next(is_leaving=False))
    assert one.knows("identity-b"), "it may have been renewed right before its holder crashed, and be read late"
    clock.advance(200.0)
    one.take(*third.next(is_leaving=False))
    assert not one.knows("identity-b")


class Pausing(clocks.FakeClock):
    """A clock by which the process stands still for 5 s after `reads` more reads; 0: it does not."""

    reads = 0

    def monotonic_s(self) -> float:
        """The time before the pause."""
        now_s = super().monotonic_s()
        self.reads -= 1
        if not self.reads:
            self.advance(5.0)
        return now_s


@pytest.mark.parametrize("reads", range(1, 5))
def test_a_process_that_stands_still_while_it_takes_a_heartbeat_goes_on(reads: int) -> None:
    clock, changes = Pausing(), list[str]()
    one, other, third = (beats(name, clock, changes) for name in "abc")
    one.note_turn()
    one.take(*third.next(is_leaving=False))
    one.take(*other.next(is_leaving=False))
    clock.advance(0.1)
    clock.reads = reads
    one.take(*other.next(is_leaving=False))
    clock.reads = 0
    one.note_turn()
    assert [each.beat.replica for each in one.newest()] == one.others() == ["scheduler-b", "scheduler-c"]


def test_what_is_no_heartbeat_is_dropped() -> None:
    clock, changes = clocks.FakeClock(), list[str]()
    one = beats("a", clock, changes)
    one.take("carico.v1.member.scheduler-b", b"{}")
    assert one.others() == []
    assert len(changes) == 1


def test_a_report_with_any_text_costs_no_member_its_share() -> None:
    clock, changes = clocks.FakeClock(), list[str]()
    one, other = beats("a", clock, changes), beats("b", clock, changes)
    assert records.HEARTBEAT_REPORT.report is not None
    report = dataclasses.replace(records.HEARTBEAT_REPORT.report, why_not="bad\n\x1b[2J" * 999, intruder="\n" * 999)
    subject, payload = other.next(is_leaving=False, report=report)
    one.take(subject, payload)
    assert one.others() == ["scheduler-b"]
    found = wire.decode_heartbeat(payload, subject=subject).report
    assert found is not None
    assert (found.why_not[:9], found.intruder[:2], len(found.why_not)) == ("bad??[2Jb", "??", 1024)
