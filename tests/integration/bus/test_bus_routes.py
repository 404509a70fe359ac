"""Routes between the servers of deploy/k8s/overlays/ha: only servers with a certificate of theirs join."""

import asyncio
import contextlib
import functools
import json
import pathlib
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence

import nats
import pytest

from carico_auth import arrangements, server_config
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.streams import kept
from carico_core.wire import roles, subjects
from carico_local import nats_server
from carico_local.cluster import free_ports
from tests.tools import waiting
from tests.tools.sites import security_site

SHIPPED = pathlib.Path(__file__).parents[3] / "deploy/k8s/overlays/ha/nats.conf"
HOST = "carico-nats-{}.carico-nats-peers.carico.svc:6222"
SERVERS = 3
WITHIN_S = 60.0
PASSWORD = "secret"
REFUSED = re.compile("TLS route handshake error|authentication error")


class Member:
    """A server with the shipped configuration, its paths, ports and names replaced by those of this machine."""

    def __init__(self, root: pathlib.Path, name: str, *, certificates: pathlib.Path, peers: Sequence[int]) -> None:
        self.name = name
        self.port, self.monitor, self.route = (free_ports.choose_one() for _ in range(3))
        if name[-1].isdigit():
            self.route = peers[int(name[-1])]
        self._root = root
        self._certificates = certificates
        self._peers = peers
        self._stack = contextlib.ExitStack()

    def start(self, *, with_tls: bool = True) -> "Member":
        """Starts it."""
        config = self._root / f"{self.name}.conf"
        config.write_text(self._configuration(with_tls=with_tls), encoding="utf-8")
        log = self._stack.enter_context((self._root / f"{self.name}.log").open("wb"))
        process = subprocess.Popen([str(nats_server.binary()), "-c", str(config)], stdout=log, stderr=log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return self

    def close(self) -> None:
        """Ends it."""
        self._stack.close()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    def joined(self) -> set[str]:
        """The names of the servers that it has routes to."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/routez") as found:
            return {route["remote_name"] for route in json.load(found)["routes"] if "remote_name" in route}
        return set()

    def log(self) -> str:
        """What it wrote."""
        return (self._root / f"{self.name}.log").read_text(errors="replace")

    def _configuration(self, *, with_tls: bool) -> str:
        text = SHIPPED.read_text(encoding="utf-8")
        for number, port in enumerate(self._peers):
            assert HOST.format(number) in text
            text = text.replace(HOST.format(number), f"localhost:{port}")
        if not with_tls:
            text = re.sub(r"^  tls \{.*?^  \}\n", "", text, flags=re.MULTILINE | re.DOTALL)
        for shipped, here in (
            ("$POD_NAME", self.name),
            ("port: 4222", f"port: {self.port}"),
            ("http: 8222", f'http: "127.0.0.1:{self.monitor}"'),
            ("store_dir: /data", f'store_dir: "{self._root / self.name}"'),
            ("port: 6222", f"port: {self.route}"),
            ("include roles/bus.conf", server_config.render(arrangements.loopback(PASSWORD))),
            ("/etc/nats/tls/", f"{self._certificates}/"),
            ("/etc/nats/ca/", f"{self._certificates}/"),
        ):
            assert shipped in text or not with_tls, shipped
            text = text.replace(shipped, here)
        return text


@pytest.fixture
def members(tmp_path: pathlib.Path) -> Iterator[list[Member]]:
    """Three servers that are joined."""
    certificates = security_site.make_certificates(tmp_path / "tls", "localhost")
    peers = [free_ports.choose_one() for _ in range(SERVERS)]
    names = [f"n{number}" for number in range(SERVERS)]
    with contextlib.ExitStack() as stack:
        found = [Member(tmp_path, name, certificates=certificates, peers=peers) for name in names]
        for member in found:
            stack.callback(member.close)
            member.start()
        waiting.until_now(
            lambda: all(member.joined() == set(names) - {member.name} for member in found),
            what=lambda: [member.log() for member in found],
        )
        yield found


async def test_accounts_cross_servers(members: list[Member]) -> None:
    """Services, an agent and a reader, each at another server."""

    async def state(_: bytes) -> bytes:
        return b"state"

    def settings(member: Member, user: str) -> buses.BusSettings:
        credentials = f"{user}:{PASSWORD}@"
        return buses.BusSettings(url=member.url.replace("://", f"://{credentials}"), copies=SERVERS, lease_s=300.0)

    asked = subjects.query("agent", "state.get", "node-a")
    spec = buses.ServiceSpec(name="carico-agent", description="x", endpoints={"state.get": state}, node="node-a")
    heard: dict[str, bytes] = {}
    async with (
        security_site.connected(
            settings(members[0], arrangements.LOCAL), role=roles.Role.SCHEDULER, within_s=WITHIN_S
        ) as core,
        security_site.connected(settings(members[1], arrangements.AGENTS), role=roles.Role.AGENT) as agent,
        security_site.connected(settings(members[2], arrangements.READERS), role=roles.Role.READER) as reader,
    ):
        await agent.serve(spec)
        about = buses.ServiceSpec(name="carico-aggregator", description="x", endpoints=kept.endpoints(core))
        await core.serve(about)
        await core.subscribe(subjects.CAPACITY_ALL, lambda _, payload: heard.update(core=payload))
        await reader.subscribe(subjects.CAPACITY_ALL, lambda _, payload: heard.update(reader=payload))
        await agent.subscribe(subjects.MODEL, lambda _, payload: heard.update(agent=payload))

        async def all_heard() -> bool:
            await agent.publish(subjects.capacity("node-a"), b"capacity")
            await agent.publish(subjects.subspace("node-a"), b"subspace")
            await core.publish(subjects.MODEL, b"model")
            return len(heard) == 3

        await waiting.answered(all_heard, within_s=WITHIN_S)
        assert heard == {"core": b"capacity", "reader": b"capacity", "agent": b"model"}
        stored = [(subjects.capacity("node-a"), b"capacity")]
        assert await waiting.answered(reader.latest_capacities, within_s=WITHIN_S) == stored
        assert await waiting.answered(core.backlog, lambda found: found.pending == 1, within_s=WITHIN_S)
        for asker in (core, reader):
            answer = functools.partial(asker.request, asked, b"", timeout_s=waiting.WAIT_S)
            assert await waiting.answered(answer) == b"state"


def rogue(root: pathlib.Path, kind: str, members: Sequence[Member]) -> Member:
    """A server that wants to join without a right to."""
    certificates = root / "tls"
    if kind == "a certificate of another authority":
        certificates = security_site.make_certificates(root / "other", "localhost")
    elif kind == "a certificate of the authority for another name":
        certificates = root / "client"
        certificates.mkdir()
        for name in ("ca.crt", "ca.key"):
            (certificates / name).write_bytes((root / "tls" / name).read_bytes())
        security_site.make_certificates(certificates, "agent")
    found = Member(root, "rogue", certificates=certificates, peers=[member.route for member in members])
    return found.start(with_tls=kind != "no certificate")


@pytest.mark.parametrize(
    "kind",
    ["no certificate", "a certificate of another authority", "a certificate of the authority for another name"],
)
async def test_only_a_server_with_a_certificate_of_theirs_joins(
    members: list[Member], kind: str, tmp_path: pathlib.Path
) -> None:
    stranger = rogue(tmp_path, kind, members)
    heard: list[bytes] = []

    async def on_model(message: "nats.aio.msg.Msg") -> None:
        heard.append(message.data)

    try:
        await asyncio.to_thread(waiting.until_now, lambda: "Server is ready" in stranger.log(), what=stranger.log)
        async with contextlib.AsyncExitStack() as stack:
            clients = []
            for member in (*members, stranger):
                clients.append(await nats.connect(member.url, user=arrangements.LOCAL, password=PASSWORD))
                stack.push_async_callback(clients[-1].close)
            await clients[0].subscribe("carico.v1.model", cb=on_model)
            # Each member has refused it. A message of another member then arrives, one of the stranger does not.
            await asyncio.to_thread(
                waiting.until_now, lambda: all(REFUSED.search(member.log()) for member in members), what=stranger.log
            )
            await clients[3].publish("carico.v1.model", b"forged")
            await clients[3].flush()
            await waiting.answered(lambda: _say(clients[1], heard))
            assert set(heard) == {b"said"}
        assert stranger.joined() == set()
        assert all("rogue" not in member.joined() for member in members)
    finally:
        stranger.close()


async def _say(client: "nats.aio.client.Client", heard: list[bytes]) -> bool:
    """Publishes until it is heard: servers tell each other of subscriptions after the subscriber's flush."""
    await client.publish("carico.v1.model", b"said")
    await client.flush()
    return b"said" in heard
