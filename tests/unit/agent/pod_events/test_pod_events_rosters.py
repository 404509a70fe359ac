"""Classes of Pods from the scheduler's rosters: the newest counts, and bad messages change nothing."""

import asyncio
import dataclasses

from carico_agent.pod_events import rosters
from carico_core.domain import messages, usage
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.fixtures.golden import records

SUBJECT = subjects.roster(records.NODE)


def started() -> tuple[rosters.RosterClasses, metrics.Metrics, list[int]]:
    series, calls = metrics.Metrics("agent"), list[int]()
    known = rosters.RosterClasses(clock=clocks.FakeClock(), metrics=series)
    known.on_change(lambda: calls.append(1))
    return known, series, calls


def test_the_newest_roster_replaces_the_one_before() -> None:
    known, _, calls = started()
    job, daemon = records.ROSTER.pods
    assert known.template(job) is None
    assert known.of(job) == messages.ANY_CLASS
    known.take(SUBJECT, wire.encode_roster(records.ROSTER))
    assert known.of(job) == "Job/default/pi"
    assert known.is_baseline(daemon)
    known.take(SUBJECT, wire.encode_roster(records.ROSTER))
    assert len(calls) == 1
    assert known.template(job) == records.ROSTER.templates[job]
    known.take(SUBJECT, wire.encode_roster(dataclasses.replace(records.ROSTER, pods={daemon: "app/default/web"})))
    assert (known.of(job), known.of(daemon)) == (messages.ANY_CLASS, "app/default/web")
    assert not known.is_baseline(daemon)
    assert len(calls) == 2


def test_a_failure_is_counted_once_and_none_that_was_there_before_the_agent() -> None:
    known, _, _ = started()
    assert records.ROSTER.failed
    before = dataclasses.replace(records.ROSTER, pods={**records.ROSTER.pods, "0" * 16: "Job/default/pi"})
    known.take(SUBJECT, wire.encode_roster(dataclasses.replace(before, failed=frozenset({"0" * 16}))))
    assert known.take_failed() == []
    for _ in range(2):
        known.take(SUBJECT, wire.encode_roster(dataclasses.replace(before, failed={"0" * 16, *records.ROSTER.failed})))
    assert known.take_failed() == [*records.ROSTER.failed]
    assert known.take_failed() == []


def test_a_container_is_known_by_its_folder_on_kubelets_and_on_emulated_nodes() -> None:
    known, _, _ = started()
    job, daemon = records.ROSTER.pods
    two = usage.Template(image="0" * 16, containers=("main", "proxy"), requests={})
    ids = {"0123456789ab": "main", "ba9876543210": "proxy"}
    sent = dataclasses.replace(records.ROSTER, templates={job: two}, containers={job: ids})
    known.take(SUBJECT, wire.encode_roster(sent))
    whole = "0123456789ab" + "c" * 52
    for folder in (whole, f"cri-containerd-{whole}.scope", f"crio-{whole}.scope", f"docker-{whole}.scope", "main"):
        assert known.container(job, folder) == "main"
    # The runtime's own container of the Pod, what is no container, and CRI-O's monitor of one.
    for folder in ("d" * 64, "init", f"pod{whole}", f"crio-conmon-{whole}.scope"):
        assert known.container(job, folder) is None
    assert known.container(daemon, whole) is None
    known.take(SUBJECT, wire.encode_roster(dataclasses.replace(records.ROSTER, pods={}, failed=frozenset())))
    assert known.container(job, whole) is None


def test_a_roster_of_another_node_is_dropped_and_counted() -> None:
    known, series, calls = started()
    known.take(subjects.roster("another"), wire.encode_roster(records.ROSTER))
    known.take(SUBJECT, b"{bad")
    assert not calls
    for reason in ("foreign_node", "undecodable"):
        assert series.value("roster_drops_total", {"reason": reason}) == 1.0


def test_the_time_without_a_roster_is_known() -> None:
    clock = clocks.FakeClock()
    known = rosters.RosterClasses(clock=clock, metrics=metrics.Metrics("agent"))
    assert known.silent_s() == 0.0
    clock.advance(rosters.SILENT_AFTER_S)
    assert known.silent_s() == rosters.SILENT_AFTER_S
    known.take(SUBJECT, wire.encode_roster(records.ROSTER))
    assert known.silent_s() == 0.0


async def test_the_first_roster_ends_the_wait() -> None:
    known, _, _ = started()
    waiting = asyncio.create_task(known.wait_for_first())
    await asyncio.sleep(0)
    assert not waiting.done()
    known.take(SUBJECT, wire.encode_roster(records.ROSTER))
    await waiting
    assert waiting.done()
