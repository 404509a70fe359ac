"""The columns of the table of nodes: how each is titled, sorted and drawn.

The first eight fit into 80 cells. On a narrower terminal shares have no bars, so that names stay readable.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TypeAlias

from carico_cli.live import picture as pictures
from carico_cli.top.words import spans
from carico_core.domain import amounts
from carico_core.wire import freshness

BAR_CELLS = 4
_BAR_WIDTH = BAR_CELLS + 5
NAME_WIDTH = 14
# Including the mark that shows the order.
_NAME_LEAST = len("node") + 1
# On a narrower terminal shares have no bars.
WIDE = 80
STATE_STYLE = {
    "fresh": "green", "ageing": "yellow", "stale": "red", "absent": "red", pictures.UNREADY: "red",
    pictures.CORDONED: "yellow",
}  # fmt: skip
NOTHING = "-"

Key: TypeAlias = float | str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. `key`: the value to sort by; None comes last in either order. `numeric`: the largest comes first."""

    title: str
    width: int
    key: Callable[[pictures.Node], Key | None]
    draw: Callable[[pictures.Node], spans.Line]
    numeric: bool = True
    # Shown on terminals of at least this width.
    from_width: int = 0
    # The share that it shows; on a narrow terminal without its bar, under `narrow_title`.
    share: Callable[[pictures.Node], float | None] | None = None
    narrow_title: str = ""
    # Shown instead of the title.
    head: str = ""

    @property
    def narrow(self) -> "Column":
        """The column for a narrow terminal."""
        share = self.share
        if share is None:
            return self
        width = max(len(self.narrow_title), spans.SHARE_CELLS)
        return dataclasses.replace(
            self,
            width=width,
            head=self.narrow_title,
            draw=lambda node: spans.bar(share(node), width - spans.SHARE_CELLS),
        )


def _used(node: pictures.Node) -> float | None:
    said = node.advertisement
    return None if said is None else said.parts.get("cpu.utilisation", said.usage.get("cpu"))


def _pressure(node: pictures.Node) -> float | None:
    return None if node.advertisement is None else node.advertisement.parts.get("cpu.pressure")


def _memory(node: pictures.Node) -> float | None:
    return None if node.advertisement is None else node.advertisement.usage.get("memory")


def _pods(node: pictures.Node) -> float | None:
    return None if node.advertisement is None else float(node.advertisement.pods)


def _capacity(node: pictures.Node) -> float | None:
    return None if node.advertisement is None else node.advertisement.capacity


def _mode(node: pictures.Node) -> str | None:
    return None if node.advertisement is None else node.advertisement.mode.value


def _bottleneck(node: pictures.Node) -> str | None:
    return None if node.advertisement is None else node.advertisement.bottleneck


def _age(node: pictures.Node) -> float:
    """Return a larger number for an older advertisement."""
    return math.inf if node.age_s is None else node.age_s


def _state(node: pictures.Node) -> float:
    """Return a larger number for a worse state."""
    return math.inf if node.ready is False else _age(node)


def capacity_text(node: pictures.Node) -> str:
    """Return the capacity in Pods with its standard deviation."""
    said = node.advertisement
    return NOTHING if said is None else amounts.pods_with_sd(said.capacity, said.capacity_sd, sign="±")


def _text(value: str, style: str = "") -> spans.Line:
    return ((value, style),)


def _whole(value: float | int | None) -> spans.Line:
    return _text(NOTHING, "dim") if value is None else _text(str(int(value)))


def _draw_capacity(node: pictures.Node) -> spans.Line:
    full = node.advertisement is not None and node.advertisement.capacity < 1.0
    return _text(capacity_text(node), "yellow" if full else "")


def _draw_state(node: pictures.Node) -> spans.Line:
    return _text(node.state, STATE_STYLE[node.state])


def _share(title: str, share: Callable[[pictures.Node], float | None], narrow_title: str) -> Column:
    return Column(
        title=title, width=_BAR_WIDTH, key=share, draw=lambda node: spans.bar(share(node), BAR_CELLS), share=share,
        narrow_title=narrow_title,
    )  # fmt: skip


COLUMNS = (
    Column(
        title="node", width=NAME_WIDTH, key=lambda node: node.name, draw=lambda node: _text(node.name), numeric=False
    ),
    _share("CPU used", _used, "CPU"),
    _share("pressure", _pressure, "pressure"),
    _share("memory", _memory, "memory"),
    Column(title="Pods", width=5, key=_pods, draw=lambda node: _whole(_pods(node))),
    Column(title="capacity", width=11, key=_capacity, draw=_draw_capacity),
    Column(
        title="reserved", width=9, key=lambda node: node.reserved,
        draw=lambda node: _whole(node.reserved), from_width=68,
    ),
    Column(title="state", width=7, key=_state, draw=_draw_state),
    Column(
        title="mode", width=10, key=_mode,
        draw=lambda node: _text(_mode(node) or NOTHING),
        numeric=False, from_width=92,
    ),
    Column(
        title="bottleneck", width=11, key=_bottleneck,
        draw=lambda node: _text(spans.clean(_bottleneck(node) or NOTHING)),
        numeric=False, from_width=104,
    ),
    Column(
        title="free", width=7, key=lambda node: node.free,
        draw=lambda node: _text(NOTHING if node.free is None else amounts.number(node.free, 1)), from_width=112,
    ),
    Column(
        title="age", width=7, key=_age,
        draw=lambda node: _text(NOTHING if node.age_s is None else f"{node.age_s:.1f} s"), from_width=120,
    ),
)  # fmt: skip
_RIGHT = frozenset({"Pods", "capacity", "reserved", "free", "age"})


def shown(width: int, *, longest: int = NAME_WIDTH) -> tuple[Column, ...]:
    """Return the columns that fit into a terminal of this width; the names' column is as wide as the longest needs."""
    found = [column.narrow if width < WIDE else column for column in COLUMNS if column.from_width <= width]
    spare = width - sum(column.width + 1 for column in found) + 1
    cells = max(_NAME_LEAST, min(found[0].width + spare, max(longest, _NAME_LEAST)))
    return (dataclasses.replace(found[0], width=cells), *found[1:])


def header(columns: tuple[Column, ...], *, sorted_by: str, descending: bool) -> spans.Line:
    """Return the titles; that of the sorted column shows the direction."""
    found: list[spans.Span] = []
    for column in columns:
        is_key = column.title == sorted_by
        title = (column.head or column.title) + (("▼" if descending else "▲") if is_key else "")
        text = spans.fitted(title, column.width, right=column.title in _RIGHT)
        found += [(text, "bold" if is_key else ""), (" ", "")]
    return tuple(found[:-1])


def row(node: pictures.Node, columns: tuple[Column, ...]) -> spans.Line:
    """Return one node's line, each column in its width."""
    found: list[spans.Span] = []
    for column in columns:
        cell = column.draw(node)
        text = spans.plain(cell)
        if len(cell) == 1:
            cell = ((spans.fitted(text, column.width, right=column.title in _RIGHT), cell[0][1]),)
        elif len(text) < column.width:
            cell = (*cell, (" " * (column.width - len(text)), ""))
        found += [*cell, (" ", "")]
    if node.freshness is freshness.Freshness.ABSENT:
        # Its last advertisement is no longer true.
        return tuple((text, style if text.strip() == node.state else "dim") for text, style in found[:-1])
    return tuple(found[:-1])
