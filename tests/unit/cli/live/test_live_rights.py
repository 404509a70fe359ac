"""What a reader of live signals sees by the rights of people on the bus, on a real NATS that enforces them."""

import asyncio
import io
import pathlib
from collections.abc import Iterator

import orjson
import pytest

from carico_auth import server_config
from carico_cli.live import addresses, connection
from carico_cli.live import picture as pictures
from carico_cli.live import reader as readers
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.streams import kept
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import roles, subjects
from tests.fixtures.golden import records
from tests.tools import waiting
from tests.tools.sites import nats_site
from tests.unit.cli import fake_cluster

CLOCK = clocks.SystemClock()


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[nats_site.NatsServer]:
    users: dict[roles.Role, list[dict[str, object]]] = {roles.Role.OWNER: [{"user": "services", "password": "x"}]}
    for role in (roles.Role.AGENT, roles.Role.CLI, roles.Role.READER):
        rights = server_config.permissions(role)
        users[role] = [{"user": role.value, "password": "x", "permissions": rights}]
    found = nats_site.NatsServer(tmp_path / "nats", extra=server_config.accounts(users))
    found.start()
    try:
        yield found
    finally:
        found.stop()


async def serve(bus: nats_bus.NatsBus, agent: nats_bus.NatsBus) -> None:
    """One node, one decision, the model, and services that answer."""

    async def listed(_: bytes) -> bytes:
        return orjson.dumps({"nodes": [{"node": "node-1", "reserved": 1, "free": 1.1}]})

    async def state(_: bytes) -> bytes:
        return orjson.dumps(fake_cluster.STATE)

    for on, name, endpoints, node in (
        (bus, "carico-scheduler", {"capacity.list": listed}, None),
        (bus, "carico-aggregator", {"model.get": listed, **kept.endpoints(bus)}, None),
        (agent, "carico-agent", {"state.get": state}, "node-1"),
    ):
        spec = buses.ServiceSpec(name=name, description=name, endpoints=endpoints, node=node)
        await on.serve(spec)
    said = fake_cluster.advertisement(at_ns=CLOCK.wall_ns())
    await agent.publish(subjects.capacity("node-1"), wire.encode_advertisement(said))
    await bus.publish(subjects.decision("default", "hello-0"), wire.encode_decision(fake_cluster.placed()))
    await bus.put_model(wire.encode_model(fake_cluster.model(at_ns=CLOCK.wall_ns())))


def url(server: nats_site.NatsServer, user: str) -> str:
    return server.url.replace("://", f"://{user}:x@")


@pytest.mark.parametrize("role", [roles.Role.CLI, roles.Role.READER])
async def test_people_see_all_by_their_rights(
    server: nats_site.NatsServer, role: roles.Role, tmp_path: pathlib.Path
) -> None:
    said = io.StringIO()
    logs.setup(service="test", json=True, level="error", stream=said)
    services = await nats_bus.connect(buses.BusSettings(url=url(server, "services")), name="services", clock=CLOCK)
    agents = buses.BusSettings(url=url(server, roles.Role.AGENT.value))
    agent = await nats_bus.connect(agents, name="agent", clock=CLOCK, owns_streams=False)
    await serve(services, agent)
    settings = buses.BusSettings(url=url(server, role.value), inbox_prefix=roles.inbox(role))
    address = addresses.Address(name="t", bus=settings, kube=api_client.KubeSettings(kubeconfig=str(tmp_path / "none")))
    connect = connection.connector(CLOCK, {}, name="carico-top")
    reader = readers.Reader(lambda: address, connect, clock=CLOCK, lease_s=fake_cluster.LEASE_S)
    task = asyncio.ensure_future(reader.run())
    try:
        await waiting.until(lambda: is_whole(reader.picture(), role) or task.done())
        check(reader.picture(), role)
        assert await waiting.answered(lambda: reader.detail("node-1"))
        assert reader.picture().loads == {}
        reader.loads.watch()

        async def uses() -> object:
            await agent.publish(subjects.pods(records.NODE), wire.encode_loads(records.LOADS))
            return reader.picture().loads

        assert await waiting.answered(uses) == {records.NODE: records.LOADS.loads}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await agent.close()
        await services.close()
    # A reader may not ask how the work queue stands: it is asked once, and then no more.
    assert said.getvalue().lower().count("permissions violation") == (0 if role is roles.Role.CLI else 1)


async def test_credentials_of_another_role_than_a_commands_are_named_at_once(server: nats_site.NatsServer) -> None:
    """All answers would go where it may not listen, so that each service seemed to be away."""
    settings = buses.BusSettings(url=url(server, roles.Role.READER.value))
    address = addresses.Address(name="t", bus=settings, kube=api_client.KubeSettings())
    with pytest.raises(errors.BusRefused, match=r"(?i)_inbox\.cli\..*CARICO_BUS_INBOX_PREFIX=_INBOX\.reader$"):
        await connection.join(address, CLOCK, name="test", within_s=waiting.WAIT_S)


def is_whole(found: pictures.Picture, role: roles.Role) -> bool:
    """Whether all is there that comes on its own way each: heard, kept, or answered."""
    return (
        len(found.services or ()) == 2
        and [node.reserved for node in found.nodes] == [1]
        and bool(found.decisions)
        and found.model is not None
        and (found.backlog is not None or role is not roles.Role.CLI)
        and len(found.trouble) == 1
    )


def check(found: pictures.Picture, role: roles.Role) -> None:
    """Everything is there but what the role may not see."""
    (node,) = found.nodes
    assert (node.name, node.reserved) == ("node-1", 1)
    assert [one.pod for one in found.decisions] == ["hello-0"]
    assert found.model is not None
    assert (found.backlog is not None) == (role is roles.Role.CLI)
    (trouble,) = found.trouble
    assert "jobs are not shown" in trouble
    # No password is shown.
    assert ":x@" not in "".join(found.trouble)
