"""`carico reschedule`: which containers to move, in which order; of a running cluster, or of a problem in a file."""

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import click
import orjson

from carico_cli.clusters import which
from carico_cli.live import addresses
from carico_cli.output import formats
from carico_cli.shell import settings, user_files
from carico_core.domain import errors
from carico_core.runtime.process import clock

_DEFAULT_SECONDS = 10.0
_PAUSE, _RESUME = "pause", "resume"
# Flags of a problem in a file, by their names as parameters.
_OF_PROBLEM = {
    "seconds": "--seconds", "proposals": "--proposals", "out": "--out", "moves_out": "--moves-out",
    "curve_out": "--curve-out",
}  # fmt: skip
# The same of a running cluster.
_OF_CLUSTER = {
    "algorithm": "--algorithm", "name": "--name", "nats_url": "--nats-url", "kubeconfig": "--kubeconfig",
    "kube_context": "--context",
}  # fmt: skip


@click.command("reschedule")
@click.argument("verb", required=False, type=click.Choice([_PAUSE, _RESUME]), metavar="[pause|resume]")
@click.option("--dry-run", is_flag=True, help="Show the plan of the cluster's rescheduler; move nothing.")
@click.option("--apply", is_flag=True, help="Have the rescheduler carry out a plan now, and follow it.")
@click.option("--watch", is_flag=True, help="Show moves as they happen, until interrupted.")
@click.option("--problem", type=user_files.PATH, metavar="FILE", help="Services, machines and traffic, as JSON.")
@click.option("--max-moves", type=click.IntRange(min=0), help="Most moves (default: no limit, or the rescheduler's).")
@click.option(
    "--algorithm", metavar="NAME",
    help="--dry-run, --apply: what finds the placement: ws-sa, ws-sa-bn, ws-sa-pn, ws-sa-pn-tb, threshold (default: "
    "carico).",
)  # fmt: skip
@click.option(
    "--seconds", type=float, help=f"--problem: time for all, on one core (default: {_DEFAULT_SECONDS:g})."
)  # fmt: skip
@click.option(
    "--proposals",
    type=click.IntRange(min=1),
    help="--problem: length of the search instead of --seconds: a seed repeats the run (default: by --seconds).",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="--problem: seed of the search."
)  # fmt: skip
@click.option(
    "--out", type=user_files.PATH, metavar="FILE", help="--problem: write the placement: {machine: [containers]}."
)
@click.option(
    "--moves-out",
    type=user_files.PATH,
    metavar="FILE",
    help="--problem: write the moves in order: [[container, from, to]].",
)
@click.option(
    "--curve-out",
    type=user_files.PATH,
    metavar="FILE",
    help="--problem: divide the time among growing limits of moves; write the gain of each.",
)
@which.flags
@formats.flag(formats.Output.WIDE, formats.Output.JSON)
@click.pass_obj
def command(
    context: settings.Context, /, verb: str | None, dry_run: bool, apply: bool, watch: bool,
    problem: pathlib.Path | None, max_moves: int | None, algorithm: str | None, seed: int, output: formats.Output,
    **given: Any,
) -> None:  # fmt: skip
    """Move running Pods to where they talk and where there is room (pause, resume: stop moving, and continue).

    With --problem, find which containers of a file to move so that more of the services' traffic stays on a machine.
    Every step keeps CPU and memory of its target with the old and the new container present. docs/rescheduling.md
    describes both.
    """
    named = {
        verb or "": verb is not None, "--dry-run": dry_run, "--apply": apply, "--watch": watch,
        "--problem": problem is not None,
    }  # fmt: skip
    chosen = [name for name, is_given in named.items() if is_given]
    if len(chosen) != 1:
        expected = "one of --dry-run, --apply, --watch, pause, resume (a running cluster), and --problem FILE"
        raise click.UsageError(f"got {' and '.join(chosen) or 'none'}, expected {expected}")
    files = {name: given.pop(name) for name in _OF_PROBLEM}
    if problem is not None:
        for name, each in {"algorithm": algorithm, **given}.items():
            if each:
                flag = _OF_CLUSTER[name]
                raise click.UsageError(f"{flag} and --problem: got both, but {flag} is for a running cluster")
        _of_problem(problem, max_moves=max_moves, seed=seed, output=output, **files)
        return
    for name, flag in _OF_PROBLEM.items():
        if files[name] is not None:
            raise click.UsageError(f"{flag} and {chosen[0]}: got both, but {flag} is for --problem")
    if max_moves is not None and not (dry_run or apply):
        raise click.UsageError(f"--max-moves and {chosen[0]}: got both, but --max-moves is for a plan")
    if algorithm is not None and not (dry_run or apply):
        raise click.UsageError(f"--algorithm and {chosen[0]}: got both, but --algorithm is for --dry-run and --apply")
    at = which.meant(context, which.Flags(**given)).where()()
    _of_cluster(at, chosen[0], max_moves=max_moves, algorithm=algorithm, output=output)


def _of_cluster(
    at: addresses.Address, what: str, *, max_moves: int | None, algorithm: str | None, output: formats.Output
) -> None:
    """Ask the cluster's rescheduler. Raises `CaricoError`."""
    from carico_cli.rescheduling import cluster, cluster_text

    is_json = output is formats.Output.JSON
    given = {"most": max_moves, "algorithm": algorithm}
    question = {name: each for name, each in given.items() if each is not None}

    def say(move: cluster.Answer) -> None:
        formats.say(_line(move) if is_json else cluster_text.move(move))

    def stand(answer: cluster.Answer) -> None:
        if is_json:
            formats.say(_line({name: answer[name] for name in ("current", "paused", "rests")}))
            return
        for line in (*cluster_text.standing(answer, at), *cluster_text.rests(answer)):
            formats.say(line)

    if what == "--watch":
        cluster.run(at, lambda asker: asker.watch(say, stand))
    elif what == "--dry-run":
        answer = cluster.run(at, lambda asker: asker.plan(question))
        is_wide = output is formats.Output.WIDE
        formats.say(formats.json_text(answer) if is_json else cluster_text.plan(answer, is_wide=is_wide, at=at))
    elif what == "--apply" and is_json:
        moves: list[cluster.Answer] = []
        answer = cluster.run(at, lambda asker: asker.apply(question, moves.append))
        formats.say(formats.json_text({"moves": moves, "paused": answer["paused"], "rests": answer["rests"]}))
    elif what == "--apply":
        formats.say(f"cluster {at.name}:")
        stand(cluster.run(at, lambda asker: asker.apply(question, say)))
    else:
        answer = cluster.run(at, lambda asker: asker.ask(f"control.{what}"))
        said = "paused: no further move begins" if answer["paused"] else "resumed: Pods may move"
        formats.say(formats.json_text(answer) if is_json else f"cluster {at.name}: {said}")


def _line(answer: Mapping[str, Any]) -> str:
    """Return JSON of one line, as one of many."""
    return orjson.dumps(answer).decode()


def _of_problem(
    problem: pathlib.Path, *, max_moves: int | None, seed: int, output: formats.Output, seconds: float | None,
    proposals: int | None, out: pathlib.Path | None, moves_out: pathlib.Path | None, curve_out: pathlib.Path | None,
) -> None:  # fmt: skip
    """Plan the moves of a problem in a file. Raises `CaricoError`."""
    machine_clock = clock.SystemClock()
    began_s = machine_clock.monotonic_s()
    if seconds is not None and proposals is not None:
        raise click.UsageError("--seconds and --proposals: got both, expected one of them")
    if seconds is not None and not (seconds > 0.0 and math.isfinite(seconds)):
        raise errors.SettingsError(f"--seconds: got {seconds:g}, expected a number above 0")
    # Imported here: numba takes half a second, which --seconds includes and --help does without.
    from carico_cli.rescheduling import planning, problem_file, report

    report.check({"--out": out, "--moves-out": moves_out, "--curve-out": curve_out})
    named = problem_file.read(problem)
    if _prepare():
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
    took_s = machine_clock.monotonic_s() - began_s
    if seconds is not None and not any(each.proposals for each in plans) and max_moves != 0:
        why = "to start and to read the problem takes longer than --seconds, so nothing was searched"
        formats.say(f"took {took_s:.1f} s, not {seconds:g}: {why}", err=True)
    found = report.summary(named, plans[-1], seconds=took_s)
    formats.say(formats.json_text(found) if output is formats.Output.JSON else report.text(found))
    if curve_out is not None and output is not formats.Output.JSON:
        formats.say(report.curve_text(plans, len(named.containers)))


def _prepare() -> bool:
    """Have the search compiled, or say that it is slow; return whether it was compiled now, in some ten seconds."""
    from carico_core.numerics.rescheduling import compiled
    from carico_core.numerics.rescheduling.services import search

    if not compiled.IS_COMPILED:
        slow = "numba is not installed: the search runs in Python, some 100 times slower"
        formats.say(f"{slow} (pip install 'carico-cli[fast]')", err=True)
    is_new = search.prepare()
    if is_new:
        formats.say("compiled the search, once; the time begins now", err=True)
    return is_new
