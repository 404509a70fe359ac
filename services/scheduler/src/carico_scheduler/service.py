"""Run the scheduler as a service: connect it to the API and the bus, and disconnect in order."""

import asyncio
import contextlib

from carico_core.runtime.bus import nats_bus, serving
from carico_core.runtime.kube import api_client, list_watch
from carico_core.runtime.observe import client_metrics, health, logs, metrics, tracing
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import roles
from carico_scheduler import app
from carico_scheduler import settings as setting


async def serve(settings: setting.SchedulerSettings, stop: tasks.Stop, clock: clocks.Clock) -> None:
    """Run a scheduler with these settings and its health server until `stop`; NATS and the API may start later."""
    async with contextlib.AsyncExitStack() as stack:
        series = metrics.Metrics("scheduler")
        asked = client_metrics.KubeMetrics(series).asked
        connecting_api = api_client.connect_to_lead(
            settings.kube, clock=clock, program=setting.PROGRAM, observe=asked, watching=list_watch.FRESH_OPTIONS
        )
        api, lease_api = await stack.enter_async_context(connecting_api)
        tracer = tracing.open_tracer(
            settings.traces, service=setting.PROGRAM, attributes={}, clock=clock, share=settings.traces_share
        )
        if tracer is not None:
            stack.push_async_callback(asyncio.to_thread, tracer.close)
        scheduler = app.Scheduler(settings, api=api, lease_api=lease_api, clock=clock, tracer=tracer, series=series)
        server = await health.serve(
            scheduler.health, scheduler.metrics, host=settings.http.host, port=settings.http.port
        )
        stack.push_async_callback(server.close)
        logs.get("scheduler").info("started", http_port=server.port, threshold=settings.threshold)
        connecting = nats_bus.connect(
            settings.bus, name=setting.PROGRAM, clock=clock, inbox=roles.inbox(roles.Role.SCHEDULER),
            on_trouble=scheduler.bus_metrics.trouble,
        )  # fmt: skip
        await serving.run_on(connecting, stop, scheduler.run)
