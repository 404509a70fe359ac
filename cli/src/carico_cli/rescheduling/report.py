"""A plan as text, as JSON, and as the files of its placement and moves."""

import pathlib
from collections.abc import Mapping
from typing import Any

import orjson

from carico_cli.output import formats
from carico_cli.rescheduling import planning, problem_file
from carico_core.domain import errors


def check(files: Mapping[str, pathlib.Path | None]) -> None:
    """Check, before the search, that a file of its own can be written for each flag. Raises `SettingsError`."""
    flags: dict[pathlib.Path, str] = {}
    for flag, path in files.items():
        if path is None:
            continue
        if path.is_dir() or not path.parent.is_dir():
            raise errors.SettingsError(f"{flag}: got {str(path)!r}, expected a file in a directory that exists")
        other = flags.setdefault(path.resolve(), flag)
        # /dev/null takes any number.
        if other != flag and not path.is_char_device():
            raise errors.SettingsError(f"{other} and {flag}: got {str(path)!r} for both, expected a file for each")


def write(flag: str, path: pathlib.Path | None, content: object) -> None:
    """Write a file of JSON. Raises `EnvironmentUnfit`."""
    if path is None:
        return
    try:
        path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        raise errors.EnvironmentUnfit(f"{flag}: cannot write {path} ({error.strerror}): choose another file") from error


def placement(named: problem_file.Named, plan: planning.Plan) -> dict[str, list[str]]:
    """Return the containers of each machine after the moves."""
    placed: dict[str, list[str]] = {machine: [] for machine in named.machines}
    for container, machine in enumerate(plan.order.where):
        placed[named.machines[machine]].append(named.containers[container])
    return placed


def moves(named: problem_file.Named, plan: planning.Plan) -> list[tuple[str, str, str]]:
    """Return the moves in order: container, from, to."""
    return [
        (named.containers[container], named.machines[source], named.machines[target])
        for container, source, target in plan.order.steps
    ]


def summary(named: problem_file.Named, plan: planning.Plan, *, seconds: float) -> dict[str, Any]:
    """Return the figures of a plan."""
    return {
        "local_before": plan.before,
        "local_after": plan.after,
        "containers": len(named.containers),
        "max_moves": plan.limit,
        "moved": plan.moved,
        "steps": len(plan.order.steps),
        "parked": plan.order.parked,
        "blocked": plan.order.blocked,
        "proposals": plan.proposals,
        "seconds": round(seconds, 3),
    }


def curve(plans: list[planning.Plan]) -> list[dict[str, Any]]:
    """Return the figures of each point of a curve."""
    return [
        {"max_moves": plan.limit, "moved": plan.moved, "steps": len(plan.order.steps), "local": plan.after}
        for plan in plans
    ]


def curve_text(plans: list[planning.Plan], containers: int) -> str:
    """Return a curve as a table."""
    rows = [
        ("no limit" if plan.limit is None else f"{plan.limit:,}", f"{plan.moved:,}", f"{plan.moved / containers:.1%}",
         f"{plan.after:.1%}")
        for plan in plans
    ]  # fmt: skip
    return "\n" + "\n".join(formats.aligned(("MAX MOVES", "MOVED", "SHARE", "LOCAL"), rows))


def text(found: dict[str, Any]) -> str:
    """Return the figures as a table."""
    share = found["moved"] / found["containers"]
    limit = "no limit" if found["max_moves"] is None else f"limit {found['max_moves']:,}"
    rows = [
        ("traffic local", f"{found['local_before']:.1%} before, {found['local_after']:.1%} after"),
        ("containers moved", f"{found['moved']:,} of {found['containers']:,} ({share:.1%}; {limit})"),
        ("steps", f"{found['steps']:,}, of which {found['parked']:,} park a container on a third machine"),
        ("steps blocked", f"{found['blocked']:,}" + (" (left out)" if found["blocked"] else "")),
        ("time", f"{found['seconds']:.1f} s, {found['proposals']:,} proposals"),
    ]
    return "\n".join(formats.aligned(rows[0], rows[1:], left=2))
