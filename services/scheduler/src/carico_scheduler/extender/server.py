"""The HTTP server of the extender.

On aiohttp, whose client the scheduler has loaded anyway: kube-scheduler sends whole Nodes, many megabytes of them,
unless it is configured not to.
"""

import dataclasses
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.extender import messages, service
from carico_scheduler.extender import settings as setting

# 5,000 Nodes of 15 kB each are 75 MB.
BODY_LIMIT_BYTES = 256 * 2**20
STOP_TIMEOUT_S = 5.0

Verb = Callable[[bytes], Awaitable[bytes]]
# (verb, status, seconds)
OnAnswer = Callable[[str, int, float], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server."""

    runner: web.AppRunner
    port: int

    async def close(self) -> None:
        """Answer the requests under way and free the port."""
        await self.runner.cleanup()


async def serve(
    extender: service.Extender, wanted: setting.ExtenderSettings, *, clock: clocks.Clock, on_answer: OnAnswer
) -> Server:
    """A running server of the three verbs. Raises `EnvironmentUnfit` and `SettingsError`."""
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
    """Path -> what answers it."""
    return {"filter": extender.filter, "prioritize": extender.prioritize, "bind": extender.bind}


def _handler(
    name: str, verb: Verb, clock: clocks.Clock, on_answer: OnAnswer
) -> Callable[[web.Request], Awaitable[web.Response]]:
    line = logs.RateLimited(logs.get("extender"), clock=clock)

    async def handle(request: web.Request) -> web.Response:
        began_s = clock.monotonic_s()
        response = await answer(request)
        on_answer(name, response.status, clock.monotonic_s() - began_s)
        return response

    async def answer(request: web.Request) -> web.Response:
        try:
            return web.Response(body=await verb(await request.read()), content_type="application/json")
        except messages.BadRequest as error:
            line.warning((name, "bad request"), "request refused", verb=name, error=str(error))
            return web.Response(status=400, text=f"{error}\n")
        except service.StandsBy as error:
            return web.Response(status=503, text=f"{error}\n")
        except web.HTTPException:
            raise
        except Exception as error:  # the boundary of one request
            line.warning((name, repr(error)), "request failed", verb=name, error=repr(error))
            return web.Response(status=500, text="failed; the scheduler's log says why\n")

    return handle


def _tls(wanted: setting.ExtenderSettings) -> ssl.SSLContext | None:
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
            f"--extender-tls-...: the certificate, key or authority cannot be read ({error}): expected files in PEM"
        ) from error
    return context
