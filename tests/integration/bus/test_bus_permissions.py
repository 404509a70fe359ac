"""An agent with no more rights at a real NATS server than its role has."""

import asyncio
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carico_auth import server_config
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock
from carico_core.wire import roles, subjects
from tests.tools import waiting
from tests.tools.sites import nats_site

AGENT = server_config.permissions(roles.Role.AGENT, "n1")
USERS = [
    {"user": "agent", "password": "a", "permissions": AGENT},
    {"user": "aggregator", "password": "b"},
]


@pytest.fixture
async def server(tmp_path: pathlib.Path) -> AsyncIterator[nats_site.NatsServer]:
    found = nats_site.NatsServer(tmp_path / "nats", extra={"authorization": {"users": USERS}}).start()
    try:
        yield found
    finally:
        found.stop()


async def join(server: nats_site.NatsServer, user: str, **more: Any) -> nats_bus.NatsBus:
    url = server.url.replace("://", f"://{user}@")
    async with asyncio.timeout(waiting.WAIT_S):
        return await nats_bus.connect(buses.BusSettings(url=url), name="x", clock=clock.SystemClock(), **more)


async def test_an_agent_does_all_it_has_to_with_the_rights_of_its_role(server: nats_site.NatsServer) -> None:
    # No streams are there yet, and the agent may not make them.
    agent = await join(server, "agent:a", owns_streams=False)
    owner = await join(server, "aggregator:b")
    heard: list[bytes] = []
    models: list[bytes] = []
    try:
        await owner.subscribe(subjects.CAPACITY_ALL, lambda _, payload: heard.append(payload))
        await agent.subscribe(subjects.MODEL, lambda _, payload: models.append(payload))
        await agent.publish(subjects.capacity("n1"), b"capacity")
        await agent.publish(subjects.subspace("n1"), b"subspace")
        await owner.publish(subjects.MODEL, b"said")
        await waiting.until(lambda: heard and models)
        assert (heard, models) == ([b"capacity"], [b"said"])
        assert await waiting.answered(owner.latest_capacities) == [(subjects.capacity("n1"), b"capacity")]
        assert await waiting.answered(owner.backlog, lambda found: found.pending == 1)
    finally:
        await agent.close()
        await owner.close()


async def test_an_agent_answers_questions_with_the_rights_of_its_role(server: nats_site.NatsServer) -> None:
    agent = await join(server, "agent:a", owns_streams=False)
    asking = await join(server, "aggregator:b")

    async def state(_: bytes) -> bytes:
        return b"state"

    try:
        await agent.serve(
            buses.ServiceSpec(
                name="carico-agent", version="1.0.0", description="x", endpoints={"state.get": state}, node="n1"
            )
        )
        assert (
            await asking.request(subjects.query("agent", "state.get", "n1"), b"", timeout_s=waiting.WAIT_S) == b"state"
        )
    finally:
        await agent.close()
        await asking.close()


async def test_an_agent_cannot_speak_for_another_node(server: nats_site.NatsServer) -> None:
    owner = await join(server, "aggregator:b")
    agent = await join(server, "agent:a", owns_streams=False)
    try:
        await agent.publish(subjects.capacity("n2"), b"a lie")
        await agent.publish(subjects.capacity("n1"), b"own")
        assert await waiting.answered(owner.latest_capacities) == [(subjects.capacity("n1"), b"own")]
        with pytest.raises(errors.BusUnavailable):
            await agent.latest_capacities()
    finally:
        await agent.close()
        await owner.close()
