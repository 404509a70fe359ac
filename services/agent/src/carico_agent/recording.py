"""Write raw samples and Pod events to a file while an agent runs, without delaying the agent.

A thread compresses blocks of a few seconds and appends each in one write: an agent that is killed loses at most the
current block. A full or hanging disk ends the recording with one line in the log.
"""

import contextlib
import dataclasses
import errno
import io
import pathlib
import queue
import threading
from collections.abc import Callable

import numpy as np

from carico_agent import ports, settings
from carico_agent.learning import pipeline
from carico_agent.telemetry import panel
from carico_core.domain import errors, recording
from carico_core.runtime.observe import logs
from carico_core.wire import recording as wire

BLOCK_S = 3.0
# A burst of starts and ends: a block with this many events is written early.
BLOCK_EVENTS = 1000
# Blocks that wait for the disk. If it is slower by a minute, the recording ends.
QUEUE_BLOCKS = 16
# How long a closing agent waits for the disk.
CLOSE_S = 2.0
# Errors that another file name solves; any other, such as a full disk, may be temporary.
_UNUSABLE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EISDIR, errno.EROFS, errno.ELOOP})

# Creates a new file, unbuffered.
Create = Callable[[pathlib.Path], io.RawIOBase]


@dataclasses.dataclass(slots=True, kw_only=True)
class Written:
    """What has been written so far. failure: why the recording ended."""

    path: pathlib.Path
    samples: int = 0
    events: int = 0
    size_bytes: int = 0
    failure: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    samples: tuple[pipeline.Sample, ...]
    events: tuple[recording.PodEvent, ...]


def open_recorder(chosen: settings.AgentSettings, facts: panel.Facts, pods: ports.PodEvents) -> "Recorder":
    """Return a recorder that is subscribed to Pod events; the caller passes samples. Raises `SettingsError`."""
    recorder = Recorder(pathlib.Path(chosen.record), node=chosen.node, facts=facts)
    pods.on_event(recorder.event)
    return recorder


class Recorder:
    """Receives samples and Pod events in the loop's thread; `close` ends it."""

    def __init__(self, path: pathlib.Path, *, node: str, facts: panel.Facts, create: Create | None = None) -> None:
        """Raise `SettingsError` if no file can be created at `path`. An existing file is never changed."""
        self._node = node
        self._facts = facts
        self._block_samples = max(1, round(BLOCK_S / pipeline.SAMPLE_S))
        self._samples: list[pipeline.Sample] = []
        self._events: list[recording.PodEvent] = []
        self._header: recording.NodeFacts | None = None
        self._log = logs.get("recording", node=node)
        self._blocks: queue.Queue[_Block | None] = queue.Queue(maxsize=QUEUE_BLOCKS)
        self._thread: threading.Thread | None = None
        self.written = Written(path=path)
        try:
            file, self.written.path = _create(path, create or _new_file)
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        # A daemon: a disk that hangs must not keep the agent from ending.
        self._thread = threading.Thread(target=self._write, args=(file,), name="recording", daemon=True)
        self._thread.start()

    def sample(self, sample: pipeline.Sample) -> None:
        """Add a sample to the current block."""
        if self.written.failure is None:
            self._samples.append(sample)
            if len(self._samples) >= self._block_samples:
                self._hand_over()

    def event(self, kind: recording.EventKind, uid: str, at_s: float, workload: str = "") -> None:
        """Add an event to the current block, with the Pod's class if it is known."""
        if self.written.failure is None:
            self._events.append(recording.PodEvent(at_s=at_s, kind=kind, uid=uid, workload=workload))
            # Before the first sample there is no header: these events are written with the first block.
            if len(self._events) >= BLOCK_EVENTS and (self._header is not None or self._samples):
                self._hand_over()

    def close(self) -> Written:
        """Write the rest and the end mark, unless the disk fails or hangs; return what was written."""
        if self.written.failure is None and (self._samples or (self._events and self._header)):
            self._hand_over()
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._blocks.put(None, timeout=CLOSE_S)
                self._thread.join(CLOSE_S)
        return self.written

    def _hand_over(self) -> None:
        block = _Block(samples=tuple(self._samples), events=tuple(self._events))
        self._samples.clear()
        self._events.clear()
        if self._header is None:
            self._header = self._header_of(block.samples[0])
        try:
            self._blocks.put_nowait(block)
        except queue.Full:
            self._fail(f"the disk is too slow: {QUEUE_BLOCKS} blocks are waiting")

    def _header_of(self, first: pipeline.Sample) -> recording.NodeFacts:
        return recording.NodeFacts(
            node=self._node,
            dims=self._facts.dims,
            scale=tuple(map(float, self._facts.scale)),
            cores=float(self._facts.cores),
            source=self._facts.source,
            parts=tuple(first.parts),
            sample_hz=1.0 / pipeline.SAMPLE_S,
            started_ns=first.at_ns,
            started_s=first.at_s,
            notes=self._facts.notes,
        )

    # --- the methods below run in the writer's thread ---

    def _write(self, file: io.RawIOBase) -> None:
        with file:
            try:
                while (block := self._blocks.get()) is not None:
                    self._append(file, block)
                if self.written.size_bytes:
                    self.written.size_bytes += _write_whole(file, wire.encode_end())
            except (OSError, ValueError) as error:
                self._fail(getattr(error, "strerror", None) or str(error))
                with contextlib.suppress(OSError):
                    # Half a block would make the file unreadable.
                    file.truncate(self.written.size_bytes)

    def _append(self, file: io.RawIOBase, block: _Block) -> None:
        assert self._header is not None
        start = b"" if self.written.size_bytes else wire.encode_header(self._header)
        size_bytes = _write_whole(file, start + wire.encode_block(_columns(block.samples, self._header), block.events))
        self.written.size_bytes += size_bytes
        self.written.samples += len(block.samples)
        self.written.events += len(block.events)

    def _fail(self, why: str) -> None:
        if self.written.failure is None:
            self.written.failure = why
            self._log.warning(
                "recording ended: the agent continues without it", path=str(self.written.path), why=why,
                samples=self.written.samples,
            )  # fmt: skip


def _columns(samples: tuple[pipeline.Sample, ...], header: recording.NodeFacts) -> recording.Samples:
    parts = [[sample.parts.get(name, np.nan) for name in header.parts] for sample in samples]
    return recording.Samples(
        times_s=np.array([sample.at_s for sample in samples], dtype=np.float64),
        values=np.array([sample.values for sample in samples], dtype=np.float64).reshape(
            len(samples), len(header.dims)
        ),
        parts=np.array(parts, dtype=np.float64).reshape(len(samples), len(header.parts)),
    )


def _new_file(path: pathlib.Path) -> io.RawIOBase:
    return io.FileIO(path, "xb")


def _create(path: pathlib.Path, create: Create) -> tuple[io.RawIOBase, pathlib.Path]:
    """Return a new file and its path, with a number added if the file exists, as after a restart of the agent.

    Raises `SettingsError` if another file name helps, else `OSError`.
    """
    number = 1
    free = path
    while True:
        try:
            return create(free), free
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        except OSError as error:
            if error.errno not in _UNUSABLE:
                raise
            raise errors.SettingsError(
                f"recording to {str(path)!r}: {error.strerror}; expected a file in a directory that can be written"
            ) from None


def _write_whole(file: io.RawIOBase, data: bytes) -> int:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]
    return len(data)
