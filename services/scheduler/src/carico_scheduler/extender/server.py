"""The HTTP server of the extender, with its binder and its housekeeping.

It uses aiohttp, which takes requests of many megabytes: kube-scheduler sends whole Nodes unless it is configured not
to.
"""

import asyncio
import dataclasses
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.bind import binder as binders
from carico_scheduler.extender import extender_settings, messages, service

# 5,000 Nodes of 15 kB each are 75 MB.
BODY_LIMIT_BYTES = 256 * 2**20
STOP_TIMEOUT_S = 5.0
TIDY_EVERY_S = 0.5
# Browsers add it to every POST, kube-scheduler never does. A page that is open in a browser on this machine could
# otherwise bind Pods: it can send requests to any port of loopback, though it may not read the answers.
BROWSERS_HEADER = "Origin"

Verb = Callable[[bytes], Awaitable[bytes]]
# (verb, status, seconds)
OnAnswer = Callable[[str, int, float], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server."""

    runner: web.AppRunner
    port: int

    async def close(self) -> None:
        """Finish the requests under way and free the port."""
        await self.runner.cleanup()


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
        running = await serve(self.extender, self._wanted, clock=self._clock, on_answer=self._count)
        logs.get("extender").info("serving kube-scheduler", host=self._wanted.host, port=running.port)
        try:
            while True:
                self.extender.tidy()
                self.extender.forget()
                await self.extender.verify_unshown()
                self._metrics.extender_holds.set(len(self.extender.holds))
                await asyncio.sleep(TIDY_EVERY_S)
                if self.binder.fault is not None:
                    raise self.binder.fault
        finally:
            await running.close()

    def _count(self, verb: str, status: int, took_s: float) -> None:
        self._metrics.extender_requests.labels(verb, str(status)).inc()
        self._metrics.extender_s.labels(verb).observe(took_s)


async def serve(
    extender: service.Extender, wanted: extender_settings.ExtenderSettings, *, clock: clocks.Clock, on_answer: OnAnswer
) -> Server:
    """Return a running server of the three verbs. Raises `EnvironmentUnfit` and `SettingsError`."""
    tls = _tls(wanted)
    app = web.Application(client_max_size=BODY_LIMIT_BYTES)
    for name, verb in verbs(extender).items():
        app.router.add_post(f"/{name}", _handler(name, verb, clock, on_answer))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_TIMEOUT_S)
    await runner.setup()
    site = web.TCPSite(runner, wanted.host, wanted.port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise errors.EnvironmentUnfit(
            f"cannot listen on {wanted.host}:{wanted.port} for kube-scheduler ({error.strerror}): give "
            "--extender-port another port, or 0 for a free one"
        ) from error
    return Server(runner=runner, port=runner.addresses[0][1])


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
            return web.Response(body=await verb(await request.read()), content_type="application/json")
        except messages.BadRequest as error:
            line.warning((name, "bad request"), "request refused", verb=name, error=str(error))
            return web.Response(status=400, text=f"{error}\n")
        except service.NotServing as error:
            return web.Response(status=503, text=f"{error}\n")
        except web.HTTPException:
            raise
        except Exception as error:  # the boundary of one request
            line.warning((name, repr(error)), "request failed", verb=name, error=repr(error))
            return web.Response(status=500, text="failed; see the scheduler's log\n")

    return handle


def _tls(wanted: extender_settings.ExtenderSettings) -> ssl.SSLContext | None:
    if not wanted.tls_cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(wanted.tls_cert, wanted.tls_key)
        if wanted.tls_client_ca:
            context.load_verify_locations(wanted.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        raise errors.SettingsError(
            f"--extender-tls-...: the certificate, key or CA cannot be read ({error}): expected PEM files"
        ) from error
    return context
