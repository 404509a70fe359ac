"""The live page behind a sign-on, as docs/web.md describes it: nothing passes without it, everything with it."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from carico_auth import server_config
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles
from carico_local.cluster import free_ports
from carico_web import service
from carico_web import settings as setting
from tests.tools import waiting
from tests.tools.sites import nats_site

NAME = "carico.example"
ORIGIN = f"https://{NAME}"
COOKIE = "session=signed-on"


class Entrance:
    """A reverse proxy that asks for a session, then sends `/bus` to NATS and the rest to the page's server."""

    def __init__(self, page: str, bus: str) -> None:
        self._page = page
        self._bus = bus

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Cookie") != COOKIE:
            raise web.HTTPUnauthorized
        async with aiohttp.ClientSession() as client:
            if request.path == "/bus":
                return await self._bridge(client, request)
            body = await request.read()
            url = f"{self._page}{request.path}"
            async with client.request(request.method, url, headers=_forwarded(request), data=body) as found:
                return web.Response(status=found.status, body=await found.read(), content_type=found.content_type)

    async def _bridge(self, client: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        try:
            inside = await client.ws_connect(self._bus, origin=request.headers["Origin"])
        except aiohttp.WSServerHandshakeError as error:
            return web.Response(status=error.status)
        outside = web.WebSocketResponse()
        await outside.prepare(request)
        async with inside:
            # NATS speaks first; what the page answers to that does not matter here.
            await outside.send_bytes(await inside.receive_bytes(timeout=waiting.WAIT_S))
        await outside.close()
        return outside


def _forwarded(request: web.Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name.lower() in ("host", "content-type")}


@contextlib.asynccontextmanager
async def entrance(folder: pathlib.Path) -> AsyncIterator[tuple[str, str]]:
    """Yield the addresses of the proxy, and of the page's server that only the proxy should reach."""
    seed = folder / "reader.nk"
    seed.write_text(nkeys.generate(nkeys.Kind.USER), encoding="ascii")
    user = server_config.User(role=roles.Role.READER, keys=[nkeys.read(seed).public])
    port = free_ports.choose_one()
    websocket = {"port": port, "host": "127.0.0.1", "no_tls": True, "allowed_origins": [ORIGIN]}
    nats = nats_site.NatsServer(folder / "nats", extra={**server_config.static([user]), "websocket": websocket})
    chosen = setting.WebSettings(hosts=NAME, nkey=str(seed), http_port=0)
    nats.start()
    try:
        async with service.listening(chosen, clock=clocks.SystemClock()) as page:
            direct = f"http://127.0.0.1:{page.port}"
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", Entrance(direct, f"http://127.0.0.1:{port}").answer)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            try:
                yield f"http://127.0.0.1:{runner.addresses[0][1]}", direct
            finally:
                await runner.cleanup()
    finally:
        nats.stop()


async def test_the_page_stands_behind_a_sign_on(tmp_path: pathlib.Path) -> None:
    shown = {"Host": NAME, "Cookie": COOKIE}
    async with entrance(tmp_path) as (url, direct), aiohttp.ClientSession() as client:
        for method, path in (("GET", "/"), ("GET", "/settings.json"), ("POST", "/identity"), ("GET", "/bus")):
            async with client.request(method, url + path, headers={"Host": NAME}) as refused:
                assert refused.status == 401, path
        async with client.get(url, headers=shown) as page:
            assert (page.status, "<html" in await page.text()) == (200, True)
        async with client.post(f"{url}/identity", headers=shown, json={"nonce": "x" * 11}) as identity:
            assert identity.status == 200, await identity.text()
        async with client.ws_connect(f"{url}/bus", headers=shown, origin=ORIGIN) as bus:
            assert (await asyncio.wait_for(bus.receive_bytes(), waiting.WAIT_S)).startswith(b"INFO ")
        with pytest.raises(aiohttp.WSServerHandshakeError) as foreign:
            await client.ws_connect(f"{url}/bus", headers=shown, origin="https://elsewhere.example")
        assert foreign.value.status == 403
        # Who finds another way to the page's server does not have the name under which it answers.
        async with client.get(direct) as other:
            assert other.status == 421
