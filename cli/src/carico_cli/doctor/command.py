"""`carico doctor`: checks a cluster, and says what to do about each finding."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import click

from carico_cli.clusters import local_services, which
from carico_cli.doctor import bus, findings, kubernetes, places
from carico_cli.live import addresses, connection
from carico_cli.output import formats
from carico_cli.shell import exits, settings
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import folders, machine, state

USER_AGENT = "carico-doctor"
# 2 is a user's mistake, as everywhere.
WARNED = 3
# Crashes that doctor reports; `carico status` shows older ones, too.
CRASHED_WITHIN_S = 600.0
AWAY = "is the kubeconfig's server right and reachable from here?"


@click.command("doctor")
@which.flags
@click.option(
    "--namespace", default="carico", show_default=True, help="Namespace where CARICO is or will be installed."
)
@formats.flag(formats.Output.JSON)
@click.pass_obj
def command(
    context: settings.Context, /, namespace: str, output: formats.Output, **place: Any
) -> int:  # fmt: skip
    """Check a cluster: versions, rights, Pods, NATS, and PSI on each node.

    Exit code 0: all is well; 3: there are warnings; 1: something does not work.

    Before an install there is no NATS: then it checks only the Kubernetes API of $KUBECONFIG or --kubeconfig.
    """
    meant = which.meant(context, which.Flags(**place), need=which.Need.API)
    at = None if meant.api is not None else meant.where()()
    wanted = meant.api if at is None else at.kube
    assert wanted is not None
    try:
        found = asyncio.run(_examine(context, wanted, at, namespace))
    except errors.KubeconfigError as error:
        by_flag = meant.by.startswith("--")
        here = [] if by_flag or at is not None else which.cluster_names(context.home, which.Need.STATE)
        running = which.cluster_names(context.home, which.Need.RUNNING)
        ask = " or ".join(f"`carico doctor --name {name}`" for name in here if name in running)
        hint = f"; for a cluster of this machine: {ask}" if ask else ""
        hint += "".join(
            f"; {name} on this machine does not run: `carico status --name {name}`"
            for name in here
            if name not in running
        )
        raise errors.SettingsError(f"{error}{hint}") from None
    if output is formats.Output.JSON:
        formats.say(formats.json_text([dataclasses.asdict(one) for one in found]))
    else:
        formats.say(findings.text(found))
    levels = {one.level for one in found}
    return exits.FAILED if findings.Level.FAIL in levels else WARNED if findings.Level.WARN in levels else 0


def _disk(paths: folders.Paths) -> list[findings.Finding]:
    why = machine.disk_shortage(paths.root)
    return (
        [] if why is None else [findings.fail("disk", why, "make room: services then go on, or restart, by themselves")]
    )


async def _services(paths: folders.Paths) -> list[findings.Finding]:
    """Return which of the services of a cluster of this machine do not answer, as `carico status` shows them."""
    found = state.read(paths)
    if found is None or not folders.is_running(paths):
        return []
    rows = local_services.rows(found, running=True)
    await local_services.ask(rows, found)
    unready = local_services.unready(rows, paths.name)
    warned = [findings.warn("services", f"not ready: {each.names} ({each.why})", each.do) for each in unready]
    warned += _crashes(found)
    return warned or [findings.ok("services", f"{len(rows)} {'is' if len(rows) == 1 else 'are'} ready")]


def _crashes(found: state.ClusterState) -> list[findings.Finding]:
    """Return a finding about services that crashed lately; their supervisor has started them again."""
    now_ns = clocks.SystemClock().wall_ns()
    # The last crash of each.
    ended_s_ago = {each.service: (each.how, (now_ns - each.at_ns) / 1e9) for each in found.crashes}
    shown = [
        (service, f"{service} ({how}, {formats.duration(ago_s)} ago)")
        for service, (how, ago_s) in ended_s_ago.items()
        if ago_s < CRASHED_WITHIN_S
    ]
    if not shown:
        return []
    detail = f"crashed in the last {formats.duration(CRASHED_WITHIN_S)}: {findings.names([text for _, text in shown])}"
    do = f"`carico logs {shown[0][0]} --name {found.plan.name}` shows what it wrote before"
    return [findings.warn("services", detail, do)]


def _connecting(at: addresses.Address, clock: clocks.Clock) -> Callable[[], Awaitable[nats_bus.NatsBus]]:
    return lambda: connection.join(at, clock, name=USER_AGENT, within_s=bus.CONNECT_MOST_S)


async def _examine(
    context: settings.Context, wanted: api_client.KubeSettings, at: addresses.Address | None, namespace: str
) -> list[findings.Finding]:
    clock = clocks.SystemClock()
    # Without a known bus, too, advice names the cluster by the flags of its API.
    place = places.Place.of(at or dataclasses.replace(addresses.OF_SHELL, kube=wanted), namespace)
    seen = kubernetes.Seen(findings=[], nodes=[], place=place)
    scheduler = bus.Scheduler() if at is None else await bus.scheduler(_connecting(at, clock), clock)
    api = await api_client.connect(wanted, clock=clock, user_agent=USER_AGENT, environ=context.environ)
    try:
        now_s = clock.wall_ns() / 1e9 + scheduler.ahead_s
        seen = await kubernetes.check(api, seen.place, now_s=now_s, scheduler_names=scheduler.names)
    except errors.ApiUnavailable as error:
        do = at.look if at is not None and at.is_local else AWAY
        seen.findings.append(findings.fail("Kubernetes", str(error), do))
    except errors.ApiError as error:
        do = "use a kubeconfig whose user may list nodes and pods"
        seen.findings.append(findings.fail("Kubernetes", str(error), do))
    finally:
        await api.close()
    if at is not None and at.is_local:
        paths = folders.find(context.home, at.name)
        seen.findings.extend([*await _services(paths), *_disk(paths)])
    if at is None:
        detail = "not checked, because its address is not known; give --nats-url or set NATS_URL once it is installed"
        return [*seen.findings, findings.skip("NATS", detail)]
    return seen.findings + await bus.check(
        _connecting(at, clock),
        seen.nodes,
        lease_s=at.bus.lease_s,
        now_s=clock.wall_ns() / 1e9 + scheduler.ahead_s,
        at=at,
        place=seen.place,
        ahead_s=scheduler.ahead_s,
    )
