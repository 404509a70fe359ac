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


def part(over: trace.Trace, name: str, number: str) -> messages.Array:
    """Return a raw column (n,) of the samples. Raises `SettingsError` where the trace has none of this name."""
    facts, samples = over.recording.facts, over.recording.samples
    if name not in facts.parts:
        got = ", ".join(facts.parts) or "no raw shares"
        raise errors.SettingsError(
            f"--figure {number}: {over.name} has {got}, expected samples with {name}; docs/recordings.md lists the "
            "logs of each figure"
        )
    column: messages.Array = samples.parts[:, facts.parts.index(name)]
    return column


def times_s(over: trace.Trace) -> messages.Array:
    """Return the times of the samples (n,) since the first."""
    found: messages.Array = over.recording.samples.times_s - over.recording.samples.times_s[0]
    return found


def rounded(value: float | np.floating[Any] | None) -> float | None:
    """Return a number with four digits, for a table."""
    return None if value is None else float(f"{float(value):.4g}")
