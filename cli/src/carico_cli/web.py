"""`carico web`: the live page of a cluster, in a browser of this machine."""

import asyncio
import contextlib
import urllib.parse

import click

from carico_cli import interrupts, options, settings
from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import logs
from carico_local.cluster import state
from carico_web import service
from carico_web import settings as setting


@click.command("web")
@options.name()
@click.option("--open", "opens", is_flag=True, help="Open it in this machine's browser.")
@click.pass_obj
def command(context: settings.Context, name: str, opens: bool) -> None:
    """Serves the live page of a cluster on 127.0.0.1, until Ctrl-C: nodes, capacity, Pods as they are placed."""
    chosen, url = _of_cluster(context, name)
    logs.setup(service=setting.PROGRAM, json=False, level="warning")
    asyncio.run(_serve(chosen, url, opens=opens))


def _of_cluster(context: settings.Context, name: str) -> tuple[setting.WebSettings, str]:
    paths = state.find(context.home, name)
    found = state.read(paths)
    if found is None or not state.is_running(paths):
        raise errors.SettingsError(f"cluster {name!r} does not run: `carico up --name {name}`")
    if not found.page_url:
        raise errors.SettingsError(
            f"cluster {name!r} was started by a carico without the page: `carico down --name {name}`, then `carico up`"
        )
    port = urllib.parse.urlsplit(found.page_url).port
    assert port is not None
    chosen = setting.WebSettings(bus_websocket=found.websocket_url, cluster=name, http_port=port)
    return chosen, found.page_url


async def _serve(chosen: setting.WebSettings, url: str, *, opens: bool) -> None:
    interrupts.cancel_on_signals()
    # The bus lets in pages of this address alone, so that no other port will do.
    try:
        async with service.listening(chosen, clock=clocks.SystemClock()):
            click.echo(f"{url}   the live page of cluster {chosen.cluster}; Ctrl-C ends it")
            if opens:
                await asyncio.to_thread(click.launch, url)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
    except errors.EnvironmentUnfit as error:
        raise errors.EnvironmentUnfit(
            f"the page's port is taken: is `carico web --name {chosen.cluster}` running already, at {url}?"
        ) from error
