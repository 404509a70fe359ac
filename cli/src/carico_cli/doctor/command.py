"""`carico doctor`: checks a cluster before an install, and says what to do about each finding."""

import asyncio
import dataclasses

import click
import orjson

from carico_cli.clusters import which
from carico_cli.doctor import cluster, findings, signals
from carico_cli.shell import exits, settings
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles
from carico_local.cluster import full_disk, state

USER_AGENT = "carico-doctor"
AWAY = "is the kubeconfig's server right, and can it be reached from here?"


@click.command("doctor")
@click.option("--name", help="A local cluster of `carico up` (default: the cluster of your kubeconfig).")
@click.option("--kubeconfig", default="", help="Path (default: $KUBECONFIG, else ~/.kube/config).")
@click.option("--context", "kube_context", default="", help="Context of the kubeconfig (default: its current one).")
@click.option("--nats-url", help="Address of NATS (default: $NATS_URL; without either NATS is not looked at).")
@click.option("--namespace", default="carico", show_default=True, help="Where CARICO is, or will be, installed.")
@click.option("--json", "as_json", is_flag=True, help="JSON, for scripts.")
@click.pass_obj
def command(
    context: settings.Context, /, name: str | None, nats_url: str | None, namespace: str, as_json: bool, **more: str
) -> int:
    """Looks at versions, rights, NATS, and PSI on each node. Exit code 1 where something will not work."""
    wanted = api_client.KubeSettings(kubeconfig=more["kubeconfig"], context=more["kube_context"])
    url = nats_url or context.environ.get("NATS_URL")
    at: which.Address | None = None
    if name is not None:
        at = which.local(context.home, name)()
        wanted = at.kube
    elif url:
        at = which.remote(url, wanted, context.environ, given_by="--nats-url" if nats_url else "NATS_URL")()
    try:
        found = asyncio.run(_examine(context, wanted, at, namespace))
    except errors.KubeconfigError as error:
        hint = _of_here(context) if at is None and not any(more.values()) else ""
        raise errors.SettingsError(f"{error}{hint}") from None
    if as_json:
        click.echo(orjson.dumps([dataclasses.asdict(one) for one in found], option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(findings.text(found))
    return exits.FAILED if any(one.level is findings.Level.FAIL for one in found) else 0


def _disk(paths: state.Paths) -> list[findings.Finding]:
    why = full_disk.shortage(paths.root)
    return [] if why is None else [findings.fail("disk", why, "make room: what has ended is started again by itself")]


def _of_here(context: settings.Context) -> str:
    """What to say of the clusters of this machine where no other one was meant."""
    running = [name for name in state.cluster_names(context.home) if state.is_running(state.find(context.home, name))]
    return "".join(f"; for the one of `carico up` here: `carico doctor --name {name}`" for name in running)


async def _examine(
    context: settings.Context, wanted: api_client.KubeSettings, at: which.Address | None, namespace: str
) -> list[findings.Finding]:
    clock = clocks.SystemClock()
    seen = cluster.Seen(findings=[], nodes=[])
    api = await api_client.connect(wanted, clock=clock, user_agent=USER_AGENT, environ=context.environ)
    try:
        seen = await cluster.check(api, namespace, now_s=clock.wall_ns() / 1e9)
    except errors.ApiUnavailable as error:
        do = at.look if at is not None and at.is_local else AWAY
        seen.findings.append(findings.fail("Kubernetes", str(error), do))
    except errors.ApiError as error:
        do = "use a kubeconfig whose user may list nodes and pods"
        seen.findings.append(findings.fail("Kubernetes", str(error), do))
    finally:
        await api.close()
    if at is not None and at.is_local:
        seen.findings.extend(_disk(state.find(context.home, at.name)))
    if at is None:
        detail = "not looked at: no address; give --nats-url, or set NATS_URL, once it is installed"
        return [*seen.findings, findings.skip("NATS", detail)]
    return seen.findings + await signals.check(
        lambda: nats_bus.connect(
            at.bus, name=USER_AGENT, clock=clock, owns_streams=False, inbox=roles.inbox(roles.Role.CLI)
        ),
        seen.nodes,
        lease_s=at.bus.lease_s,
        now_s=clock.wall_ns() / 1e9,
        at=at,
        namespace=namespace,
    )
