"""`carico top`: a live screen of a cluster; without a terminal, its picture once."""

import asyncio
import codecs
import importlib.util
import io
import signal
import sys

import click
import orjson

from carico_cli import options, settings
from carico_cli.live import connection, picture, reader
from carico_cli.live import where as places
from carico_cli.top import once
from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube
from carico_core.runtime import logs as log_setup

USER_AGENT = "carico-top"
EXIT_FAILED = 1
# Time for every node to be heard once (1 Hz) and for the services to answer.
LISTEN_S = 1.5
LEAST_EVERY_S = 0.2
MOST_EVERY_S = 60.0


@click.command("top")
@options.name()
@click.option("--nats-url", help="A cluster elsewhere: address of its NATS; CARICO_BUS_... says who you are there.")
@click.option("--kubeconfig", default="", help="With --nats-url: for its jobs (default: $KUBECONFIG, ~/.kube/config).")
@click.option("--context", "kube_context", default="", help="With --nats-url: context of the kubeconfig.")
@click.option("--every", "every_s", type=float, default=1.0, show_default=True, help="Seconds between two pictures.")
@click.option("--once", "is_once", is_flag=True, help="Print the picture once; so it does without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="With --once: JSON, as docs/top.md describes it.")
@click.pass_obj
def command(
    context: settings.Context, /, name: str, nats_url: str | None, every_s: float, is_once: bool, as_json: bool,
    **more: str,
) -> int:  # fmt: skip
    """Shows nodes, jobs, decisions and services live: sort, filter, pause, look into a node; ? shows the keys."""
    if as_json and not is_once:
        raise click.UsageError("--json goes with --once: `carico top --once --json`")
    if not LEAST_EVERY_S <= every_s <= MOST_EVERY_S:
        raise click.UsageError(f"--every: got {every_s:g}, expected {LEAST_EVERY_S:g} to {MOST_EVERY_S:g} seconds")
    where = places.local(context.home, name)
    if nats_url is not None:
        wanted = kube.KubeSettings(kubeconfig=more["kubeconfig"], context=more["kube_context"])
        where = places.remote(nats_url, wanted, context.environ)
    address = where()
    clock = clocks.SystemClock()
    found = reader.Reader(
        where, connection.connector(clock, context.environ, name=USER_AGENT), clock=clock, lease_s=address.bus.lease_s
    )
    why_not = None if is_once else undrawable(context.environ.get("TERM", ""))
    if is_once or why_not is not None:
        if why_not:
            click.echo(f"carico: {why_not}: the picture is printed once", err=True)
        return asyncio.run(_print(found, address.name, as_json=as_json))
    code = asyncio.run(_watch(found, address.name, clock, every_s))
    if code:
        raise KeyboardInterrupt
    return 0


def undrawable(term: str) -> str | None:
    """Why nothing can be drawn here: "" where there is no terminal at all; None where it can."""
    if not sys.stdout.isatty():
        return ""
    # Keys are read from standard input, and the screen is drawn by way of standard error.
    for stream, what in ((sys.stdin, "standard input"), (sys.stderr, "standard error")):
        if not stream.isatty():
            return f"{what} is no terminal"
    if term in ("", "dumb"):
        return f"this terminal cannot draw (TERM is {term!r}; try TERM=xterm-256color)"
    if importlib.util.find_spec("textual") is None:
        return "nothing to draw with is installed here (the package textual)"
    if codecs.lookup(sys.stdout.encoding).name != "utf-8":
        return f"this terminal cannot draw (its locale is {sys.stdout.encoding}; try LC_ALL=C.UTF-8)"
    return None


async def _print(found: reader.Reader, name: str, *, as_json: bool) -> int:
    task = asyncio.ensure_future(found.run())
    try:
        seen = await _listen(found, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if as_json:
        click.echo(orjson.dumps(once.as_json(seen, name=name), option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(once.as_text(seen, name=name))
    return 0


async def _listen(found: reader.Reader, task: "asyncio.Task[None]") -> picture.Picture:
    """The picture, once everybody had time to speak. Raises `BusUnavailable` where there is no bus."""
    complete = asyncio.ensure_future(found.complete.wait())
    await asyncio.wait(
        [complete, task], timeout=reader.CONNECT_S + reader.AGAIN_S / 2.0, return_when=asyncio.FIRST_COMPLETED
    )
    if task.done():
        task.result()
    if not complete.done():
        complete.cancel()
        raise errors.BusUnavailable(
            f"NATS: {found.bus_trouble or 'no answer'}: is the cluster up, and the address right?"
        )
    await asyncio.sleep(LISTEN_S)
    return found.picture()


async def _watch(found: reader.Reader, name: str, clock: clocks.Clock, every_s: float) -> int:
    # Imported here: of all commands only this screen needs it, and it takes a third of a second.
    from carico_cli.top import screen

    said = _LastLine()
    log_setup.setup(service="carico", json=False, level="error", stream=said)
    shown = screen.Top(found, name=name, clock=clock, every_s=every_s)
    shown.said = said.line
    reading = asyncio.ensure_future(found.run())
    drawing = asyncio.ensure_future(shown.run_async())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The terminal is left as it was found.
        loop.add_signal_handler(number, shown.exit, screen.EXIT_INTERRUPTED)
    try:
        await asyncio.wait([reading, drawing], return_when=asyncio.FIRST_COMPLETED)
        if not drawing.done():
            shown.exit(EXIT_FAILED)
        code = await drawing
        if reading.done():
            reading.result()
        return EXIT_FAILED if code is None else code
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class _LastLine(io.StringIO):
    """Keeps the last line that was written: where the screen is, nothing else may write."""

    def __init__(self) -> None:
        super().__init__()
        self._line = ""

    def write(self, text: str, /) -> int:
        """How much was taken."""
        self._line = text.strip() or self._line
        return len(text)

    def line(self) -> str:
        """What was said last; "" where nothing was."""
        return self._line
