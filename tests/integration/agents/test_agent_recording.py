"""An agent that records, as a process: killed or stopped, its file can be replayed."""

import pathlib
import signal
import subprocess
import sys

import pytest

from carico_cli.recordings import engine, reading
from tests.tools import service_process, waiting

WAIT_S = 60.0
# The block in which an agent keeps what it has not written yet, and what its start takes.
BLOCK_BYTES = 200
# Two blocks of 3 s at 10 Hz, so that the cut is not in the first one; the model is updated once in ten samples.
SAMPLES_MIN = 60
STEPS_MIN = SAMPLES_MIN // 10


def agent(folder: pathlib.Path, name: str, *more: str) -> "subprocess.Popen[bytes]":
    own = ("--node", name, "--record", str(folder / f"{name}.rec"), "--pod-events", "none")
    # No bus there: an agent records all the same.
    bus = ("--bus-url", "nats://127.0.0.1:9", "--http-port", "-1")
    return service_process.start(folder / f"{name}.log", "carico_agent", *own, *bus, *more)


def wait_for_blocks(process: "subprocess.Popen[bytes]", path: pathlib.Path) -> None:
    def has_blocks() -> bool:
        assert process.poll() is None, path.with_suffix(".log").read_text()
        if not path.exists() or path.stat().st_size < BLOCK_BYTES:
            return False
        return len(reading.read(path).recording.samples.times_s) >= SAMPLES_MIN

    waiting.until_now(has_blocks, within_s=WAIT_S, what=path.with_suffix(".log").read_text)


def test_a_killed_agent_leaves_a_readable_file_and_a_stopped_one_a_whole_one(tmp_path: pathlib.Path) -> None:
    killed, stopped = agent(tmp_path, "killed"), agent(tmp_path, "stopped")
    try:
        for process, name in ((killed, "killed"), (stopped, "stopped")):
            wait_for_blocks(process, tmp_path / f"{name}.rec")
        killed.kill()
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(WAIT_S) == 0
        assert killed.wait(WAIT_S) == -signal.SIGKILL
    finally:
        service_process.end(killed, stopped)
    cut, whole = reading.read(tmp_path / "killed.rec"), reading.read(tmp_path / "stopped.rec")
    assert not cut.recording.ended
    assert any("its writer was killed" in note for note in cut.notes)
    assert whole.recording.ended
    for trace in (cut, whole):
        assert len(trace.recording.samples.times_s) >= SAMPLES_MIN
        run = engine.run(trace, engine.Setup(estimator="footprint"))
        assert len(run.steps) >= STEPS_MIN
        assert run.trace.recording.facts.dims == ("cpu", "memory")


@pytest.mark.parametrize("path", ["missing/x.rec"])
def test_a_path_where_nothing_can_be_written_is_one_line_and_exit_code_2(tmp_path: pathlib.Path, path: str) -> None:
    flags = ("--node", "n", "--record", str(tmp_path / path), "--pod-events", "none", "--http-port", "-1")
    ended = subprocess.run(
        [sys.executable, "-m", "carico_agent", *flags, "--bus-url", "nats://127.0.0.1:9", "--log-level", "error"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "x.rec': No such file or directory; expected a file in a directory" in ended.stderr
