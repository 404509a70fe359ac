"""Waiting for nodes that advertise and are Ready."""

import asyncio
import pathlib
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.process import clock
from carico_core.wire import subjects
from carico_local.cluster.services import ready_nodes
from tests.tools import waiting
from tests.tools.memory import memory_bus


class Slow(memory_bus.MemoryBus):
    """A bus whose server is too busy to say what it keeps."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        raise errors.BusUnavailable("CARICO_CAPACITY: TimeoutError")


async def test_what_a_busy_server_does_not_say_the_nodes_say_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    bus = Slow()

    async def connect(*_: Any, **__: Any) -> Slow:
        return bus

    async def follow(self: ready_nodes.ReadyNodes, *_: Any, **__: Any) -> None:
        self.names = {"node-1"}
        await asyncio.Event().wait()

    monkeypatch.setattr(nats_bus, "connect", connect)
    monkeypatch.setattr(ready_nodes.ReadyNodes, "follow", follow)
    until = asyncio.create_task(
        ready_nodes.until_advertised(
            ["node-1"], nats_url="nats://x", kubeconfig=tmp_path / "kubeconfig", clock=clock.FakeClock()
        )
    )
    speaker = memory_bus.MemoryBus(bus.hub)
    await waiting.until(lambda: bus.hub.subscriptions or until.done())
    assert not until.done(), until
    await speaker.publish(subjects.capacity("node-1"), b"1")
    await asyncio.wait_for(until, waiting.WAIT_S)
