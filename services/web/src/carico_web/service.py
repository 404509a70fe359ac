"""The web page's server: listens, answers, stops in order. It needs neither the bus nor the Kubernetes API."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

from carico_core.domain import errors
from carico_core.runtime.observe import health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_web import exchange, identity, instruments, page_files, site
from carico_web import settings as setting

REQUEST_TIMEOUT_S = 10.0
# A page takes two dozen short requests; who wants more at once waits in the kernel's queue or is turned away.
CONNECTIONS_MOST = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Listening:
    """A server that listens on `port`."""

    port: int


async def serve(chosen: setting.WebSettings, stop: tasks.Stop, *, clock: clocks.Clock) -> None:
    """Serves the page until `stop`. Raises `EnvironmentUnfit` where the address cannot be used."""
    async with listening(chosen, clock=clock) as server:
        logs.get("service").info("started", http_host=chosen.http_host, http_port=server.port)
        await stop.wait()


@contextlib.asynccontextmanager
async def listening(chosen: setting.WebSettings, *, clock: clocks.Clock) -> AsyncIterator[Listening]:
    """A server for as long as the block runs. Raises `EnvironmentUnfit`."""
    series = metrics.Metrics("web")
    who = identity.of(nkey=chosen.nkey, token_file=chosen.token_file)
    answers = site.Site(chosen, page_files.read(), who, health.Health({"identity": who.trouble}), series)
    door = _Door(answers, instruments.Instruments(series), clock=clock)
    try:
        server = await asyncio.start_server(
            door.handle, chosen.http_host, chosen.http_port, limit=exchange.HEAD_LIMIT_BYTES
        )
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot listen on {chosen.http_host}:{chosen.http_port} for the page ({error.strerror}): "
            "give --http-port another port, or 0 for a free one"
        ) from error
    try:
        yield Listening(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await door.connections.end()


class _Door:
    """Takes connections: one request each."""

    def __init__(self, answers: site.Site, counted: instruments.Instruments, *, clock: clocks.Clock) -> None:
        self._answers = answers
        self._clock = clock
        self.connections = health.Connections()
        self._log = logs.get("door")
        self._counted = counted

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        with self.connections.kept(writer), contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._exchange(reader, writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_head = False
        if len(self.connections) > CONNECTIONS_MOST:
            response = exchange.Response(status=503, body=b"too many connections\n")
        else:
            try:
                request = await exchange.read(reader)
                is_head = request.method == "HEAD"
                response = self._answer(request)
            except exchange.BadRequest as error:
                response = exchange.Response(status=error.status, body=f"{error}\n".encode())
        self._counted.responses.labels(str(response.status)).inc()
        writer.write(exchange.format_response(response, with_body=not is_head))
        await writer.drain()

    def _answer(self, request: exchange.Request) -> exchange.Response:
        started_s = self._clock.monotonic_s()
        try:
            return self._answers.answer(request)
        except Exception:
            # One request at fault must not close the door for all.
            self._log.exception("request failed", path=request.path)
            return exchange.Response(status=503, body=b"the server failed: its log says why\n")
        finally:
            self._counted.answer_s.observe(self._clock.monotonic_s() - started_s)
