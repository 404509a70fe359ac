"""Widgets that draw lines of spans. They draw only what is visible, so that 1,000 nodes cost no more than 20."""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from carico_cli.live import picture as pictures
from carico_cli.top import columns, spans
from carico_cli.top import view as views

_CURSOR = Style(bgcolor="rgb(38,79,120)")


def strip(line: spans.Line, width: int, *, marked: bool = False) -> Strip:
    """Return a line as a strip of exactly `width` cells.

    Every segment has a style: with NO_COLOR, Textual's filter fails on one without.
    """
    segments = [Segment(text, Style.parse(style) if style else Style.null()) for text, style in spans.cut(line, width)]
    found = Strip(segments).adjust_cell_length(width, Style.null())
    return found.apply_style(_CURSOR) if marked else found


class Lines(Widget):
    """Lines under a title, which shows how many more are below."""

    DEFAULT_CSS = "Lines { height: 1; }"

    def __init__(self, title: str = "", *, id: str | None = None) -> None:  # noqa: A002  # textual's own name
        super().__init__(id=id)
        self._title = title
        self._lines: Sequence[spans.Line] = ()
        self._first = 0

    def show(self, lines: Sequence[spans.Line]) -> None:
        """Draw these lines from now on."""
        self._lines = lines
        self._keep_within(self._first)
        self.refresh()

    def scroll_by(self, by: int) -> None:
        """Scroll down by so many lines; up if negative."""
        self._keep_within(self._first + by)
        self.refresh()

    @property
    def text(self) -> str:
        """All lines as plain text."""
        return "\n".join(spans.plain(line) for line in self._lines)

    @property
    def page(self) -> int:
        """How many lines are visible at once."""
        return max(1, self.size.height - bool(self._title))

    def _keep_within(self, first: int) -> None:
        self._first = max(0, min(first, len(self._lines) - self.page))

    def render_line(self, y: int) -> Strip:
        """Return one line of the widget."""
        if self._title:
            if y == 0:
                return strip(self._title_line(), self.size.width)
            y -= 1
        index = self._first + y
        line = self._lines[index] if index < len(self._lines) else ()
        return strip(line, self.size.width)

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        """Scroll with the wheel."""
        self.scroll_by(1)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        """Scroll with the wheel."""
        self.scroll_by(-1)

    def _title_line(self) -> spans.Line:
        more = len(self._lines) - self._first - self.page
        text = f"{self._title}{f' ({more} more below)' if more > 0 else ''} "
        return ((text, "bold"), ("─" * max(0, self.size.width - len(text)), "dim"))


class Nodes(Widget, can_focus=True):
    """The table of nodes with a cursor, which stays on its node when the order changes."""

    DEFAULT_CSS = "Nodes { height: 1fr; min-height: 3; }"

    def __init__(self, on_choose: Callable[[str], None], *, id: str | None = None) -> None:  # noqa: A002  # as above
        super().__init__(id=id)
        self._on_choose = on_choose
        self._view = views.View()
        self.rows: list[pictures.Node] = []
        self._cursor = 0
        self._first = 0

    def show(self, picture: pictures.Picture, view: views.View) -> None:
        """Draw this picture from now on."""
        at = self.chosen
        self._view = view
        self.rows = view.rows(picture.nodes)
        if at is not None:
            place = next((index for index, node in enumerate(self.rows) if node.name == at), self._cursor)
            self._cursor = place
        self.move(0)

    @property
    def chosen(self) -> str | None:
        """The node under the cursor."""
        return self.rows[self._cursor].name if self._cursor < len(self.rows) else None

    @property
    def titles(self) -> list[str]:
        """The titles of the visible columns."""
        return [column.title for column in self._columns()]

    def _columns(self) -> tuple[columns.Column, ...]:
        return columns.shown(self.size.width, longest=max((len(node.name) for node in self.rows), default=0))

    @property
    def page(self) -> int:
        """How many nodes are visible at once."""
        return max(1, self.size.height - 1)

    def move(self, by: int) -> None:
        """Move the cursor down by so many nodes; up if negative."""
        self._cursor = max(0, min(self._cursor + by, len(self.rows) - 1))
        self._first = max(min(self._first, self._cursor), self._cursor - self.page + 1, 0)
        self._first = max(0, min(self._first, len(self.rows) - self.page))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the widget."""
        width = self.size.width
        shown = self._columns()
        if y == 0:
            line = columns.header(shown, sorted_by=self._view.sorted_by, descending=self._view.descending)
            return strip(line, width)
        index = self._first + y - 1
        if index >= len(self.rows):
            why = "no node matches: escape clears the filter" if self._view.filter else "no node has advertised yet"
            return strip(((why if y == 1 and not self.rows else "", "dim"),), width)
        return strip(columns.row(self.rows[index], shown), width, marked=index == self._cursor)

    def on_resize(self, _: events.Resize) -> None:
        """Keep the cursor visible."""
        self.move(0)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the node; a double click opens it."""
        index = self._first + event.y - 1
        if event.y == 0 or index >= len(self.rows):
            return
        if index == self._cursor and event.chain > 1:
            self._on_choose(self.rows[index].name)
        self.move(index - self._cursor)

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        """Move the cursor with the wheel."""
        self.move(1)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        """Move the cursor with the wheel."""
        self.move(-1)
