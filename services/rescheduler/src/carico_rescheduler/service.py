"""Run the rescheduler as a service: connect it to the API and the bus, and disconnect in order."""

import contextlib

from carico_core.runtime.bus import nats_bus, serving
from carico_core.runtime.kube import api_client, list_watch
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import roles
from carico_rescheduler import app
from carico_rescheduler import settings as setting


async def serve(settings: setting.ReschedulerSettings, stop: tasks.Stop, clock: clocks.Clock) -> None:
    """Run a rescheduler with these settings and its health server until `stop`; NATS and the API may start later."""
    async with contextlib.AsyncExitStack() as stack:
        series = metrics.Metrics("rescheduler")
        asked = client_metrics.KubeMetrics(series).asked
        connecting_api = api_client.connect_to_lead(
            settings.kube, clock=clock, program=setting.PROGRAM, observe=asked, watching=list_watch.FRESH_OPTIONS
        )
        api, lease_api = await stack.enter_async_context(connecting_api)
        rescheduler = app.Rescheduler(settings, api=api, lease_api=lease_api, clock=clock, series=series)
        server = await health.serve(
            rescheduler.health, rescheduler.metrics, host=settings.http.host, port=settings.http.port
        )
        stack.push_async_callback(server.close)
        logs.get("rescheduler").info("started", http_port=server.port, mode=settings.mode.value)
        connecting = nats_bus.connect(
            settings.bus, name=setting.PROGRAM, clock=clock, owns_streams=False,
            inbox=roles.inbox(roles.Role.RESCHEDULER), on_trouble=rescheduler.bus_metrics.trouble,
        )  # fmt: skip
        await serving.run_on(connecting, stop, rescheduler.run)
