"""Recording next to an agent: what is written, and that no disk ever delays the agent."""

import errno
import io
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from carico_agent import recording as recorders
from carico_agent.learning import pipeline
from carico_agent.telemetry import panel
from carico_cli.recordings import reading
from carico_core.domain import errors, recording
from tests.tools import waiting

FACTS = panel.Facts(dims=("cpu", "memory"), scale=(8.0, 8e9), cores=4.0, source="host", notes=("no PSI",))


def sample(index: int) -> pipeline.Sample:
    return pipeline.Sample(
        values=np.array([0.1 + index / 1e4, 0.05]),
        parts={"cpu_utilisation": 0.2} if index != 3 else {},
        pods=0,
        dt_s=0.1,
        at_ns=1_700_000_000_000_000_000 + index * 100_000_000,
        at_s=100.0 + index / 10,
    )


@pytest.fixture
def make(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., recorders.Recorder]]:
    # A busy machine may take its time; no test waits for it but where it is slow.
    monkeypatch.setattr(recorders, "CLOSE_S", 30.0)
    made: list[recorders.Recorder] = []

    def build(path: pathlib.Path = tmp_path / "node.rec", **more: Any) -> recorders.Recorder:
        made.append(recorders.Recorder(path, node="node-1", facts=FACTS, **more))
        return made[-1]

    yield build
    for one in made:
        one.close()


Make = Callable[..., recorders.Recorder]


def test_what_was_recorded_can_be_read_back(make: Make) -> None:
    one = make()
    one.event(recording.EventKind.STARTED, "before-the-first-sample", 99.5)
    for index in range(123):
        one.sample(sample(index))
    one.event(recording.EventKind.ENDED, "before-the-first-sample", 112.25, "Job/default/pi")
    written = one.close()
    assert (written.samples, written.events, written.failure) == (123, 2, None)
    assert written.path.stat().st_size > written.size_bytes - 1 > 0
    found = reading.read(written.path)
    facts, samples = found.recording.facts, found.recording.samples
    assert found.recording.ended
    assert (facts.node, facts.dims, facts.scale, facts.cores, facts.notes) == (
        "node-1", FACTS.dims, FACTS.scale, 4.0, ("no PSI",),
    )  # fmt: skip
    assert facts.started_s == 100.0
    np.testing.assert_array_equal(samples.times_s, [sample(index).at_s for index in range(123)])
    np.testing.assert_array_equal(samples.values, [sample(index).values for index in range(123)])
    assert np.isnan(samples.parts[3, 0])
    assert samples.parts[4, 0] == 0.2
    assert [(event.kind.value, event.at_s) for event in found.recording.events] == [
        ("started", 99.5),
        ("ended", 112.25),
    ]


def test_a_file_that_exists_is_left_as_it_is(make: Make, tmp_path: pathlib.Path) -> None:
    (tmp_path / "node.rec").write_bytes(b"precious")
    first, second = make(), make()
    for one in (first, second):
        one.sample(sample(0))
        one.close()
    assert (tmp_path / "node.rec").read_bytes() == b"precious"
    assert [one.written.path.name for one in (first, second)] == ["node-2.rec", "node-3.rec"]


def test_an_agent_that_never_took_a_sample_leaves_an_empty_file(make: Make) -> None:
    one = make()
    one.event(recording.EventKind.STARTED, "u", 1.0)
    assert one.close().size_bytes == 0


@pytest.mark.parametrize("name", ["no/such/folder/x.rec", "file/x.rec"])
def test_a_path_where_no_file_can_be_is_an_error_of_the_setting(make: Make, tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.SettingsError, match=r"recording to '.*x\.rec': .*; expected a file in a directory"):
        make(tmp_path / name)


def test_a_disk_full_at_the_start_ends_the_recording_alone(make: Make) -> None:
    def full(_: pathlib.Path) -> io.RawIOBase:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = make(create=full)
    one.sample(sample(0))
    assert one.close().failure == "No space left on device"


def test_a_disk_that_fills_up_leaves_whole_blocks(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    class Filling(io.FileIO):
        left = 1500

        def write(self, data: Any) -> int:
            taken = bytes(data)[: self.left]
            if not taken:
                raise OSError(errno.ENOSPC, "No space left on device")
            Filling.left -= len(taken)
            return super().write(taken)

    one = make(create=lambda path: Filling(path, "xb"))
    for index in range(300):
        one.sample(sample(index))
    written = one.close()
    assert written.failure == "No space left on device"
    found = reading.read(written.path)
    assert 0 < len(found.recording.samples.times_s) == written.samples < 300
    assert not found.recording.ended
    assert "".join(capsys.readouterr()).count("recording ended") == 1


def test_a_disk_that_hangs_blocks_no_caller(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    release, begun = threading.Event(), threading.Event()

    class Hanging(io.FileIO):
        def write(self, data: Any) -> int:
            begun.set()
            release.wait(waiting.WAIT_S)
            return super().write(data)

    monkeypatch.setattr(recorders, "CLOSE_S", 0.05)
    one = make(create=lambda path: Hanging(path, "xb"))
    for index in range(50):
        one.sample(sample(index))
    assert begun.wait(waiting.WAIT_S)
    for index in range(50, 50 * (recorders.QUEUE_BLOCKS + 3)):
        one.sample(sample(index))
    written = one.close()
    assert written.failure is not None
    assert "the disk is too slow: 16 blocks" in written.failure
    release.set()


def test_a_burst_of_events_is_written_early_and_bounded(make: Make) -> None:
    one = make()
    one.sample(sample(0))
    for index in range(3 * recorders.BLOCK_EVENTS):
        one.event(recording.EventKind.CREATED, f"u-{index}", 100.0)
    assert len(one._events) < recorders.BLOCK_EVENTS
    assert one.close().events == 3 * recorders.BLOCK_EVENTS
