"""Rows as a table of plain text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def cell(value: object) -> str:
    """A value as a table has it.

    >>> cell(None), cell(True), cell(2)
    ('-', 'yes', '2')
    """
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def lines(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str, *, show: Callable[[object], str] = cell
) -> list[str]:
    """A head and a line a row, columns aligned to the left; the head names the columns, but the first by `title`.

    >>> lines([{"name": "node-1", "pods": None}], ("name", "pods"), "NODE")
    ['NODE    PODS', 'node-1  -']
    """
    head = [title, *(column.upper() for column in columns[1:])]
    table = [head, *([show(row[column]) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True)).rstrip() for row in table]
