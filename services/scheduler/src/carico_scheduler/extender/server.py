"""The HTTP server of the extender, with its binder and its housekeeping.

It uses aiohttp, which takes requests of many megabytes: kube-scheduler sends whole Nodes unless it is configured not
to.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import connections
from carico_core.runtime.process.connections import web
from carico_scheduler.bind import binder as binders
from carico_scheduler.extender import extender_settings, messages, service

# 5,000 Nodes of 15 kB each are 75 MB.
BODY_LIMIT_BYTES = 256 * 2**20
STOP_TIMEOUT_S = 5.0
TIDY_EVERY_S = 0.5
# A kube-scheduler has one for each bind under way; 16 of its binds are a lot.
CONNECTIONS_MOST = 128
HANDSHAKE_MOST_S = 5.0
# kube-scheduler waits for 5 s, unless its configuration says otherwise.
BODY_MOST_S = 30.0
# kube-scheduler keeps one that it does not use for 90 s.
IDLE_MOST_S = 120.0
# Browsers add it to every POST, kube-scheduler never does. A page that is open in a browser on this machine could
# otherwise bind Pods: it can send requests to any port of loopback, though it may not read the answers.
BROWSERS_HEADER = "Origin"

Verb = Callable[[bytes], Awaitable[bytes]]
# (verb, status, seconds)
OnAnswer = Callable[[str, int, float], None]


class ServedExtender:
    """The extender of one scheduler, run next to its engine by `serve_forever`."""

    def __init__(self, wanted: extender_settings.ExtenderSettings, parts: service.ExtenderParts) -> None:
        self._wanted = wanted
        self._clock = parts.clock
        self._metrics = parts.metrics
        # kube-scheduler decides how many binds run at a time.
        self.binder = binders.Binder(
            parts.kube, pods=parts.state, clock=parts.clock, rng=parts.rng, most=2**31,
            timeout_s=parts.bind_timeout_s, term=parts.term,
        )  # fmt: skip
        self.extender = service.Extender(wanted, parts, self.binder)

    async def serve_forever(self) -> None:
        """Answer kube-scheduler, and end holds that are no longer needed, until cancelled."""
        async with serving(self.extender, self._wanted, clock=self._clock, on_answer=self._count) as port:
            logs.get("extender").info("serving kube-scheduler", host=self._wanted.host, port=port)
            while True:
                self.extender.tidy()
                self.extender.forget()
                await self.extender.verify_unshown()
                self._metrics.extender_holds.set(len(self.extender.holds))
                await asyncio.sleep(TIDY_EVERY_S)
                if self.binder.fault is not None:
                    raise self.binder.fault

    def _count(self, verb: str, status: int, took_s: float) -> None:
        self._metrics.extender_requests.labels(verb, str(status)).inc()
        self._metrics.extender_s.labels(verb).observe(took_s)


@contextlib.asynccontextmanager
async def serving(
    extender: service.Extender, wanted: extender_settings.ExtenderSettings, *, clock: clocks.Clock, on_answer: OnAnswer
) -> AsyncIterator[int]:
    """Serve the three verbs for as long as the block runs, and yield the port.

    Raises `EnvironmentUnfit` and `SettingsError`.
    """
    tls = _tls(wanted)
    app = web.Application(client_max_size=BODY_LIMIT_BYTES)
    for name, verb in verbs(extender).items():
        app.router.add_post(f"/{name}", _handler(name, verb, clock, on_answer))
    limits = connections.Limits(
        most=CONNECTIONS_MOST, handshake_s=HANDSHAKE_MOST_S, idle_s=IDLE_MOST_S, stop_s=STOP_TIMEOUT_S
    )
    listener = connections.listen(
        wanted.host, wanted.port, limits, purpose="kube-scheduler",
        advice="give --extender-port another port, or 0 for a free one",
    )  # fmt: skip
    async with connections.serving(app, listener, limits, context=tls) as port:
        yield port


def verbs(extender: service.Extender) -> Mapping[str, Verb]:
    """Return the handler of each path."""
    return {"filter": extender.filter, "prioritize": extender.prioritize, "bind": extender.bind}


def _handler(
    name: str, verb: Verb, clock: clocks.Clock, on_answer: OnAnswer
) -> Callable[[web.Request], Awaitable[web.Response]]:
    line = logs.RateLimited(logs.get("extender"), clock=clock)

    async def handle(request: web.Request) -> web.Response:
        began_s = clock.monotonic_s()
        if BROWSERS_HEADER in request.headers:
            response = web.Response(status=403, text="this port is for kube-scheduler: browsers are refused\n")
        else:
            response = await answer(request)
        on_answer(name, response.status, clock.monotonic_s() - began_s)
        return response

    async def answer(request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_MOST_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408, text=f"the body took more than {BODY_MOST_S:g} s\n")
        try:
            return web.Response(body=await verb(body), content_type="application/json")
        except messages.BadRequest as error:
            line.warning((name, "bad request"), "request refused", verb=name, error=str(error))
            return web.Response(status=400, text=f"{error}\n")
        except service.NotServing as error:
            return web.Response(status=503, text=f"{error}\n")
        except Exception as error:  # the boundary of one request
            line.warning((name, type(error)), "request failed", verb=name, error=repr(error))
            return web.Response(status=500, text="failed; see the scheduler's log\n")

    return handle


def _tls(wanted: extender_settings.ExtenderSettings) -> ssl.SSLContext | None:
    if not wanted.tls_cert:
        return None
    return connections.read_tls(
        wanted.tls_cert, wanted.tls_key, authority=wanted.tls_client_ca, flags="--extender-tls-..."
    )
