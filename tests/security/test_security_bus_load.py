"""Floods, and clients that do not read, or send nothing: Pods are bound meanwhile, and the services go on."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable

import pytest

from carico_core.wire import messages as wire
from carico_core.wire import roles, subjects
from tests.security import live_site, raw_client
from tests.tools import waiting

# As many as are quick to make; each costs the server a signature to check.
CONNECTIONS = 500
MINE = subjects.capacity(live_site.ATTACKER)
Attack = Callable[[threading.Event], None]


def flood(site: live_site.LiveSite, subject: str, payload: bytes, *, headers: bytes | None = None) -> Attack:
    """Publish as fast as the server takes it, on a connection of the attacker's agent."""
    burst = raw_client.publish_frame(subject, payload, headers=headers)
    burst *= max(1, 500_000 // len(burst))

    def attack(ended: threading.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(raw_client.Closed), site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
                while not ended.is_set():
                    agent.send(burst)

    return attack


def bound_meanwhile(site: live_site.LiveSite, *attacks: Attack, pods: int = 3) -> None:
    """Bind Pods while attacks go on. A service that could not keep up reads the honest nodes' reports again at once."""
    with live_site.attacked(*attacks):
        for _ in range(pods):
            site.bind()
            time.sleep(0.3)
    site.check()
    waiting.until_now(site.hears_honest_nodes, within_s=live_site.HEARD_WITHIN_S, what=site.logs)


@pytest.mark.parametrize("size", [1, 1_000, 60_000])
def test_pods_are_bound_during_a_flood_of_an_agents_own_reports(site: live_site.LiveSite, size: int) -> None:
    bound_meanwhile(site, *[flood(site, MINE, b"x" * size)] * 2)


def test_pods_are_bound_during_a_flood_of_well_formed_reports(site: live_site.LiveSite) -> None:
    payload = wire.encode_advertisement(site.advertisement(live_site.ATTACKER, room=0.0))
    bound_meanwhile(site, *[flood(site, MINE, payload)] * 2)


def test_pods_are_bound_during_a_flood_of_the_work_queue(site: live_site.LiveSite) -> None:
    bound_meanwhile(site, *[flood(site, subjects.subspace(live_site.ATTACKER), b"x" * 30_000)] * 2)


def test_pods_are_bound_while_a_reader_asks_without_end(site: live_site.LiveSite) -> None:
    frames = b"".join(
        raw_client.publish_frame(subject, b"{}", reply=f"{roles.inbox(roles.Role.READER)}.x")
        for subject in (
            subjects.query("scheduler", "capacity.list"), subjects.query("scheduler", "reservations.list"),
            subjects.query("aggregator", "model.get"), "$SRV.PING", "$SRV.STATS",
            "$JS.API.DIRECT.GET.CARICO_DECISIONS", "$JS.API.DIRECT.GET.CARICO_CAPACITY",
        )
    )  # fmt: skip

    def ask(ended: threading.Event) -> None:
        with site.bus.raw(roles.Role.READER) as reader:
            reader.subscribe(f"{roles.inbox(roles.Role.READER)}.>")
            while not ended.is_set():
                reader.send(frames * 20)
                reader.settle()
                reader.messages.clear()

    bound_meanwhile(site, ask, ask)


def test_a_payload_past_64_kib_is_refused(site: live_site.LiveSite) -> None:
    with site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
        agent.send(raw_client.publish_frame(MINE, b"x" * 65_537))
        with pytest.raises(raw_client.Closed, match="Maximum Payload"):
            agent.settle()


def test_readers_that_do_not_read_do_not_affect_others(site: live_site.LiveSite) -> None:
    """Each listens to all that it may, and takes nothing from its socket."""
    payload = wire.encode_advertisement(site.advertisement(live_site.ATTACKER, room=0.0))
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
    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", site.bus.nats.port)))
            # Some stop in the middle of a frame.
            idle.sendall(b'CONNECT {"verbose":'[: number % 19])
        site.bind()
        with site.bus.raw(roles.Role.CLI) as cli:
            cli.settle()
    site.check()


def test_many_connections_of_one_identity_do_not_affect_others(site: live_site.LiveSite) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS // 2):
            for role, node in ((roles.Role.AGENT, live_site.ATTACKER), (roles.Role.READER, None)):
                with contextlib.suppress(raw_client.Closed):
                    stack.enter_context(site.bus.raw(role, node))
        site.bind()
        with site.bus.raw(roles.Role.AGENT, live_site.HONEST[0]) as agent:
            agent.settle()
    site.check()


def test_endless_subscriptions_do_not_affect_others(site: live_site.LiveSite) -> None:
    frames = b"".join(b"SUB carico.v1.model %d\r\n" % number for number in range(1, 20_000))
    with site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
        with contextlib.suppress(raw_client.Closed):
            agent.send(frames)
            agent.settle()
        site.bind()
    site.check()
