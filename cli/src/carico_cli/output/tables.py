"""Rows as a table of plain text: the one formatter of every command."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_FIRST_LEAST = 12


def cell(value: object) -> str:
    """Return a value as a table has it.

    >>> cell(None), cell(True), cell(2)
    ('-', 'yes', '2')
    """
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def aligned(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int | None = 1, width: int | None = None
) -> list[str]:
    """Return a line for the head and one a row: the first `left` columns (None: all) aligned left, the others right.

    width: shorten the first column in the middle where lines would be longer.

    >>> aligned(("NODE", "PODS"), [("node-1", "7")])
    ['NODE    PODS', 'node-1     7']
    """
    table = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if width is not None:
        over = sum(widths) + 2 * (len(widths) - 1) - width
        widths[0] = max(widths[0] - max(over, 0), min(widths[0], _FIRST_LEAST))
    count = len(widths) if left is None else left
    return [_line(row, widths, count) for row in table]


def lines(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str, *, show: Callable[[object], str] = cell
) -> list[str]:
    """Record as a table, aligned left; the head names the columns, but the first by `title`.

    >>> lines([{"name": "node-1", "pods": None}], ("name", "pods"), "NODE")
    ['NODE    PODS', 'node-1  -']
    """
    head = [title, *(column.upper() for column in columns[1:])]
    return aligned(head, ([show(row[column]) for column in columns] for row in rows), left=None)


def shortened(text: str, width: int) -> str:
    """Return the text, with its middle left out where it is longer than `width`; the ends tell names apart.

    >>> shortened("Job/default/a-very-long-name", 12)
    'Job/de~-name'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}~{text[len(text) - tail :]}"


def natural(name: str) -> tuple[object, ...]:
    """Return a sort key that puts node-2 before node-10.

    >>> sorted(["node-10", "node-2", "a"], key=natural)
    ['a', 'node-2', 'node-10']
    """
    head = name.rstrip("0123456789")
    tail = name[len(head) :]
    return (head, int(tail) if tail else -1, name)


def _line(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    cells = [
        shortened(text, width).ljust(width) if index < left else text.rjust(width)
        for index, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
