"""`carico list`: the clusters of this machine, and which of them a command means in this shell."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

import click

from carico_cli.clusters import local_services, which
from carico_cli.live import addresses, connection
from carico_cli.output import formats, words
from carico_cli.shell import settings
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import folders, state

# A busy machine takes a second; a frozen API is not waited for.
ANSWER_S = 2.0
_COLUMNS = ("name", "state", "since", "nodes", "pods", "kind")
_WIDE = (*_COLUMNS, "nats_url", "api_url", "folder")
_LEFT = "left behind"
_NOT_READY = "not ready"


@click.command("list")
@formats.flag(formats.Output.JSON, formats.Output.WIDE)
@click.pass_obj
def command(context: settings.Context, output: formats.Output) -> None:
    """List the clusters of this machine. A star marks the one that a command without --name means here."""
    rows = asyncio.run(rows_of(context))
    if output is formats.Output.JSON:
        formats.say(formats.json_text(rows))
        return
    formats.say(text(rows, now_s=clocks.SystemClock().wall_ns() / 1e9, wide=output is formats.Output.WIDE))


async def rows_of(context: settings.Context) -> list[dict[str, Any]]:
    """Return a record for each cluster of this machine, in natural order."""
    meant = _meant(context)
    names = sorted(which.cluster_names(context.home, which.Need.STATE), key=formats.natural)
    return list(await asyncio.gather(*(_row(context, name, is_meant=name == meant) for name in names)))


def _meant(context: settings.Context) -> str | None:
    """Return the cluster that a command means without flags; None where that is none, or not known."""
    with contextlib.suppress(errors.CaricoError):
        return which.meant(context, which.Flags()).name
    return None


async def _row(context: settings.Context, name: str, *, is_meant: bool) -> dict[str, Any]:
    paths = folders.Paths(context.home / name)
    is_running = folders.is_running(paths)
    found: state.ClusterState | None = None
    with contextlib.suppress(errors.CaricoError):
        found = state.read(paths)
    row: dict[str, Any] = {
        "name": name, "meant": is_meant, "state": _LEFT, "started_at_ns": None, "nodes": None, "pods": None,
        "kind": None, "nats_url": None, "api_url": None, "folder": str(paths.root),
    }  # fmt: skip
    if found is None:
        return {**row, "state": state.Phase.STARTING.value if is_running else _LEFT}
    row |= {"nodes": found.plan.nodes, "kind": f"{found.plan.node_kind}, {found.plan.control_plane} API"}
    if not is_running:
        return row
    row |= {
        "state": found.phase.value, "started_at_ns": found.started_ns, "nats_url": found.public_nats_url,
        "api_url": found.api_url,
    }  # fmt: skip
    if found.phase is state.Phase.READY:
        services = local_services.rows(found, running=True)
        row["pods"], _ = await asyncio.gather(
            _pods(context, addresses.of_state(paths, found)), local_services.ask(services, found)
        )
        if row["pods"] is None or not all(each["ready"] for each in services):
            row["state"] = _NOT_READY
    return row


async def _pods(context: settings.Context, at: addresses.Address) -> int | None:
    """Return how many Pods the API has; None where it does not answer in time."""
    with contextlib.suppress(TimeoutError, errors.CaricoError, KeyError, TypeError):
        async with asyncio.timeout(ANSWER_S), connection.api_of(
            at, clocks.SystemClock(), context.environ, name="carico-list"
        ) as api:  # fmt: skip
            first = await api.request("GET", "/api/v1/pods", params={"limit": "1"})
            return len(first["items"]) + int(first["metadata"].get("remainingItemCount") or 0)
    return None


def text(rows: Sequence[dict[str, Any]], *, now_s: float, wide: bool = False) -> str:
    """Return the clusters as a table, and below it how to choose one."""
    if not rows:
        return "no cluster on this machine: `carico up` starts one"
    shown = [{**row, "since": _since(row["started_at_ns"], now_s, wide=wide), "name": _marked(row)} for row in rows]
    lines = formats.lines(shown, _WIDE if wide else _COLUMNS, "  NAME", width=None if wide else words.WIDTH)
    running = [row for row in rows if row["state"] != _LEFT]
    if len(running) > 1 and not any(row["meant"] for row in rows):
        lines += ["", f"choose one: `carico use {running[0]['name']}` starts a shell that means it"]
    unready = [row["name"] for row in rows if row["state"] == _NOT_READY]
    if unready:
        lines += ["", f"{_NOT_READY}: not every service answers: `carico status --name {unready[0]}` says which"]
    left = [row["name"] for row in rows if row["state"] == _LEFT]
    if left:
        lines += ["", f"{_LEFT}: ended without `carico down`: `carico down --name {left[0]}` removes it"]
    return "\n".join(lines)


def _marked(row: dict[str, Any]) -> str:
    return f"{'*' if row['meant'] else ' '} {row['name']}"


def _since(started_ns: int | None, now_s: float, *, wide: bool) -> str | None:
    """Return how long ago it was started; where it is wide also when, in local time."""
    if started_ns is None:
        return None
    if not wide:
        return formats.duration(max(now_s - started_ns / 1e9, 0.0))
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(started_ns / 1e9))
    return f"{at} ({formats.duration(max(now_s - started_ns / 1e9, 0.0))})"
