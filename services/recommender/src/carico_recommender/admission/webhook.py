"""The webhook's HTTPS server."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence

from aiohttp import web

from carico_core.domain import errors, usage
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_recommender import instruments
from carico_recommender.admission import certificates, registration, review

# An object has at most 1.5 MiB (etcd).
BODY_LIMIT_BYTES = 4 * 2**20
PATH = "/pods"
STOP_TIMEOUT_S = 2.0
# The API server keeps its connections.
KEEPALIVE_S = 300.0
# The kubelet replaces the files of a Secret within about a minute.
LOOK_EVERY_S = 30.0
# aiohttp logs a traceback for each malformed request, which anybody can send.
_SILENT = logging.Logger("aiohttp", level=logging.CRITICAL + 1)


class Webhook:
    """Answers reviews of Pods by what `lookup` knows of a class; sets requests of `dimensions`."""

    def __init__(
        self, lookup: review.Lookup, counted: instruments.Instruments, *, clock: clocks.Clock,
        dimensions: Sequence[str] = usage.DIMS,
    ) -> None:  # fmt: skip
        self._lookup = lookup
        self._dimensions = tuple(dimensions)
        self._counted = counted
        self._clock = clock
        self._limited = logs.RateLimited(logs.get("admission"), clock=clock)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one review. Only what is no review is refused, which the API server ignores."""
        body = await request.read()
        started_s = self._clock.monotonic_s()
        try:
            found = review.answer(body, self._lookup, dimensions=self._dimensions)
        except ValueError as error:
            self._counted.reviews.labels("no_review").inc()
            self._limited.warning("no review", "request refused", error=str(error))
            return web.Response(status=400, text=f"{error}\n")
        self._counted.reviews.labels(found.result.value).inc()
        self._counted.review_s.observe(self._clock.monotonic_s() - started_s)
        return web.Response(body=found.body, content_type="application/json")


@contextlib.asynccontextmanager
async def listening(
    webhook: Webhook, certificate: certificates.Certificate, *, host: str, port: int
) -> AsyncIterator[int]:
    """Listen for as long as the block runs, and yield the port. Raises `EnvironmentUnfit`."""
    app = web.Application(client_max_size=BODY_LIMIT_BYTES)
    app.router.add_post(PATH, webhook.handle)
    runner = web.AppRunner(
        app, access_log=None, logger=_SILENT, keepalive_timeout=KEEPALIVE_S, shutdown_timeout=STOP_TIMEOUT_S
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=certificate.context)
        try:
            await site.start()
        except OSError as error:
            raise errors.EnvironmentUnfit(
                f"cannot listen on {host}:{port} for reviews of Pods ({error.strerror}): give --admission-port another "
                "port, or -1 for no webhook"
            ) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def look_forever(
    certificate: certificates.Certificate, kept: registration.Registration, *, line: logs.RateLimited
) -> None:
    """Read the certificate again when it changes, and keep the authority where the API server reads it."""
    while True:
        try:
            certificate.read()
        except errors.SettingsError as error:
            # The one before is still used.
            line.warning("certificate", "the new certificate cannot be used", error=str(error))
        await kept.keep(certificate.authority)
        await asyncio.sleep(LOOK_EVERY_S)
