"""A file as a trace: a recording or the author's log, told apart by its first bytes."""

import pathlib

from carico_agent.replay import author_log, log_trace, trace
from carico_core.domain import errors
from carico_core.wire import recording as wire

# An hour at 10 Hz takes about a megabyte: what is larger than this is another kind of file.
FILE_MAX_BYTES = 2**30


def read(path: pathlib.Path, *, partial: bool = False) -> trace.Trace:
    """The trace in a file. Raises `RecordingError` where it cannot be read."""
    try:
        size = path.stat().st_size
        if size > FILE_MAX_BYTES:
            raise errors.RecordingError(
                str(path), "its size", got=f"{size} bytes", expected=f"at most {FILE_MAX_BYTES} bytes"
            )
        data = path.read_bytes()
    except OSError as error:
        raise errors.RecordingError(
            str(path), "opening it", got=error.strerror or str(error), expected="a file that can be read"
        ) from None
    return parse(data, name=str(path), partial=partial)


def parse(data: bytes, *, name: str, partial: bool = False) -> trace.Trace:
    """The trace in these bytes; `partial` takes what comes before a cut. Raises `RecordingError`."""
    if not data:
        expected = "a recording, or a log of the author's agent"
        raise errors.RecordingError(name, "offset 0", got="an empty file", expected=expected)
    found = _recording(data, name, partial) if _is_recording(data) else _log(data, name, partial)
    if not len(found.recording.samples.times_s):
        raise errors.RecordingError(name, "its whole length", got="no samples", expected="at least one second of them")
    return found


def _is_recording(data: bytes) -> bool:
    # The beginning of one that was cut within its first bytes is one too.
    return wire.MAGIC.startswith(data[: len(wire.MAGIC)])


def _recording(data: bytes, name: str, partial: bool) -> trace.Trace:
    found = wire.decode(data, name=name, partial=partial)
    notes = list(found.facts.notes)
    if not found.ended:
        notes.append("the recording has no end: its writer was killed, or it is still written")
    return trace.Trace(name=name, format="recording", recording=found, notes=tuple(notes))


def _log(data: bytes, name: str, partial: bool) -> trace.Trace:
    text = data.decode("utf-8", errors="replace")
    lines = text.split("\n")
    rest = lines.pop()
    if rest and lines and not partial:
        raise errors.RecordingError(
            name,
            f"line {len(lines) + 1}",
            got=f"{author_log.shown(rest)} and then the end of the file",
            expected="a whole line: the log was cut; --partial replays what comes before",
        )
    if not lines:
        lines = [rest]
    return log_trace.from_log(author_log.parse(lines, name=name), name=name)
