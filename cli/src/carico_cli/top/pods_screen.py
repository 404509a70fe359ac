"""The screens of Pods: the table of all of them, and a text about one: why it is where it is, its log, its object."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Protocol

from textual import app, binding, events, screen, widgets, worker

from carico_cli.explain import asking, pod_text
from carico_cli.explain import command as explaining
from carico_cli.live import object_events
from carico_cli.live import picture as pictures
from carico_cli.top import overlays
from carico_cli.top import widgets as own
from carico_cli.top.words import pod_words, spans
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

# Lines of a log that are fetched, and the bytes of a text that are kept.
LOG_LINES = 500
_TEXT_MOST = 256 * 1024
_NO_API = "the Kubernetes API does not answer"
Ask = Callable[[], Awaitable[str]]


class Owner(overlays.Owner, Protocol):
    """The cluster's screen below."""

    @property
    def clock(self) -> clocks.Clock: ...

    def summary(self, shown: int) -> spans.Line: ...

    def action_pause(self) -> None: ...


class PodsScreen(screen.Screen[None]):
    """All Pods: those that wait first, in the order of the scheduler's queue."""

    DEFAULT_CSS = """
    PodsScreen #filter { height: 1; border: none; padding: 0; display: none; }
    """
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        binding.Binding("enter", "explain", "Explain", key_display="⏎"),
        binding.Binding("l", "log", "Log"),
        binding.Binding("d", "describe", "Describe"),
        # First of all: what is typed right after it is for the filter.
        binding.Binding("slash", "filter", "Filter", key_display="/", priority=True),
        binding.Binding("p,space", "pause", "Pause", key_display="p"),
        binding.Binding("P,escape,backspace", "back", "Nodes", key_display="esc"),
        binding.Binding("question_mark,h", "help", "Help", key_display="?"),
        *own.CURSOR_KEYS,
    ]

    def __init__(self, top: Owner) -> None:
        super().__init__()
        self._top = top
        self._summary, self._trouble = own.Lines(id="pods-summary"), own.Troubles(id="pods-trouble")
        self._table = own.Pods(self._explain, id="pods")
        self._filter = widgets.Input(placeholder="words for name, state, node, job, reason", id="filter", compact=True)

    def compose(self) -> app.ComposeResult:
        """Return summary, troubles, Pods, filter and keys."""
        yield self._summary
        yield self._trouble
        yield self._table
        yield self._filter
        yield widgets.Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Draw now; the cluster's screen calls `draw` for each new picture."""
        self._top.reader.loads.watch()
        self._table.focus()
        self.draw()

    def on_unmount(self) -> None:
        """Listen to loads no longer."""
        self._top.reader.loads.end()

    def draw(self) -> None:
        """Draw the newest picture."""
        seen = self._top.shown
        self._summary.show([self._top.summary(len(seen.nodes))])
        self._trouble.report(seen.trouble)
        self._table.show(pod_words.PodTable(seen), self._filter.value)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._table.move(by)

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        self._table.move(by * self._table.page)

    def action_pause(self) -> None:
        """Pause or resume."""
        self._top.action_pause()

    def action_back(self) -> None:
        """Clear the filter, or go back to the nodes."""
        if self._filter.value:
            self._filter.value = ""
            self._close_filter()
        else:
            self.dismiss()

    def action_help(self) -> None:
        """Show the help."""
        self.app.push_screen(overlays.Help(HELP))

    def action_filter(self) -> None:
        """Open the filter."""
        self._filter.display = True
        self.set_focus(self._filter)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the key of the filter in the filter: there a slash is a word's."""
        return not (action == "filter" and self.focused is self._filter)

    def on_input_changed(self) -> None:
        """Filter while the words are typed."""
        self.draw()

    def on_input_submitted(self) -> None:
        """Keep the filter and return to the Pods."""
        self._close_filter()

    def on_key(self, event: events.Key) -> None:
        """Clear the filter on escape while it is typed."""
        if event.key == "escape" and self._filter.has_focus:
            event.stop()
            self._filter.value = ""
            self._close_filter()

    def _close_filter(self) -> None:
        self._filter.display = bool(self._filter.value)
        self._table.focus()

    def action_explain(self) -> None:
        """Explain the Pod under the cursor."""
        if self._table.chosen_row is not None:
            self._explain(self._table.chosen_row)

    def action_log(self) -> None:
        """Show the log of the Pod under the cursor."""
        pod = self._table.chosen_row
        if pod is not None:
            self._open(f"log of {pod.key}", lambda: log_of(self._top.reader, pod), at_end=True)

    def action_describe(self) -> None:
        """Show the object of the Pod under the cursor, and its Events."""
        pod = self._table.chosen_row
        if pod is not None:
            self._open(f"Pod {pod.key}", lambda: description_of(self._top.reader, pod))

    def _explain(self, pod: pictures.Pod) -> None:
        self._open(f"explain {pod.key}", lambda: explanation_of(self._top.reader, self._top.clock, pod))

    def _open(self, title: str, ask: Ask, *, at_end: bool = False) -> None:
        self.app.push_screen(TextScreen(title, ask, at_end=at_end))


class TextScreen(own.LinesScreen):
    """A text that is asked for once, and again with `r`."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        binding.Binding("escape,enter,backspace,q", "back", "Back", key_display="esc"),
        binding.Binding("r", "again", "Refresh"),
        binding.Binding("down,j", "scroll(1)", "Scroll", key_display="↑↓"),
        binding.Binding("space", "page(1)", show=False),
        binding.Binding("home", "scroll(-10000000)", show=False),
        binding.Binding("end", "scroll(10000000)", show=False),
    ]

    def __init__(self, title: str, ask: Ask, *, at_end: bool) -> None:
        """`at_end`: show the last lines first."""
        super().__init__(own.Lines(title, id="text"))
        self._ask = ask
        self._at_end = at_end
        self._found: Sequence[spans.Span] = ()

    def on_mount(self) -> None:
        """Ask."""
        self.action_again()

    def action_again(self) -> None:
        """Ask once more."""
        take: worker.WorkType[None] = self._take
        self.run_worker(take, exclusive=True)

    async def _take(self) -> None:
        try:
            text = (await self._ask())[-_TEXT_MOST:].expandtabs(4)
            self._found = [(spans.clean(line), "") for line in text.splitlines()]
        except errors.CaricoError as error:
            self._found = [(spans.clean(str(error)), "red")]
        if self.is_attached:
            self.draw()
            if self._at_end:
                self.action_scroll(_TEXT_MOST)

    def draw(self) -> None:
        """Draw the text in lines of the screen's width."""
        width = max(self.size.width, 1)
        found: list[spans.Line] = []
        for line, style in self._found:
            found += spans.wrapped(((line, style),), width)
        self._text.show(found)


async def explanation_of(reader: overlays.Reader, clock: clocks.Clock, pod: pictures.Pod) -> str:
    """Return what `carico explain` prints about a Pod. Raises `CaricoError`."""
    bus, api, at = reader.bus, reader.api, reader.where()
    if bus is None:
        raise errors.BusUnavailable(f"NATS at {at.url} does not answer")
    if api is None:
        raise errors.ApiUnavailable(_NO_API)
    asker = asking.Asker(bus, at, lambda: contextlib.nullcontext(api), clock)
    answer = await explaining.explain_pod(asker, pod.namespace, pod.name, pod_text.SHOWN)
    return pod_text.text(answer, now_ns=clock.wall_ns(), at=at)


async def log_of(reader: overlays.Reader, pod: pictures.Pod) -> str:
    """Return the last lines of a Pod's log. Raises `CaricoError`."""
    if pod.node is None:
        return f"{pod.key} has no log yet: it waits for a node"
    if reader.api is None:
        raise errors.ApiUnavailable(_NO_API)
    chunks = reader.api.stream(
        "GET", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log", {"tailLines": str(LOG_LINES)}
    )
    text = b"".join([chunk async for chunk in chunks]).decode(errors="replace")
    return text or "(its log is empty)"


async def description_of(reader: overlays.Reader, pod: pictures.Pod) -> str:
    """Return a Pod's object as YAML and its Events, the newest last. Raises `CaricoError`."""
    if reader.api is None:
        raise errors.ApiUnavailable(_NO_API)
    # Imported here: it takes as long as a frame, and most viewers never ask.
    import yaml

    path = f"/api/v1/namespaces/{pod.namespace}"
    found = await reader.api.request("GET", f"{path}/pods/{pod.name}")
    about = await object_events.newest(reader.api, pod.namespace, f"involvedObject.uid={pod.uid}")
    found["metadata"].pop("managedFields", None)
    shown = {name: found[name] for name in ("metadata", "status", "spec") if name in found}
    left_out = [f"  {about.earlier:,} earlier ones are left out"] if about.earlier else []
    unread = [f"  {about.unread}"] if about.unread else []
    lines = ["Events:", *left_out, *pod_text.events(about.newest), *unread, ""]
    return "\n".join(lines) + yaml.safe_dump(shown, sort_keys=False, width=120)


HELP = """\
 the Pods: first those that wait, in the order of the scheduler's queue

 up down pgup pgdn home end  choose a Pod       enter  explain it
 l        its log                               d      its object and Events
 p space  pause, resume                         q      quit
 /        filter by words in a Pod's name, state, node, job or reason
 esc      clear the filter; back to the nodes; in a text, as q: back to the Pods

 waiting   no node has been found; N before: how many the scheduler considers
           before it (higher priority, or older)
 gated     its scheduling gates keep it from being placed
 starting  bound to a node, and not running yet
 for       how long it has been in this state
 why       from its status, its last decision, or that of a Pod of the same job
 uses      CPU (1000m is a core) and memory, every 10 s; -: no reading yet
 costs     what one more Pod of its class costs its node at most

 Any key goes back.
"""
