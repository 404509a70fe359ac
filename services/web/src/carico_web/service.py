"""The web page's HTTP server. It needs neither the bus nor the Kubernetes API."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

from carico_core.runtime.observe import health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import connections, tasks
from carico_core.runtime.process.connections import web
from carico_web import identity, site
from carico_web import settings as setting

# For a request to arrive, and for a connection without one.
REQUEST_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 2.0
# How long a refused request is still read, so that the client can read the answer: the default of aiohttp.
LINGER_S = 10.0
BODY_LIMIT_BYTES = 1024
# A browser opens six; who opens all of them keeps no other address out, such as that of a kubelet's probes.
CONNECTIONS_MOST = 256
_TOO_LARGE = site.Response(status=413, body=f"expected a body of at most {BODY_LIMIT_BYTES} bytes\n".encode())


@dataclasses.dataclass(frozen=True, slots=True)
class Listening:
    """A server that listens on `port`."""

    port: int


async def serve(chosen: setting.WebSettings, stop: tasks.Stop, *, clock: clocks.Clock) -> None:
    """Serve the page until `stop`. Raises `EnvironmentUnfit` where the address cannot be used."""
    async with listening(chosen, clock=clock) as server:
        logs.get("service").info("started", http_host=chosen.http_host, http_port=server.port)
        await stop.wait()


@contextlib.asynccontextmanager
async def listening(chosen: setting.WebSettings, *, clock: clocks.Clock) -> AsyncIterator[Listening]:
    """Listen for as long as the block runs. Raises `EnvironmentUnfit`."""
    series = metrics.Metrics("web")
    who = identity.of(nkey=chosen.nkey, token_file=chosen.token_file)
    answers = site.Site(chosen, site.read_files(), who, health.Health({"identity": who.trouble}), series)
    app = web.Application(client_max_size=BODY_LIMIT_BYTES)
    app.router.add_route("*", "/{path:.*}", _Requests(answers, site.Instruments(series), clock=clock).handle)
    limits = connections.Limits(
        most=CONNECTIONS_MOST, handshake_s=REQUEST_TIMEOUT_S, idle_s=REQUEST_TIMEOUT_S, stop_s=STOP_TIMEOUT_S,
        linger_s=LINGER_S,
    )  # fmt: skip
    listener = connections.listen(
        chosen.http_host, chosen.http_port, limits, purpose="the page",
        advice="give --http-port another port, or 0 for a free one",
    )  # fmt: skip
    async with connections.serving(app, listener, limits, context=None) as port:
        yield Listening(port)


class _Requests:
    """Reads requests, has the site answer them, and counts the responses."""

    def __init__(self, answers: site.Site, counted: site.Instruments, *, clock: clocks.Clock) -> None:
        self._answers = answers
        self._clock = clock
        self._log = logs.get("requests")
        self._counted = counted

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        response = await self._response(request)
        self._counted.responses.labels(str(response.status)).inc()
        headers = {"Content-Type": response.content_type, **response.headers}
        return web.Response(status=response.status, body=response.body, headers=headers)

    async def _response(self, request: web.Request) -> site.Response:
        if (request.content_length or 0) > BODY_LIMIT_BYTES:
            return _TOO_LARGE
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _TOO_LARGE
        except TimeoutError:
            return site.Response(status=408, body=b"the body did not arrive in time\n")
        headers = {name.lower(): value for name, value in request.headers.items()}
        return self._answer(site.Request(method=request.method, path=request.path, headers=headers, body=body))

    def _answer(self, request: site.Request) -> site.Response:
        started_s = self._clock.monotonic_s()
        try:
            return self._answers.answer(request)
        except Exception:  # the boundary of one request
            self._log.exception("request failed", path=request.path)
            return site.Response(status=503, body=b"the server failed; its log says why\n")
        finally:
            self._counted.answer_s.observe(self._clock.monotonic_s() - started_s)
