"""The live view of a job. Drawing must cost little: it shares the machine with the cluster."""

import contextlib
import io
import re
from collections.abc import Callable, Iterator

from rich import console, live, text

from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_cli.top.words import columns, panels, spans
from carico_core.runtime.process import clock as clocks
from carico_local.jobs import job as jobs
from carico_local.jobs import observer as observers

# A terminal echoes Ctrl-C as "^C": at the end of a full line it would wrap and move the next picture down.
ECHO_COLUMNS = 2
PLAIN_LINE_EVERY_S = 5.0
DECISIONS_SHOWN = 5
_BAR_CELLS = 24
_SNAPSHOT_WIDTH = 110


class Screen:
    """Nodes as `carico top` shows them, the job, the last decisions. Each time rich prints it, it is up to date."""

    def __init__(
        self, read: Callable[[], pictures.Picture], seen: observers.Observer, job: jobs.Job, *, clock: clocks.Clock,
        submitted_s: float,
    ) -> None:  # fmt: skip
        self._read = read
        self._seen = seen
        self._job = job
        self._clock = clock
        self._submitted_s = submitted_s

    @property
    def done(self) -> int:
        """How many Pods have ended."""
        return sum(pod.is_terminal for pod in self._seen.of_job(self._job.name))

    @property
    def is_done(self) -> bool:
        """True once every Pod of the job has ended."""
        return self.done >= self._job.pods

    @property
    def elapsed_s(self) -> float:
        """Time since the job was submitted."""
        return self._clock.wall_ns() / 1e9 - self._submitted_s

    def line(self) -> str:
        """Return the job's progress as one line of plain text."""
        pods = self._counts()
        return (
            f"{self.elapsed_s:6.1f} s  done {pods['done']}/{self._job.pods}  running {pods['running']}  "
            f"starting {pods['starting']}  pending {pods['pending']}  left {self._left()}"
        )

    def __rich_console__(self, _: console.Console, options: console.ConsoleOptions) -> console.RenderResult:
        """Yield the view's lines, in the console's width."""
        for line in self.lines(options.max_width - ECHO_COLUMNS):
            yield text.Text.assemble(*line, no_wrap=True, overflow="crop")

    def lines(self, width: int) -> list[spans.Line]:
        """Return the view in lines of at most `width` cells."""
        picture = self._read()
        shown = columns.shown(width, longest=max((len(node.name) for node in picture.nodes), default=0))
        nodes = [columns.row(node, shown) for node in picture.nodes] or [(("no node has advertised yet", "dim"),)]
        decided = panels.decisions(picture, width)[:DECISIONS_SHOWN]
        found = [columns.header(shown, sorted_by="", descending=False), *nodes, (), *self._progress(), ()]
        return [spans.cut(line, width) for line in (*found, (("decisions, newest first", "bold"),), *decided)]

    def _progress(self) -> list[spans.Line]:
        counts = self._counts()
        bar = spans.bar(counts["done"] / self._job.pods, _BAR_CELLS)
        words = "   ".join(f"{name} {counts[name]}" for name in ("pending", "starting", "running", "done", "failed"))
        title = f"job {self._job.name}: {self._job.pods} x {self._job.workload.value}"
        said = f"  {counts['done']}/{self._job.pods}  {self.elapsed_s:.0f} s, {self._left()} left"
        return [((title, "bold"),), ((bar[0][0], "cyan"), bar[1], (said, "")), ((words, ""),)]

    def _counts(self) -> dict[str, int]:
        pods = self._seen.of_job(self._job.name)
        done = sum(pod.is_terminal for pod in pods)
        running = sum(pod.running and not pod.is_terminal for pod in pods)
        starting = sum(pod.node is not None and not pod.running and not pod.is_terminal for pod in pods)
        return {
            "pending": self._job.pods - done - running - starting,
            "starting": starting,
            "running": running,
            "done": done,
            "failed": sum(pod.phase == "Failed" for pod in pods),
        }

    def _left(self) -> str:
        done = self.done
        if done == 0:
            return "?"
        # At the pace so far, which is a little pessimistic at first because of the slow start.
        return f"{max(0.0, self.elapsed_s * (self._job.pods - done) / done):.0f} s"


@contextlib.contextmanager
def drawing(screen: Screen, *, plain: bool) -> Iterator[Callable[[], None]]:
    """Yield a function that draws the screen's present state. The terminal is always restored."""
    if plain:
        said_s = -PLAIN_LINE_EVERY_S

        def say() -> None:
            nonlocal said_s
            if screen.elapsed_s - said_s >= PLAIN_LINE_EVERY_S or screen.is_done:
                said_s = screen.elapsed_s
                formats.say(screen.line())

        yield say
        return
    with live.Live(screen, auto_refresh=False, transient=False, redirect_stderr=False) as found:
        yield found.refresh


def to_svg(screen: Screen) -> str:
    """Return the view as SVG."""
    recorder = console.Console(record=True, width=_SNAPSHOT_WIDTH, file=io.StringIO(), force_terminal=True)
    recorder.print(screen)
    picture = recorder.export_svg(title="carico demo")
    # rich loads the font from the web; a picture that is kept must load nothing.
    return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
