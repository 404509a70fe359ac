"""`carico reschedule`: which containers to move so that more traffic stays on a machine, and in which order."""

import math
import pathlib

import click

from carico_cli.output import formats
from carico_core.domain import errors
from carico_core.runtime.process import clock

_DEFAULT_SECONDS = 10.0
_FILE = click.Path(path_type=pathlib.Path)


@click.command("reschedule")
@click.option("--problem", type=_FILE, required=True, metavar="FILE", help="Services, machines and traffic, as JSON.")
@click.option("--max-moves", type=click.IntRange(min=0), help="Most moves (default: no limit).")
@click.option("--seconds", type=float, help=f"Time for all, on one core (default: {_DEFAULT_SECONDS:g}).")
@click.option(
    "--proposals",
    type=click.IntRange(min=1),
    help="Length of the search instead of --seconds: a seed repeats the run (default: by --seconds).",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search.")
@click.option("--out", type=_FILE, metavar="FILE", help="Write the placement: {machine: [containers]}.")
@click.option("--moves-out", type=_FILE, metavar="FILE", help="Write the moves in order: [[container, from, to]].")
@click.option(
    "--curve-out",
    type=_FILE,
    metavar="FILE",
    help="Divide the time among growing limits of moves; write the gain of each.",
)
@formats.flag(formats.Output.JSON)
def command(
    problem: pathlib.Path,
    max_moves: int | None,
    seconds: float | None,
    proposals: int | None,
    seed: int,
    out: pathlib.Path | None,
    moves_out: pathlib.Path | None,
    curve_out: pathlib.Path | None,
    output: formats.Output,
) -> None:
    """Find which containers to move so that more of the services' traffic stays on a machine, and in which order.

    Every step keeps CPU and memory of its target with the old and the new container present. docs/rescheduling.md
    describes the file and the search.
    """
    machine_clock = clock.SystemClock()
    began_s = machine_clock.monotonic_s()
    if seconds is not None and proposals is not None:
        raise click.UsageError("--seconds and --proposals: got both, expected one of them")
    if seconds is not None and not (seconds > 0.0 and math.isfinite(seconds)):
        raise errors.SettingsError(f"--seconds: got {seconds:g}, expected a number above 0")
    # Imported here: numba takes half a second, which --seconds includes and --help does without.
    from carico_cli.rescheduling import planning, problem_file, report
    from carico_core.numerics.rescheduling import search

    report.check("--out", out)
    report.check("--moves-out", moves_out)
    report.check("--curve-out", curve_out)
    named = problem_file.read(problem)
    if search.prepare():
        click.echo("compiled the search, once; the time begins now", err=True)
        began_s = machine_clock.monotonic_s()
    if seconds is None and proposals is None:
        seconds = _DEFAULT_SECONDS
    budget = planning.Budget(clock=machine_clock, began_s=began_s, seconds=seconds, proposals=proposals)
    if curve_out is None:
        plans = [planning.plan(named.problem, limit=max_moves, seed=seed, budget=budget)]
    else:
        plans = planning.curve(named.problem, limit=max_moves, seed=seed, budget=budget)
    report.write("--out", out, report.placement(named, plans[-1]))
    report.write("--moves-out", moves_out, report.moves(named, plans[-1]))
    report.write("--curve-out", curve_out, report.curve(plans))
    found = report.summary(named, plans[-1], seconds=machine_clock.monotonic_s() - began_s)
    click.echo(formats.json_text(found) if output is formats.Output.JSON else report.text(found))
    if curve_out is not None and output is formats.Output.TEXT:
        click.echo(report.curve_text(plans, len(named.containers)))
