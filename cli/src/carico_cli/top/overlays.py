"""The screens over that of the cluster: one node, and the help."""

import asyncio
from typing import ClassVar, Protocol

from textual import app, binding, events, screen, worker

from carico_cli.live import addresses, loads, node_answers, ports
from carico_cli.live import picture as pictures
from carico_cli.top import widgets as own
from carico_cli.top.words import node_words, pod_words

DETAIL_EVERY_S = 2.0

HELP = """\
 carico top: the live signals of a cluster

 up down pgup pgdn home end  choose a node     enter  open it
 s  S     sort by the next, previous column    r      reverse the order
 /        filter by words in a node's name, state, mode or bottleneck
 p space  pause, resume                        tab    decisions, jobs, services,
 P        the Pods: those that wait first             history; [ ] scroll it
 q        quit, as does Ctrl-C

 CPU used  share of the cores that are busy
 pressure  share of the time in which work waited for a CPU
 memory    share that is not available without reclaim
 Pods      workload Pods that the node counts
 capacity  how many more Pods it can take, ± a standard deviation; yellow: none
 reserved  Pods placed there that its advertisement does not cover yet
 state     by the age of its advertisement: fresh to 2.5 s, ageing to 5 s,
           stale to 10 s, then absent
 mode      how the capacity is known: measured, predicted (ahead of
           telemetry), warming (nothing learnt yet), saturated (full)

 More columns from 92 cells on. Terms: docs/glossary.md. Any key goes back.
"""


NODE_HELP = """\
 one node

 left right             the node before, after   esc enter  back to the nodes
 up down pgup pgdn      scroll                   q          quit, as does Ctrl-C

 usage        share of the node that is in use
 ceiling      up to which usage it takes Pods
 headroom     what is left below the ceiling
 a Pod costs  what one more Pod takes, ± a standard deviation
 room         how many Pods fit by this dimension alone
 why          how the capacity follows from these; then what the scheduler
              allows, and for which Pods room is reserved
 Pods         those on the node, at the end: P in the list of nodes shows all

 Terms: docs/glossary.md. Any key goes back.
"""


class Reader(Protocol):
    """The reader of signals."""

    def picture(self) -> pictures.Picture: ...

    @property
    def loads(self) -> loads.Loads: ...

    async def detail(self, node: str) -> node_answers.Detail | None: ...

    async def standing(self, node: str) -> node_answers.Standing | None: ...

    @property
    def bus(self) -> ports.Bus | None: ...

    @property
    def api(self) -> ports.Api | None: ...

    def where(self) -> addresses.Address: ...


class Owner(Protocol):
    """The cluster's screen below."""

    @property
    def reader(self) -> Reader: ...

    @property
    def shown(self) -> pictures.Picture: ...

    @property
    def is_paused(self) -> bool: ...

    def neighbour(self, name: str, by: int) -> str: ...


class Help(screen.ModalScreen[None]):
    """The keys and the columns' meanings."""

    DEFAULT_CSS = "Help Lines { height: 1fr; }"

    def __init__(self, text: str = HELP) -> None:
        super().__init__()
        self._lines = text.splitlines()

    def compose(self) -> app.ComposeResult:
        """Return the text."""
        yield own.Lines(id="help")

    def on_mount(self) -> None:
        """Draw it."""
        self.query_one(own.Lines).show([((line, ""),) for line in self._lines])

    def on_key(self, event: events.Key) -> None:
        """Go back on any key."""
        event.stop()
        self.dismiss()


class NodeScreen(own.LinesScreen):
    """One node. Only while it is open are agent and scheduler asked, and its Pods' loads listened to."""

    BINDINGS: ClassVar[list[binding.BindingType]] = [
        binding.Binding("escape,enter,backspace", "back", "Back", key_display="esc"),
        binding.Binding("left", "step(-1)", "Previous", key_display="←"),
        binding.Binding("right", "step(1)", "Next", key_display="→"),
        binding.Binding("down,j", "scroll(1)", "Scroll", key_display="↑↓"),
        binding.Binding("question_mark,h", "help", "Help", key_display="?"),
    ]

    def __init__(self, top: Owner, name: str) -> None:
        super().__init__(own.Lines("one node, its Pods last", id="node"))
        self._top = top
        self._node = name
        self._detail: node_answers.Detail | None = None
        self._standing: node_answers.Standing | None = None

    def on_mount(self) -> None:
        """Ask now, and every `DETAIL_EVERY_S`."""
        self._top.reader.loads.watch(self._node)
        self._ask()
        self.set_interval(DETAIL_EVERY_S, self._ask)
        self.draw()

    def on_unmount(self) -> None:
        """Listen to its Pods' loads no longer."""
        self._top.reader.loads.end()

    def draw(self) -> None:
        """Draw the node's newest state."""
        node = self._top.shown.node(self._node)
        lines = self._text
        if node is None:
            lines.show([((f"{self._node} does not advertise, and the scheduler does not list it", "red"),)])
            return
        known = node_words.Known(node=node, detail=self._detail, standing=self._standing)
        trouble = [((line, "red"),) for line in self._top.shown.trouble]
        pods = pod_words.PodTable(self._top.shown).of_node(self._node, self.size.width)
        lines.show([*trouble, *node_words.lines(known, width=self.size.width), *([(), *pods] if pods else [])])

    def action_help(self) -> None:
        """Show the help."""
        self.app.push_screen(Help(NODE_HELP))

    def action_step(self, by: int) -> None:
        """Go to the next or previous node of the table."""
        name = self._top.neighbour(self._node, by)
        self._node, self._detail, self._standing = name, None, None
        self._top.reader.loads.watch(name)
        self._ask()
        self.draw()

    def _ask(self) -> None:
        if not self._top.is_paused:
            # A function, not a coroutine, which would never be awaited if its worker were cancelled before it began.
            take: worker.WorkType[None] = self._take
            self.run_worker(take, exclusive=True)

    async def _take(self) -> None:
        name = self._node
        detail, standing = await asyncio.gather(self._top.reader.detail(name), self._top.reader.standing(name))
        if name == self._node and self.is_attached:
            self._detail, self._standing = detail, standing
            self.draw()
