"""`carico logs SERVICE`: the log of a service; on a terminal its JSON lines are made readable."""

import collections
import datetime
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import click
import orjson

from carico_cli.clusters import which
from carico_cli.output import formats
from carico_cli.shell import settings
from carico_core.domain import errors, names
from carico_local.cluster import folders, state
from carico_local.cluster.services import service as service_parts
from carico_local.cluster.services import topology

# Shown at the front of a line, or of no use in the log of one service.
_FRONT = frozenset({"service", "logger", "event", "level", "timestamp"})
_COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
_LOOK_EVERY_S = 0.2
# The cluster is reported as not running after this many looks in a row: one that starts has a log before it runs.
_LOOKS_WITHOUT_CLUSTER = 25


@click.command("logs")
@click.argument("service", required=False)
@which.name_flag
@click.option("--follow", "-f", is_flag=True, help="Keep printing new lines.")
@click.option("--tail", type=click.IntRange(min=0), default=200, show_default=True, help="How many last lines to show.")
@click.option("--raw", is_flag=True, help="Print the lines as written, as JSON (default without a terminal).")
@click.pass_obj
def command(
    context: settings.Context, service: str | None, name: str | None, follow: bool, tail: int, raw: bool
) -> None:
    """Show a service's log: nats, api, aggregator, scheduler, node/node-1, agent/node-1 or supervisor."""
    meant = which.meant(context, which.Flags(name=name), need=which.Need.LOGS)
    local = meant.local_name("`docker compose logs -f` or `kubectl logs -f` shows its logs")
    paths = folders.find_logs(context.home, local)
    found = state.read(paths)
    # Only the logs are left of a cluster that is gone, as after a crashed demo.
    known = [*topology.service_names(found.plan), "supervisor"] if found else service_parts.logged(paths)
    if service not in known:
        nearest = names.nearest(service or "", known, most=1)
        hint = f" (nearest: {nearest[0]})" if nearest else ""
        got = "no service" if service is None else f"service {service!r}{hint}"
        of_pod = (
            "" if service is None or nearest else f"; the log of a Pod: `carico use {local} kubectl logs {service}`"
        )
        raise errors.SettingsError(f"got {got}, expected one of {', '.join(known)}{of_pod}")
    log = paths.log(service_parts.log_name(service))
    if not log.exists():
        raise errors.SettingsError(f"{service} has written no log yet")
    is_readable = sys.stdout.isatty() and not raw

    def show(line: str) -> None:
        text = line.rstrip("\n")
        click.echo(readable(text, coloured=not context.plain) if is_readable else formats.printable(text))

    with log.open("r", encoding="utf-8", errors="replace") as file:
        for line in collections.deque(file, maxlen=tail):
            show(line)
        if follow:
            click.echo(f"carico: cluster {local!r} {_follow(file, log, paths, show)}", err=True)


def _follow(file: TextIO, log: pathlib.Path, paths: folders.Paths, show: Callable[[str], None]) -> str:
    """Show new lines; return why there will be no more."""
    looks = 0
    while looks < _LOOKS_WITHOUT_CLUSTER:
        if line := file.readline():
            show(line)
            sys.stdout.flush()
            continue
        if not log.exists():
            return "was ended and its logs were removed"
        if os.fstat(file.fileno()).st_size < file.tell():
            # The supervisor has moved a long log to another file, and this one begins again.
            file.seek(0)
            continue
        looks = 0 if folders.is_running(paths) else looks + 1
        time.sleep(_LOOK_EVERY_S)
    return f"no longer runs; this is the end of its log: `carico up --name {paths.name}` starts it again"


def readable(line: str, *, coloured: bool) -> str:
    """Return local time, level, logger, event and its fields; a line that is not a JSON object is returned unchanged.

    >>> readable('{"logger":"s","placed":1,"event":"cycle","level":"info","timestamp":"?"}', coloured=False)
    '? info s: cycle  placed=1'
    """
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return formats.printable(line)
    if not isinstance(found, dict) or "event" not in found:
        return formats.printable(line)
    level = str(found.get("level", "info"))
    fields = "".join(f" {name}={_shown(value)}" for name, value in found.items() if name not in _FRONT)
    text = f"{_time(str(found.get('timestamp', '')))} {level} {found.get('logger', '-')}: {found['event']}"
    text += f" {fields}" if fields else ""
    # Text that others caused to be logged must not move the cursor.
    text = formats.printable(text, kept="")
    return click.style(text, fg=_COLOURS[level]) if coloured and level in _COLOURS else text


def _time(stamp: str) -> str:
    try:
        moment = datetime.datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    return f"{moment.astimezone():%H:%M:%S.%f}"[:-3]


def _shown(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable() and not set(value) & {" ", '"'}:
        return value
    return orjson.dumps(value).decode()
