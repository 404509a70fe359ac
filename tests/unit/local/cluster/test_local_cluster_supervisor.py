"""The parent of a cluster's processes: what it says before anything starts, and which services it restarts."""

import asyncio
import json
import pathlib
import shutil
import types
from typing import Any, cast

import pytest

from carico_core.runtime.process import clock as clocks
from carico_local.cluster import events, folders, machine, plan, processes, supervisor
from carico_local.cluster.services import readiness, topology
from tests.unit.scheduler import objects

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")


def some_supervisor(root: pathlib.Path, told: list[events.Event], **environ: str) -> supervisor.Supervisor:
    made = plan.make_plan(plan.Options(name="x", nodes=1, node_cgroups="none"), MACHINE)
    paths = folders.Paths(root)
    paths.run.mkdir(parents=True)
    return supervisor.Supervisor(
        made, paths, environ, clock=clocks.FakeClock(), report=told.append, restart=True
    )  # fmt: skip


def test_nodes_without_cgroups_are_started_so(tmp_path: pathlib.Path) -> None:
    found = some_supervisor(tmp_path, [])
    flags = found._fresh("node/node-1").command.argv
    assert flags[flags.index("--cgroups") + 1] == "none"


def test_an_agent_of_an_ended_node_process_is_restarted(tmp_path: pathlib.Path) -> None:
    told: list[events.Event] = []
    found = some_supervisor(tmp_path, told)
    ready = topology.ready_file(folders.Paths(tmp_path), "node-1")
    ended: list[str] = []
    ready.write_text(json.dumps({"pid": 1, "fallback": "process-accounting", "reason": "as requested"}))
    child = types.SimpleNamespace(
        command=found._fresh("agent/node-1").command, id=processes.identify_self(),
        process=types.SimpleNamespace(returncode=None, terminate=lambda: ended.append("agent/node-1")),
    )  # fmt: skip
    found._account.children["agent/node-1"] = cast(Any, child)
    found._note_ready("node/node-1", asyncio.Event())
    assert ended == []
    ready.write_text(json.dumps({"pid": 2, "fallback": "process-accounting", "reason": "as requested"}))
    found._note_ready("node/node-1", asyncio.Event())
    assert ended == ["agent/node-1"]
    # Said once, however often the node starts.
    assert [event.text for event in told if event.kind is events.Kind.NOTE] == [
        "nodes run without cgroups (as requested): fallback process-accounting"
    ]


def test_nats_is_restarted_each_time_a_full_disk_has_room(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    least, room = machine.LEAST_FREE_BYTES, machine.ROOM_BYTES
    free = [room, least, room, least - 1, room - 1, room, room, least - 1, None, room]
    looks: list[pathlib.Path] = []
    ended: list[int] = []

    def disk_usage(folder: pathlib.Path) -> Any:
        if len(looks) == len(free):
            raise StopIteration
        looks.append(folder)
        now = free[len(looks) - 1]
        if now is None:
            raise FileNotFoundError
        return types.SimpleNamespace(free=now)

    told: list[events.Event] = []
    found = some_supervisor(tmp_path, told)
    process = types.SimpleNamespace(returncode=None, terminate=lambda: ended.append(len(looks)))
    found._account.children[topology.NATS] = cast(Any, types.SimpleNamespace(process=process))
    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    with pytest.raises(RuntimeError, match="StopIteration"):
        objects.run_fast(found._renew_bus())
    assert set(looks) == {tmp_path / "data"}
    assert ended == [6, 10]
    assert found._outdated == {topology.NATS}
    assert [event.text for event in told] == [
        "the disk was full: NATS was restarted, because it stores no more messages after that"
    ]


def test_a_crashed_service_waits_no_longer_than_the_disk_is_full(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [0, 0, machine.ROOM_BYTES, *[machine.ROOM_BYTES] * 100]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: types.SimpleNamespace(free=free.pop(0)))

    async def main() -> float:
        found = some_supervisor(tmp_path, [])
        renewing = asyncio.create_task(found._renew_bus())
        began_s = asyncio.get_running_loop().time()
        await found._pause(processes.CRASH_MOST_S)
        waited_s = asyncio.get_running_loop().time() - began_s
        await found._pause(1.0)
        renewing.cancel()
        return waited_s

    assert objects.run_fast(main()) == pytest.approx(3 * machine.DISK_LOOK_EVERY_S)


@pytest.mark.parametrize("was_ready", [False, True])
def test_a_start_goes_on_for_as_long_as_something_becomes_ready(tmp_path: pathlib.Path, was_ready: bool) -> None:
    async def main() -> bool:
        found, known = some_supervisor(tmp_path, []), asyncio.Event()
        known.set()
        try:
            async with asyncio.timeout(found._start_within_s) as found._start:
                for name in (topology.NATS, topology.API, "scheduler"):
                    await asyncio.sleep(0.9 * supervisor.START_TIMEOUT_S)
                    # What was ready before, crashed and came back is no progress.
                    found._note_ready(name, known if was_ready else asyncio.Event())
        except TimeoutError:
            found._note_ready("aggregator", asyncio.Event())
            return False
        return True

    assert objects.run_fast(main()) is not was_ready


async def test_a_ready_file_of_an_earlier_process_does_not_count(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ready"
    path.touch()
    probe = readiness.File(path=path)
    assert await probe.why_not() is None
    readiness.forget(probe)
    assert await probe.why_not() == "ready is not written yet"
    readiness.forget(probe)
    readiness.forget(readiness.Tcp(port=1))
