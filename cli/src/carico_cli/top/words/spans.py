"""Lines of styled text, independent of a library, so that they can be tested, printed and measured as plain text."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TypeAlias

# (text, style): "" is the terminal's default style; others are colours, "dim" and "bold".
Span: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Span, ...]

_SPARKS = "▁▂▃▄▅▆▇█"
FULL, EMPTY = "█", "░"
# From these shares on, a bar is yellow and red.
WARN_FROM, HOT_FROM = 0.7, 0.9
# Width of a share as a number, with a blank before it.
SHARE_CELLS = 5


def plain(line: Iterable[Span]) -> str:
    """Return the text of a line."""
    return "".join(text for text, _ in line)


def clean(text: str) -> str:
    """Return the text without characters that move a terminal's cursor.

    >>> clean("a\\x1b[2Jb\\nc")
    'a [2Jb c'
    """
    return "".join(char if char.isprintable() else " " for char in text)


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Return the text in exactly `width` cells; a longer one loses its middle, since names differ at their ends.

    >>> fitted("ip-10-0-0-17.ec2.internal", 12), fitted("7", 3, right=True), fitted("ab", 1)
    ('ip-10-…ernal', '  7', '…')
    """
    if len(text) > width:
        if width <= 1:
            return "…"[:width]
        tail = (width - 1) // 2
        text = text[: width - 1 - tail] + "…" + (text[-tail:] if tail else "")
    return text.rjust(width) if right else text.ljust(width)


def cut(line: Iterable[Span], width: int) -> Line:
    """Return the line in at most `width` cells; an ellipsis marks a cut."""
    found: list[Span] = []
    left = width
    spans = list(line)
    for text, style in spans:
        if len(text) > left:
            found.append((text[: max(left - 1, 0)] + "…"[:left], style))
            break
        found.append((text, style))
        left -= len(text)
    return tuple(found)


def wrapped(line: Line, width: int, indent: str = "") -> list[Line]:
    """Return a text of one style in lines of at most `width` cells, `indent` before all but the first.

    A line that has columns is cut instead.

    >>> wrapped((("why it is so", "dim"),), 8, "  ")
    [(('why it', 'dim'),), (('  is so', 'dim'),)]
    """
    if len(line) != 1 or len(line[0][0]) <= width or width < 1:
        return [cut(line, width)]
    ((text, style),) = line
    return [((part, style),) for part in textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)]


def bar(share: float | None, cells: int) -> Line:
    """Return a share from 0 to 1 as a bar of `cells` and five more for the number.

    >>> plain(bar(0.5, 4)), plain(bar(None, 4))
    ('██░░  50%', '        -')
    """
    if share is None:
        return ((" " * (cells + 4) + "-", "dim"),)
    within = min(max(share, 0.0), 1.0)
    filled = round(within * cells)
    style = "green" if share < WARN_FROM else "yellow" if share < HOT_FROM else "red"
    return ((FULL * filled, style), (EMPTY * (cells - filled), "dim"), (f" {within:4.0%}", ""))


def spark(values: Sequence[float], width: int, *, most: float | None = None) -> str:
    """Return the values as small bars between 0 and `most` (default: their largest), in at most `width` cells.

    A cell shows the largest of the values that share it; NaN is not known.

    >>> spark([0.0, 1.0, 2.0, 4.0], 4), spark([], 4), spark([0.0, math.nan, 0.0], 4)
    ('▁▃▅█', '', '▁ ▁')
    """
    if not values:
        return ""
    top = max((value for value in values if not math.isnan(value)), default=0.0) if most is None else most
    per_cell = -(-len(values) // width)
    # Grouped from the newest value on, so that a cell keeps its values from one drawing to the next.
    groups = [values[max(0, end - per_cell) : end] for end in range(len(values), 0, -per_cell)]
    return "".join(_bar_of([value for value in group if not math.isnan(value)], top) for group in reversed(groups))


def _bar_of(values: Sequence[float], top: float) -> str:
    if not values:
        return " "
    share = max(values) / top if top > 0.0 else 0.0
    return _SPARKS[min(max(int(share * len(_SPARKS)), 0), len(_SPARKS) - 1)]
