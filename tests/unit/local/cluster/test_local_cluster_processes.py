"""Children of a supervisor: identity, end, logs; nothing outlives its parent."""

import os
import pathlib
import select
import signal
import subprocess
import sys

import pytest

from carico_local.cluster import processes
from tests.tools import waiting


def command(tmp_path: pathlib.Path, *argv: str, **environ: str) -> processes.Command:
    return processes.Command(
        name="child", argv=argv, environ={**os.environ, **environ}, log=tmp_path / "child.log", directory=tmp_path
    )


async def test_a_child_is_known_by_its_start_and_ends_by_sigterm(tmp_path: pathlib.Path) -> None:
    child = await processes.start(command(tmp_path, "sleep", "60"))
    assert processes.is_alive(child.id)
    stranger = processes.ProcessId(pid=child.id.pid, start_ticks=child.id.start_ticks - 1)
    assert not processes.is_alive(stranger)
    assert not processes.kill(stranger, signal.SIGKILL), "the same pid, another process: left alone"
    await processes.stop([child], grace_s=60)
    assert child.process.returncode == -signal.SIGTERM
    assert not processes.is_alive(child.id)


async def test_a_child_that_a_signal_has_stopped_ends_by_sigterm(tmp_path: pathlib.Path) -> None:
    child = await processes.start(command(tmp_path, "sleep", "60"))
    processes.kill(child.id, signal.SIGSTOP)
    await waiting.until(lambda: processes.is_stopped(child.id.pid))
    await processes.stop([child], grace_s=60)
    assert child.process.returncode == -signal.SIGTERM


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: pathlib.Path) -> None:
    child = await processes.start(command(tmp_path, "sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"))
    await waiting.until(lambda: "deaf" in (tmp_path / "child.log").read_text())
    await processes.stop([child], grace_s=0.1)
    assert child.process.returncode == -signal.SIGKILL


async def test_what_a_child_says_is_in_its_log_and_its_mark_is_found(tmp_path: pathlib.Path) -> None:
    mark = f"CARICO_CLUSTER_RUN={tmp_path}"
    child = await processes.start(
        command(tmp_path, "sh", "-c", "echo said; echo complained >&2; sleep 60", CARICO_CLUSTER_RUN=str(tmp_path))
    )
    await waiting.until(lambda: len(processes.last_lines(tmp_path / "child.log", 5)) == 2)
    assert processes.last_lines(tmp_path / "child.log", 1) == ["complained"]
    found = processes.marked(mark)
    assert child.id in found
    await processes.stop([child], grace_s=60)
    for other in found:  # the shell's own child
        processes.kill(other, signal.SIGKILL)


def test_children_end_with_a_parent_that_is_killed(tmp_path: pathlib.Path) -> None:
    program = f"""
import asyncio, os, pathlib
from carico_local.cluster import processes
async def main():
    child = await processes.start(processes.Command(name="x", argv=("sleep", "60"), environ=dict(os.environ),
        log=pathlib.Path({str(tmp_path / "x.log")!r}), directory=pathlib.Path({str(tmp_path)!r})))
    print(child.id.pid, child.id.start_ticks, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, start_ticks = map(int, parent.stdout.readline().split())
        child = processes.ProcessId(pid=pid, start_ticks=start_ticks)
        assert processes.is_alive(child)
        descriptor = os.pidfd_open(pid)
        parent.kill()
    # A pidfd turns readable when the process ends: no polling.
    ended, _, _ = select.select([descriptor], [], [], waiting.WAIT_S)
    os.close(descriptor)
    assert ended
    assert not processes.is_alive(child)


@pytest.mark.parametrize(
    ("returncode", "text"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "killed by SIGKILL"), (-99, "killed by signal 99")],
)
def test_how_a_process_ended_is_said_in_words(returncode: int, text: str) -> None:
    assert processes.exit_text(returncode) == text


def test_a_log_is_bounded_while_its_writer_keeps_it_open(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "a.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        assert not processes.bound_log(log, bound_bytes=100)
        writer.write(b"y")
        assert processes.bound_log(log, bound_bytes=100)
        writer.write(b"after\n")
    assert log.read_bytes() == b"after\n"
    assert (tmp_path / "a.log.1").stat().st_size == 101
    assert not processes.bound_log(tmp_path / "absent.log")


def test_no_log_has_no_last_lines(tmp_path: pathlib.Path) -> None:
    assert processes.last_lines(tmp_path / "absent.log", 3) == []
    (tmp_path / "b.log").write_bytes(b"one\n\n\xff two\n")
    assert processes.last_lines(tmp_path / "b.log", 3) == ["one", "\ufffd two"]


def test_a_process_that_is_gone_has_no_identity() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert processes.identify(done.pid) is None
    assert not processes.is_stopped(done.pid)
