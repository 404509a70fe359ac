"""The live view of a job, and its report in words. Drawing costs little: it shares the machine with what it shows."""

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from rich import console, live, text

from carico_cli.live import picture as pictures
from carico_cli.top import columns, panels, spans
from carico_core.runtime.process import clock as clocks
from carico_local import job as jobs
from carico_local import observer as observers
from carico_local.report import figures

# A terminal shows Ctrl-C as "^C": at the end of a full line it would begin another, and the next picture lie lower.
ECHO_COLUMNS = 2
PLAIN_LINE_EVERY_S = 5.0
DECISIONS_SHOWN = 5
_BAR_CELLS = 24
_SNAPSHOT_WIDTH = 110


class Screen:
    """What is drawn: nodes as `carico top` shows them, the job, the last decisions. Rich prints it as it is now."""

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
        """Pods that have ended."""
        return sum(pod.is_terminal for pod in self._seen.of_job(self._job.name))

    @property
    def is_done(self) -> bool:
        """True where every Pod of the job has ended."""
        return self.done >= self._job.pods

    @property
    def elapsed_s(self) -> float:
        """Since the job was submitted."""
        return self._clock.wall_ns() / 1e9 - self._submitted_s

    def line(self) -> str:
        """Return one plain line."""
        pods = self._counts()
        return (
            f"{self.elapsed_s:6.1f} s  done {pods['done']}/{self._job.pods}  running {pods['running']}  "
            f"starting {pods['starting']}  pending {pods['pending']}  left {self._left()}"
        )

    def __rich_console__(self, _: console.Console, options: console.ConsoleOptions) -> console.RenderResult:
        """Return the whole view, in the width there is."""
        for line in self.lines(options.max_width - ECHO_COLUMNS):
            yield text.Text.assemble(*line, no_wrap=True, overflow="crop")

    def lines(self, width: int) -> list[spans.Line]:
        """Return the whole view in lines of at most `width` cells."""
        picture = self._read()
        shown = columns.shown(width, longest=max((len(node.name) for node in picture.nodes), default=0))
        nodes = [columns.row(node, shown) for node in picture.nodes] or [(("no node heard yet", "dim"),)]
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
        # At the pace so far; the ramp at the start makes it a little pessimistic at first.
        return f"{max(0.0, self.elapsed_s * (self._job.pods - done) / done):.0f} s"


@contextlib.contextmanager
def drawing(screen: Screen, *, plain: bool) -> Iterator[Callable[[], None]]:
    """Give a function that draws the screen as it is now. The terminal is left whole, whatever happens."""
    if plain:
        said_s = -PLAIN_LINE_EVERY_S

        def say() -> None:
            nonlocal said_s
            if screen.elapsed_s - said_s >= PLAIN_LINE_EVERY_S or screen.is_done:
                said_s = screen.elapsed_s
                click.echo(screen.line())

        yield say
        return
    with live.Live(screen, auto_refresh=False, transient=False, redirect_stderr=False) as found:
        yield found.refresh


def to_svg(screen: Screen) -> str:
    """Return the view as a picture."""
    recorder = console.Console(record=True, width=_SNAPSHOT_WIDTH, file=io.StringIO(), force_terminal=True)
    recorder.print(screen)
    picture = recorder.export_svg(title="carico demo")
    # rich has the font loaded from the web; a picture in a repository loads nothing.
    return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL).replace("Fira Code", "ui-monospace")


def summary(report: Mapping[str, Any]) -> str:
    """Return the report in a few lines."""
    times = report["pod_s"]
    targets = report["targets"]
    lines = [
        "",
        f"{report['succeeded']} of {report['pods']} Pods succeeded, {report['failed']} failed, "
        f"{report['bound_twice']} bound twice, {report['never_bound']} never bound",
        f"job time {report['job_s']:.1f} s; at best {targets['bound_s']:.1f} s "
        "(its work over all cores, and one Pod's time)",
        f"  job time / at best: {_verdict(targets['job_ratio'])}",
    ]
    if times["mean"] is not None:
        lines += [
            f"Pod time mean {times['mean']:.2f} s, std {times['std']:.2f}, p50 {times['p50']:.2f}, "
            f"p95 {times['p95']:.2f}, max {times['max']:.2f}",
            f"  mean / alone: {_verdict(targets['pod_ratio'])}",
        ]
    if (why := figures.short_job(report)) is not None:
        lines.append(f"  ({why})")
    lines.append(
        f"most Pods on a node {report['max_running_per_node']}, placements without room {report['capacity_overrun']}, "
        f"overload {report['overload_node_s']:.1f} node-seconds"
    )
    return "\n".join(lines)


def _verdict(ratio: Mapping[str, Any]) -> str:
    if ratio["value"] is None:
        return "unknown"
    return f"{ratio['value']:.3f} (target at most {ratio['target']}: {ratio['verdict']})"
