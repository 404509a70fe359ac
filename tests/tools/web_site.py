"""A stage for the web page: a NATS server that takes WebSockets, a fleet of words, and the page's server."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator

from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_local import nats_server
from carico_local.cluster.services import web_access
from carico_web import service
from carico_web import settings as setting
from tests.tools import fake_fleet


class Stage:
    """What a test of the page needs: where it is, its bus' server, and who speaks."""

    def __init__(self, url: str, server: nats_server.NatsServer, fleet: fake_fleet.SpokenFleet) -> None:
        self.url = url
        self.server = server
        self.fleet = fleet


@contextlib.asynccontextmanager
async def stage(folder: pathlib.Path, *, nodes: int, decisions_each_s: float = 4.0) -> AsyncIterator[Stage]:
    """A stage for as long as the block runs."""
    clock = clocks.SystemClock()
    access = web_access.WebAccess(websocket_port=nats_server.free_port(), page_port=nats_server.free_port())
    server = nats_server.NatsServer(folder / "nats", extra=web_access.configuration(access)).start()
    try:
        bus = await nats_bus.connect(buses.BusSettings(url=server.url), name="fleet", clock=clock)
        fleet = fake_fleet.SpokenFleet(bus, count=nodes, clock=clock)
        chosen = setting.WebSettings(
            bus_websocket=access.websocket_url, cluster="stage", http_port=access.page_port
        )  # fmt: skip
        async with service.listening(chosen, clock=clock):
            speaking = asyncio.ensure_future(_speak(fleet, decisions_each_s))
            try:
                yield Stage(access.page_url, server, fleet)
            finally:
                speaking.cancel()
                await asyncio.gather(speaking, return_exceptions=True)
                await bus.close()
    finally:
        server.stop()


async def _speak(fleet: fake_fleet.SpokenFleet, decisions_each_s: float) -> None:
    while True:
        # A server that a test has stopped: said again when it is back.
        with contextlib.suppress(Exception):
            await fleet.speak(decisions_each_s=decisions_each_s)
        await asyncio.sleep(0.2)
