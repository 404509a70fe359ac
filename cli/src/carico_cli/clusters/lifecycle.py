"""`carico up` and `carico down`."""

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from carico_cli.clusters import integrations, starting, which
from carico_cli.live import addresses
from carico_cli.output import formats
from carico_cli.shell import exits, options, settings
from carico_local.cluster import client, folders
from carico_local.cluster import plan as plans

# A cluster ends in two or three seconds; one with a frozen supervisor takes a little more than `client.DOWN_TIMEOUT_S`.
SILENT_S = 10.0


@click.command()
@click.option("--name", help=f"Name of the cluster (default: ${which.CLUSTER}, else {options.DEFAULT_NAME}).")
@options.cluster
@click.pass_obj
def up(context: settings.Context, /, name: str | None, **given: Any) -> None:
    """Start a cluster in the background; return when it is ready."""
    # An empty --name is refused as a name: a script's variable may be unset.
    default = context.environ.get(which.CLUSTER) or options.DEFAULT_NAME
    wanted = options.request(default if name is None else name, given)
    binaries = starting.obtain(wanted, context)
    asyncio.run(_up(context, wanted, binaries))


async def _up(context: settings.Context, wanted: plans.Options, binaries: Mapping[str, str]) -> None:
    exits.cancel_on_signals()
    launched = await client.launch(
        wanted, home=context.home, environ=context.environ, restart=True, lifeline=False, fresh=False, binaries=binaries
    )  # fmt: skip
    try:
        await starting.show(launched, context)
    except BaseException as error:
        # Whatever ended the start early, Ctrl-C included: nothing is left, except the logs where it failed by itself.
        failed = not isinstance(error, asyncio.CancelledError)
        await exits.finished(launched.remove(keep_logs=failed), hurry=launched.kill)
        if failed and launched.paths.logs.exists():
            formats.say(f"the services' logs are kept in {launched.paths.logs}", err=True)
        raise
    env, *others = (addresses.carico_on(wanted.name, words) for words in ("env", "submit pi --pods 50", "top", "down"))
    formats.say(formats.next_steps([f'eval "$({env})"', *others]))


@click.command()
@which.name_flag
@click.option("--keep-logs", is_flag=True, help="Keep the services' logs.")
@click.pass_obj
def down(context: settings.Context, name: str | None, keep_logs: bool) -> None:
    """End a cluster and remove everything it left."""
    meant = which.meant(context, which.Flags(name=name), need=which.Need.STATE)
    instead = "end it as it was started: `docker compose down`, `kubectl delete`"
    paths = folders.find(context.home, meant.local_name(instead))
    asyncio.run(_down(paths, keep_logs=keep_logs))
    integrations.remove_context(context.environ, paths.name)
    formats.say(f"cluster {paths.name} is down" + (f"; logs are in {paths.logs}" if keep_logs else ""))


async def _down(paths: folders.Paths, *, keep_logs: bool) -> None:
    ending = asyncio.ensure_future(client.down(paths, keep_logs=keep_logs))
    done, _ = await asyncio.wait([ending], timeout=SILENT_S)
    if not done:
        formats.say(
            f"{paths.name} has not ended after {SILENT_S:g} s; it is killed after {client.DOWN_TIMEOUT_S:g} s", err=True
        )
    await ending
