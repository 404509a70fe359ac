"""When an agent takes its first sample: once what it does at its start is over, and without a bus too."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from carico_agent import service, settings
from carico_agent.telemetry import panel, sources
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.observe import health
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings as service_settings
from carico_core.runtime.process import tasks
from tests.tools import waiting
from tests.tools.memory import memory_bus


class Gauge:
    """Counts how often it is read."""

    reads = 0

    def read(self) -> float | None:
        self.reads += 1
        return 0.1


class Bus:
    """A bus that comes when the test says so."""

    def __init__(self) -> None:
        self.is_there = asyncio.Event()

    async def connect(self, *_: object, **__: object) -> memory_bus.MemoryBus:
        await self.is_there.wait()
        return memory_bus.MemoryBus(memory_bus.Hub())


@contextlib.asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch, gauge: Gauge, bus: Bus) -> AsyncIterator[None]:
    facts = panel.Facts(dims=("cpu",), scale=(8.0,), cores=4.0, source="test")
    monkeypatch.setattr(sources, "open_panel", lambda *_, **__: panel.Panel(facts, {"cpu": gauge}))
    monkeypatch.setattr(nats_bus, "connect", bus.connect)
    chosen = settings.AgentSettings(
        node="node-1", dims=("cpu",), pod_events="none",
        http=service_settings.HttpSettings(port=health.OFF),
    )  # fmt: skip
    stop = tasks.Stop()
    serving = asyncio.create_task(service.Service(chosen, clock=clocks.SystemClock()).run(stop))
    try:
        yield
    finally:
        stop.set()
        await serving


async def test_the_first_sample_waits_for_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SETTLE_MOST_S", 3600.0)
    gauge, bus = Gauge(), Bus()
    async with running(monkeypatch, gauge, bus):
        # As many turns of the loop as all of a start takes, many times over.
        for _ in range(1000):
            await asyncio.sleep(0)
        assert gauge.reads == 0
        bus.is_there.set()
        await waiting.until(lambda: gauge.reads > 1)


async def test_without_a_bus_sampling_starts_after_the_longest_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SETTLE_MOST_S", 0.01)
    gauge, bus = Gauge(), Bus()
    async with running(monkeypatch, gauge, bus):
        await waiting.until(lambda: gauge.reads > 1)
        assert not bus.is_there.is_set()
