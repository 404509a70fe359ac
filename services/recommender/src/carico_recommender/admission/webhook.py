"""The webhook's HTTPS server: it accepts connections from anywhere in the cluster, so that all it holds is bounded.

No address can take the places of another: with all of them taken, a new connection closes one of the address that has
most, so that a Pod that opens connections without end does not keep the API server out.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web

from carico_core.domain import errors, usage
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_recommender import instruments
from carico_recommender.admission import certificates, registration, review

# An object has at most 1.5 MiB (etcd).
BODY_LIMIT_BYTES = 4 * 2**20
# An API server has a few. Each takes 0.4 MB while TLS is set up.
CONNECTIONS_MOST = 128
# Bodies that are in memory at a time: 32 MiB.
BODIES_MOST = 8
# The API server waits for a second in all.
HANDSHAKE_MOST_S = 2.0
BODY_MOST_S = 1.0
# A connection without a whole question for this long is closed, by aiohttp. One that asks is not: a handler that is
# closed while it waits takes in the API server's next question without an answer.
IDLE_MOST_S = 60.0
PATH = "/pods"
STOP_TIMEOUT_S = 2.0
# The kubelet replaces the files of a Secret within about a minute.
LOOK_EVERY_S = 30.0
# While the API server does not trust this replica.
LOOK_AGAIN_S = 2.0
# aiohttp logs a traceback for each malformed request, which anybody can send.
_SILENT = logging.Logger("aiohttp", level=logging.CRITICAL + 1)


class Webhook:
    """Answers reviews of Pods by what `lookup` knows of a class; sets requests of `dimensions`."""

    def __init__(
        self, lookup: review.Lookup, counted: instruments.Instruments, *, clock: clocks.Clock,
        rules: review.RulesOf = review.no_rules, dimensions: Sequence[str] = usage.DIMS,
    ) -> None:  # fmt: skip
        self._lookup = lookup
        self._rules = rules
        self._dimensions = tuple(dimensions)
        self.counted = counted
        self._clock = clock
        self._bodies = asyncio.Semaphore(BODIES_MOST)
        self._limited = logs.RateLimited(logs.get("admission"), clock=clock)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review. Only what is no review is refused, which the API server ignores."""
        async with self._bodies:
            try:
                async with asyncio.timeout(BODY_MOST_S):
                    body = await request.read()
            except web.HTTPRequestEntityTooLarge:
                return self._refused("too_large", f"a body above {BODY_LIMIT_BYTES >> 20} MiB", status=413)
            except TimeoutError:
                return self._refused("too_slow", f"a body that took more than {BODY_MOST_S:g} s", status=408)
            return self._answer(body)

    def _answer(self, body: bytes) -> web.Response:
        started_s = self._clock.monotonic_s()
        try:
            found = review.answer(body, self._lookup, rules=self._rules, dimensions=self._dimensions)
        except ValueError as error:
            return self._refused("no_review", str(error), status=400)
        self.counted.reviews.labels(found.result.value).inc()
        self.counted.review_s.observe(self._clock.monotonic_s() - started_s)
        return web.Response(body=found.body, content_type="application/json")

    def _refused(self, result: str, why: str, *, status: int) -> web.Response:
        self.counted.reviews.labels(result).inc()
        self._limited.warning(result, "request refused", error=why)
        response = web.Response(status=status, text=f"{why}\n")
        # What was not read is still coming.
        response.force_close()
        return response


@contextlib.asynccontextmanager
async def listening(
    webhook: Webhook, certificate: certificates.Certificate, *, host: str, port: int
) -> AsyncIterator[int]:
    """Listen for as long as the block runs, and yield the port. Raises `EnvironmentUnfit`."""
    app = web.Application(client_max_size=BODY_LIMIT_BYTES)
    app.router.add_post(PATH, webhook.handle)
    runner = web.AppRunner(
        app, access_log=None, logger=_SILENT, keepalive_timeout=IDLE_MOST_S, shutdown_timeout=STOP_TIMEOUT_S
    )
    await runner.setup()
    try:
        with _bound(host, port) as listener:
            accepting = asyncio.ensure_future(
                _Connections(runner, webhook.counted).accept(listener, certificate.context)
            )
            try:
                yield int(listener.getsockname()[1])
            finally:
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)
    finally:
        await runner.cleanup()


class _Connections:
    """The connections, bounded from the moment they are accepted, which asyncio's servers cannot do."""

    def __init__(self, runner: web.AppRunner, counted: instruments.Instruments) -> None:
        assert runner.server is not None
        self._server = runner.server
        self._counted = counted
        # The address of the other side.
        self._setting_up: dict[asyncio.Task[None], str] = {}

    async def accept(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, (address, *_) = await loop.sock_accept(listener)
                except OSError:
                    # Too many open files, or a client that has gone: not in a busy loop.
                    await asyncio.sleep(0.1)
                    continue
                if len(self._server.connections) + len(self._setting_up) >= CONNECTIONS_MOST:
                    self._counted.refused_connections.inc()
                    if not self._make_room(address):
                        accepted.close()
                        continue
                    # The one that was closed goes.
                    await asyncio.sleep(0)
                task = loop.create_task(self._serve(accepted, context))
                self._setting_up[task] = address
                task.add_done_callback(self._setting_up.pop)
        finally:
            for task in list(self._setting_up):
                task.cancel()
            await asyncio.gather(*self._setting_up, return_exceptions=True)

    def _make_room(self, address: str) -> bool:
        """Close the oldest connection of the address that has most; return False if that is no other's to give."""
        held: dict[str, list[Callable[[], object]]] = {}
        for each in self._server.connections:
            if each.transport is not None and not each.transport.is_closing():
                held.setdefault(each.transport.get_extra_info("peername")[0], []).append(each.transport.abort)
        for task, other in self._setting_up.items():
            held.setdefault(other, []).append(task.cancel)
        crowd = max(held.values(), key=len, default=[])
        # With one less than the new one's, that address would take its place back.
        if len(crowd) <= len(held.get(address, ())) + 1:
            return False
        crowd[0]()
        return True

    async def _serve(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        """Set up TLS, after which the server has the connection."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(
                self._server, accepted, ssl=context, ssl_handshake_timeout=HANDSHAKE_MOST_S,
                ssl_shutdown_timeout=HANDSHAKE_MOST_S,
            )  # fmt: skip


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=CONNECTIONS_MOST)
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot listen on {host}:{port} for reviews of Pods ({error.strerror}): give --admission-port another "
            "port, or -1 for no webhook"
        ) from error
    listener.setblocking(False)
    return listener


async def look_forever(
    certificate: certificates.Certificate, kept: registration.Registration, *, leads: Callable[[], bool],
    line: logs.RateLimited,
) -> None:  # fmt: skip
    """Read the certificate again when it changes; the replica that `leads` keeps the authority for the API server.

    While a new Secret reaches one replica after the other, they would overwrite each other's.
    """
    while True:
        try:
            certificate.read()
        except errors.SettingsError as error:
            # The one before is still used.
            line.warning("certificate", "the new certificate cannot be used", error=str(error))
        if certificate.trouble is not None:
            line.warning("expired", "Pods get no requests until there is a new certificate", error=certificate.trouble)
        await kept.keep(certificate.authority, may_write=leads())
        await asyncio.sleep(LOOK_EVERY_S if kept.trouble is None else LOOK_AGAIN_S)
