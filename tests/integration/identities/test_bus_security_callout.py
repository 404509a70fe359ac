"""The auth callout at a real NATS server with TLS: two replicas as processes, tokens of a small API."""

import asyncio
import contextlib
import itertools
import os
import pathlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from nats.aio import transport
from nats.errors import Error as NatsError

from carico_auth import connections, ended_pods
from carico_core.domain import errors
from carico_core.runtime.bus import connection_options, nats_bus, nats_client
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import tls, token_expiry
from carico_core.runtime.bus.streams import kept
from carico_core.wire import roles, subjects
from tests.tools import bus_rights, waiting
from tests.tools.sites import security_site

# Between two tries to be heard.
EVERY_S = 0.02
AGENT, READER = security_site.ACCOUNTS[roles.Role.AGENT], security_site.ACCOUNTS[roles.Role.READER]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[security_site.Site]:
    with security_site.running(tmp_path_factory.mktemp("site")) as found:
        yield found


def refusals(site: security_site.Site, reason: str) -> float:
    return sum(each.metric(f'carico_auth_refusals_total{{reason="{reason}"}}') for each in site.callouts)


@pytest.mark.parametrize("role", roles.MEMBERS)
async def test_nats_allows_each_role_what_the_table_says_and_nothing_else(
    site: security_site.Site, role: roles.Role
) -> None:
    settings = site.role_settings(role, bus_rights.NODE if role is roles.Role.AGENT else None)
    async with security_site.raw(settings) as peer:
        refused = await security_site.refused_of(peer, bus_rights.PUBLISH, bus_rights.SUBSCRIBE)
    for table, subjects_refused in zip((bus_rights.PUBLISH, bus_rights.SUBSCRIBE), refused, strict=True):
        assert subjects_refused == {each for each, who in table.items() if role not in who}


async def test_an_agent_of_one_node_is_refused_on_the_subjects_of_another(site: security_site.Site) -> None:
    heard: list[str] = []
    async with (
        site.joined(roles.Role.AGGREGATOR) as aggregator,
        site.joined(roles.Role.SCHEDULER) as scheduler,
        site.joined(roles.Role.AGENT, "node-a") as agent,
    ):
        await scheduler.subscribe(subjects.CAPACITY_ALL, lambda subject, _: heard.append(subject))
        await agent.publish(subjects.capacity("node-b"), b"a lie")
        await agent.publish(subjects.subspace("node-b"), b"a lie")
        await agent.publish(subjects.capacity("node-a"), b"own")
        await agent.publish(subjects.subspace("node-a"), b"own")
        await waiting.until(lambda: heard)
        assert heard == [subjects.capacity("node-a")]
        # In addition to what other tests have left there.
        kept = await waiting.answered(scheduler.latest_capacities, lambda kept: (heard[0], b"own") in kept)
        assert not any(payload == b"a lie" for _, payload in kept)
        async with contextlib.aclosing(aggregator.pull()) as batches:
            assert [(each.subject, each.payload) for each in await anext(batches)] == [
                (subjects.subspace("node-a"), b"own")
            ]
        with pytest.raises(errors.BusUnavailable):
            await agent.latest_capacities()


async def test_a_reader_looks_and_asks_and_cannot_publish(site: security_site.Site) -> None:
    async def state(_: bytes) -> bytes:
        return b"state"

    spec = buses.ServiceSpec(
        name="carico-agent", version="1.0.0", description="x", endpoints={"state.get": state}, node="node-a"
    )
    heard: list[bytes] = []
    async with (
        site.joined(roles.Role.AGENT, "node-a") as agent,
        site.joined(roles.Role.READER) as reader,
        site.joined(roles.Role.SCHEDULER) as scheduler,
        site.joined(roles.Role.AGGREGATOR) as aggregator,
    ):
        about = buses.ServiceSpec(name="carico-aggregator", description="x", endpoints=kept.endpoints(aggregator))
        await aggregator.serve(about)
        await agent.serve(spec)
        await reader.subscribe(subjects.CAPACITY_ALL, lambda _, payload: heard.append(payload))
        await agent.publish(subjects.capacity("node-a"), b"seen")
        assert (
            await reader.request(subjects.query("agent", "state.get", "node-a"), b"", timeout_s=security_site.WAIT_S)
        ) == b"state"
        await reader.publish(subjects.capacity("node-a"), b"forged")
        await reader.publish(subjects.MODEL, b"forged")
        await scheduler.publish(subjects.decision("default", "p"), b"decided")
        await waiting.until(lambda: heard)
        assert heard == [b"seen"]
        seen = (subjects.capacity("node-a"), b"seen")
        stored = await waiting.answered(reader.latest_capacities, lambda stored: seen in stored)
        assert not any(payload == b"forged" for _, payload in stored)
        decisions = await waiting.answered(lambda: reader.recent_decisions(None, None, 5))
        assert decisions[-1][1] == b"decided"


@pytest.mark.filterwarnings("ignore:parameter .timeout. of type:DeprecationWarning")  # of nats-py, by aiohttp
async def test_web_pages_come_as_readers_only(site: security_site.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # Our services hide aiohttp from nats-py, which needs it for WebSockets alone.
    monkeypatch.setattr(transport, "aiohttp", aiohttp)
    url = f"wss://localhost:{site.websocket_port}"
    settings = site.settings(site.tokens.token(READER))
    async with security_site.raw(settings, servers=url) as page:
        assert page.client.is_connected
    before = refusals(site, "connection")
    with pytest.raises(NatsError):
        async with security_site.raw(site.settings(site.tokens.token(AGENT, node="n1")), servers=url):
            raise AssertionError("an agent came by WebSocket")
    assert refusals(site, "connection") == before + 1


@pytest.mark.parametrize("restarted", [False, True], ids=["same replicas", "restarted replicas"])
async def test_a_client_whose_pod_is_gone_is_disconnected(site: security_site.Site, restarted: bool) -> None:
    gone, left = "disconnected: its Pod is gone", f"leaving-{restarted:d}"
    settings = site.settings(site.api.token(AGENT, node=left))
    async with security_site.raw(settings) as leaving, site.joined(roles.Role.AGENT, "staying") as staying:
        if restarted:
            for callout in site.callouts:
                callout.kill()
            for callout in site.callouts:
                await asyncio.to_thread(callout.start)
        site.api.delete_pods_of(left)
        # Two rounds after the time that a slow watch is given.
        deadline_s = ended_pods.SETTLE_S + 2 * connections.EVERY_S + waiting.WAIT_S
        await waiting.until(lambda: leaving.client.is_closed, within_s=deadline_s)
        assert staying.connected

        def said() -> list[str]:
            return [line for each in site.callouts for line in each.log.read_text().splitlines() if gone in line]

        # It is written after NATS has answered, and the client may see its end before that.
        await waiting.until(lambda: any(left in line for line in said()))
    assert not any("staying" in line for line in said())


async def test_an_agent_that_sends_far_too_much_is_disconnected_and_stays_out(site: security_site.Site) -> None:
    settings = site.settings(site.api.token(AGENT, node="flooding"))
    frames = b"PUB %s 1\r\nx\r\n" % subjects.capacity("flooding").encode() * 10_000

    async def flood() -> bool:
        """Flood until it is disconnected; return whether it was let in."""
        try:
            async with security_site.raw(settings) as flooding:
                until_s = time.monotonic() + 4.0 * (2.0 * connections.EVERY_S)
                wire: Any = flooding.client._transport
                while not flooding.client.is_closed and time.monotonic() < until_s:
                    # Frames at once: a slow machine publishes one by one no faster than what an agent may send.
                    with contextlib.suppress(NatsError, OSError):
                        wire.write(frames)
                        await wire.drain()
                    await asyncio.sleep(0)
                assert flooding.client.is_closed
        except NatsError:
            return False
        return True

    async with site.joined(roles.Role.AGENT, "staying") as staying:
        # Each replica that has seen it flood refuses it, and which one answers is by chance.
        floods = 0
        while await flood():
            floods += 1
            assert floods < 10
        assert floods >= 1
        assert refusals(site, "flood") >= 1
        assert staying.connected
    assert any("sends far too much" in each.log.read_text() for each in site.callouts)


async def test_an_agent_that_sends_far_too_much_by_many_short_connections_stays_out(site: security_site.Site) -> None:
    settings = site.settings(site.api.token(AGENT, node="reconnecting"))
    frames = b"PUB %s 1\r\nx\r\n" % subjects.capacity("reconnecting").encode() * 19_900
    before = refusals(site, "flood")

    async def flood_and_leave() -> None:
        async with security_site.raw(settings) as flooding:
            wire: Any = flooding.client._transport
            wire.write(frames)
            await flooding.client.flush()

    async def flood() -> None:
        for _ in range(100):
            await flood_and_leave()
            # More often, the callout would not let it in.
            await asyncio.sleep(0.2)

    async with site.joined(roles.Role.AGENT, "staying") as staying:
        with pytest.raises(NatsError):
            await flood()
        assert refusals(site, "flood") > before
        assert staying.connected


def bad_token(site: security_site.Site, kind: str) -> tuple[str, str]:
    """A token that is not good, and the reason it will be counted under."""
    api = site.api
    match kind:
        case "expired":
            return api.token(AGENT, node="n1", life_s=-1.0), "token_refused"
        case "for another audience":
            return api.token(AGENT, node="n1", audience="vault"), "other_audience"
        case "signed by somebody else":
            return api.token(AGENT, node="n1", secret=b"x" * 32), "token_refused"
        case "of a Pod that is gone":
            token = api.token(AGENT, node="gone")
            api.delete_pods_of("gone")
            return token, "token_refused"
        case "of an agent without a node":
            return api.token(AGENT), "no_node"
        case "of a stranger":
            return api.token("other/carico-agent", node="n1"), "no_role"
        case "changed":
            head, claims, signature = api.token(AGENT, node="n1").split(".")
            return f"{head}.{claims[:-4]}AAAA.{signature}", "token_refused"
    return "", "no_token"


@pytest.mark.parametrize(
    "kind",
    ["expired", "for another audience", "signed by somebody else", "of a Pod that is gone",
     "of an agent without a node", "of a stranger", "changed", "none"],
)  # fmt: skip
async def test_a_token_that_is_not_good_is_refused_without_a_reason(site: security_site.Site, kind: str) -> None:
    token, reason = bad_token(site, kind)
    before = refusals(site, reason)
    with pytest.raises(NatsError) as caught:
        async with security_site.raw(site.settings(token)):
            raise AssertionError("let in")
    assert str(caught.value) == "nats: 'Authorization Violation'"
    assert refusals(site, reason) == before + 1
    assert not token or all(token not in each.log.read_text() for each in site.callouts)


async def test_who_shows_nothing_at_all_is_refused(site: security_site.Site) -> None:
    client = nats_client.Client(tls.context_maker(site.settings()))
    with pytest.raises(NatsError, match="Authorization Violation"):
        await client.connect(site.url, allow_reconnect=False)
    await client.close()


async def test_the_owner_gets_in_by_nkey_when_nothing_else_works(site: security_site.Site) -> None:
    site.api.away = True
    try:
        settings = site.settings(nkey=str(site.root / "owner.nk"))
        async with security_site.connected(settings, role=roles.Role.OWNER) as owner:
            assert owner.connected
    finally:
        site.api.away = False


async def test_while_the_api_is_away_clients_are_refused_and_get_in_when_it_is_back(site: security_site.Site) -> None:
    async with site.joined(roles.Role.AGENT, "stays") as there:
        settings = site.role_settings(roles.Role.AGENT, "late")
        site.api.away = True
        joining = asyncio.ensure_future(
            nats_bus.connect(settings, name="late", clock=security_site.CLOCK, owns_streams=False)
        )
        try:
            await asyncio.to_thread(
                waiting.until_now, lambda: any("api_away" in (page(each)) for each in site.callouts)
            )
            assert not joining.done()
            assert there.connected
        finally:
            site.api.away = False
        bus = await asyncio.wait_for(joining, security_site.WAIT_S)
        await bus.close()
        await asyncio.to_thread(
            waiting.until_now, lambda: all(each.is_ready() or "api" in page(each) for each in site.callouts)
        )


def page(callout: security_site.Auth) -> str:
    """What the replica says of its readiness, also where it is not ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{callout.port}/readyz", timeout=2.0) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


async def test_a_rotated_token_reconnects_without_a_gap(
    site: security_site.Site, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Early in a life, so that a slow machine has the rest of it to come back in.
    monkeypatch.setattr(token_expiry, "EARLIEST", 0.2)
    monkeypatch.setattr(token_expiry, "LATEST", 0.25)
    file = tmp_path / "token"
    settings = site.settings(site.tokens.token(AGENT, node="node-r", life_s=10.0), file=file)
    arrived: list[int] = []
    back: list[bool] = []
    tries = 0
    took_s: list[float] = []
    async with (
        site.joined(roles.Role.SCHEDULER) as scheduler,
        security_site.connected(settings, role=roles.Role.AGENT) as agent,
    ):
        await scheduler.subscribe(subjects.capacity("node-r"), lambda _, payload: arrived.append(int(payload)))
        agent.on_reconnect(lambda: back.append(True))
        async with asyncio.timeout(security_site.WAIT_S):
            while len(back) < 2 or not arrived or arrived[-1] < tries:
                tries += len(back) < 2
                if len(back) < 2:
                    # As the kubelet does: the file holds the next token well before the last one ends.
                    (tmp_path / "next").write_text(site.tokens.token(AGENT, node="node-r", life_s=10.0))
                    os.replace(tmp_path / "next", file)
                began_s = time.monotonic()
                with contextlib.suppress(errors.BusUnavailable):
                    await agent.publish(subjects.capacity("node-r"), b"%d" % tries)
                took_s.append(time.monotonic() - began_s)
                await asyncio.sleep(EVERY_S)
        assert agent.connected
    # An advertisement is fresh for 2.5 s. Counted in tries: while the machine stands still, there are no tries either.
    assert max(later - earlier for earlier, later in itertools.pairwise(arrived)) * EVERY_S < 2.5
    assert max(took_s) < 2.5, "no try is held up"


async def test_who_is_connected_stays_so_while_a_new_token_cannot_be_reviewed(
    site: security_site.Site, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_expiry, "EARLIEST", 0.2)
    monkeypatch.setattr(token_expiry, "LATEST", 0.25)
    settings = site.settings(site.tokens.token(AGENT, node="node-s", life_s=12.0), file=tmp_path / "token")
    async with security_site.connected(settings, role=roles.Role.AGENT) as agent:
        back: list[bool] = []
        agent.on_reconnect(lambda: back.append(True))
        before = refusals(site, "api_away")
        site.api.away = True
        try:
            # It has tried, was refused, and still has the connection it had.
            await asyncio.to_thread(waiting.until_now, lambda: refusals(site, "api_away") > before)
            assert agent.connected
            assert not back
            await agent.publish(subjects.capacity("node-s"), b"x")
        finally:
            site.api.away = False
        await waiting.until(lambda: back)
        assert agent.connected


async def test_a_token_that_ends_without_another_ends_the_connection_for_good(site: security_site.Site) -> None:
    life_s = 3.0
    while life_s:
        try:
            async with security_site.raw(site.settings(site.tokens.token(AGENT, node="n1", life_s=life_s))) as peer:
                await waiting.until(lambda: peer.client.is_closed)
            life_s = 0.0
        except NatsError:
            # It had ended before it could be shown: a machine may stand still for that long.
            assert life_s < security_site.WAIT_S
            life_s *= 4.0


async def test_a_server_that_is_restarted_is_joined_again_by_all_while_a_replica_is_killed(
    site: security_site.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_options, "RECONNECT_MOST_S", 1.0)
    async with contextlib.AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(site.joined(roles.Role.AGENT, f"n{number}")) for number in range(50)]
        site.nats.kill()
        await waiting.until(lambda: not any(agent.connected for agent in agents))
        site.nats.start()
        # While they come, one of the two that judge them goes.
        await waiting.until(lambda: any(agent.connected for agent in agents))
        site.callouts[0].kill()
        try:
            await waiting.until(lambda: all(agent.connected for agent in agents))
            assert all(agent.traffic.reconnects for agent in agents)
        finally:
            site.callouts[0].start()


async def test_without_any_callout_the_connected_go_on_and_new_ones_wait(site: security_site.Site) -> None:
    heard: list[bytes] = []
    async with site.joined(roles.Role.SCHEDULER) as scheduler, site.joined(roles.Role.AGENT, "n1") as agent:
        await scheduler.subscribe(subjects.capacity("n1"), lambda _, payload: heard.append(payload))
        for callout in site.callouts:
            assert callout.stop() == 0
        joining = asyncio.ensure_future(
            nats_bus.connect(
                site.role_settings(roles.Role.AGENT, "n2"), name="new", clock=security_site.CLOCK, owns_streams=False
            )
        )
        try:
            await agent.publish(subjects.capacity("n1"), b"on")
            await waiting.until(lambda: heard)
            await asyncio.sleep(0.5)
            assert not joining.done()
        finally:
            for callout in site.callouts:
                await asyncio.to_thread(callout.start)
        bus = await asyncio.wait_for(joining, security_site.WAIT_S)
        assert bus.connected
        await bus.close()
