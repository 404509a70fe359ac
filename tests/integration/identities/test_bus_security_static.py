"""Static identities by nkeys at a real NATS server with TLS: rights, rotation, and what they do not protect."""

import contextlib
import os
import pathlib
import signal
from collections.abc import Iterator

import pytest
from nats.errors import Error as NatsError

from carico_auth import arrangements, key_folder
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys
from carico_core.wire import roles, subjects
from carico_local import nats_server
from tests.tools import bus_rights, waiting
from tests.tools.sites import nats_site, security_site


class Static:
    """A server, and the folder of keys it knows."""

    def __init__(self, root: pathlib.Path, *nodes: str) -> None:
        self.certificates = security_site.make_certificates(root / "tls", "127.0.0.1")
        self.keys = key_folder.KeyFolder(root / "keys")
        self.nodes = nodes
        self.nats = nats_site.NatsServer(root / "nats", extra=self._config())

    def settings(self, name: str, *, key: str | None = None) -> buses.BusSettings:
        """Settings of who holds this key."""
        path = self.keys.path(name) if key is None else self.keys.path(name).with_name(key)
        return buses.BusSettings(url=self.nats.url, tls_ca=str(self.certificates / "ca.crt"), nkey=str(path))

    def reload(self) -> None:
        """Wait until the server has read the keys again."""
        store = self.nats.directory / "store"
        config = nats_server.configuration(store_dir=store, port=self.nats.port, extra=self._config())
        (self.nats.directory / "nats.conf").write_text(config)
        before = self._reloads()
        os.kill(self.nats.pid, signal.SIGHUP)
        waiting.until_now(lambda: self._reloads() > before)

    def _reloads(self) -> int:
        log = self.nats.directory / "nats.log"
        return log.read_text(encoding="utf-8", errors="replace").count("Reloaded server configuration")

    def _config(self) -> dict[str, object]:
        tls = security_site.tls_of(self.certificates)
        return arrangements.static(self.keys, nodes=self.nodes, tls=tls).config


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Static]:
    """One key for all agents."""
    found = Static(tmp_path_factory.mktemp("static"))
    found.nats.start()
    yield found
    found.nats.kill()


@pytest.fixture
def own(tmp_path: pathlib.Path) -> Iterator[Static]:
    """A key for each agent."""
    found = Static(tmp_path, "node-a", "node-b")
    found.nats.start()
    yield found
    found.nats.kill()


async def test_nats_allows_each_role_what_the_table_says_and_nothing_else(own: Static) -> None:
    for role in roles.Role:
        name = "agent-node-a" if role is roles.Role.AGENT else role.value
        async with security_site.raw(own.settings(name)) as peer:
            refused = await security_site.refused_of(peer, bus_rights.PUBLISH, bus_rights.SUBSCRIBE)
        for table, subjects_refused in zip((bus_rights.PUBLISH, bus_rights.SUBSCRIBE), refused, strict=True):
            assert subjects_refused == {each for each, who in table.items() if role not in who}, role


async def test_one_key_for_all_agents_lets_each_speak_for_any_and_only_for_agents(shared: Static) -> None:
    heard: list[str] = []
    async with (
        security_site.connected(shared.settings("scheduler"), role=roles.Role.SCHEDULER) as scheduler,
        security_site.connected(shared.settings("agent"), role=roles.Role.AGENT) as agent,
    ):
        await scheduler.subscribe(subjects.CAPACITY_ALL, lambda subject, _: heard.append(subject))
        # What the documentation says is not protected.
        await agent.publish(subjects.capacity("node-b"), b"of another node")
        await agent.publish(subjects.MODEL, b"forged")
        await waiting.until(lambda: heard)
        assert heard == [subjects.capacity("node-b")]


async def test_an_answer_goes_to_an_inbox_and_nowhere_else(shared: Static) -> None:
    async def state(_: bytes) -> bytes:
        return b"state"

    spec = buses.ServiceSpec(
        name="carico-agent", version="1.0.0", description="x", endpoints={"state.get": state}, node="node-a"
    )
    asked = subjects.query("agent", "state.get", "node-a")
    heard: list[bytes] = []
    async with (
        security_site.connected(shared.settings("scheduler"), role=roles.Role.SCHEDULER) as scheduler,
        security_site.connected(shared.settings("agent"), role=roles.Role.AGENT) as agent,
        security_site.connected(shared.settings("reader"), role=roles.Role.READER) as reader,
    ):
        await agent.serve(spec)
        await scheduler.subscribe(subjects.CAPACITY_ALL, lambda _, payload: heard.append(payload))
        async with security_site.raw(shared.settings("reader")) as peer:
            for subject in (asked, "$SRV.PING"):
                await peer.client.publish(subject, b"", reply=subjects.capacity("node-b"))
            assert await peer.settled() == []
        # It received the requests; its answers reached the reader's account alone, and it still answers valid requests.
        assert await reader.request(asked, b"", timeout_s=waiting.WAIT_S) == b"state"
        await agent.publish(subjects.capacity("node-a"), b"last")
        await waiting.until(lambda: heard)
        assert heard == [b"last"]


async def test_a_key_of_one_node_cannot_speak_for_another(own: Static) -> None:
    async with (
        security_site.connected(own.settings("aggregator"), role=roles.Role.AGGREGATOR) as aggregator,
        security_site.connected(own.settings("agent-node-a"), role=roles.Role.AGENT) as agent,
    ):
        await agent.publish(subjects.subspace("node-b"), b"a lie")
        await agent.publish(subjects.subspace("node-a"), b"own")
        async with contextlib.aclosing(aggregator.pull()) as batches:
            assert [(item.subject, item.payload) for item in await anext(batches)] == [
                (subjects.subspace("node-a"), b"own")
            ]


async def test_who_shows_no_key_or_another_is_refused(shared: Static, tmp_path: pathlib.Path) -> None:
    (tmp_path / "other.nk").write_text(nkeys.generate(nkeys.Kind.USER))
    for seed in (None, str(tmp_path / "other.nk")):
        settings = buses.BusSettings(url=shared.nats.url, tls_ca=str(shared.certificates / "ca.crt"), nkey=seed or "")
        with pytest.raises(NatsError, match="Authorization Violation"):
            async with security_site.raw(settings):
                raise AssertionError("let in")


async def test_an_encrypted_connection_that_ends_is_no_warning_of_asyncio(
    shared: Static, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """There was one at each attempt of a client with a wrong key, without end."""
    other = tmp_path / "other.nk"
    other.write_text(nkeys.generate(nkeys.Kind.USER))
    settings = buses.BusSettings(url=shared.nats.url, tls_ca=str(shared.certificates / "ca.crt"), nkey=str(other))
    with pytest.raises(errors.BusRefused):
        await nats_bus.connect(settings, name="x", clock=security_site.CLOCK, owns_streams=False, within_s=1.0)
    assert [each.message for each in caplog.records if each.name == "asyncio"] == []


async def test_a_key_is_rotated_without_anyone_being_shut_out(shared: Static) -> None:
    async with security_site.connected(shared.settings("reader"), role=roles.Role.READER) as old:
        back: list[bool] = []
        old.on_reconnect(lambda: back.append(True))
        shared.keys.rotate("reader")
        shared.reload()
        async with (
            security_site.raw(shared.settings("reader")),
            security_site.raw(shared.settings("reader", key="reader.previous.nk")),
        ):
            assert old.connected
        previous = shared.keys.path("reader").with_name("reader.previous.nk").read_text()
        shared.keys.retire("reader")
        shared.reload()
        # It was let go, and has come back with the key that is in its file now.
        await waiting.until(lambda: back)
        assert old.connected
        shared.keys.path("reader").with_name("kept.nk").write_text(previous)
        with pytest.raises(NatsError, match="Authorization Violation"):
            async with security_site.raw(shared.settings("reader", key="kept.nk")):
                raise AssertionError("let in")
        async with security_site.raw(shared.settings("reader")):
            pass
