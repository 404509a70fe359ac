"""Run the web page with surroundings: a NATS server with WebSockets, a simulated fleet, and the page's server."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator

from carico_auth import arrangements
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.streams import kept
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import free_ports
from carico_local.cluster.services import web_access
from carico_web import service
from carico_web import settings as setting
from tests.tools.sites import fake_fleet, nats_site

PASSWORD = "secret"


class Stage:
    """A running page: its URL, its NATS server and its simulated fleet."""

    def __init__(self, url: str, server: nats_site.NatsServer, fleet: fake_fleet.FakeFleet) -> None:
        self.url = url
        self.server = server
        self.fleet = fleet


@contextlib.asynccontextmanager
async def stage(folder: pathlib.Path, *, nodes: int, decisions_each_s: float = 4.0) -> AsyncIterator[Stage]:
    """Run the page for as long as the block runs."""
    clock = clocks.SystemClock()
    access = web_access.WebAccess(websocket_port=free_ports.choose_one(), page_port=free_ports.choose_one())
    server = nats_site.NatsServer(folder / "nats", extra=web_access.configuration(access, PASSWORD)).start()
    try:
        address = server.url.removeprefix("nats://")
        fleets, agents = (
            buses.BusSettings(url=web_access.url(address, user, PASSWORD))
            for user in (arrangements.LOCAL, arrangements.AGENTS)
        )
        bus = await nats_bus.connect(fleets, name="fleet", clock=clock)
        agents_bus = await nats_bus.connect(agents, name="agents", clock=clock, owns_streams=False)
        # What an aggregator answers to readers.
        about = buses.ServiceSpec(name="carico-aggregator", description="kept", endpoints=kept.endpoints(bus))
        await bus.serve(about)
        fleet = fake_fleet.FakeFleet(bus, count=nodes, clock=clock, agents=agents_bus)
        chosen = setting.WebSettings(
            bus_websocket=access.websocket_url, cluster="stage", http_port=access.page_port
        )  # fmt: skip
        async with service.listening(chosen, clock=clock):
            await fleet.publish_past()
            publishing = asyncio.ensure_future(_publish(fleet, decisions_each_s))
            try:
                yield Stage(access.page_url, server, fleet)
            finally:
                publishing.cancel()
                await asyncio.gather(publishing, return_exceptions=True)
                await agents_bus.close()
                await bus.close()
    finally:
        server.stop()


async def _publish(fleet: fake_fleet.FakeFleet, decisions_each_s: float) -> None:
    while True:
        # A test may have stopped the server: publish again when it is back.
        with contextlib.suppress(Exception):
            await fleet.publish_forever(decisions_each_s=decisions_each_s)
        await asyncio.sleep(0.2)
