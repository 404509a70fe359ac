"""The page on a bus that requires identities: its server signs for it and keeps the seed."""

import pathlib

import playwright.async_api as browsers
import pytest

from carico_auth import server_config
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles
from carico_local.cluster import free_ports
from carico_web import service
from carico_web import settings as setting
from tests.tools.sites import fake_fleet, nats_site

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]
expect = browsers.expect
WITHIN_MS = 60_000


class Site:
    """A server with static identities, and the files of their seeds."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.port = free_ports.choose_one()
        self.websocket_port = free_ports.choose_one()
        names = ("reader.nk", "other.nk", "scheduler.nk", "agent.nk")
        self.reader, self.other, self.scheduler, self.agent = (folder / name for name in names)
        for path in (self.reader, self.other, self.scheduler, self.agent):
            path.write_text(nkeys.generate(nkeys.Kind.USER), encoding="ascii")
        people = (
            (roles.Role.READER, self.reader),
            (roles.Role.SCHEDULER, self.scheduler),
            (roles.Role.AGENT, self.agent),
        )
        users = server_config.static(
            [server_config.User(role=role, keys=[nkeys.read(path).public]) for role, path in people]
        )
        websocket = {
            "port": self.websocket_port, "host": "127.0.0.1", "no_tls": True,
            "allowed_origins": [f"http://127.0.0.1:{self.port}"],
        }  # fmt: skip
        self.server = nats_site.NatsServer(folder / "nats", extra={**users, "websocket": websocket})

    def settings(self, nkey: pathlib.Path) -> setting.WebSettings:
        """The page's server with this seed."""
        return setting.WebSettings(
            bus_websocket=f"ws://{{host}}:{self.websocket_port}", nkey=str(nkey), http_port=self.port
        )


async def test_a_reader_is_let_in_and_another_is_not(page: browsers.Page, tmp_path: pathlib.Path) -> None:
    clock = clocks.SystemClock()
    site = Site(tmp_path)
    site.server.start()
    url = f"http://127.0.0.1:{site.port}"
    try:
        async with service.listening(site.settings(site.other), clock=clock):
            await page.goto(url)
            await expect(page.get_by_role("alert")).to_contain_text("Authorization Violation", timeout=WITHIN_MS)
        scheduler = buses.BusSettings(url=site.server.url, nkey=str(site.scheduler))
        inbox = roles.inbox(roles.Role.SCHEDULER)
        streams = await nats_bus.connect(scheduler, name="scheduler", clock=clock, inbox=inbox)
        agent = buses.BusSettings(url=site.server.url, nkey=str(site.agent))
        bus = await nats_bus.connect(agent, name="agent", clock=clock, owns_streams=False)
        try:
            # The same page goes on by itself once its server shows who is let in.
            async with service.listening(site.settings(site.reader), clock=clock):
                await expect(page.locator("#bus-state")).to_have_text("live", timeout=WITHIN_MS)
                await expect(page.get_by_role("alert")).to_be_hidden()
                fleet = fake_fleet.FakeFleet(bus, count=1, clock=clock)
                payload = fleet.advertisement(fleet.nodes[0])
                await bus.publish("carico.v1.capacity.node-1", payload)
                await expect(page.locator("#sum-nodes")).to_have_text("1", timeout=WITHIN_MS)
        finally:
            await bus.close()
            await streams.close()
    finally:
        site.server.stop()
