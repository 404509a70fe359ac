"""What ends with a cluster whose supervisor was killed."""

import asyncio
import dataclasses
import json
import pathlib
import signal
import subprocess
import sys

import pytest

from carico_local.cgroups import sweep
from carico_local.cluster import client, events, folders, processes, state
from carico_local.node.runtime import client as runtime


async def test_a_runtime_that_nothing_else_tells_of_ends_with_its_cluster(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = folders.Paths(tmp_path / "cluster")
    # Not where a cluster keeps its nodes, and in no cgroup: as while the node that started it is being killed.
    root = tmp_path / "elsewhere"
    root.mkdir()
    monkeypatch.setenv(sweep.RUN_VARIABLE, str(paths.root))
    client_of_it = runtime.Runtime(root, runtime_group=None)
    assert await client_of_it.connect() == frozenset()
    pid = json.loads((root / "runtime.json").read_bytes())["pid"]
    found = processes.marked(f"{sweep.RUNTIME_VARIABLE}={paths.root}")
    assert [process.pid for process in found] == [pid]
    await client.clear(paths)
    assert not processes.is_alive(found[0])
    await client_of_it.close(quit_runtime=True)


async def test_a_killed_process_is_waited_for_until_it_is_gone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = processes.ProcessId(pid=2**22 - 1, start_ticks=1)
    # Without a mark from the second look on, since its memory is released first; gone after the third.
    looks = [[ending], []]
    alive = [True, True, False]
    monkeypatch.setattr(processes, "marked", lambda *_: looks.pop(0) if looks else [])
    monkeypatch.setattr(processes, "is_alive", lambda _: alive.pop(0))
    monkeypatch.setattr(processes, "kill", lambda *_: None)
    await client.clear(folders.Paths(tmp_path / "cluster"))
    assert alive == []


async def test_a_cluster_of_an_older_version_is_ended(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path / "cluster")
    paths.root.mkdir()
    paths.plan.write_text("{}")
    hold = "import fcntl, sys; file = open(sys.argv[1], 'wb'); fcntl.flock(file, fcntl.LOCK_EX); print('held'); input()"
    held = subprocess.Popen(  # noqa: ASYNC220  # at once
        [sys.executable, "-u", "-c", hold, str(paths.lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert held.stdout is not None
    assert held.stdout.readline() == b"held\n"
    supervisor = processes.identify(held.pid)
    assert supervisor is not None
    paths.state.write_text(json.dumps({"version": 2, "supervisor": dataclasses.asdict(supervisor)}))
    waiting = asyncio.create_task(client.down(paths, keep_logs=False))
    assert await asyncio.to_thread(held.wait, 30.0) == -signal.SIGTERM
    await waiting
    assert not paths.root.exists()
    held.communicate()


async def test_a_crash_whose_last_lines_are_long_is_followed(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "node.log"
    log.write_bytes(b"\x01" * 2**17)
    crash = state.Crash(service="node", at_ns=1, how="?", last_lines=tuple(processes.last_lines(log, 15)))
    (tmp_path / "event").write_bytes(events.encode(events.Event(kind=events.Kind.CRASHED, crash=crash)))
    supervisor = subprocess.Popen(["cat", str(tmp_path / "event")], stdout=subprocess.PIPE)  # noqa: ASYNC220  # at once
    launched = client.Launched(supervisor, folders.Paths(tmp_path))
    assert [event.crash async for event in launched.follow()] == [crash]
    supervisor.wait()
