"""Frames that no client library sends: the server refuses them, and they change nothing for anyone else."""

import contextlib
import json
import threading
from typing import Any

import pytest

from carico_core.runtime.bus.security import nkeys
from carico_core.wire import subjects
from tests.security import attackers, bus_site, raw_client

ROLE, NODE = attackers.IDENTITIES[0]
OWN = attackers.own_subjects(ROLE, NODE)
VICTIM = subjects.capacity(bus_site.VICTIM)
_MINE = subjects.capacity(NODE).encode()
FRAMES = {
    "a subject with a space": b"PUB " + VICTIM.encode() + b" \x20 x 6\r\nforged\r\n",
    "a tab in place of a space": b"PUB\t" + VICTIM.encode() + b"\t6\r\nforged\r\n",
    "lower case": b"pub " + VICTIM.encode() + b" 6\r\nforged\r\n",
    "no end of the payload": b"PUB " + _MINE + b" 6\r\nforgedPUB " + VICTIM.encode() + b" 6\r\nforged\r\n",
    "a command in the payload": b"PUB " + _MINE + b" 0\r\nPUB " + VICTIM.encode() + b" 6\r\nforged\r\n\r\n",
    "a negative size": b"PUB " + _MINE + b" -6\r\nforged\r\n",
    "a size past 64 bits": b"PUB " + _MINE + b" 99999999999999999999999\r\nforged\r\n",
    "a size past the limit": b"PUB " + _MINE + b" 1000000000\r\nforged\r\n",
    "headers longer than the message": b"HPUB " + _MINE + b" 100 6\r\nforged\r\n",
    "headers of negative length": b"HPUB " + _MINE + b" -1 6\r\nforged\r\n",
    "headers without a block": b"HPUB " + _MINE + b" 6 6\r\nforged\r\n",
    "a message of the server": b"MSG " + VICTIM.encode() + b" 1 6\r\nforged\r\n",
    "a message of a route": b"RMSG CARICO " + VICTIM.encode() + b" 6\r\nforged\r\n",
    "a message of a leaf": b"LMSG " + VICTIM.encode() + b" 6\r\nforged\r\n",
    "a subscription of a route": b"RS+ CARICO carico.v1.>\r\n",
    "a subscription of a leaf": b"LS+ carico.v1.>\r\n",
    "an account's subscription": b"A+ CARICO\r\n",
    "INFO of a server": b'INFO {"server_id":"x","headers":true,"jetstream":true}\r\n',
    "a line without an end": b"PUB " + b"x" * 100_000,
    "a subject of 4,000 characters": b"PUB " + b"x." * 2000 + b"x 6\r\nforged\r\n",
    "a subject of 1,000 tokens": b"PUB carico.v1.capacity" + b".x" * 1000 + b" 6\r\nforged\r\n",
    "HTTP": b"POST /v1 HTTP/1.1\r\nHost: x\r\n\r\nPUB " + VICTIM.encode() + b" 6\r\nforged\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "zeros": bytes(10_000),
    "no UTF-8": bytes(range(128, 256)) * 50,
    "a million PINGs": b"PING\r\n" * 10_000,
    "a deeply nested CONNECT": b"CONNECT " + b'{"a":' * 30_000 + b"1" + b"}" * 30_000 + b"\r\n",
    "UNSUB of what is not there": b"UNSUB 99999\r\nUNSUB -1\r\nUNSUB x y z\r\n",
    "a subscription without a subject": b"SUB 1\r\nSUB  1\r\nSUB . 1\r\nSUB .. 1\r\nSUB > > 1\r\n",
}  # fmt: skip
# Subjects that are not quite the victim's, or hold wildcards, and those of other letters that look the same.
STRANGE = (
    "carico.v1.capacity.*", "carico.v1.capacity.>", "carico.v1.*.node-b", "carico.>", ">", "*", "*.v1.capacity.node-b",
    "carico.v1.capacity.node-b.", ".carico.v1.capacity.node-b", "carico.v1..capacity.node-b",
    "carico.v1.capacity.NODE-B", "CARICO.V1.CAPACITY.node-b", "carico.v1.capacity.node-b\x00",
    "carico.v1.capacity.node\u2010b", "carico.v1.capacity.nodе-b", "carico.v1.capacity.node-b\u200b",
    "carico.v1.capacity.\u202enode-b", "carico.v1.capacity.node-a\x00.node-b", "carico.v1.capacity.node-a/../node-b",
    "carico.v1.capacity.node-a*", "carico.v1.capacity.node-a>", "carico.v1.capacity.node_a", "$KV.carico_model.*",
)  # fmt: skip


def ended(client: raw_client.RawClient) -> None:
    with contextlib.suppress(raw_client.Closed, OSError):
        client.settle()


@pytest.mark.parametrize("frame", FRAMES)
def test_a_malformed_frame_changes_nothing(bus: bus_site.Bus, honest: bus_site.Honest, frame: str) -> None:
    with bus.raw(ROLE, NODE) as agent:
        # What has no end is waited for by the server: it is ended by the next frame, or with the connection.
        with contextlib.suppress(raw_client.Closed):
            agent.send(FRAMES[frame])
            agent.send(b"\r\n\r\n")
        watcher = threading.Timer(5.0, agent.close)
        watcher.start()
        ended(agent)
        watcher.cancel()
    honest.check(own=OWN)


def test_strange_subjects_reach_no_stream_and_no_listener(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    for subject in STRANGE:
        with bus.raw(ROLE, NODE) as agent:
            with contextlib.suppress(raw_client.Closed):
                agent.publish(subject, attackers.FORGED)
            ended(agent)
    honest.check(own=OWN)


def test_a_second_connect_gives_no_other_rights(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    for more in ({"user": "owner"}, {"jwt": "x"}, {"account": "CARICO"}, {"protocol": 9}, {"name": "\x1b[2J\r\n"}):
        with bus.raw(ROLE, NODE) as agent:
            with contextlib.suppress(raw_client.Closed):
                agent.send(agent.connect_frame(**more))
                agent.publish(VICTIM, attackers.FORGED)
            ended(agent)
    honest.check(own=OWN)


@pytest.mark.parametrize(
    "fields",
    [{}, {"user": "x", "pass": "y"}, {"auth_token": ""}, {"auth_token": "x" * 3_000}, {"jwt": "e30.e30.e30"},
     {"auth_token": "\u202e\x00"}, {"user": "local"}, {"user": "local", "pass": "unnamed"}, {"nkey": "U", "sig": "x"}],
)  # fmt: skip
def test_a_client_without_credentials_learns_and_changes_nothing(
    bus: bus_site.Bus, honest: bus_site.Honest, fields: dict[str, Any]
) -> None:
    with bus.unnamed() as client:
        with contextlib.suppress(raw_client.Closed):
            client.send(client.connect_frame(**fields))
            client.publish(VICTIM, attackers.FORGED)
            client.subscribe(">")
        said = client.until_closed()
    assert "Authorization" in said or not said, said
    assert "CARICO" not in said
    assert client.messages == []
    honest.check(own=())


def test_a_signature_opens_one_connection_only(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    """Of the owner's key, which both ways know: a nonce of another connection, and another's signature."""
    owner = bus.owner_signer
    with bus.unnamed() as watched, bus.unnamed() as client:
        frame = watched.connect_frame(signer=owner)
        client.send(frame)
        assert "Authorization" in client.until_closed()
    with bus.unnamed() as client:
        stolen = json.loads(
            client.connect_frame(signer=nkeys.Signer(nkeys.generate(nkeys.Kind.USER))).split(b" ", 1)[1]
        )
        stolen["nkey"] = owner.public
        client.send(b"CONNECT " + json.dumps(stolen).encode() + b"\r\nPING\r\n")
        assert "Authorization" in client.until_closed()
    honest.check(own=())


def test_before_connect_no_frame_is_taken(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    for frame in (b"PUB " + VICTIM.encode() + b" 6\r\nforged\r\n", b"SUB > 1\r\n", b"PING\r\n" * 3):
        with bus.unnamed() as client:
            with contextlib.suppress(raw_client.Closed):
                client.send(frame)
                client.send(b"PUB " + VICTIM.encode() + b" 6\r\nforged\r\n")
            client.until_closed()
            assert client.messages == []
    honest.check(own=())


def test_inboxes_of_others_are_closed(bus: bus_site.Bus, honest: bus_site.Honest) -> None:
    inbox = f"_INBOX.agent.{bus_site.VICTIM}.x"
    with bus.raw(ROLE, NODE) as agent:
        agent.publish(inbox, attackers.FORGED)
        agent.subscribe(f"_INBOX.agent.{bus_site.VICTIM}.>")
        assert all("Permissions Violation" in each for each in agent.refused())
    honest.check(own=OWN)
