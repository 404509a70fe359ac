"""Widgets that draw lines of spans. They draw only what is visible, so that 1,000 nodes cost no more than 20."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import app, binding, events, screen, widgets
from textual.strip import Strip
from textual.widget import Widget

from carico_cli.live import picture as pictures
from carico_cli.top import view as views
from carico_cli.top.words import columns, pod_words, spans

R = TypeVar("R")
_CURSOR = Style(bgcolor="rgb(38,79,120)")
# They move the cursor of a table; its screen has the actions.
CURSOR_KEYS = (
    binding.Binding("down,j", "move(1)", show=False),
    binding.Binding("up,k", "move(-1)", show=False),
    binding.Binding("pagedown", "page(1)", show=False),
    binding.Binding("pageup", "page(-1)", show=False),
    binding.Binding("home", "move(-10000000)", show=False),
    binding.Binding("end", "move(10000000)", show=False),
)


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

    def __init__(self, title: str = "", *, id: str) -> None:  # noqa: A002  # textual's own name
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


class Troubles(Lines):
    """What is wrong, a line each; without any it takes no room."""

    def report(self, troubles: Sequence[str]) -> None:
        """Show these from now on."""
        self.display = bool(troubles)
        self.styles.height = max(len(troubles), 1)
        self.show([((spans.clean(line), "red"),) for line in troubles])


class LinesScreen(screen.Screen[None]):
    """Lines that scroll, and the keys, over another screen."""

    DEFAULT_CSS = "LinesScreen Lines { height: 1fr; }"
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        binding.Binding("up,k", "scroll(-1)", show=False),
        binding.Binding("pagedown", "page(1)", show=False),
        binding.Binding("pageup", "page(-1)", show=False),
    ]

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._text = lines

    def compose(self) -> app.ComposeResult:
        """Return the lines and the keys."""
        yield self._text
        yield widgets.Footer(show_command_palette=False, compact=True)

    def draw(self) -> None:
        """Draw the lines at the screen's width."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Fit lines into the new width."""
        self.draw()

    def action_back(self) -> None:
        """Go back to the screen below."""
        self.dismiss()

    def action_scroll(self, by: int) -> None:
        """Scroll by a line."""
        self._text.scroll_by(by)

    def action_page(self, by: int) -> None:
        """Scroll by a screen."""
        self._text.scroll_by(by * self._text.page)


class Rows(Widget, Generic[R], can_focus=True):
    """A table with a cursor, which stays on its row when the order changes. Only the visible rows are formatted.

    A cursor at the top stays there, whichever row that is: the first row that was drawn would take the view with it.
    """

    DEFAULT_CSS = "Rows { height: 1fr; min-height: 3; }"

    def __init__(self, on_choose: Callable[[R], None], *, id: str) -> None:  # noqa: A002  # as above
        super().__init__(id=id)
        self._on_choose = on_choose
        self.rows: Sequence[R] = ()
        self._cursor = 0
        self._first = 0

    def key_of(self, row: R) -> str:
        """Return what identifies the row from one picture to the next."""
        raise NotImplementedError

    def head(self) -> spans.Line:
        """Return the titles."""
        raise NotImplementedError

    def line(self, index: int) -> spans.Line:
        """Return one row."""
        raise NotImplementedError

    def nothing(self) -> str:
        """Return what is shown where there are no rows."""
        raise NotImplementedError

    def show_rows(self, rows: Sequence[R]) -> None:
        """Draw these rows from now on."""
        at = self.chosen_row
        was, self.rows = self.rows, rows
        if at is not None and rows is not was and self._cursor > 0:
            self._cursor = self._place_of(self.key_of(at))
        self.move(0)

    def _place_of(self, key: str) -> int:
        """Return where the row is now; it is usually still in its place."""
        here = self._cursor
        if here < len(self.rows) and self.key_of(self.rows[here]) == key:
            return here
        return next((index for index, row in enumerate(self.rows) if self.key_of(row) == key), here)

    @property
    def chosen_row(self) -> R | None:
        """The row under the cursor."""
        return self.rows[self._cursor] if self._cursor < len(self.rows) else None

    @property
    def page(self) -> int:
        """How many rows are visible at once."""
        return max(1, self.size.height - 1)

    def move(self, by: int) -> None:
        """Move the cursor down by so many rows; up if negative."""
        self._cursor = max(0, min(self._cursor + by, len(self.rows) - 1))
        self._first = max(min(self._first, self._cursor), self._cursor - self.page + 1, 0)
        self._first = max(0, min(self._first, len(self.rows) - self.page))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the widget."""
        width = self.size.width
        if y == 0:
            return strip(self.head(), width)
        index = self._first + y - 1
        if index >= len(self.rows):
            return strip(((self.nothing() if y == 1 and not self.rows else "", "dim"),), width)
        return strip(self.line(index), width, marked=index == self._cursor)

    def on_resize(self, _: events.Resize) -> None:
        """Keep the cursor visible."""
        self.move(0)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row; a double click opens it."""
        index = self._first + event.y - 1
        if event.y == 0 or index >= len(self.rows):
            return
        if index == self._cursor and event.chain > 1:
            self._on_choose(self.rows[index])
        self.move(index - self._cursor)

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        """Move the cursor with the wheel."""
        self.move(1)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        """Move the cursor with the wheel."""
        self.move(-1)


class Nodes(Rows[pictures.Node]):
    """The table of nodes."""

    def __init__(self, on_choose: Callable[[str], None], *, id: str) -> None:  # noqa: A002  # as above
        super().__init__(lambda node: on_choose(node.name), id=id)
        self._view = views.View()

    def show(self, picture: pictures.Picture, view: views.View) -> None:
        """Draw this picture from now on."""
        self._view = view
        self.show_rows(view.rows(picture.nodes))

    @property
    def chosen(self) -> str | None:
        """The node under the cursor."""
        row = self.chosen_row
        return None if row is None else row.name

    @property
    def titles(self) -> list[str]:
        """The titles of the visible columns."""
        return [column.title for column in self._columns()]

    def _columns(self) -> tuple[columns.Column, ...]:
        return columns.shown(self.size.width, longest=max((len(node.name) for node in self.rows), default=0))

    def key_of(self, row: pictures.Node) -> str:
        """Return the node's name."""
        return row.name

    def head(self) -> spans.Line:
        """Return the titles."""
        return columns.header(self._columns(), sorted_by=self._view.sorted_by, descending=self._view.descending)

    def line(self, index: int) -> spans.Line:
        """Return one node's line."""
        return columns.row(self.rows[index], self._columns())

    def nothing(self) -> str:
        """Return why no node is shown."""
        return "no node matches: escape clears the filter" if self._view.filter else "no node has advertised yet"


class Pods(Rows[pictures.Pod]):
    """The table of Pods: those that wait come first."""

    def __init__(
        self, on_choose: Callable[[pictures.Pod], None], *, id: str  # noqa: A002  # as above
    ) -> None:  # fmt: skip
        super().__init__(on_choose, id=id)
        self._table: pod_words.PodTable | None = None
        self._filter = ""

    def show(self, table: pod_words.PodTable, words: str) -> None:
        """Draw these Pods from now on; `words`: all of which a Pod must match."""
        self._table, self._filter = table, words
        self.show_rows(table.matching(words))

    def key_of(self, row: pictures.Pod) -> str:
        """Return the Pod's UID."""
        return row.uid

    def head(self) -> spans.Line:
        """Return the titles."""
        return pod_words.head(self.size.width)

    def line(self, index: int) -> spans.Line:
        """Return one Pod's line."""
        assert self._table is not None, "rows are set together with their table"
        return self._table.line(self.rows[index], self.size.width)

    def nothing(self) -> str:
        """Return why no Pod is shown."""
        return "no Pod matches: escape clears the filter" if self._filter else "no Pods that CARICO places"
