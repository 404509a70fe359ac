"""The live view of a job, and its report in words. Drawing costs little: it shares the machine with what it shows."""

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from rich import box, console, constrain, live, panel, progress_bar, table, text

from carico_cli.live import connection
from carico_core.domain import amounts
from carico_core.wire import freshness
from carico_local import job as jobs
from carico_local.cluster import plan as plans
from carico_local.report import figures

BAR_CELLS = 5
# A terminal shows Ctrl-C as "^C": at the end of a full line it would begin another, and the next picture lie lower.
ECHO_COLUMNS = 2
PLAIN_LINE_EVERY_S = 5.0
# Least widths, which with two blanks between them fit into 80 columns; in fewer, figures stand without their bars.
WIDE_COLUMNS = 80
_COLUMNS = {"node": 6, "CPU used": 10, "pressure": 10, "memory": 10, "Pods": 4, "capacity": 9, "res.": 4, "state": 9}
_NUMBERS = frozenset({"Pods", "capacity", "res."})
_STYLE = {"fresh": "green", "ageing": "yellow", "stale": "red", "absent": "red"}
_SNAPSHOT_WIDTH = 110


class Screen:
    """What is drawn: nodes, the job, the last decisions. Rich prints it as it is at that moment."""

    def __init__(self, found: connection.Session, plan: plans.Plan, job: jobs.Job, *, submitted_s: float) -> None:
        self._live = found
        self._plan = plan
        self._job = job
        self._submitted_s = submitted_s

    @property
    def done(self) -> int:
        """Pods that have ended."""
        return sum(pod.is_terminal for pod in self._live.observer.of_job(self._job.name))

    @property
    def is_done(self) -> bool:
        """True where every Pod of the job has ended."""
        return self.done >= self._job.pods

    @property
    def elapsed_s(self) -> float:
        """Since the job was submitted."""
        return self._live.clock.wall_ns() / 1e9 - self._submitted_s

    def line(self) -> str:
        """One plain line."""
        pods = self._counts()
        return (
            f"{self.elapsed_s:6.1f} s  done {pods['done']}/{self._job.pods}  running {pods['running']}  "
            f"starting {pods['starting']}  pending {pods['pending']}  left {self._left()}"
        )

    def __rich_console__(self, _: console.Console, options: console.ConsoleOptions) -> console.RenderResult:
        """The whole view, in the width there is."""
        nodes = self._nodes(is_wide=options.max_width >= WIDE_COLUMNS)
        whole = console.Group(nodes, self._progress(), self._decisions())
        yield constrain.Constrain(whole, options.max_width - ECHO_COLUMNS)

    def _nodes(self, *, is_wide: bool) -> table.Table:
        # A blank on the right of a cell, where there is room, and the box's own before the next.
        found = table.Table(
            box=box.SIMPLE_HEAD, expand=True, pad_edge=False, show_edge=False, padding=(0, int(is_wide), 0, 0)
        )
        for name, width in _COLUMNS.items():
            shown = name if is_wide else name.removesuffix(" used")
            found.add_column(
                shown, justify="right" if name in _NUMBERS else "left", no_wrap=True,
                min_width=width if is_wide else None,
            )  # fmt: skip
        for node in self._plan.node_names:
            found.add_row(*self._node(node, cells=BAR_CELLS if is_wide else 0))
        return found

    def _node(self, node: str, *, cells: int) -> list[Any]:
        heard = self._live.observer.newest.get(node)
        said = self._live.observer.scheduler.get(node, {})
        if heard is None:
            return [node, "", "", "", "-", "-", "-", text.Text("absent", style="red")]
        found = heard.advertisement
        age_s = self._live.clock.monotonic_s() - heard.at_s
        state = freshness.classify(age_s, lease_s=10.0).value
        capacity = amounts.pods_with_sd(found.capacity, found.capacity_sd, sign="±")
        return [
            node,
            _bar(found.parts.get("cpu.utilisation", found.usage.get("cpu", 0.0)), cells),
            _bar(found.parts.get("cpu.pressure", 0.0), cells),
            _bar(found.usage.get("memory", 0.0), cells),
            str(found.pods),
            capacity,
            str(said.get("reserved", "-")),
            text.Text(found.mode.value if state == "fresh" else state, style=_STYLE[state]),
        ]

    def _progress(self) -> panel.Panel:
        counts = self._counts()
        bar = progress_bar.ProgressBar(total=self._job.pods, completed=counts["done"], width=60)
        words = "   ".join(f"{name} {counts[name]}" for name in ("pending", "starting", "running", "done", "failed"))
        grid = table.Table.grid(padding=(0, 2))
        grid.add_row(bar, f"{counts['done']}/{self._job.pods}", f"{self.elapsed_s:.0f} s, {self._left()} left")
        title = f"job {self._job.name}: {self._job.pods} x {self._job.workload.value}"
        return panel.Panel(console.Group(text.Text(words), grid), title=title, title_align="left")

    def _decisions(self) -> panel.Panel:
        rows = [
            f"{found.pod} -> {found.node}: {found.free or 0.0:.1f} more fitted there; it waited {found.waited_s:.1f} s"
            for found in reversed(self._live.observer.decisions)
        ]
        if self._counts()["pending"] and self._live.observer.waiting_why:
            rows.append(self._live.observer.waiting_why)
        return panel.Panel("\n".join(rows) or "none yet", title="decisions, newest first", title_align="left")

    def _counts(self) -> dict[str, int]:
        pods = self._live.observer.of_job(self._job.name)
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
    """Gives a function that draws the screen as it is now. The terminal is left whole, whatever happens."""
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
    """The view as a picture."""
    recorder = console.Console(record=True, width=_SNAPSHOT_WIDTH, file=io.StringIO(), force_terminal=True)
    recorder.print(screen)
    picture = recorder.export_svg(title="carico demo")
    # rich has the font loaded from the web; a picture in a repository loads nothing.
    return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL).replace("Fira Code", "ui-monospace")


def summary(report: Mapping[str, Any]) -> str:
    """The report in a few lines."""
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


def _bar(share: float, cells: int) -> text.Text:
    filled = round(min(max(share, 0.0), 1.0) * cells)
    style = "green" if share < 0.7 else "yellow" if share < 0.9 else "red"
    figure = f" {share:4.0%}" if cells else (f"{share:4.0%}", style)
    return text.Text.assemble(("█" * filled, style), ("░" * (cells - filled), "dim"), figure)
