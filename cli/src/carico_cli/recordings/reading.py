"""Reads a file as a trace: a recording or the author's log, recognised by its first bytes."""

import dataclasses
import pathlib

import numpy as np

from carico_cli.recordings import author_log, log_trace, trace
from carico_cli.shell import user_files
from carico_core.domain import errors, messages
from carico_core.wire import recording as wire

# An hour at 10 Hz takes about a megabyte: a larger file is of another kind.
FILE_MAX_BYTES = 2**30
# Samples come ten times a second; some are missing where the agent could not read its sources.
_GAP_S = 1.0
_EXPECTED = "a recording, or a log of the author's agent"


def read(path: pathlib.Path, *, partial: bool = False) -> trace.Trace:
    """Return the trace in a file. Raises `SettingsError` where it cannot be read, and as `parse` does."""
    content = user_files.read(path, "FILE", most=FILE_MAX_BYTES, expected=_EXPECTED)
    return parse(content, name=str(path), partial=partial)


def parse(data: bytes, *, name: str, partial: bool = False) -> trace.Trace:
    """Return the trace in these bytes; `partial`: that before a cut. Raises `RecordingError`."""
    if not data:
        raise errors.RecordingError(name, "offset 0", got="an empty file", expected=_EXPECTED)
    found = _recording(data, name, partial) if _is_recording(data) else _log(data, name, partial)
    if not len(found.recording.samples.times_s):
        raise errors.RecordingError(name, "its whole length", got="no samples", expected="at least one second of them")
    gaps = _gaps(found.recording.samples.times_s)
    return dataclasses.replace(found, notes=(*found.notes, gaps)) if gaps else found


def _gaps(times_s: messages.Array) -> str | None:
    """Return a note on missing samples; None where none is missing."""
    steps_s = np.diff(times_s)
    found = np.flatnonzero(steps_s > _GAP_S)
    if not len(found):
        return None
    widest = int(found[np.argmax(steps_s[found])])
    more = f", and {len(found) - 1} more such gaps" if len(found) > 1 else ""
    return f"no samples for {steps_s[widest]:.1f} s, beginning at {times_s[widest] - times_s[0]:.1f} s{more}"


def _is_recording(data: bytes) -> bool:
    # A recording may be cut within its first bytes.
    return wire.MAGIC.startswith(data[: len(wire.MAGIC)])


def _recording(data: bytes, name: str, partial: bool) -> trace.Trace:
    found = wire.decode(data, name=name, partial=partial)
    notes = list(found.facts.notes)
    if not found.ended:
        notes.append("the recording has no end: its writer was killed, or is still writing")
    return trace.Trace(name=name, format="recording", recording=found, notes=tuple(notes))


def _log(data: bytes, name: str, partial: bool) -> trace.Trace:
    text = data.decode("utf-8", errors="replace")
    lines = text.split("\n")
    rest = lines.pop()
    # A file that does not begin as a log is reported as that, not as a log that was cut.
    if rest and lines and not partial and author_log.STAMP.match(lines[0]):
        raise errors.RecordingError(
            name,
            f"line {len(lines) + 1}",
            got=f"{author_log.shown(rest)} and then the end of the file",
            expected="a whole line: the log was cut; --partial replays what comes before",
        )
    if not lines:
        lines = [rest]
    return log_trace.from_log(author_log.parse(lines, name=name), name=name)
