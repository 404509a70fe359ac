"""Floods, and clients that do not read, or send nothing: Pods are bound meanwhile, and the services go on."""

import contextlib
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import orjson
import pytest
import yaml

from carico_auth import connections
from carico_core.domain import amounts
from carico_core.wire import accounts, roles, subjects
from carico_core.wire import messages as wire
from tests.security import bus_site, live_site, process, raw_client
from tests.tools import waiting

CONNECTIONS = 10_000
FILES = CONNECTIONS + 2000
# An attacker has half a core, in two threads.
SHARE = 0.25
# A Pod is bound within a second while an attack goes on, here within four times as long.
BOUND_WITHIN_S = 4.0
SUBSCRIPTIONS = accounts.LIMITS[accounts.Account.AGENTS].subscriptions
# More than may connect.
READERS = accounts.LIMITS[accounts.Account.READERS].connections + 10
MINE = subjects.capacity(bus_site.FLOODER)
# A flood is disconnected within two looks at the connections, here within four times as long.
FLOOD_ENDS_WITHIN_S = 4.0 * 2.0 * connections.EVERY_S
READERS_INBOX = roles.inbox(roles.Role.READER)
# Of floods; those that take all connections have the memory limit of NATS' Pod.
NATS_MOST_BYTES = 512 << 20
MANIFEST = pathlib.Path(__file__).parents[2] / "deploy/k8s/base/nats.yaml"
Attack = Callable[[threading.Event], None]


def flood(site: live_site.LiveSite, subject: str, payload: bytes, *, node: str = bus_site.FLOODER) -> Attack:
    """Publish as fast as the server takes it, on a connection of a node's agent; once it is closed, on another one."""
    burst = raw_client.publish_frame(subject, payload)
    burst *= max(1, 500_000 // len(burst))

    def attack(ended: threading.Event) -> None:
        confined = process.Confined(SHARE)
        while not ended.is_set():
            with contextlib.suppress(raw_client.Closed), site.bus.raw(roles.Role.AGENT, node) as agent:
                agent.wait_at_most(1.0)
                while not ended.is_set():
                    agent.send(burst)
                    confined.rest()
            confined.rest()

    return attack


def bound_meanwhile(site: live_site.LiveSite, *attacks: Attack, pods: int = 4) -> int:
    """Bind Pods while attacks go on, and return how many were.

    A service that could not keep up reads the honest nodes' reports again at once, and no memory is left taken.
    """
    before = site.memory()
    with live_site.attacked(*attacks):
        bound = bind(site, pods)
    site.check()
    waiting.until_now(site.hears_honest_nodes, within_s=live_site.HEARD_WITHIN_S, what=site.logs)
    kept = {name: size_bytes - before[name] for name, size_bytes in site.memory().items()}
    assert max(kept.values()) < live_site.KEPT_MOST_BYTES, kept
    return bound


def bind(site: live_site.LiveSite, pods: int) -> int:
    """Bind Pods, each in time, and return how many were; NATS stays small."""
    bound = 0
    for _ in range(pods):
        assert site.bind()[0] <= BOUND_WITHIN_S
        bound += 1
        assert process.rss_bytes(site.bus.nats.pid) < NATS_MOST_BYTES
        time.sleep(0.3)
    return bound


@live_site.STATIC
@pytest.mark.parametrize(("size", "pods"), [(1, 20), (1_000, 4), (60_000, 4)])
def test_pods_are_bound_during_a_flood_of_an_agents_own_reports(site: live_site.LiveSite, size: int, pods: int) -> None:
    """The smallest messages are the most; they go on for longer than reports of nodes, which come behind, are good."""
    assert bound_meanwhile(site, *[flood(site, MINE, b"x" * size)] * 2, pods=pods) == pods


@live_site.STATIC
def test_pods_are_bound_during_a_flood_of_well_formed_reports(site: live_site.LiveSite) -> None:
    payload = wire.encode_advertisement(site.advertisement(bus_site.FLOODER, room=0.0))
    assert bound_meanwhile(site, *[flood(site, MINE, payload)] * 2) == 4


@live_site.STATIC
def test_pods_are_bound_during_a_flood_of_the_work_queue(site: live_site.LiveSite) -> None:
    assert bound_meanwhile(site, *[flood(site, subjects.subspace(bus_site.FLOODER), b"x" * 30_000)] * 2) == 4


@live_site.STATIC
def test_an_aggregator_does_not_listen_to_a_flood_of_an_agents_own_usage(site: live_site.LiveSite) -> None:
    usage = subjects.usage(bus_site.FLOODER)
    assert bound_meanwhile(site, *[flood(site, usage, b"x")] * 2) == 4
    said = [line for line in site.logs().splitlines() if "sends far too many" in line]
    assert len(said) == 1, site.logs()


def test_pods_are_bound_while_floods_are_disconnected_and_come_back(
    site: live_site.LiveSite, at_end: contextlib.ExitStack
) -> None:
    """One is of large reports, which may stay below what the watch of carico-auth allows; the other is read by nobody.

    It tries again as fast as it can. The callout refuses it for a while; with static keys it is disconnected each time.
    """
    waited = ['carico_auth_disconnected_total{reason="flood"}']
    if site.bus.kind == bus_site.KIND_CALLOUT:
        waited.append('carico_auth_refusals_total{reason="flood"}')
    else:
        site.bus.auth.start()
        at_end.callback(site.bus.auth.kill)
    attacks = (
        flood(site, subjects.capacity(bus_site.LARGE), b"x" * 60_000, node=bus_site.LARGE),
        flood(site, subjects.traffic(bus_site.SMALL), b"x", node=bus_site.SMALL),
    )
    with live_site.attacked(*attacks):
        until_s = time.monotonic() + FLOOD_ENDS_WITHIN_S
        while not all(map(site.bus.auth.metric, waited)):
            assert time.monotonic() < until_s, site.bus.auth.log.read_text()
            bind(site, 1)
        assert bind(site, 4) == 4
    site.check()


@pytest.fixture
def at_end() -> Iterator[contextlib.ExitStack]:
    """What is done at the end of a test."""
    with contextlib.ExitStack() as found:
        yield found


def unread(bus: bus_site.Bus, frames: bytes) -> Attack:
    """Ask as a reader, as fast as the server takes it, and read no answer."""

    def attack(ended: threading.Event) -> None:
        confined = process.Confined(SHARE)
        while not ended.is_set():
            with contextlib.suppress(raw_client.Closed), bus.raw(roles.Role.READER) as reader:
                reader.subscribe(f"{READERS_INBOX}.>")
                reader.wait_at_most(1.0)
                while not ended.is_set():
                    reader.send(frames)
                    confined.rest()
            confined.rest()

    return attack


def test_pods_are_bound_while_readers_ask_without_end(site: live_site.LiveSite) -> None:
    asked = {
        subjects.query("scheduler", "capacity.list"): b"",
        subjects.query("scheduler", "node.explain"): b'{"node":"node-b"}',
        subjects.query("scheduler", "decision.get"): b'{"pod":"pod-0"}',
        subjects.query("aggregator", "model.get"): b"",
        subjects.query("aggregator", "kept.decisions"): b"{}",
        "$SRV.PING": b"",
        "$SRV.STATS": b"",
    }
    frames = b"".join(raw_client.publish_frame(*each, reply=f"{READERS_INBOX}.x") for each in asked.items())
    assert bound_meanwhile(site, *[unread(site.bus, frames * 1000)] * 2, pods=8) == 8


def test_direct_gets_of_readers_do_not_fill_the_memory_of_nats(tmp_path: pathlib.Path) -> None:
    asked = {"seq": 1, "next_by_subj": subjects.DECISION_ALL, "batch": 1_000_000}
    frame = raw_client.publish_frame(
        "$JS.API.DIRECT.GET.CARICO_DECISIONS", orjson.dumps(asked), reply=f"{READERS_INBOX}.x"
    )
    with bus_site.static(tmp_path) as bus, contextlib.closing(bus_site.Honest(bus)):
        with bus.raw(roles.Role.SCHEDULER) as scheduler:
            for number in range(30_000):
                scheduler.send(raw_client.publish_frame(subjects.decision("default", f"p{number}"), b"x" * 1000))
            scheduler.settle()
        with live_site.attacked(*[unread(bus, frame * 100)] * 2):
            deadline_s = time.monotonic() + 15.0
            while time.monotonic() < deadline_s:
                assert process.rss_bytes(bus.nats.pid) < NATS_MOST_BYTES
                time.sleep(0.05)


def test_a_payload_past_64_kib_is_refused(site: live_site.LiveSite) -> None:
    with site.bus.raw(roles.Role.AGENT, bus_site.FLOODER) as agent:
        # Its size is enough: a payload that the server does not read makes the kernel reset the connection, and over
        # TLS nothing can be read once a write has failed.
        agent.send(f"PUB {MINE} 65537\r\n".encode())
        assert "Maximum Payload" in agent.until_closed()


@live_site.STATIC
def test_readers_that_do_not_read_do_not_affect_others(site: live_site.LiveSite) -> None:
    """Each listens to all that it may, and takes nothing from its socket."""
    payload = wire.encode_advertisement(site.advertisement(bus_site.FLOODER, room=0.0))
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            reader = stack.enter_context(site.bus.raw(roles.Role.READER))
            for subject in roles.permissions(roles.Role.READER).subscribe:
                reader.subscribe(subject)
        with live_site.attacked(flood(site, MINE, payload)):
            for _ in range(3):
                site.bind()
    site.check()


def test_half_open_connections_do_not_affect_others(site: live_site.LiveSite) -> None:
    with process.open_files(FILES), contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", site.bus.nats.port)))
            # Some stop in the middle of a frame.
            idle.sendall(b'CONNECT {"verbose":'[: number % 19])
        assert site.bind()[0] <= BOUND_WITHIN_S
        with site.bus.raw(roles.Role.CLI) as cli:
            cli.settle()
    site.check()


def test_all_connections_of_one_identity_do_not_affect_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with all subscriptions that it may have, at a server with the memory of the one in deploy/k8s."""
    limit_bytes = nats_memory(monkeypatch)
    frames = b"".join(b"SUB carico.v1.model %d\r\n" % number for number in range(1, SUBSCRIPTIONS + 1))
    with process.open_files(FILES), live_site.running(tmp_path) as site, contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            agent = stack.enter_context(site.bus.raw(roles.Role.AGENT, live_site.ATTACKER))
            agent.send(frames)
        assert agent.refused() == []
        for _ in range(READERS):
            with contextlib.suppress(raw_client.Closed):
                stack.enter_context(site.bus.raw(roles.Role.READER))
        assert site.bind()[0] <= BOUND_WITHIN_S
        with site.bus.raw(roles.Role.AGENT, live_site.HONEST[0]) as honest:
            honest.settle()
        assert process.rss_bytes(site.bus.nats.pid) < limit_bytes
        site.check()


def nats_memory(monkeypatch: pytest.MonkeyPatch) -> float:
    """Have servers keep to the memory that their Pod has; return its limit in bytes."""
    documents = yaml.safe_load_all(MANIFEST.read_text())
    (pod,) = (each["spec"]["template"]["spec"] for each in documents if each["kind"] == "StatefulSet")
    (container,) = pod["containers"]
    (aim,) = (each["value"] for each in container["env"] if each["name"] == "GOMEMLIMIT")
    monkeypatch.setenv("GOMEMLIMIT", aim)
    return amounts.parse_quantity(container["resources"]["limits"]["memory"])


def test_endless_subscriptions_do_not_affect_others(site: live_site.LiveSite) -> None:
    frames = b"".join(b"SUB carico.v1.model %d\r\n" % number for number in range(1, 20_000))
    with site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
        with contextlib.suppress(raw_client.Closed):
            agent.send(frames)
            agent.settle()
        site.bind()
    site.check()
