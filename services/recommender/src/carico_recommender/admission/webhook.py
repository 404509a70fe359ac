"""The webhook's HTTPS server: it accepts connections from anywhere in the cluster, so that all it holds is bounded."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import connections
from carico_core.runtime.process.connections import web
from carico_recommender import instruments
from carico_recommender.admission import certificates, registration, review

# An object has at most 1.5 MiB (etcd).
BODY_LIMIT_BYTES = 4 * 2**20
# An API server has a few. Each takes 0.4 MB while TLS is set up.
CONNECTIONS_MOST = 128
# Larger bodies are read a few at a time: 32 MiB. Others, as of nearly all Pods, never wait for those, which may be
# slow: of as many bytes of each connection aiohttp keeps what has arrived anyway, 8 MiB in all.
BODIES_MOST = 8
SMALL_BYTES = 64 * 2**10
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


class Webhook:
    """Answers reviews of Pods by what `lookup` knows of a class; sets requests of `dimensions`."""

    def __init__(
        self, lookup: review.Lookup, counted: instruments.Instruments, *, clock: clocks.Clock,
        rules: review.RulesOf, dimensions: Sequence[str],
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
        is_small = request.content_length is not None and request.content_length <= SMALL_BYTES
        async with contextlib.nullcontext() if is_small else self._bodies:
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
    limits = connections.Limits(
        most=CONNECTIONS_MOST, handshake_s=HANDSHAKE_MOST_S, idle_s=IDLE_MOST_S, stop_s=STOP_TIMEOUT_S
    )
    listener = connections.listen(
        host, port, limits, purpose="reviews of Pods",
        advice="give --admission-port another port, or -1 for no webhook",
    )  # fmt: skip
    refused = webhook.counted.refused_connections
    async with connections.serving(
        app, listener, limits, context=certificate.context, on_refused=refused.inc
    ) as found:  # fmt: skip
        yield found


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
