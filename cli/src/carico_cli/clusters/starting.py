"""Shows a cluster's start: one line that is updated on a terminal, one line for each service elsewhere.

Also starts the clusters of comparisons, which end with them.
"""

import contextlib
import dataclasses
import pathlib
import re
import shutil
from collections.abc import AsyncIterator, Mapping

import click

from carico_cli.output import formats
from carico_cli.shell import exits, settings
from carico_core.runtime.process import clock as clocks
from carico_local.binaries import cache
from carico_local.cluster import client, events, folders, state
from carico_local.cluster import plan as plans

PLAIN_PROGRESS_EVERY_S = 30.0
# https://docs.kernel.org/accounting/psi.html. A desktop at rest is well below this.
PRESSURE = pathlib.Path("/proc/pressure/cpu")
BUSY_PERCENT = 25.0
# How the warning begins: reports find it among a run's notes.
BUSY = "other work keeps this machine busy"


def obtain(wanted: plans.Options, context: settings.Context) -> dict[str, str]:
    """Return the paths of the programs that a cluster needs, by name; build what is missing and report progress.

    Raises `EnvironmentUnfit` where one cannot be obtained.
    """
    needed = plans.programs(wanted)
    if not needed:
        return {}
    # Imported here: most clusters have the embedded control plane, which needs no programs.
    from carico_local.binaries import tools
    from carico_local.kubelets import programs

    clock = clocks.SystemClock()
    report = _Reporter(context, clock).report
    if wanted.node_kind == plans.NodeKind.KUBELET:
        # Checked before minutes are spent on programs.
        programs.check()
        programs.find(context.environ)
    found = tools.obtain(needed, environ=context.environ, clock=clock, report=report)
    paths = {name: str(each.path) for name, each in found.items()}
    if wanted.node_kind == plans.NodeKind.KUBELET:
        paths |= programs.obtain(context.environ, report=lambda text: report(cache.Progress(text=text)))
    return paths


class _Reporter:
    """Reports progress: one line that is updated on a terminal, elsewhere a line every 30 s."""

    def __init__(self, context: settings.Context, clock: clocks.Clock) -> None:
        self._context = context
        self._clock = clock
        self._printed_s = clock.monotonic_s()

    def report(self, step: cache.Progress) -> None:
        if not step.passing:
            _end_line(self._context)
            click.echo(step.text)
        elif not self._context.plain:
            _line(self._context, "", step.text)
        elif self._clock.monotonic_s() - self._printed_s >= PLAIN_PROGRESS_EVERY_S:
            self._printed_s = self._clock.monotonic_s()
            click.echo(step.text)


async def show(launched: client.Launched, context: settings.Context) -> list[str]:
    """Show the start; return its notes once the cluster is up. Raises what `until_up` raises."""
    ready = 0
    notes: list[str] = []
    async for event in launched.until_up():
        if event.kind is events.Kind.READY:
            ready += 1
            _line(context, f"{event.after_s:5.1f} s  ready: {event.service}", f"starting: {ready} services ready")
        elif event.kind is events.Kind.NOTE:
            notes.append(event.text)
        elif event.kind is events.Kind.CRASHED:
            _end_line(context)
            say_crash(event)
        elif event.kind is events.Kind.UP:
            _end_line(context)
            click.echo(f"cluster {launched.paths.name} is ready after {event.after_s:.1f} s")
    for text in notes:
        note(text, context)
    return notes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A cluster for figures. `notes`: what to know before one trusts them."""

    paths: folders.Paths
    state: state.ClusterState
    notes: list[str]


@contextlib.asynccontextmanager
async def measured(
    wanted: plans.Options, binaries: Mapping[str, str], context: settings.Context, environ: Mapping[str, str]
) -> AsyncIterator[Measured]:  # fmt: skip
    """Run a cluster of its own for as long as the block runs, and remove it. Raises what `until_up` raises."""
    exits.cancel_on_signals()
    # Checked before the cluster itself keeps the machine busy.
    busy = busy_machine()
    if busy is not None:
        note(busy, context)
    launched = await client.launch(
        wanted, home=context.home, environ=environ, restart=False, lifeline=True, fresh=True, binaries=binaries
    )
    try:
        notes = [*([] if busy is None else [busy]), *await show(launched, context)]
        found = state.read(launched.paths)
        assert found is not None, "a cluster that is up has written its state"
        yield Measured(paths=launched.paths, state=found, notes=notes)
    finally:
        await exits.finished(launched.remove(), hurry=launched.kill)


def note(text: str, context: settings.Context) -> None:
    """Print a note; on a terminal it is wrapped between words."""
    columns = shutil.get_terminal_size().columns
    said = f"note: {text}"
    click.echo(said if context.plain else click.wrap_text(said, columns, subsequent_indent="  "))


def say_crash(event: events.Event) -> None:
    """Print on stderr which service ended unexpectedly, and its last lines."""
    formats.say(f"{event.service} ended unexpectedly ({event.text}); its last lines:", err=True)
    for line in event.crash.last_lines if event.crash else ():
        formats.say(f"  {line}", err=True)


def _line(context: settings.Context, plain: str, drawn: str) -> None:
    if context.plain:
        click.echo(plain)
    else:
        click.echo(f"\r\x1b[2K{drawn}", nl=False)


def _end_line(context: settings.Context) -> None:
    if not context.plain:
        click.echo("\r\x1b[2K", nl=False)


def busy_machine() -> str | None:
    """Return a warning that other work keeps the machine busy; None where it is idle, or the kernel has no PSI."""
    try:
        return _busy_words(PRESSURE.read_text(encoding="ascii"))
    except OSError:
        return None


def _busy_words(pressure: str) -> str | None:
    """Return the warning by the machine's CPU pressure.

    >>> _busy_words("some avg10=3.10 avg60=20.00 avg300=9.00 total=1\\n")
    >>> _busy_words("some avg10=62.50 avg60=20.00 avg300=9.00 total=1\\n")[:72]
    'other work keeps this machine busy (tasks wait for a CPU 62 % of the tim'
    """
    found = re.match(r"some avg10=([\d.]+)", pressure)
    if found is None or float(found[1]) < BUSY_PERCENT:
        return None
    return (
        f"{BUSY} (tasks wait for a CPU {float(found[1]):.0f} % of the time): Pods "
        "wait too, so they appear to cost more, fewer fit on a node, and the job takes longer"
    )
