"""Accounts at a real NATS server, in each form: what agents and readers choose never reaches what others own."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator

import nats.errors
import pytest

from carico_auth import arrangements, key_folder
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.streams import kept
from carico_core.runtime.observe import metrics
from carico_core.wire import accounts, roles, streams, subjects
from carico_recommender import classes, instruments
from tests.tools import waiting
from tests.tools.sites import nats_site, security_site

FORMS = ("static", "callout", "loopback")
# For what must not come: an answer takes a millisecond.
SILENT_S = 0.3
# Nothing that is stored here is to expire before a slow machine has looked at it.
LEASE_S = 300.0
PASSWORD = "secret"
Settings = Callable[..., buses.BusSettings]


@pytest.fixture(params=FORMS, scope="module")
def settings_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Gives the settings of a role, and of an agent's node."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    if request.param == "callout":
        with security_site.running(tmp_path, replicas=1) as site:
            yield site.role_settings
        return
    if request.param == "static":
        keys = key_folder.KeyFolder(tmp_path / "keys")
        config = arrangements.static(keys, nodes=["node-a", "node-b"], tls=None).config
    else:
        config = arrangements.loopback(PASSWORD)
    server = nats_site.NatsServer(tmp_path / "nats", extra=config).start()

    def settings(role: roles.Role, node: str | None = None) -> buses.BusSettings:
        if request.param == "static":
            name = role.value if node is None else f"agent-{node}"
            return buses.BusSettings(url=server.url, nkey=str(keys.path(name)))
        users = {roles.Role.AGENT: arrangements.AGENTS, roles.Role.READER: arrangements.READERS}
        credentials = f"{users.get(role, arrangements.LOCAL)}:{PASSWORD}@"
        return buses.BusSettings(url=server.url.replace("://", f"://{credentials}"))

    try:
        yield settings
    finally:
        server.kill()


class Core:
    """The services' own connections, and all that they hear."""

    def __init__(self, scheduler: nats_bus.NatsBus, aggregator: nats_bus.NatsBus) -> None:
        self.scheduler = scheduler
        self.aggregator = aggregator
        self.heard: list[tuple[str, bytes]] = []

    async def held(self) -> dict[str, int]:
        """How many messages each stream holds."""
        return {each.stream: each.messages for each in (await self.aggregator.backlog()).streams}


@pytest.fixture
async def core(settings_of: Settings) -> AsyncIterator[Core]:
    scheduling, aggregating, owning = (
        dataclasses.replace(settings_of(role), lease_s=LEASE_S)
        for role in (roles.Role.SCHEDULER, roles.Role.AGGREGATOR, roles.Role.OWNER)
    )
    async with (
        security_site.connected(scheduling, role=roles.Role.SCHEDULER) as scheduler,
        security_site.connected(aggregating, role=roles.Role.AGGREGATOR) as aggregator,
        security_site.raw(owning, inbox_prefix=roles.inbox(roles.Role.OWNER)) as owner,
    ):
        for stream in streams.ALL:
            await owner.client.jetstream().purge_stream(stream)
        found = Core(scheduler, aggregator)
        for bus, subject in ((scheduler, subjects.CAPACITY_ALL), (aggregator, subjects.MODEL)):
            await bus.subscribe(subject, lambda subject, payload: found.heard.append((subject, payload)))
        about = buses.ServiceSpec(name="carico-aggregator", description="x", endpoints=kept.endpoints(aggregator))
        serving = await aggregator.serve(about)
        yield found
        await serving.close()


@contextlib.asynccontextmanager
async def answering_agent(settings_of: Settings, node: str) -> AsyncIterator[nats_bus.NatsBus]:
    """An agent whose answer to any question is a forged model."""

    async def forged(_: bytes) -> bytes:
        return b"forged"

    spec = buses.ServiceSpec(name="carico-agent", description="x", endpoints={"state.get": forged}, node=node)
    async with security_site.connected(settings_of(roles.Role.AGENT, node), role=roles.Role.AGENT) as agent:
        await agent.serve(spec)
        yield agent


async def test_the_recommender_gets_an_aggregators_answer_and_may_ask_nothing_else(
    settings_of: Settings, core: Core
) -> None:
    asked: list[bytes] = []

    async def recommend(question: bytes) -> bytes:
        asked.append(question)
        return b'{"classes": [], "learnt": 0, "complete": true}'

    async def other(_: bytes) -> bytes:
        raise AssertionError("only what is recommended may be asked")

    spec = buses.ServiceSpec(
        name="carico-aggregator", description="x", endpoints={"recommend": recommend, "nodes.list": other}
    )
    await core.aggregator.serve(spec)
    settings = settings_of(roles.Role.RECOMMENDER)
    known = classes.Classes(
        {"margin": 0.2}, instruments.Instruments(metrics.Metrics("recommender")), clock=security_site.CLOCK
    )
    async with security_site.connected(settings, role=roles.Role.RECOMMENDER) as bus:
        assert await known.ask(bus)
        assert asked == [b'{"margin":0.2}']
        if settings.nkey or settings.token_file:
            with pytest.raises(errors.BusError):
                await bus.request(subjects.query("aggregator", "nodes.list"), b"", timeout_s=0.5)


async def test_everything_that_is_meant_to_cross_does(settings_of: Settings, core: Core) -> None:
    heard: list[bytes] = []
    used: list[bytes] = []
    asked = subjects.query("agent", "state.get", "node-a")
    async with (
        answering_agent(settings_of, "node-a") as agent,
        security_site.connected(settings_of(roles.Role.READER), role=roles.Role.READER) as reader,
    ):
        await agent.subscribe(subjects.MODEL, lambda _, payload: heard.append(payload))
        await core.aggregator.subscribe(subjects.USAGE_ALL, lambda _, payload: used.append(payload))
        everything = (
            subjects.CAPACITY_ALL,
            subjects.DECISION_ALL,
            subjects.CLAIMED_ALL,
            subjects.MEMBER_ALL,
            subjects.MODEL,
            subjects.PODS_ALL,
            subjects.SUMMARY,
        )
        for subject in everything:
            await reader.subscribe(subject, lambda _, payload: heard.append(payload))
        await agent.publish(subjects.capacity("node-a"), b"capacity")
        await agent.publish(subjects.subspace("node-a"), b"subspace")
        await agent.publish(subjects.pods("node-a"), b"loads")
        await core.scheduler.publish(subjects.decision("default", "p"), b"decision")
        await core.scheduler.claims.change(
            [buses.GuardedWrite(subject=subjects.claim("node-a"), payload=b"claim", seq=0)]
        )
        await core.scheduler.publish(subjects.SUMMARY, b"summary")
        await core.scheduler.publish(subjects.member("s1"), b"heartbeat")
        await core.aggregator.publish(subjects.MODEL, b"model")
        await core.aggregator.put_model(b"model")
        await core.aggregator.put_usage(0, b"usage")
        await agent.publish(subjects.usage("node-a"), b"of Pods")
        await waiting.until(lambda: len(used) == 1)
        assert used == [b"of Pods"]
        await waiting.until(lambda: len(heard) == 8 and len(core.heard) == 2)
        expected = [b"capacity", b"claim", b"decision", b"heartbeat", b"loads", b"model", b"model", b"summary"]
        assert sorted(heard) == expected
        assert sorted(core.heard) == [(subjects.capacity("node-a"), b"capacity"), (subjects.MODEL, b"model")]
        await waiting.answered(core.held, lambda held: set(held.values()) == {1})
        # A reader reads what is kept, and asks agents and services by name.
        assert await reader.latest_capacities() == [(subjects.capacity("node-a"), b"capacity")]
        assert await reader.recent_decisions("default", "p", 5) == [(subjects.decision("default", "p"), b"decision")]
        assert await reader.recent_decisions(None, None, 5) == [(subjects.decision("default", "p"), b"decision")]
        assert await reader.get_model() == b"model"
        assert await reader.recent_summaries() == [b"summary"]
        assert await reader.request(asked, b"", timeout_s=waiting.WAIT_S) == b"forged"
        assert await waiting.answered(lambda: reader.service_stats("carico-agent", within_s=SILENT_S))


async def test_what_an_agent_names_as_its_reply_gets_no_acknowledgement(settings_of: Settings, core: Core) -> None:
    async with security_site.raw(settings_of(roles.Role.AGENT, "node-a")) as agent:
        for reply in (subjects.capacity("node-b"), subjects.decision("x", "y"), streams.MODEL_SUBJECT, subjects.MODEL):
            await agent.client.publish(subjects.capacity("node-a"), b"capacity", reply=reply)
            await agent.client.publish(subjects.subspace("node-a"), b"subspace", reply=reply)
        assert await agent.settled() == []
        await waiting.until(lambda: len(core.heard) == 4)
        await asyncio.sleep(SILENT_S)
        assert core.heard == [(subjects.capacity("node-a"), b"capacity")] * 4
        assert await core.held() == {
            streams.CAPACITY: 1, streams.SUBSPACES: 1, streams.DECISIONS: 0, streams.CLAIMS: 0, streams.HISTORY: 0,
            streams.MODEL_STREAM: 0, streams.USAGE_STREAM: 0,
        }  # fmt: skip


async def test_a_message_id_suppresses_nothing_of_another_node(settings_of: Settings, core: Core) -> None:
    async with (
        security_site.raw(settings_of(roles.Role.AGENT, "node-a")) as liar,
        security_site.connected(settings_of(roles.Role.AGENT, "node-b"), role=roles.Role.AGENT) as agent,
    ):
        for number in range(100):
            header = {"Nats-Msg-Id": f"node-b-0-{number}"}
            await liar.client.publish(subjects.subspace("node-a"), b"a", headers=header)
        await liar.settled()
        await agent.publish(subjects.subspace("node-b"), b"b")
        held = await waiting.answered(core.held, lambda held: held[streams.SUBSPACES] == 2)
    assert held[streams.CAPACITY] == 0


async def test_a_reader_has_no_way_to_jetstream(settings_of: Settings, core: Core) -> None:
    await core.scheduler.publish(subjects.decision("default", "p"), b"kept")
    await waiting.answered(core.held, lambda held: held[streams.DECISIONS] == 1)
    async with security_site.raw(settings_of(roles.Role.READER)) as reader:
        asked = (
            f"$JS.API.DIRECT.GET.{streams.DECISIONS}",
            f"$JS.API.STREAM.DELETE.{streams.DECISIONS}",
            "$JS.API.INFO",
        )
        refused, _ = await security_site.refused_of(reader, asked, ())
        assert refused == set(asked)
    # Raises where a stream or the consumer is gone.
    assert await core.held() == {
        streams.CAPACITY: 0, streams.SUBSPACES: 0, streams.DECISIONS: 1, streams.CLAIMS: 0, streams.HISTORY: 0,
        streams.MODEL_STREAM: 0, streams.USAGE_STREAM: 0,
    }  # fmt: skip


async def test_a_reader_and_an_agent_together_forge_nothing(settings_of: Settings, core: Core) -> None:
    heard: list[bytes] = []
    async with (
        answering_agent(settings_of, "node-a"),
        security_site.connected(settings_of(roles.Role.AGENT, "node-b"), role=roles.Role.AGENT) as other,
        security_site.raw(settings_of(roles.Role.READER)) as reader,
    ):
        await other.subscribe(subjects.MODEL, lambda _, payload: heard.append(payload))
        for reply in (subjects.MODEL, subjects.capacity("node-b"), subjects.decision("x", "y")):
            for question in (subjects.query("agent", "state.get", "node-a"), "$SRV.PING.carico-agent"):
                await reader.client.publish(question, b"", reply=reply)
        assert await reader.settled() == []
        await asyncio.sleep(SILENT_S)
    assert (heard, core.heard) == ([], [])
    assert set((await core.held()).values()) == {0}


async def test_an_agent_is_not_asked_as_another_service(settings_of: Settings, core: Core) -> None:
    async with (
        answering_agent(settings_of, "node-a"),
        security_site.connected(settings_of(roles.Role.CLI), role=roles.Role.CLI) as administrator,
    ):
        assert await administrator.service_stats("carico-scheduler", within_s=SILENT_S) == []
        # By its name it is.
        assert len(await administrator.service_stats("carico-agent", within_s=SILENT_S)) == 1


@pytest.mark.parametrize("role", [roles.Role.AGENT, roles.Role.READER])
async def test_who_sends_too_much_or_listens_to_too_much_is_let_go(
    settings_of: Settings, core: Core, role: roles.Role
) -> None:
    node = "node-a" if role is roles.Role.AGENT else None
    limits = accounts.LIMITS[roles.account(role)]
    subject = subjects.capacity("node-a") if node else subjects.query("scheduler", "capacity.list")
    async with security_site.raw(settings_of(role, node)) as peer:
        await peer.client.publish(subject, b"x" * limits.payload_bytes)
        assert await peer.settled() == []
        await peer.client.publish(subject, b"x" * (limits.payload_bytes + 1))
        await waiting.until(lambda: peer.client.is_closed)
    async with security_site.raw(settings_of(role, node)) as peer:
        with contextlib.suppress(nats.errors.Error):
            for _ in range(limits.subscriptions + 1):
                await peer.client.subscribe(subjects.MODEL)
        await waiting.until(lambda: peer.client.is_closed)
