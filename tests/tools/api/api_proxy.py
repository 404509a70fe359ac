"""A Kubernetes API seen through a proxy that notes every bind and its answer, and can hold binds on their way."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

# Of the connection and not of the message.
_HOP = frozenset({
    "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host", "authorization",
})  # fmt: skip


@dataclasses.dataclass(slots=True, kw_only=True)
class Bind:
    """One POST of a Binding. `status` is 0 until the API has answered; times are monotonic seconds."""

    pod: str
    sent_s: float
    status: int = 0


class Proxy:
    """One client's way to the API, which sees the proxy's own token whatever the client shows."""

    def __init__(self, target: str, *, token: str) -> None:
        self._target = target
        self._token = token
        self.binds: list[Bind] = []
        self.url = ""
        # Cleared: binds that have left the client stay here.
        self.lets_binds_pass = asyncio.Event()
        self.lets_binds_pass.set()
        # The API never sees a bind: each is answered by 403.
        self.refuses_binds = False
        self._session: aiohttp.ClientSession

    @property
    def bound(self) -> list[str]:
        """The Pods whose bind was accepted, in order."""
        return [each.pod for each in self.binds if each.status == 201]

    @property
    def held(self) -> list[str]:
        """The Pods whose bind has no answer yet."""
        return [each.pod for each in self.binds if each.status == 0]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Passes a request on, and its answer back as it comes."""
        body = await request.read()
        if not request.path.endswith("/binding"):
            return await self._pass(request, body)
        noted = Bind(pod=request.path.split("/")[-2], sent_s=time.monotonic())
        self.binds.append(noted)
        # Shielded: what has left the client lands, whether or not anybody still waits for the answer.
        return await asyncio.shield(asyncio.ensure_future(self._bind(noted, request.path, body)))

    async def _bind(self, noted: Bind, path: str, body: bytes) -> web.Response:
        await self.lets_binds_pass.wait()
        if self.refuses_binds:
            noted.status = 403
            return web.json_response({"kind": "Status", "reason": "Forbidden", "message": "no rights"}, status=403)
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._target + path, data=body, headers=headers) as answer:
            payload = await answer.read()
            noted.status = answer.status
            return web.Response(body=payload, status=answer.status, content_type="application/json")

    async def _pass(self, request: web.Request, body: bytes) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = self._target + request.path_qs
        response: web.StreamResponse | None = None
        try:
            async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                with contextlib.suppress(ConnectionError):
                    async for chunk in answer.content.iter_any():
                        await response.write(chunk)
                return response
        except aiohttp.ClientError:
            if response is None:
                return web.Response(status=503)
            # An answer that has begun can only be broken off.
            if request.transport is not None:
                request.transport.abort()
            return response

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Proxy"]:
        """The proxy at `url`."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self.handle)
        # A watch without a reader must not delay the test's end.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._session = aiohttp.ClientSession(
            auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None),
            headers={"Authorization": f"Bearer {self._token}"},
        )  # fmt: skip
        try:
            yield self
        finally:
            await runner.cleanup()
            await self._session.close()
