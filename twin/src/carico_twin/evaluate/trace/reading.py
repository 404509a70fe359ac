"""A trace from a CSV file: a header with a name for each series, then a row for each sample."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays
from carico_twin.evaluate import file_mistake

_FORMAT = "CSV: a header with a name for each series, then a row for each sample"
_OTHER_SEPARATORS = {";": "';'", "\t": "a tab", "|": "'|'", " ": "a space"}
# With one series a machine has nothing to share, and no sum to predict.
_SERIES_LEAST = 2
# Sums of squares stay finite.
VALUE_MOST = 1e100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The samples (series, samples), each from 0 to `VALUE_MOST`; `names` of the series."""

    names: tuple[str, ...]
    series: arrays.Array


def read(file: str, content: bytes) -> Trace:
    """Return the trace. Raises `FileMistake` with row (the header is row 1) and column of the first error."""
    rows = _rows(file, content)
    names = _header(file, next(rows, None))
    samples = [_sample(file, number, row, names) for number, row in rows]
    if not samples:
        raise file_mistake.FileMistake(file, "row 2", got=None, expected="a row of samples after the header")
    return Trace(names=names, series=np.array(samples).T.copy())


def _rows(file: str, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with its number; empty rows at the end are skipped."""
    try:
        # Spreadsheets put a byte order mark at the beginning.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise file_mistake.FileMistake(
            file, f"row {line}", got=content[error.start : error.start + 1], expected=f"UTF-8 text, {_FORMAT}"
        ) from error
    if not text.strip():
        raise file_mistake.FileMistake(file, "row 1", got=None, expected=_FORMAT)
    reader = csv.reader(io.StringIO(text.rstrip(), newline=""), strict=True)
    number = 0
    try:
        for number, row in enumerate(reader, start=1):
            yield number, row
    except csv.Error as error:
        raise file_mistake.FileMistake(file, f"row {number + 1}", got=str(error), expected=_FORMAT) from error


def _header(file: str, first: tuple[int, list[str]] | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in first[1]) if first is not None else ()
    for place, name in enumerate(names, start=1):
        if _number(name) is not None:
            raise file_mistake.FileMistake(
                file, f"row 1, column {place}", got=name,
                expected="a header: a name for each series, which is not a number",
            )  # fmt: skip
    if len(names) < _SERIES_LEAST:
        only = names[0] if names else ""
        for separator, shown in _OTHER_SEPARATORS.items():
            if separator in only:
                raise file_mistake.FileMistake(
                    file, "row 1", got=only, expected=f"values separated by ',' (it contains {shown})"
                )
        raise file_mistake.FileMistake(
            file, "row 1", got=only or None, expected=f"at least {_SERIES_LEAST} series, separated by ','"
        )
    return names


def _sample(file: str, number: int, row: list[str], names: tuple[str, ...]) -> list[float]:
    if len(row) != len(names):
        place = min(len(row), len(names))
        raise file_mistake.FileMistake(
            file, _place(number, place, names), got=row[place].strip() if place < len(row) else None,
            expected=f"{len(names)} values, one for each series of the header",
        )  # fmt: skip
    values = []
    for place, text in enumerate(row):
        value = _number(text)
        if value is None or not 0.0 <= value <= VALUE_MOST:
            raise file_mistake.FileMistake(
                file, _place(number, place, names), got=text.strip() or None,
                expected=f"a number from 0 to {VALUE_MOST:g} (a gap must be filled, or its series removed)",
            )  # fmt: skip
        values.append(value)
    return values


def _place(number: int, place: int, names: tuple[str, ...]) -> str:
    """Return where a value is: its row and column, with the name that the header has for it."""
    name = f" ({file_mistake.shown(names[place])})" if place < len(names) else ""
    return f"row {number}, column {place + 1}{name}"


def _number(text: str) -> float | None:
    """Return the text as a float, possibly not finite; None if it is no number."""
    try:
        return float(text)
    except ValueError:
        return None
