"""`carico evaluate --trace`: peak predictors on a recorded trace."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from carico_cli.output import formats
from carico_cli.shell import user_files
from carico_core.domain import amounts, errors
from carico_twin.evaluate.trace import reading, requests, scoring

# The Google series (1,600, a day of five minutes) take 6 MB.
FILE_MAX_BYTES = 2**26
_DEFAULT = scoring.Setup()
# A year.
_SECONDS_MOST = 366 * 86_400
_SECONDS = click.IntRange(1, _SECONDS_MOST)
# Options of `--trace` by parameter: flag, type, field of the setup, meaning.
_OPTIONS: Mapping[str, tuple[click.ParamType[Any, Any], str]] = {
    "interval": (_SECONDS, "Seconds between two samples"),
    "per_machine": (click.IntRange(1, 1000), "Series on each machine"),
    "horizon": (_SECONDS, "Seconds ahead in which the peak is predicted"),
    "history": (_SECONDS, "Seconds of samples from which it is predicted"),
    "limit": (click.FLOAT, "Limit of one series, in the trace's unit"),
    "machines": (click.IntRange(1, 10_000), "Machines to draw"),
    "seed": (click.IntRange(0, 2**31), "Seed of the draw"),
}
_IN_SECONDS = frozenset({"interval", "horizon", "history"})
_FORMATS = frozenset({"output", "as_json"})
# Options of `--trace` that belong to the rules for requests.
_OF_REQUESTS = frozenset({"requests", "unit"})


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --trace and its options to the command."""
    for name, (kind, meaning) in reversed(list(_OPTIONS.items())):
        flag = f"--{name.replace('_', '-')}"
        default = getattr(_DEFAULT, _field(name))
        shown = f"With --trace: {meaning[0].lower()}{meaning[1:]} (default: {default:g})."
        function = click.option(flag, name, type=kind, help=shown)(function)
    function = click.option(
        "--unit", type=click.FLOAT, help="With --requests: cores or bytes of 1 in the trace (default: 1)."
    )(function)
    function = click.option(
        "--requests", type=click.Choice(sorted(requests.RULES)),
        help="With --trace: score rules that recommend requests instead, with each series as a class of Pods "
        "(default: none).",
    )(function)  # fmt: skip
    return click.option(
        "--trace", type=user_files.PATH, metavar="CSV",
        help="Only predict the peaks of machines drawn from a trace: a column a series, a row a sample.",
    )(function)  # fmt: skip


def check(parameters: click.Context, *, is_trace: bool) -> None:
    """Refuse options of `--trace` without it, and all others with it."""
    for name in parameters.params:
        if parameters.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        if not is_trace and name in (*_OPTIONS, *_OF_REQUESTS):
            raise errors.SettingsError(
                f"{_flag(parameters, name)} is an option of --trace: add --trace, or leave it out"
            )
        if is_trace and name not in (*_OPTIONS, *_FORMATS, *_OF_REQUESTS, "trace"):
            raise errors.SettingsError(f"--trace runs no simulation: leave out {_flag(parameters, name)}")
        if name == "unit" and parameters.params["requests"] is None:
            raise errors.SettingsError("--unit is an option of --requests: add --requests, or leave it out")


def run(given: Mapping[str, Any], content: bytes) -> int:
    """Print the predictors' scores on the trace."""
    chosen = {_field(name): given[name] for name in _OPTIONS if given[name] is not None}
    setup, file = scoring.Setup(**chosen), str(given["trace"])
    samples = reading.read(file, content)
    if given["requests"] is None:
        found, text = scoring.evaluate(file, samples, setup), _text
    else:
        unit = 1.0 if given["unit"] is None else given["unit"]
        found = requests.evaluate(file, samples, setup, dimension=given["requests"], unit=unit)
        text = _requests_text
    formats.say(formats.json_text(found) if given["output"] is formats.Output.JSON else "\n".join(text(found)))
    return 0


def _text(found: Mapping[str, Any]) -> Iterator[str]:
    setup = found["setup"]
    yield (
        f"{found['trace']}: {found['series']} series, {found['samples']} samples of "
        f"{setup['interval_s']} s; {amounts.plural(setup['machines'], 'machine')} of {setup['per_machine']}, horizon "
        f"{setup['horizon_s']} s, history {setup['history_s']} s, seed {setup['seed']}; "
        f"{found['predictions']} predictions"
    )
    if found["drawn"] < found["series"]:
        yield (
            f"{found['drawn']} of {found['series']} series drawn; more --machines or a larger --per-machine draw more"
        )
    if found["above_limit"]:
        samples = amounts.plural(found["above_limit"], "sample")
        yield f"{samples} above the limit of a series ({setup['limit']:g}, --limit): used as they are"
    rows = [
        (name, *(formats.number(100.0 * each[column], 3) for column in ("violations", "severity", "savings")))
        for name, each in found["predictors"].items()
    ]
    yield from formats.aligned(("predictor", "violations %", "severity %", "savings %"), rows)


def _requests_text(found: Mapping[str, Any]) -> Iterator[str]:
    setup = found["setup"]
    yield (
        f"{found['trace']}: {found['series']} series of {found['dimension']}, {found['samples']} samples of "
        f"{setup['interval_s']} s; recommended every {setup['horizon_s']} s, first after {setup['history_s']} s"
    )
    rows = [
        (name, *(formats.number(100.0 * each[column], 2) for column in ("slack", "overruns")))
        for name, each in found["rules"].items()
    ]
    yield from formats.aligned(("rule", "slack %", "overruns %"), rows)


def _field(name: str) -> str:
    return f"{name}_s" if name in _IN_SECONDS else name


def _flag(parameters: click.Context, name: str) -> str:
    return next(each.opts[0] for each in parameters.command.params if each.name == name)
