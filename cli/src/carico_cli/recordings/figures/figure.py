"""A redrawn figure: its numbers, and its charts."""

import dataclasses
from typing import Any

import numpy as np

from carico_cli.output import charts
from carico_cli.recordings import trace
from carico_core.domain import errors, messages

SECONDS = "seconds since the first sample"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """numbers: JSON types; a list holds rows with the same keys."""

    numbers: dict[str, Any]
    charts: tuple[charts.Chart, ...]


def line(label: str, times_s: messages.Array, values: messages.Array, index: int) -> charts.Line:
    """Return a series of samples."""
    return charts.Line(label=label, x=times_s.tolist(), y=values.tolist(), colour=charts.colour(index))


def columns(over: trace.Trace) -> dict[str, messages.Array]:
    """Return the raw columns (n,) of the samples by the names that the author's logs have.

    An agent records the CPU's with a prefix, and memory as a dimension alone. Where a sample lacks a share, the last
    one counts.
    """
    facts, samples = over.recording.facts, over.recording.samples
    found = {name.removeprefix("cpu."): column for name, column in zip(facts.parts, samples.parts.T, strict=True)}
    found |= {
        dim: column
        for dim, column in zip(facts.dims, samples.values.T, strict=True)
        if dim != "cpu" and dim not in found
    }
    return {name: _filled(column) for name, column in found.items()}


def _filled(column: messages.Array) -> messages.Array:
    known = np.isfinite(column)
    if known.all() or not known.any():
        return column
    # The index of the newest known share, and before the first one that of the first.
    newest = np.maximum.accumulate(np.where(known, np.arange(len(column)), -1))
    filled: messages.Array = column[np.where(newest < 0, int(np.argmax(known)), newest)]
    return filled


def part(over: trace.Trace, name: str, number: str) -> messages.Array:
    """Return a raw column (n,) of the samples. Raises `SettingsError` where the trace has none of this name."""
    found = columns(over)
    if name not in found:
        got = ", ".join(found) or "no raw shares"
        raise errors.SettingsError(
            f"--figure {number}: {over.name} has {got}, expected samples with {name}; docs/recordings.md lists the "
            "logs of each figure"
        )
    return found[name]


def times_s(over: trace.Trace) -> messages.Array:
    """Return the times of the samples (n,) since the first."""
    found: messages.Array = over.recording.samples.times_s - over.recording.samples.times_s[0]
    return found


def rounded(value: float | np.floating[Any] | None) -> float | None:
    """Return a number with four digits, for a table."""
    return None if value is None else float(f"{float(value):.4g}")
