"""The aggregator looks how the streams and the queue stand, and goes on where it cannot."""

import asyncio

from carico_aggregator import app, instruments
from carico_aggregator import settings as setting
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import streams, subjects
from tests.tools.memory import memory_bus


async def test_the_gauges_follow_and_a_bus_that_is_away_is_counted() -> None:
    metrics = metric.Metrics("aggregator")
    clock = clocks.FakeClock()
    bus = memory_bus.MemoryBus()
    counted = instruments.Instruments(metrics, clock=clock)
    aggregator = app.Aggregator(setting.AggregatorSettings(), bus, counted, replica="r0", boot="0" * 16, clock=clock)
    await bus.publish(subjects.subspace("n1"), b"12345")
    await look(aggregator)
    assert metrics.value("queue_pending_messages") == 1.0
    assert metrics.value("stream_bytes", {"stream": streams.SUBSPACES}) == 5.0
    assert metrics.value("stream_messages", {"stream": streams.DECISIONS}) == 0.0
    bus.hub.set_away(True)
    await look(aggregator)
    assert metrics.value("stream_looks_failed_total") == 1.0
    assert metrics.value("queue_pending_messages") == 1.0, "what was last seen"


async def look(aggregator: app.Aggregator) -> None:
    """One look."""
    task = asyncio.create_task(aggregator.look_forever())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
