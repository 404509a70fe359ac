"""`carico evaluate`: runs every scheduler on every simulated scenario, and compares with published results."""

import contextlib
import pathlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
from rich import console, progress

from carico_cli.evaluation import page, rasa, rescheduler, sharing, trace
from carico_cli.evaluation import text as evaluate_text
from carico_cli.output import formats
from carico_cli.output import report as report_folder
from carico_cli.shell import settings, user_files
from carico_core.domain import errors
from carico_core.runtime.process import clock
from carico_twin.evaluate import plan_file, pool, results, runs, study
from carico_twin.evaluate.comparisons import recorded

PLAIN_LINE_EVERY_S = 5.0
# What --rescheduler and --sharing leave out, in addition to each other.
_OF_CLUSTERS = ("first_seed", "scenarios", "schedulers", "plan", "ablation", "calibration", "compare_with")
# Searches of --problem that --quick makes.
_QUICK_SEARCH_S = 5.0
_DEFAULT_OUT = pathlib.Path("var") / "evaluate"


@click.command("evaluate")
@click.option("--quick", is_flag=True, help="Run fewer scenarios and seeds: at most three minutes on two CPUs.")
@click.option("--seeds", type=click.IntRange(1, 1000), help="Seeds for each run (default: 10; with --quick: 2).")
@click.option(
    "--first-seed", type=click.IntRange(1, 2**31 - 1),
    help="Use this seed and the next ones (default: 1), for figures on seeds on which nothing was chosen.",
)  # fmt: skip
@click.option(
    "--scenario", "scenarios", multiple=True, metavar="NAME",
    help="Run only this scenario (default: all); may be repeated.",
)  # fmt: skip
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="NAME",
    help="Run only this scheduler or family (default: all); may be repeated.",
)
@click.option("--plan", type=user_files.PATH, help="Run a scenario of your own (a TOML file).")
@click.option("--ablation", is_flag=True, help="Also run the estimator without each of its steps, and bus faults.")
@click.option("--calibration", is_flag=True, help="Run only what is compared with published or recorded results.")
@click.option(
    "--rescheduler", is_flag=True, help="Run only the rescheduling algorithms, next to the published figures."
)
@click.option(
    "--problem", type=user_files.PATH, metavar="FILE",
    help="--rescheduler: also the curve of a problem of the RASA dataset, such as M3.json.",
)  # fmt: skip
@click.option(
    "--sharing", is_flag=True, help="Run only several schedulers at a time: conflicts, retries and waiting times."
)
@click.option(
    "--compare-with", type=user_files.PATH, metavar="COMPARE.JSON",
    help="Also simulate a recorded `carico compare`, and report the errors.",
)  # fmt: skip
@click.option(
    "--out", type=user_files.PATH, default=_DEFAULT_OUT, show_default=True,
    help="Folder of the report.",
)  # fmt: skip
@trace.options
@formats.flag(formats.Output.JSON)
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Processes that run at once.")
@click.pass_obj
def command(context: settings.Context, /, **given: Any) -> int:
    """Compare schedulers in simulated clusters, and write one page and one JSON file.

    Without flags this takes about an hour. docs/evaluation.md describes what is compared, and a scenario's file. With
    --trace, no cluster is simulated: the command scores predictors of a machine's peak on a recorded trace.
    """
    trace.check(click.get_current_context(), is_trace=given["trace"] is not None)
    if given["trace"] is not None:
        content = user_files.read(given["trace"], "--trace", most=trace.FILE_MAX_BYTES, expected="a CSV file")
        return trace.run(given, content)
    if given["rescheduler"]:
        return _rescheduler(given)
    if given["problem"] is not None:
        raise errors.SettingsError("--problem: is for --rescheduler, which is not given")
    if given["sharing"]:
        return _sharing(given)
    selection = _selection(given)
    tasks = study.tasks(selection)
    if not tasks:
        raise errors.SettingsError("nothing to run: these schedulers do not run on these scenarios")
    report_folder.check(given["out"])
    outcomes = _run(tasks, jobs=given["jobs"], plain=context.plain)
    return _finish(
        given, "evaluation", results.document(selection, outcomes), page=page.page, text=evaluate_text.text
    )  # fmt: skip


def _rescheduler(given: dict[str, Any]) -> int:
    _refuse(given, (*_OF_CLUSTERS, "sharing"), "--rescheduler runs its own problems and algorithms")
    report_folder.check(given["out"])
    ticks, problem = clock.SystemClock(), given["problem"]
    points = [each for each in rasa.POINTS if each.seconds <= _QUICK_SEARCH_S or not given["quick"]]
    seeds = min(given["seeds"] or rasa.SEEDS, 1 if given["quick"] else rasa.SEEDS)
    curve = None if problem is None else rasa.curve(problem, points=points, seeds=seeds, clock=ticks)
    found = rescheduler.run(rescheduler.selection(quick=given["quick"], runs=given["seeds"]), now_s=ticks.monotonic_s)
    return _finish(given, "rescheduler", found | {"rasa": curve}, page=rescheduler.page, text=rescheduler.text)


def _sharing(given: dict[str, Any]) -> int:
    _refuse(given, _OF_CLUSTERS, "--sharing runs its own cluster and schedulers")
    report_folder.check(given["out"])
    ticks = clock.SystemClock()
    found = sharing.run(sharing.selection(quick=given["quick"], seeds=given["seeds"]), now_s=ticks.monotonic_s)
    return _finish(given, "sharing", found, page=sharing.page, text=sharing.text)


def _refuse(given: Mapping[str, Any], names: Sequence[str], why: str) -> None:
    others = [name for name in names if given[name]]
    if others:
        flags = ", ".join(f"--{name.removesuffix('s').replace('_', '-')}" for name in others)
        raise errors.SettingsError(f"{why}: leave out {flags}")


def _finish(
    given: Mapping[str, Any], name: str, found: dict[str, Any], *, page: Callable[[dict[str, Any]], str],
    text: Callable[[dict[str, Any]], str],
) -> int:  # fmt: skip
    """Print an evaluation, and write its files."""
    found |= report_folder.stamp(clock.SystemClock().wall_ns())
    is_json = given["output"] is formats.Output.JSON
    report_folder.deliver(given["out"], name, found, page=page, text=text, as_json=is_json, err=True)
    return 0


def _selection(given: dict[str, Any]) -> study.Selection:
    plan, recording = given["plan"], given["compare_with"]
    if plan is not None:
        plan = plan_file.read(str(plan), user_files.read(plan, "--plan", expected="a TOML file"))
    if plan is not None and (given["scenarios"] or given["ablation"] or given["calibration"] or recording):
        raise errors.SettingsError(
            "--plan runs a scenario of your own: leave out --scenario, --ablation, --calibration and --compare-with"
        )
    if given["calibration"] and (given["scenarios"] or given["schedulers"] or given["ablation"]):
        raise errors.SettingsError(
            "--calibration runs its own jobs and schedulers: leave out --scenario, --scheduler and --ablation"
        )
    if recording is not None:
        content = user_files.read(recording, "--compare-with", expected="what `carico compare` wrote")
        recording = recorded.read(str(recording), content)
    return study.Selection(
        quick=given["quick"], seeds=given["seeds"], scenarios=given["scenarios"], schedulers=given["schedulers"],
        first_seed=1 if given["first_seed"] is None else given["first_seed"],
        ablation=given["ablation"], plan=plan, calibration=given["calibration"],
        emulated=recording,
    )  # fmt: skip


def _run(tasks: Sequence[runs.Task], *, jobs: int, plain: bool) -> list[runs.RunResult]:
    outcomes = []
    total = sum(task.effort for task in tasks)
    with contextlib.closing(pool.run_all(tasks, jobs=jobs)) as ready, _shown(len(tasks), total, plain=plain) as show:
        efforts = {(task.group, task.plan.name, task.contender.name): task.effort for task in tasks}
        for outcome in ready:
            outcomes.append(outcome)
            show.done(outcome, efforts[outcome.group, outcome.plan, outcome.contender])
    return outcomes


class _Plain:
    """A line every five seconds, on stderr, so that stdout has only the results."""

    def __init__(self, runs_in_all: int, effort_in_all: float) -> None:
        self._clock = clock.SystemClock()
        self._began_s = self._printed_s = self._clock.monotonic_s()
        self._runs, self._effort = runs_in_all, effort_in_all
        self._done, self._made = 0, 0.0

    def done(self, outcome: runs.RunResult, effort: float) -> None:
        self._done += 1
        self._made += effort
        now_s = self._clock.monotonic_s()
        if now_s - self._printed_s < PLAIN_LINE_EVERY_S and self._done < self._runs:
            return
        self._printed_s = now_s
        spent_s = now_s - self._began_s
        left_s = spent_s * (self._effort / self._made - 1.0)
        formats.say(
            f"{spent_s:6.0f} s  runs {self._done}/{self._runs}  about {left_s:.0f} s left  "
            f"({outcome.plan}, {outcome.contender}, seed {outcome.seed})",
            err=True,
        )


class _Bar:
    """A progress bar."""

    def __init__(self, bar: progress.Progress, effort_in_all: float) -> None:
        self._bar = bar
        self._task = bar.add_task("runs", total=effort_in_all)

    def done(self, outcome: runs.RunResult, effort: float) -> None:
        self._bar.update(self._task, advance=effort, description=f"{outcome.plan}, {outcome.contender}")


@contextlib.contextmanager
def _shown(runs_in_all: int, effort_in_all: float, *, plain: bool) -> Iterator[_Plain | _Bar]:
    if plain:
        yield _Plain(runs_in_all, effort_in_all)
        return
    # SIGTERM ends the command as Ctrl-C does: otherwise the terminal would be left without its cursor.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    columns = (
        progress.BarColumn(), progress.TaskProgressColumn(), progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(), progress.TextColumn("{task.description}"),
    )  # fmt: skip
    with progress.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, effort_in_all)
