"""Run the aggregator as a service: connect, run the replica, answer queries, stop in order."""

import asyncio

from carico_aggregator import app, instruments
from carico_aggregator import settings as setting
from carico_core.runtime.bus import nats_bus, serving
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.streams import kept
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import roles


async def serve(chosen: setting.AggregatorSettings, stop: tasks.Stop, *, clock: clocks.Clock) -> None:
    """Run a replica with these settings until `stop`. Raises `BusUnavailable` once the bus is closed for good."""
    boot = clocks.boot_id(clock)
    replica = chosen.replica or f"aggregator-{boot}"
    series = metrics.Metrics("aggregator")
    bus_series = client_metrics.BusMetrics(series)
    checks = health.Health({"bus": bus_series.why_not})
    server = await health.serve(checks, series, host=chosen.http.host, port=chosen.http.port)
    logs.get("service").info("started", replica=replica, http_port=server.port, merge=chosen.merge.value)
    try:
        await tasks.until(stop, replica=_run(chosen, series, bus_series, replica=replica, boot=boot, clock=clock))
    finally:
        await server.close()


async def _run(
    chosen: setting.AggregatorSettings, series: metrics.Metrics, bus_series: client_metrics.BusMetrics, *,
    replica: str, boot: str, clock: clocks.Clock,
) -> None:  # fmt: skip
    # Connecting waits for the server without limit; the health endpoint answers meanwhile.
    inbox = roles.inbox(roles.Role.AGGREGATOR)
    bus = await nats_bus.connect(
        chosen.bus, name=replica, clock=clock, owns_streams=True, inbox=inbox, on_trouble=bus_series.trouble
    )  # fmt: skip
    bus_series.watch(bus)
    counted = instruments.Instruments(series, clock=clock)
    aggregator = app.Aggregator(chosen, bus, counted, replica=replica, boot=boot, clock=clock)
    counted.read_recommended(aggregator.usage.recommended)
    try:
        await aggregator.listen()
        spec = buses.ServiceSpec(
            name=setting.PROGRAM,
            description="the model of the cluster",
            endpoints={**app.answers(aggregator, clock=clock), **kept.endpoints(bus)},
        )
        await serving.until_taken(lambda: bus.serve(spec))
        async with asyncio.TaskGroup() as group:
            for name, work in {
                "intake": aggregator.intake_forever(),
                "exchange": aggregator.exchange_forever(),
                "broadcast": aggregator.broadcast_forever(),
                "look": aggregator.look_forever(),
                "keep": aggregator.usage.keep_forever(),
                "listen": aggregator.usage.listen_forever(),
            }.items():
                group.create_task(tasks.forever(name, work), name=name)
            await bus.wait_closed()
    finally:
        # So that an update of the only replica loses nothing.
        await aggregator.usage.keep_all()
        await bus.close()
