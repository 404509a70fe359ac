"""What a supervisor reports of its run: each change once, for other shells to read."""

import pathlib
import types
from typing import Any, cast

import pytest

from carico_core.runtime.process import clock as clocks
from carico_local.cluster import account, events, folders, free_ports, machine, plan, processes, state
from carico_local.cluster.services import topology

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")


def child(root: pathlib.Path, returncode: int | None = None) -> processes.Child:
    log = root / "scheduler.log"
    log.write_text("its last word\n")
    return cast(
        processes.Child,
        types.SimpleNamespace(
            command=types.SimpleNamespace(log=log), id=processes.identify_self(),
            process=types.SimpleNamespace(returncode=returncode),
        ),
    )  # fmt: skip


@pytest.fixture
def told() -> list[events.Event]:
    return []


@pytest.fixture
def made(tmp_path: pathlib.Path, told: list[events.Event]) -> account.Account:
    found = plan.make_plan(plan.Options(name="x", nodes=1, node_cgroups="none"), MACHINE)
    where = topology.addresses(found, free_ports.choose("x", topology.ports_needed(found)))
    return account.Account(found, folders.Paths(tmp_path), where, clock=clocks.FakeClock(), report=told.append)


def written(root: pathlib.Path) -> tuple[state.ClusterState, state.ServiceState]:
    found = state.read(folders.Paths(root))
    assert found is not None
    return found, next(each for each in found.services if each.name == "scheduler")


def test_a_service_is_seen_from_its_start_to_its_crash_and_back(
    tmp_path: pathlib.Path, made: account.Account, told: list[events.Event]
) -> None:
    made.started("scheduler", child(tmp_path))
    assert written(tmp_path)[1].process == processes.identify_self()
    made.ready("scheduler")
    assert made.is_ready("scheduler") and written(tmp_path)[1].ready
    gone = child(tmp_path, returncode=3)
    made.children["scheduler"] = gone
    crash = made.crashed("scheduler", gone)
    found, scheduler = written(tmp_path)
    assert (found.crashes, crash.last_lines) == ((crash,), ("its last word",))
    assert (scheduler.process, scheduler.ready, scheduler.restarts) == (None, False, 0)
    made.restarted("scheduler")
    made.started("scheduler", child(tmp_path))
    assert written(tmp_path)[1].restarts == 1
    assert [event.kind.value for event in told] == ["started", "ready", "crashed", "restarted", "started"]
    assert told[2].crash == crash


def test_of_many_crashes_the_last_are_kept(tmp_path: pathlib.Path, made: account.Account) -> None:
    crashes = [made.crashed("scheduler", child(tmp_path, returncode=1)) for _ in range(account.CRASHES_KEPT + 5)]
    assert written(tmp_path)[0].crashes == tuple(crashes[5:])


def test_a_run_that_failed_stays_one(tmp_path: pathlib.Path, made: account.Account, told: list[events.Event]) -> None:
    made.up()
    assert written(tmp_path)[0].phase is state.Phase.READY
    made.failed("the API ended", None)
    made.stopping()
    found = written(tmp_path)[0]
    assert (found.phase, found.failure, made.failure) == (state.Phase.FAILED, "the API ended", "the API ended")
    assert [event.kind.value for event in told] == ["up", "failed"]


def test_a_note_is_said_once(tmp_path: pathlib.Path, made: account.Account, told: list[events.Event]) -> None:
    for _ in range(2):
        made.note("no cgroups")
    made.stopping()
    found = written(tmp_path)[0]
    assert (found.notes, found.phase, len(told)) == (("no cgroups",), state.Phase.STOPPING, 1)


def test_a_disk_that_is_full_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, made: account.Account, told: list[events.Event]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state, "write", full)
    made.up()
    assert [event.kind.value for event in told] == ["up"]
