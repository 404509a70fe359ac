"""The screen of `carico top`."""

import re
from collections.abc import Callable
from typing import ClassVar

from textual import app, binding, containers, events, widgets

from carico_cli.shell import exits
from carico_cli.top import overlays, pods_screen
from carico_cli.top import view as views
from carico_cli.top import widgets as own
from carico_cli.top.words import history_words, member_words, panels, spans
from carico_core.runtime.process import clock as clocks

# The panel chosen with tab is shown, and as many of the next ones as get at least `TOGETHER_LEAST` lines each.
PANEL_LINES = 7
PANEL_LINES_SMALL = 4
SMALL_BELOW = 20
TOGETHER_LEAST, TOGETHER_MOST = 6, 12
# The summary and the keys.
_FRAME_LINES = 2
_TROUBLE_MOST = 3
# A smaller screen is unreadable.
LEAST_WIDTH, LEAST_HEIGHT = 60, 12
# The size of an SVG. By `SETTLE_S` it shows the answers about a node.
SIZE = (100, 30)
SETTLE_S = 1.5
EVERY_S = 0.5


class Top(app.App[int]):
    """The cluster's screen. Returns the exit code."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #trouble { color: ansi_red; height: auto; }
    #panels { height: auto; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    """
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        binding.Binding("s", "sort(1)", "Sort"),
        binding.Binding("S", "sort(-1)", show=False),
        binding.Binding("r", "reverse", "Reverse"),
        # First of all: what is typed right after it is for the filter.
        binding.Binding("slash", "filter", "Filter", key_display="/", priority=True),
        binding.Binding("p,space", "pause", "Pause", key_display="p"),
        binding.Binding("enter", "open", "Node", key_display="⏎"),
        binding.Binding("P", "pods", "Pods"),
        binding.Binding("tab", "panel", "Panel", key_display="tab", priority=True),
        binding.Binding("question_mark,h", "help", "Help", key_display="?"),
        binding.Binding("q", "leave(0)", "Quit"),
        binding.Binding("ctrl+c,ctrl+q", f"leave({exits.INTERRUPTED})", show=False, priority=True),
        *own.CURSOR_KEYS,
        binding.Binding("left_square_bracket", "panel_scroll(-1)", show=False),
        binding.Binding("right_square_bracket", "panel_scroll(1)", show=False),
    ]

    def __init__(
        self, reader: overlays.Reader, *, name: str, clock: clocks.Clock, every_s: float, node: str | None = None
    ) -> None:  # fmt: skip
        """`node`: opened at the start."""
        super().__init__()
        self.reader = reader
        self._cluster = name
        self._clock = clock
        self._every_s = every_s
        self._node_at_first = node
        self._view = views.View()
        self._panel = 0
        self._arranged: tuple[int, int, list[int]] = (0, 0, [])
        self._paused_at_s: float | None = None
        # The picture that is drawn; it does not change while paused.
        self.shown = reader.picture()
        # Attributes rather than queries: a picture may still be drawn while the screen is being removed.
        self._summary, self._trouble = own.Lines(id="summary"), own.Troubles(id="trouble")
        self._nodes_table = own.Nodes(self._open, id="nodes")
        self._panels = [own.Lines(title, id=title) for title in _PANELS]
        self._filter = widgets.Input(placeholder="words for name, state, mode, bottleneck", id="filter", compact=True)
        self._troubles: list[str] = []
        # Returns the last line of the log, which must not be written over the screen.
        self.log_line: Callable[[], str] = lambda: ""

    @property
    def is_paused(self) -> bool:
        """True while the picture does not change."""
        return self._paused_at_s is not None

    def compose(self) -> app.ComposeResult:
        """Return summary, troubles, nodes, panels and keys."""
        yield self._summary
        yield self._trouble
        yield self._nodes_table
        with containers.Vertical(id="panels"):
            yield from self._panels
        yield self._filter
        yield widgets.Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Draw now, and at each interval."""
        self._nodes_table.focus()
        self._draw()
        self.set_interval(self._every_s, self._tick)
        if self._node_at_first is not None:
            self._open(self._node_at_first)

    def on_resize(self) -> None:
        """Arrange for the new size."""
        self._draw()

    def summary(self, shown: int) -> spans.Line:
        """Return the cluster in a line. shown: how many of its nodes are shown."""
        paused_s = None if self._paused_at_s is None else self._clock.monotonic_s() - self._paused_at_s
        return panels.summary(self.shown, name=self._cluster, paused_s=paused_s, shown=shown, width=self.size.width)

    @property
    def clock(self) -> clocks.Clock:
        """The clock."""
        return self._clock

    def neighbour(self, name: str, by: int) -> str:
        """Return the node `by` rows below another, or `name` where there is none."""
        rows = [node.name for node in self._view.rows(self.shown.nodes)]
        place = rows.index(name) + by if name in rows else 0
        return rows[place] if 0 <= place < len(rows) else name

    def action_sort(self, step: int) -> None:
        """Sort by the next column."""
        self._view = self._view.sorted_by_next(self._nodes_table.titles, step)
        self._draw()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._view = self._view.reversed()
        self._draw()

    def action_pause(self) -> None:
        """Pause or resume."""
        self._paused_at_s = None if self.is_paused else self._clock.monotonic_s()
        self._tick()

    def action_filter(self) -> None:
        """Open the filter."""
        self._filter.display = True
        self.screen.set_focus(self._filter)

    def action_panel(self) -> None:
        """Show the next panel."""
        order = self._order()
        self._panel = order[1 % len(order)]
        self._arrange()

    def action_panel_scroll(self, by: int) -> None:
        """Scroll the chosen panel."""
        self._panels[self._order()[0]].scroll_by(by)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._nodes_table.move(by)

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        nodes = self._nodes_table
        nodes.move(by * nodes.page)

    def action_open(self) -> None:
        """Open the node under the cursor."""
        chosen = self._nodes_table.chosen
        if chosen is not None:
            self._open(chosen)

    def action_pods(self) -> None:
        """Show the Pods."""
        self.push_screen(pods_screen.PodsScreen(self))

    def action_help(self) -> None:
        """Show the help."""
        self.push_screen(overlays.Help())

    def action_leave(self, code: int) -> None:
        """End the app."""
        self.exit(code)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of the cluster's screen while another is on top; in the filter, a slash is a word's."""
        if action == "filter" and self.focused is self._filter:
            return False
        return action == "leave" or action.startswith("app.") or len(self.screen_stack) <= 1

    def on_input_changed(self, event: widgets.Input.Changed) -> None:
        """Filter while the words are typed."""
        self._view = self._view.filtered(event.value)
        self._draw()

    def on_input_submitted(self) -> None:
        """Keep the filter and return to the nodes."""
        self._close_filter()

    def on_key(self, event: events.Key) -> None:
        """Clear and close the filter on escape."""
        if event.key == "escape" and len(self.screen_stack) == 1:
            self._filter.value = ""
            self._close_filter()

    def _close_filter(self) -> None:
        self._filter.display = bool(self._filter.value)
        self._nodes_table.focus()

    def _open(self, name: str) -> None:
        self.push_screen(overlays.NodeScreen(self, name))

    def _tick(self) -> None:
        if not self.is_paused:
            self.shown = self.reader.picture()
        self._draw()
        for each in self.screen_stack:
            if isinstance(each, overlays.NodeScreen | pods_screen.PodsScreen):
                each.draw()

    def _arrange(self) -> None:
        """Choose the panels that fit, and their height. A change costs a layout, so it is made only if needed."""
        height = self.size.height - len(self._troubles) - bool(self._filter.display)
        # The nodes and their titles take at most half of the screen.
        nodes = min(len(self.shown.nodes) + 1, height // 2)
        room = height - _FRAME_LINES - nodes
        order = self._order()
        fit = min(max(room // TOGETHER_LEAST, 1), len(order))
        lines = PANEL_LINES if height >= SMALL_BELOW else PANEL_LINES_SMALL
        if fit > 1:
            lines = min(room // fit, TOGETHER_MOST)
        if (lines, fit, order) == self._arranged:
            return
        self._arranged = (lines, fit, order)
        for index, panel in enumerate(self._panels):
            panel.display = index in order[:fit]
            panel.styles.height = lines

    def _order(self) -> list[int]:
        """Return the panels from the chosen one on: that of members only while schedulers share the work."""
        used = [index for index, title in enumerate(_PANELS) if title != MEMBERS or self.shown.members]
        return [index for index in used if index >= self._panel] + [index for index in used if index < self._panel]

    def _draw(self) -> None:
        if self.size.width < LEAST_WIDTH or self.size.height < LEAST_HEIGHT:
            text = f"{self.size.width}x{self.size.height}: too small, needs {LEAST_WIDTH}x{LEAST_HEIGHT}"
            self._summary.show([((text, "bold red"),)])
            return
        logged = self.log_line()
        self._troubles = [*self.shown.trouble, *([logged] if logged else [])][:_TROUBLE_MOST]
        self._arrange()
        self._nodes_table.show(self.shown, self._view)
        self._summary.show([self.summary(len(self._nodes_table.rows))])
        self._trouble.report(self._troubles)
        for panel, draw in zip(self._panels, _PANELS.values(), strict=True):
            panel.show(draw(self.shown, self.size.width))


MEMBERS = "schedulers"
_PANELS = {
    "decisions": panels.decisions, "jobs": panels.jobs, MEMBERS: member_words.lines, "services": panels.services,
    "history": history_words.lines,
}  # fmt: skip


async def draw_svg(reader: overlays.Reader, *, name: str, clock: clocks.Clock, node: str | None) -> str:
    """Return the screen of the cluster, or of one node, as SVG."""
    top = Top(reader, name=name, clock=clock, every_s=EVERY_S, node=node)
    async with top.run_test(size=SIZE) as keys:
        await keys.pause(SETTLE_S)
        found = top.export_screenshot(title=f"carico top --name {name}" + (f" --node {node}" if node else ""))
    # Textual loads the font from the web; a picture that is kept must load nothing.
    return re.sub(r"@font-face \{.*?\}", "", found, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
