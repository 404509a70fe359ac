"""`carico doctor` with schedulers that share the work: each fault gives its line, and a healthy cluster one."""

import dataclasses

import pytest

from carico_cli.doctor import findings, members, places
from carico_cli.live import addresses
from carico_core.domain import messages
from tests.fixtures.golden import records

PLACE = places.Place.of(dataclasses.replace(addresses.OF_SHELL, name="x", is_local=True), "carico")
REPORT = messages.MemberReport(
    names=("carico",), has_lease=False, why_not="", intruder="", ready_s=100.0, stored=500, conflicts=2, requeued=1,
    recent=20, view_age_s=1.0, orphans=0,
)  # fmt: skip


def member(name: str, *, is_leaving: bool = False, **changes: object) -> messages.Heartbeat:
    report = dataclasses.replace(REPORT, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(
        records.HEARTBEAT_REPORT, replica=f"scheduler-{name}", identity=name, is_leaving=is_leaving, report=report
    )


def look(*found: messages.Heartbeat) -> list[findings.Finding]:
    return members.report(found, place=PLACE)


def test_where_one_scheduler_leads_nothing_is_said() -> None:
    assert look() == []


def test_members_that_all_work_are_one_line() -> None:
    (found,) = look(member("a", has_lease=True), member("b"))
    assert (found.level, found.what, found.do) == (findings.Level.OK, "sharing", "")
    assert found.detail == "2 members; scheduler-a holds the Lease; 40 claims in the last minute"
    (found,) = look(dataclasses.replace(member("a"), report=None))
    assert found.detail == "1 member; none holds the Lease now; 0 claims in the last minute"


@pytest.mark.parametrize(
    ("changes", "said", "do"),
    [
        ({"recent": 0}, "scheduler-b committed nothing in the last minute, while others committed 40", "restart"),
        ({"view_age_s": 31.0}, "scheduler-b decides by a view of the API that is 31 s old", "carico logs scheduler"),
        ({"names": ("batch",)}, "schedulerNames: batch: scheduler-b; carico: scheduler-a, scheduler-c", "NAMES"),
        ({"orphans": 2}, "2 claims without a bound Pod hold room on nodes", "patch pods/status"),
        ({"is_leaving": True, "why_not": "not connected to NATS"}, "scheduler-b takes no Pods: not connected", "logs"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_one_member(changes: dict[str, object], said: str, do: str) -> None:
    (found,) = look(member("a", has_lease=True), member("b", **changes), member("c"))  # type: ignore[arg-type]
    assert found.level is findings.Level.WARN
    assert said in found.detail
    assert do in found.do


def test_a_leader_among_members_is_a_failure_and_each_member_names_it_once() -> None:
    why = "other holds the Lease and is no member: it has just ended, or does not share"
    both = [member(name, is_leaving=True, why_not=why, intruder="other", recent=0) for name in "ab"]
    (found,) = look(*both)
    assert found.level is findings.Level.FAIL
    assert found.detail.startswith("other holds the Lease and is no member")
    assert "CARICO_SCHEDULER_SHARING" in found.do
    # The holder was killed, and a member that has started since does not know that it was one.
    (found,) = look(member("a"), member("b", is_leaving=True, why_not=why, intruder="other", recent=0))
    assert (found.level, found.detail) == (findings.Level.WARN, f"scheduler-b takes no Pods: {why}")


def test_members_that_stop_for_one_reason_are_one_finding() -> None:
    (found,) = look(*(member(name, is_leaving=True, why_not="not connected to NATS") for name in "abc"))
    assert found.detail == "scheduler-a, scheduler-b, scheduler-c take no Pods: not connected to NATS"


def test_a_member_is_idle_only_if_the_others_committed_enough_and_it_could_have() -> None:
    young = look(member("a"), member("b", recent=0, ready_s=59.0), member("c"))
    quiet = look(member("a", recent=14), member("b", recent=0), member("c", recent=15))
    busy = look(member("a", recent=15), member("b", recent=0), member("c", recent=15))
    assert [found.level.value for (found,) in (young, quiet, busy)] == ["ok", "ok", "warn"]
