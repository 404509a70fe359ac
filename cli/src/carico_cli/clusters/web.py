"""`carico web`: the live page of a cluster, in a browser of this machine."""

import asyncio
import contextlib
import dataclasses
import pathlib
import threading
import urllib.parse
from collections.abc import AsyncIterator, Callable

import click

from carico_cli.clusters import which
from carico_cli.shell import exits, settings
from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import state
from carico_web import service
from carico_web import settings as setting

LOOK_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRun:
    """A cluster from one `carico up` to its end, and its page. Equal objects are the same run."""

    started_ns: int
    chosen: setting.WebSettings
    url: str


# Returns the cluster's run now, or None.
Look = Callable[[], ClusterRun | None]


@click.command("web")
@which.name_flag
@click.option("--open", "opens", is_flag=True, help="Also open it in this machine's browser.")
@click.pass_obj
def command(context: settings.Context, name: str | None, opens: bool) -> None:
    """Serve the live page of a cluster on 127.0.0.1 until Ctrl-C: nodes, capacity, Pods as they are placed."""
    local = which.meant(context, which.Flags(name=name)).local_name("docs/web.md says how it serves its page")
    first = run_of(context.home, local)
    logs.setup(service=setting.PROGRAM, json=False, level="warning")
    asyncio.run(_until_interrupted(first, lambda: run_now(context.home, local), opens=opens))


def run_of(home: pathlib.Path, name: str) -> ClusterRun:
    """Return the run of a cluster. Raises `SettingsError` with what to do where it does not run."""
    _, found = state.running(home, name)
    if not found.page_url:
        raise errors.SettingsError(
            f"cluster {name!r} was started by a version without the page: `carico down --name {name}`, then "
            f"`carico up --name {name}`"
        )
    port = urllib.parse.urlsplit(found.page_url).port
    assert port is not None
    chosen = setting.WebSettings(bus_websocket=found.websocket_url, cluster=name, http_port=port)
    return ClusterRun(started_ns=found.started_ns, chosen=chosen, url=found.page_url)


def run_now(home: pathlib.Path, name: str) -> ClusterRun | None:
    """Return the run of a cluster, or None where it does not run."""
    try:
        return run_of(home, name)
    except errors.CaricoError:
        return None


async def _until_interrupted(first: ClusterRun, look: Look, *, opens: bool) -> None:
    exits.cancel_on_signals()
    with contextlib.suppress(asyncio.CancelledError):
        await serve(first, look, opens=opens)


async def serve(run: ClusterRun, look: Look, *, opens: bool) -> None:
    """Serve the page of each run of the cluster until cancelled; between two runs nothing listens.

    The port belongs to the cluster: if it were kept, the next run would take another one, and the open page would find
    neither. Raises `EnvironmentUnfit` where the port is taken.
    """
    opened = None
    while True:
        async with _listening(run):
            click.echo(f"{run.url}   the live page of cluster {run.chosen.cluster}; Ctrl-C ends it")
            if opens and opened != run.url:
                opened = run.url
                _open(run.url)
            await _ended(look, run)
        name = run.chosen.cluster
        click.echo(f"cluster {name} is gone: the page returns after `carico up --name {name}`; Ctrl-C ends it")
        run = await _next(look, run)


def _open(url: str) -> None:
    # Without a desktop this is a browser in the terminal, and lasts as long: the command's end must not wait for it.
    threading.Thread(target=click.launch, args=(url,), name="browser", daemon=True).start()


async def _ended(look: Look, run: ClusterRun) -> None:
    """Wait until the run has ended."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if look() != run:
            return


async def _next(look: Look, last: ClusterRun) -> ClusterRun:
    """Wait for the run after the last one, and return it."""
    while True:
        found = look()
        if found is not None and found != last:
            return found
        await asyncio.sleep(LOOK_EVERY_S)


@contextlib.asynccontextmanager
async def _listening(run: ClusterRun) -> AsyncIterator[None]:
    """Run the page's server, on the one port that the bus accepts as an origin."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(service.listening(run.chosen, clock=clocks.SystemClock()))
        except errors.EnvironmentUnfit as error:
            raise errors.EnvironmentUnfit(
                f"the page's port is in use: is `carico web --name {run.chosen.cluster}` running already, at {run.url}?"
            ) from error
        yield
