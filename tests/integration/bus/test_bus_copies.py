"""Streams in three copies on a cluster of three servers, as deploy/k8s/overlays/ha has it."""

import asyncio
import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import nats
import nats.errors
import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as bus
from carico_core.runtime.process import clock
from carico_core.wire import streams, subjects
from carico_local.cluster import free_ports
from tests.tools import waiting
from tests.tools.sites import nats_site

WITHIN_S = 60.0


@pytest.fixture
def servers(tmp_path: pathlib.Path) -> Iterator[list[nats_site.NatsServer]]:
    peers = [free_ports.choose_one() for _ in range(3)]
    routes = [f"nats://127.0.0.1:{port}" for port in peers]
    with contextlib.ExitStack() as stack:
        started = []
        for number, port in enumerate(peers):
            cluster = {"name": "test", "listen": f"127.0.0.1:{port}", "routes": routes, "no_advertise": True}
            server = nats_site.NatsServer(
                tmp_path / str(number), extra={"server_name": f"n{number}", "cluster": cluster}
            )  # fmt: skip
            started.append(server.start())
            stack.callback(server.stop)
        yield started


async def test_each_stream_is_kept_three_times_and_outlives_a_server(servers: list[nats_site.NatsServer]) -> None:
    # A long lease: what waits in the queue must not grow too old while a new leader is chosen.
    settings = bus.BusSettings(url=",".join(server.url for server in servers), copies=3, lease_s=300.0)
    # Waits until the servers have found each other: before that, no three can keep a stream.
    found = await nats_bus.connect(settings, name="scheduler", clock=clock.SystemClock())
    client = await nats.connect(settings.url.split(","))
    try:
        for name in streams.ALL:
            assert (await client.jetstream(timeout=WITHIN_S).stream_info(name)).config.num_replicas == 3
        await _stored(found, client, b"before", messages=1)
        leader = await waiting.answered(lambda: _leader(client), within_s=WITHIN_S)
        next(server for number, server in enumerate(servers) if f"n{number}" == leader).kill()
        await _stored(found, client, b"after", messages=2)
    finally:
        await client.close()
        await found.close()


async def _stored(found: nats_bus.NatsBus, client: Any, payload: bytes, *, messages: int) -> None:
    """Returns once a node's report is kept: while the servers choose a new leader, none is, and nodes repeat theirs."""
    async with asyncio.timeout(WITHIN_S):
        while await _messages(client) != messages:
            with contextlib.suppress(errors.BusUnavailable):
                await found.publish(subjects.subspace(f"n{messages}"), payload)
            await asyncio.sleep(0.1)


async def _leader(client: Any) -> str:
    """The server that leads the stream; empty while they choose."""
    with contextlib.suppress(nats.errors.Error):
        return str((await client.jetstream().stream_info(streams.SUBSPACES)).cluster.leader or "")
    return ""


async def _messages(client: Any) -> int:
    """What the stream holds; nothing until the servers that are left have chosen who answers for it."""
    with contextlib.suppress(nats.errors.Error):
        return int((await client.jetstream().stream_info(streams.SUBSPACES)).state.messages)
    return 0


async def test_without_a_quorum_reports_are_heard_and_not_kept_until_there_is_one_again(
    servers: list[nats_site.NatsServer],
) -> None:
    settings = bus.BusSettings(url=",".join(server.url for server in servers), copies=3, lease_s=300.0)
    found = await nats_bus.connect(settings, name="scheduler", clock=clock.SystemClock())
    heard: list[bytes] = []
    try:
        await found.subscribe(subjects.CAPACITY_ALL, lambda _, payload: heard.append(payload))
        await _kept(found)
        for server in servers[1:]:
            server.kill()
        async with asyncio.timeout(WITHIN_S):
            # A scheduler decides by what it hears.
            while b"heard" not in heard:
                with contextlib.suppress(errors.BusUnavailable):
                    await found.publish(subjects.capacity("n1"), b"heard")
                await asyncio.sleep(0.1)
        with pytest.raises(errors.BusUnavailable):
            await found.put_model(b"lost")
        servers[1].start()
        await _kept(found)
        assert found.connected
    finally:
        await found.close()


async def _kept(found: nats_bus.NatsBus) -> None:
    """Returns once a stream has taken a message."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with contextlib.suppress(errors.BusUnavailable):
                return await found.put_model(b"model")
            await asyncio.sleep(0.1)


async def test_streams_with_other_replica_counts_are_reported(servers: list[nats_site.NatsServer]) -> None:
    url = servers[0].url
    first = await nats_bus.connect(bus.BusSettings(url=url, copies=3), name="a", clock=clock.SystemClock())
    try:
        with pytest.raises(errors.StreamMismatch, match="num_replicas is 3, expected 1"):
            await nats_bus.connect(bus.BusSettings(url=url), name="b", clock=clock.SystemClock())
    finally:
        await first.close()
