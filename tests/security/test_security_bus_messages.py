"""Well-sent messages with hostile content: they are refused, keep no memory, and change nothing of other nodes."""

import time

import msgpack
import orjson

from carico_core.wire import messages as wire
from carico_core.wire import roles, subjects
from tests.security import live_site
from tests.tools import waiting

MINE = subjects.capacity(live_site.ATTACKER)
QUEUE = subjects.subspace(live_site.ATTACKER)
# Refused messages of an attack, 48 KiB each: 100 MB.
REFUSED = 2_000
_NEST = 20_000


def hostile_json(site: live_site.LiveSite) -> dict[str, bytes]:
    """Payloads for a reader of JSON, some of them by changes to what is good."""
    good = wire.encode_advertisement(site.advertisement(live_site.ATTACKER))
    fields = orjson.loads(good)

    def changed(**change: object) -> bytes:
        return orjson.dumps({**fields, **change})

    def replaced(name: str, text: bytes) -> bytes:
        return orjson.dumps({**fields, name: "REPLACED"}).replace(b'"REPLACED"', text)

    return {
        "nothing": b"",
        "zeros": bytes(1000),
        "no UTF-8": good.replace(b"cpu", b"\xff\xfe\xfd"),
        "a lone surrogate": replaced("bottleneck", b'"\\ud800"'),
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "deep lists": b"[" * _NEST + b"]" * _NEST,
        "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        "a deep field": replaced("direction", b"[" * _NEST + b"]" * _NEST),
        "an unknown deep field": replaced("unknown", b"[" * _NEST + b"]" * _NEST),
        "NaN": replaced("capacity", b"NaN"),
        "Infinity": replaced("capacity", b"Infinity"),
        "1e999": replaced("capacity", b"1e999"),
        "a huge number": replaced("seq", b"9" * 10_000),
        "a negative number": changed(seq=-1),
        "a number past 64 bits": replaced("ts", b"18446744073709551616"),
        "a field twice": good[:-1] + b',"node":"node-b"}',
        "another node": changed(node="node-b"),
        "a name with NUL": changed(node="node-a\0"),
        "a name that looks like another": changed(node="nоde-b"),
        "right to left": changed(bottleneck="\u202ecpu"),
        "a terminal's commands": changed(bottleneck="\x1b]0;x\x07\x1b[2J"),
        "many names": changed(usage={f"d{number}": 0.0 for number in range(3000)}),
        "a boot of 48 KiB": changed(boot="0" * 48_000),
        "a UID of 48 KiB": changed(covers=["x" * 48_000]),
        "too many UIDs": changed(covers=[f"{number:x}" for number in range(5000)]),
        "a list for a number": changed(capacity=[1.0]),
        "a text for a number": changed(capacity="100"),
        "a mode that is none": changed(mode="\u0000"),
    }


def hostile_msgpack() -> dict[str, bytes]:
    """Payloads for a reader of msgpack."""
    return {
        "nothing": b"",
        "a list of 4 billion": b"\xdd\xff\xff\xff\xff",
        "a map of 4 billion": b"\xdf\xff\xff\xff\xff",
        "bytes of 4 GB": b"\xc6\xff\xff\xff\xff",
        "deep lists": b"\x91" * _NEST,
        "deep maps": b"\x81\xa1a" * 10_000,
        "an extension": b"\xc9\xff\xff\xff\xff\x01",
        "a time of another age": msgpack.packb({"ts": msgpack.Timestamp(2**62, 0)}),
        "an array of other size": msgpack.packb({"u": {"shape": [2**31, 2**31], "data": b""}}),
        "an array of negative size": msgpack.packb({"u": {"shape": [-1, -1], "data": b"x" * 8}}),
        "keys that are no text": msgpack.packb({1: 2, b"x": 3, None: 4}),
    }


def test_hostile_payloads_stop_no_bind(site: live_site.LiveSite) -> None:
    with site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
        for name, payload in hostile_json(site).items():
            agent.publish(MINE, payload)
            agent.settle()
            assert agent.errors == [], name
        for payload in (*hostile_msgpack().values(), *hostile_json(site).values()):
            agent.publish(QUEUE, payload)
            agent.settle()
    site.bind()
    site.check()
    listed = {each["node"] for each in site.ask("aggregator", "nodes.list")["nodes"]}
    assert live_site.ATTACKER not in listed


@live_site.STATIC
def test_refused_messages_leave_no_bytes(site: live_site.LiveSite) -> None:
    """Each holds texts that no other message holds, where a reader might remember what it has seen."""
    fields = orjson.loads(wire.encode_advertisement(site.advertisement(live_site.ATTACKER)))
    site.bind()
    before = site.memory()
    with site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
        for number in range(REFUSED):
            unique = f"{number:x}" + "0" * 12_000
            body = {**fields, "boot": unique, "bottleneck": unique, "usage": {unique: 0.0}, "covers": [unique]}
            agent.publish(MINE if number % 2 else QUEUE, orjson.dumps(body) if number % 2 else msgpack.packb(body))
            if number % 50 == 0:
                agent.settle()
                agent.messages.clear()
        agent.settle()
    site.bind()
    kept = {name: size_bytes - before[name] for name, size_bytes in site.memory().items()}
    assert max(kept.values()) < live_site.KEPT_MOST_BYTES, kept


@live_site.STATIC
def test_a_wrong_clock_affects_its_own_node_only(site: live_site.LiveSite) -> None:
    year_ns = 365 * 24 * 3600 * 10**9
    with site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
        for off_ns in (year_ns, -year_ns, 3600 * 10**9, -3600 * 10**9, 2**62 - time.time_ns()):
            said_ns = time.time_ns() + off_ns
            lie = site.advertisement(live_site.ATTACKER, room=0.0, ts_ns=said_ns, sampled_at_ns=said_ns - off_ns // 2)
            agent.publish(MINE, wire.encode_advertisement(lie))
            agent.settle()
            _, node = site.bind()
            assert node in live_site.HONEST
    assert site.hears_honest_nodes()


@live_site.STATIC
def test_a_replayed_report_is_not_believed(site: live_site.LiveSite) -> None:
    """The agent's own, from before; and those of others, which it can only put onto its own subject."""
    old, new = (site.advertisement(live_site.ATTACKER, room=room) for room in (100.0, 0.0))
    other = wire.encode_advertisement(site.advertisement(live_site.HONEST[0], room=0.0))
    with site.bus.raw(roles.Role.AGENT, live_site.ATTACKER) as agent:
        for each in (old, new):
            agent.publish(MINE, wire.encode_advertisement(each))
            agent.settle()
            waiting.until_now(lambda seq=each.seq: site.row(live_site.ATTACKER)["seq"] == seq)  # type: ignore[misc]
        for again in (wire.encode_advertisement(old), other) * 20:
            agent.publish(MINE, again)
        agent.settle()
        _, node = site.bind()
    assert node in live_site.HONEST
    found = site.row(live_site.ATTACKER)
    assert (found["seq"], found["capacity"]) == (new.seq, 0.0)
    assert all(site.row(name)["capacity"] == live_site.ROOM for name in live_site.HONEST)
