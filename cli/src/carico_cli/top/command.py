"""`carico top`: a live screen of a cluster; without a terminal, one picture as text."""

import asyncio
import codecs
import contextlib
import dataclasses
import importlib.util
import io
import pathlib
import signal
import sys
from typing import Any

import click

from carico_cli.clusters import which
from carico_cli.live import addresses, connection, picture, reader
from carico_cli.output import formats
from carico_cli.shell import exits, settings
from carico_cli.top import once
from carico_core.domain import errors
from carico_core.runtime.observe import logs as log_setup
from carico_core.runtime.process import clock as clocks

USER_AGENT = "carico-top"
# 1,000 agents have answered what their Pods use within a second, unless the bus is away.
LOADS_MOST_S = 5.0
# Nodes that an error message lists.
_NODES_NAMED = 5
# How long a line of the log is shown: what lasts is shown as trouble.
LOGGED_S = 15.0
LEAST_EVERY_S = 0.2
MOST_EVERY_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the flags ask for."""

    every_s: float
    output: formats.Output
    svg: str | None
    node: str | None
    with_pods: bool


@click.command("top")
@which.flags
@click.option("--every", "every_s", type=float, default=1.0, show_default=True, help="Seconds between two updates.")
@click.option("--once", "is_once", is_flag=True, help="Print tables once (default without a terminal).")
@formats.flag(formats.Output.JSON, formats.Output.WIDE)
@click.option(
    "--svg", type=click.Path(dir_okay=False, writable=True), help="With --once: write the screen to this file."
)
@click.option("--node", help="Open this node's view first.")
@click.option("--pods", "with_pods", is_flag=True, help="With --once: list the Pods, and what each uses.")
@click.pass_obj
def command(
    context: settings.Context, /, is_once: bool, every_s: float, output: formats.Output, svg: str | None,
    node: str | None, with_pods: bool, **place: Any,
) -> int:  # fmt: skip
    """Show nodes, jobs, decisions and services live: sort, filter, pause, open a node; ? shows the keys."""
    chosen = Choices(every_s=every_s, output=output, svg=svg, node=node, with_pods=with_pods)
    _check(chosen, is_once=is_once)
    where = which.meant(context, which.Flags(**place)).where()
    address = where()
    clock = clocks.SystemClock()
    connect = connection.connector(clock, context.environ, name=USER_AGENT)
    found = reader.Reader(where, connect, clock=clock, lease_s=address.bus.lease_s)
    why_not = None if is_once else undrawable(context.environ.get("TERM", ""))
    if is_once or why_not is not None:
        if why_not:
            formats.say(f"carico: {why_not}: printing tables once", err=True)
        seen = asyncio.run(_once(found, address, chosen, clock))
        formats.say(seen) if chosen.svg is None else _write(seen, pathlib.Path(chosen.svg))
        return 0
    code = asyncio.run(_watch(found, address.name, chosen, clock))
    if code:
        raise KeyboardInterrupt
    return 0


def _check(chosen: Choices, *, is_once: bool) -> None:
    """Check flags that exclude each other. Raises `UsageError`."""
    flags = (
        (f"-o {chosen.output}", chosen.output is not formats.Output.TEXT), ("--svg", chosen.svg),
        ("--pods", chosen.with_pods),
    )  # fmt: skip
    for flag, is_given in flags:
        if is_given and not is_once:
            raise click.UsageError(f"{flag} needs --once")
    if chosen.with_pods and chosen.svg:
        raise click.UsageError("got --pods and --svg, expected one of them")
    if chosen.output is not formats.Output.TEXT and chosen.svg:
        raise click.UsageError(f"got -o {chosen.output} and --svg, expected one of them")
    if chosen.node and is_once and not chosen.svg:
        raise click.UsageError("--node needs the live screen or --svg: tables and JSON show every node")
    if not LEAST_EVERY_S <= chosen.every_s <= MOST_EVERY_S:
        got, least, most = chosen.every_s, LEAST_EVERY_S, MOST_EVERY_S
        raise click.UsageError(f"--every: got {got:g}, expected {least:g} to {most:g} seconds")


def undrawable(term: str) -> str | None:
    """Return why a screen cannot be drawn: "" without a terminal, None if it can."""
    if not sys.stdout.isatty():
        return ""
    # Textual reads keys from standard input and draws on standard error.
    for stream, what in ((sys.stdin, "standard input"), (sys.stderr, "standard error")):
        if not stream.isatty():
            return f"{what} is not a terminal"
    if term in ("", "dumb"):
        return f"this terminal cannot draw a screen (TERM is {term!r}; try TERM=xterm-256color)"
    if importlib.util.find_spec("textual") is None:
        return "the Python package textual, which draws the screen, is not installed"
    if codecs.lookup(sys.stdout.encoding).name != "utf-8":
        return f"this terminal cannot draw a screen (its encoding is {sys.stdout.encoding}; try LC_ALL=C.UTF-8)"
    return None


async def _once(found: reader.Reader, at: addresses.Address, chosen: Choices, clock: clocks.Clock) -> str:
    """Return the text to print, or the SVG to write. Raises `BusUnavailable`; `SettingsError` for an unknown node."""
    name = at.name
    task = asyncio.ensure_future(found.run())
    try:
        seen = await _listen(found, task)
        if seen is None:
            raise errors.BusUnavailable(f"NATS: {found.bus_trouble}; {at.look}")
        if chosen.node is not None and seen.node(chosen.node) is None:
            known = ", ".join(node.name for node in seen.nodes[:_NODES_NAMED]) or "none"
            raise errors.SettingsError(f"--node: got {chosen.node!r}, expected a node of the cluster, such as {known}")
        if chosen.svg is not None:
            # Imported here, as in `_watch`: only the screen needs it.
            from carico_cli.top import screen

            return await screen.draw_svg(found, name=name, clock=clock, node=chosen.node)
        if chosen.with_pods:
            seen = await _with_loads(found)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if chosen.output is formats.Output.JSON:
        return formats.json_text(once.as_json(seen, name=name, with_pods=chosen.with_pods))
    return once.as_text(seen, name=name, wide=chosen.output is formats.Output.WIDE, with_pods=chosen.with_pods)


def _write(svg: str, path: pathlib.Path) -> None:
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise errors.SettingsError(f"--svg: {path} cannot be written: {error.strerror}") from error
    formats.say(f"wrote {path}")


async def _listen(found: reader.Reader, task: "asyncio.Task[None]") -> picture.Picture | None:
    """Return the picture after all nodes had time to advertise; None where there is no bus."""
    complete = asyncio.ensure_future(found.complete.wait())
    await asyncio.wait(
        [complete, task], timeout=reader.CONNECT_S + reader.AGAIN_S / 2.0, return_when=asyncio.FIRST_COMPLETED
    )
    if task.done():
        task.result()
    complete.cancel()
    if found.bus_trouble is not None:
        return None
    await asyncio.sleep(picture.ADVERTISED_WITHIN_S)
    return found.picture()


async def _with_loads(found: reader.Reader) -> picture.Picture:
    """Return the picture with what Pods use, as their nodes' agents answer."""
    found.loads.watch()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOADS_MOST_S):
            await found.loads.asked.wait()
    return found.picture()


async def _watch(found: reader.Reader, name: str, chosen: Choices, clock: clocks.Clock) -> int:
    # Imported here: only this screen needs it, and it takes a third of a second.
    from carico_cli.top import screen

    log = LastLine(clock)
    log_setup.setup(service="carico", json=False, level="error", stream=log)
    shown = screen.Top(found, name=name, clock=clock, every_s=chosen.every_s, node=chosen.node)
    shown.log_line = log.line
    reading = asyncio.ensure_future(found.run())
    drawing = asyncio.ensure_future(shown.run_async())
    # The terminal is restored. One that is gone (SIGHUP) ends the process at once, as by default: there is nothing to
    # restore, and a write to it may block forever.
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


class LastLine(io.StringIO):
    """Keeps the last line written to it for some seconds: the log must not write over the screen."""

    def __init__(self, clock: clocks.Clock) -> None:
        super().__init__()
        self._clock = clock
        self._line, self._at_s = "", 0.0

    def write(self, text: str, /) -> int:
        """Keep the text; return its length."""
        if text.strip():
            self._line, self._at_s = text.strip(), self._clock.monotonic_s()
        return len(text)

    def line(self) -> str:
        """Return the last line while it is new, or ""."""
        return self._line if self._clock.monotonic_s() - self._at_s < LOGGED_S else ""
