"""The services of a cluster of this machine: which of them answer now, and why the others do not.

The supervisor's state may still list a frozen one as ready.
"""

import asyncio
from typing import Any, NamedTuple

from carico_cli.doctor import findings
from carico_local.cluster import processes, state
from carico_local.cluster.services import probes


class Unready(NamedTuple):
    """Services that are not ready for one reason, and what to do about it."""

    names: str
    why: str
    do: str


def rows(found: state.ClusterState, *, running: bool) -> list[dict[str, Any]]:
    """Return a row for each service, as its supervisor lists it."""
    return [
        {
            "name": service.name,
            "ready": running and service.ready,
            "pid": service.process.pid if service.process and running else None,
            "restarts": service.restarts,
        }
        for service in found.services
    ]


async def ask(services: list[dict[str, Any]], found: state.ClusterState) -> None:
    """Ask each service whether it is ready now, and mark those that are not, with `why_not`.

    A supervisor that a signal has stopped gets a row, too.
    """
    # NATS has no health page: who is connected to it finds out whether it answers.
    ports = {each.name: each.http_port for each in found.services if each.http_port and each.name != probes.NATS}
    asked = [row for row in services if row["ready"] and row["name"] in ports]
    checks = [probes.of(found.plan, row["name"], ports[row["name"]]) for row in asked]
    answers = await asyncio.gather(*(check.why_not() for check in checks))
    for row, why_not in zip(asked, answers, strict=True):
        row["ready"], row["why_not"] = why_not is None, why_not
    if processes.is_stopped(found.supervisor.pid):
        # It restarts nothing.
        services.append({"name": "supervisor", "ready": True, "pid": found.supervisor.pid, "restarts": 0})
    for row in services:
        # It answers nothing, a node has no health page, and the log of neither says why.
        if row["pid"] is not None and processes.is_stopped(row["pid"]):
            row |= {"ready": False, "why_not": f"a signal has stopped its process {row['pid']}", "stopped": True}


def unready(services: list[dict[str, Any]], cluster: str) -> list[Unready]:
    """Return the services that are not ready, by reason."""
    by_reason: dict[str, list[dict[str, Any]]] = {}
    for row in services:
        if not row["ready"]:
            by_reason.setdefault(row.get("why_not") or "it is starting, or has ended", []).append(row)
    return [
        Unready(findings.names([row["name"] for row in found]), why, _remedy(found[0], cluster))
        for why, found in by_reason.items()
    ]


def _remedy(row: dict[str, Any], cluster: str) -> str:
    if row.get("stopped"):
        return f"`kill -CONT {row['pid']}` continues it"
    return f"`carico logs {row['name']} --name {cluster}`"
