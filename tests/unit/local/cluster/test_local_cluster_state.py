"""What is written about a cluster, and what a reader makes of it."""

import asyncio
import os
import pathlib
import signal
import subprocess
from typing import IO

import pytest

from carico_core.domain import errors
from carico_local.cluster import client, events, folders, machine, plan, processes, state

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
CRASH = state.Crash(service="scheduler", at_ns=5, how="exit code 1", last_lines=("a", "b"))


def some_state() -> state.ClusterState:
    process = processes.ProcessId(pid=7, start_ticks=8)
    return state.ClusterState(
        plan=plan.make_plan(plan.Options(name="x", nodes=8), MACHINE),
        phase=state.Phase.READY,
        supervisor=process,
        started_ns=1,
        nats_url="nats://127.0.0.1:1",
        api_url="http://127.0.0.1:2",
        services=(
            state.ServiceState(name="api", process=process, ready=True, restarts=0, http_port=2),
            state.ServiceState(name="scheduler", process=None, ready=False, restarts=3, http_port=3),
        ),
        crashes=(CRASH,),
        notes=("a note",),
        failure=None,
    )


def test_a_state_is_read_back_as_it_was_written(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path)
    assert state.read(paths) is None
    state.write(paths, some_state())
    assert state.read(paths) == some_state()


@pytest.mark.parametrize("text", ["", "{", '{"version": 99}'])
def test_a_state_of_another_version_is_refused_in_one_line(tmp_path: pathlib.Path, text: str) -> None:
    paths = folders.Paths(tmp_path)
    paths.state.write_text(text)
    with pytest.raises(errors.EnvironmentUnfit, match="another version of carico"):
        state.read(paths)


def test_a_cluster_of_an_older_version_is_named_with_what_to_do(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path / "shop")
    paths.root.mkdir()
    paths.state.write_text('{"version": 2, "supervisor": {"pid": 7, "start_ticks": 8}}')
    with pytest.raises(errors.EnvironmentUnfit, match="carico down --name shop"):
        state.read(paths)
    assert state.read_supervisor(paths) == processes.ProcessId(pid=7, start_ticks=8)
    paths.state.write_text("{")
    assert state.read_supervisor(paths) is None


async def test_of_two_that_start_a_cluster_at_once_one_fails_and_touches_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared, go_on = [], asyncio.Event()
    locks: list[int] = []

    async def clear(paths: folders.Paths) -> None:
        cleared.append(paths)
        await go_on.wait()

    def start(_paths: object, _flags: object, _environ: object, lock: IO[bytes], *, lifeline: bool) -> object:
        locks.append(os.dup(lock.fileno()))
        return lifeline

    monkeypatch.setattr(client, "clear", clear)
    monkeypatch.setattr(client, "_start", start)
    options = plan.Options(name="x", nodes=1)
    first = asyncio.ensure_future(
        client.launch(options, home=tmp_path, environ={}, restart=True, lifeline=False, fresh=False)
    )
    await asyncio.sleep(0)
    with pytest.raises(errors.SettingsError, match=r"'x' is running already: .*, or choose another --name"):
        await client.launch(options, home=tmp_path, environ={}, restart=True, lifeline=False, fresh=False)
    go_on.set()
    paths = (await first).paths
    assert cleared == [paths]
    # It is the supervisor's now.
    assert folders.is_running(paths)
    os.close(locks.pop())
    assert not folders.is_running(paths)


async def test_a_cluster_that_has_not_written_yet_who_runs_it_is_ended_as_soon_as_it_has(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = folders.Paths(tmp_path / "x")
    paths.root.mkdir()
    lock, told = folders.acquire(paths), []

    def kill(process: processes.ProcessId, number: signal.Signals) -> None:
        told.append((process, number))
        lock.close()

    monkeypatch.setattr(processes, "kill", kill)
    ending = asyncio.ensure_future(client.down(paths, keep_logs=False))
    await asyncio.sleep(0)
    assert not told
    state.write(paths, some_state())
    await ending
    assert told == [(some_state().supervisor, signal.SIGTERM)]
    assert not paths.root.exists()


@pytest.fixture
def ended() -> "subprocess.Popen[bytes]":
    """A supervisor that was ended before it said anything."""
    return subprocess.Popen(["true"], stdout=subprocess.PIPE)


async def test_who_starts_a_cluster_hears_that_another_has_ended_it(
    tmp_path: pathlib.Path, ended: "subprocess.Popen[bytes]"
) -> None:
    """`carico down` during `carico up`: it removes what was written, the logs too."""
    launched = client.Launched(ended, folders.Paths(tmp_path / "x"))
    with pytest.raises(errors.EnvironmentUnfit, match="x was stopped by another command during its start"):
        async for _ in launched.until_up():
            pass
    await client.down(launched.paths, keep_logs=True)


@pytest.mark.parametrize(
    "event",
    [
        events.Event(kind=events.Kind.UP, after_s=1.5),
        events.Event(kind=events.Kind.CRASHED, service="scheduler", text="exit code 1", crash=CRASH),
    ],
)
def test_an_event_is_one_line_and_comes_back(event: events.Event) -> None:
    line = events.encode(event)
    assert line.count(b"\n") == 1
    assert events.decode(line) == event


@pytest.mark.parametrize(
    "line", [b"[]\n", b"no json\n", b'"text"\n', b"{}\n", b'{"kind": "odd"}\n', b'{"kind": "up", "x": 1}\n']
)
def test_a_line_that_is_no_event_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="expected an event"):
        events.decode(line)


async def test_a_fresh_start_finds_nothing_of_a_cluster_whose_supervisor_was_killed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Started:
        pass

    monkeypatch.setattr(client, "_start", lambda *_, **__: Started())
    name = "fresh-start-test"
    left = folders.Paths(tmp_path / name).data / "api" / "objects.sqlite3"
    for fresh, there in ((False, True), (True, False)):
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_bytes(b"an old job")
        options = plan.Options(name=name, nodes=1)
        await client.launch(options, home=tmp_path, environ={}, restart=False, lifeline=True, fresh=fresh)
        assert left.exists() is there
        assert folders.Paths(tmp_path / name).plan.exists()


async def test_a_home_that_cannot_be_written_is_one_line(tmp_path: pathlib.Path) -> None:
    home = tmp_path / "file"
    home.write_bytes(b"")
    options = plan.Options(name="x", nodes=1)
    with pytest.raises(
        errors.EnvironmentUnfit, match=r"cannot write the cluster's files to .*file/x .*: set XDG_STATE_HOME to a"
    ):
        await client.launch(options, home=home, environ={}, restart=False, lifeline=True, fresh=False)


async def test_a_full_disk_is_one_line_before_anything_starts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LEAST_FREE_BYTES", 2**62)
    options = plan.Options(name="x", nodes=1)
    with pytest.raises(errors.EnvironmentUnfit, match=r"/x \(No space left on device\): .* 16 MiB free"):
        await client.launch(options, home=tmp_path, environ={}, restart=False, lifeline=True, fresh=False)
    assert not (tmp_path / "x" / "plan.json").exists()
