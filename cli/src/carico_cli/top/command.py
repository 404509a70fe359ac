"""`carico top`: a live screen of a cluster; without a terminal, its picture once."""

import asyncio
import codecs
import dataclasses
import importlib.util
import io
import pathlib
import signal
import sys
from typing import Any

import click

from carico_cli.clusters import which
from carico_cli.live import connection, picture, reader
from carico_cli.output import formats
from carico_cli.shell import exits, settings
from carico_cli.top import once
from carico_core.domain import errors
from carico_core.runtime.observe import logs as log_setup
from carico_core.runtime.process import clock as clocks

USER_AGENT = "carico-top"
# Time for every node to be heard once (1 Hz) and for the services to answer.
LISTEN_S = 1.5
LEAST_EVERY_S = 0.2
MOST_EVERY_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How the picture is wanted."""

    every_s: float
    output: formats.Output
    svg: str | None
    node: str | None


@click.command("top")
@which.flags
@click.option("--every", "every_s", type=float, default=1.0, show_default=True, help="Seconds between two pictures.")
@click.option("--once", "is_once", is_flag=True, help="Print the picture once; so it does without a terminal.")
@formats.flag(formats.Output.JSON, formats.Output.WIDE)
@click.option("--svg", type=click.Path(dir_okay=False, writable=True), help="With --once: the screen into this file.")
@click.option("--node", help="Begin with a look into this node.")
@click.pass_obj
def command(
    context: settings.Context, /, is_once: bool, every_s: float, output: formats.Output, svg: str | None,
    node: str | None, **place: Any,
) -> int:  # fmt: skip
    """Show nodes, jobs, decisions and services live: sort, filter, pause, look into a node; ? shows the keys."""
    wish = Wish(every_s=every_s, output=output, svg=svg, node=node)
    _check(wish, is_once=is_once)
    where = which.meant(context, which.Flags(**place)).where()
    address = where()
    clock = clocks.SystemClock()
    connect = connection.connector(clock, context.environ, name=USER_AGENT)
    found = reader.Reader(where, connect, clock=clock, lease_s=address.bus.lease_s)
    why_not = None if is_once else undrawable(context.environ.get("TERM", ""))
    if is_once or why_not is not None:
        if why_not:
            click.echo(f"carico: {why_not}: the picture is printed once", err=True)
        seen = asyncio.run(_once(found, address.name, wish, clock))
        click.echo(seen) if wish.svg is None else _keep(seen, pathlib.Path(wish.svg))
        return 0
    code = asyncio.run(_watch(found, address.name, wish, clock))
    if code:
        raise KeyboardInterrupt
    return 0


def _check(wish: Wish, *, is_once: bool) -> None:
    """Check flags that exclude each other. Raises `UsageError`."""
    for flag, is_given in ((f"-o {wish.output}", wish.output is not formats.Output.TEXT), ("--svg", wish.svg)):
        if is_given and not is_once:
            raise click.UsageError(f"{flag} goes with --once: `carico top --once {flag}`")
    if wish.output is not formats.Output.TEXT and wish.svg:
        raise click.UsageError(f"got -o {wish.output} and --svg, expected one of them")
    if wish.node and is_once and not wish.svg:
        raise click.UsageError("--node goes with the live screen or with --svg: tables and JSON hold every node")
    if not LEAST_EVERY_S <= wish.every_s <= MOST_EVERY_S:
        got, least, most = wish.every_s, LEAST_EVERY_S, MOST_EVERY_S
        raise click.UsageError(f"--every: got {got:g}, expected {least:g} to {most:g} seconds")


def undrawable(term: str) -> str | None:
    """Return why a screen cannot be drawn: "" without a terminal, None where it can."""
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


async def _once(found: reader.Reader, name: str, wish: Wish, clock: clocks.Clock) -> str:
    """Return what is to be printed, or kept."""
    task = asyncio.ensure_future(found.run())
    try:
        seen = await _listen(found, task)
        if wish.svg is not None:
            # As for the screen: imported here, since nothing else needs it.
            from carico_cli.top import screen

            return await screen.draw_svg(found, name=name, clock=clock, node=wish.node)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if wish.output is formats.Output.JSON:
        return formats.json_text(once.as_json(seen, name=name))
    return once.as_text(seen, name=name, wide=wish.output is formats.Output.WIDE)


def _keep(svg: str, path: pathlib.Path) -> None:
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise errors.SettingsError(f"--svg: {path} cannot be written: {error.strerror}") from error
    click.echo(f"wrote {path}")


async def _listen(found: reader.Reader, task: "asyncio.Task[None]") -> picture.Picture:
    """Return the picture once all nodes had time to advertise. Raises `BusUnavailable` where there is no bus."""
    complete = asyncio.ensure_future(found.complete.wait())
    await asyncio.wait(
        [complete, task], timeout=reader.CONNECT_S + reader.AGAIN_S / 2.0, return_when=asyncio.FIRST_COMPLETED
    )
    if task.done():
        task.result()
    complete.cancel()
    if found.bus_trouble is not None:
        raise errors.BusUnavailable(f"NATS: {found.bus_trouble}: is the cluster up, and the address right?")
    await asyncio.sleep(LISTEN_S)
    return found.picture()


async def _watch(found: reader.Reader, name: str, wish: Wish, clock: clocks.Clock) -> int:
    # Imported here: of all commands only this screen needs it, and it takes a third of a second.
    from carico_cli.top import screen

    said = _LastLine()
    log_setup.setup(service="carico", json=False, level="error", stream=said)
    shown = screen.Top(found, name=name, clock=clock, every_s=wish.every_s, node=wish.node)
    shown.said = said.line
    reading = asyncio.ensure_future(found.run())
    drawing = asyncio.ensure_future(shown.run_async())
    # The terminal is left as it was found. One that is gone (SIGHUP) ends the process at once, as is the default: there
    # is nothing to restore, and a write to it may block for ever.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, shown.exit, exits.INTERRUPTED)
    try:
        await asyncio.wait([reading, drawing], return_when=asyncio.FIRST_COMPLETED)
        if not drawing.done():
            shown.exit(exits.FAILED)
        code = await drawing
        if reading.done():
            reading.result()
        return exits.FAILED if code is None else code
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class _LastLine(io.StringIO):
    """Keeps the last line that was written: nothing else may write where the screen is."""

    def __init__(self) -> None:
        super().__init__()
        self._line = ""

    def write(self, text: str, /) -> int:
        """Return how much was taken."""
        self._line = text.strip() or self._line
        return len(text)

    def line(self) -> str:
        """Return what was said last; "" where nothing was."""
        return self._line
