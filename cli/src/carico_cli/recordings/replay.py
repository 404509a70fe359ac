"""`carico replay`: runs a recording through an estimator, and prints how well it fitted."""

import dataclasses
import pathlib
from typing import Any, get_args

import click

from carico_agent import settings as agent
from carico_cli.output import charts, formats
from carico_cli.recordings import engine, figures, fit, plot, reading, trace
from carico_cli.shell import options, user_files
from carico_core.domain import amounts

# The agent's default.
_DEFAULT = next(field.default for field in dataclasses.fields(agent.AgentSettings) if field.name == "estimator")


@click.command("replay")
@click.argument("file", type=user_files.PATH)
@click.option(
    "--estimator",
    type=options.Estimators(),
    default=_DEFAULT,
    show_default=True,
    help="Estimator to run.",
)
@click.option(
    "--constants",
    type=click.Choice(engine.CONSTANTS),
    default="default",
    show_default=True,
    help="The estimator's own constants, or those of the author's published run.",
)
@click.option(
    "--inputs",
    type=click.Choice(get_args(engine.Inputs)),
    help="Raw samples, or a log's evaluations (default: the latter for delta, dual and joint, where there are any).",
)
@click.option(
    "--figure",
    "number",
    type=click.Choice(tuple(figures.FIGURES)),
    help="Redraw this figure of the dissertation, its numbers and with --plot its picture (default: none).",
)
@click.option("--partial", is_flag=True, help="Replay a cut file up to the cut.")
@formats.flag(formats.Output.JSON)
@click.option("--plot", "plot_file", type=user_files.PATH, help="Also draw it into this file (.png or .svg).")
def command(
    file: pathlib.Path,
    partial: bool,
    output: formats.Output,
    plot_file: pathlib.Path | None,
    number: str | None,
    **chosen: Any,
) -> None:
    """Run FILE, a recording or a log of the author's agent, through an estimator and print how well it fitted.

    The author is that of the dissertation. docs/recordings.md explains each figure.
    """
    if plot_file is not None:
        charts.check(plot_file)
    over = reading.read(file, partial=partial)
    if number is not None:
        _redraw(over, number, output, plot_file)
        return
    run = engine.run(over, engine.Setup(**chosen))
    found = fit.summary(run)
    formats.say(formats.json_text(found) if output is formats.Output.JSON else text(found))
    if plot_file is not None:
        plot.draw(run, plot_file)


def _redraw(over: trace.Trace, number: str, output: formats.Output, plot_file: pathlib.Path | None) -> None:
    found = figures.FIGURES[number](over)
    named = {"file": over.name, "figure": number, **found.numbers}
    formats.say(formats.json_text(named) if output is formats.Output.JSON else _as_text(named))
    if plot_file is not None:
        charts.picture(
            lambda drawn: charts.draw(drawn, found.charts),
            plot_file,
            title=f"{pathlib.Path(over.name).name}: figure {number}",
            height_in=sum(chart.height_in for chart in found.charts),
        )


def _as_text(numbers: dict[str, Any]) -> str:
    """Return a line for each number and for each row of a list."""
    lines = []
    for name, value in numbers.items():
        rows = value if isinstance(value, list) else [value]
        for row in rows:
            words = (
                ", ".join(f"{key} {_word(one)}" for key, one in row.items()) if isinstance(row, dict) else _word(row)
            )
            lines.append((name, words))
    return "\n".join(formats.aligned(lines[0], lines[1:], left=2))


def _word(value: object) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_word(one)}" for key, one in value.items()) + ")"
    return "none" if value is None else str(value)


def text(found: dict[str, Any]) -> str:
    """Return the fit as a table."""
    compared = found["compared"]
    rows = [
        ("file", f"{found['file']} ({found['format']})"),
        ("estimator", f"{found['estimator']}, {found['constants']} constants, from {_INPUTS[found['inputs']]}"),
        ("length", f"{found['seconds']:.1f} s, {found['samples']} samples, {found['pod_events']} Pod events"),
        ("updates", f"{found['updates']}, at most {found['most_pods']} Pods"),
        *(
            (f"RMS of {name}", _against(found["rms"][name], compared[name], compared["with"]))
            for name in ("baseline", "cost")
        ),
        *((f"innovation of {name}", _moments(moments)) for name, moments in found["innovation"].items()),
        ("censored updates", f"{found['censored_share']:.1%}"),
        ("updates during churn", f"{found['churn_share']:.1%}"),
        ("first useful capacity", _after(found["first_useful_s"])),
        ("capacity at the end", f"{found['capacity']['last']:.2f} Pods ({found['capacity']['mode']})"),
    ]
    return "\n".join([*formats.aligned(rows[0], rows[1:], left=2), *(f"note: {note}" for note in found["notes"])])


_INPUTS = {"samples": "raw samples", "logged": "logged evaluations"}


def _against(rms: float | None, count: int, whose: str | None) -> str:
    if rms is None:
        return "no logged estimates to compare with"
    return f"{rms:.3g} over {amounts.plural(count, 'update')} (logged: {whose})"


def _moments(moments: dict[str, Any]) -> str:
    if not moments["count"]:
        return "none"
    lag1 = "unknown" if moments["lag1"] is None else f"{moments['lag1']:.2f}"
    updates = amounts.plural(moments["count"], "update")
    return f"mean {moments['mean']:.4f}, sd {moments['sd']:.4f}, lag-1 {lag1} ({updates})"


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else f"after {seconds:.1f} s"
