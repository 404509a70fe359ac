"""What single Pods use: listened to while it is looked at and no longer, and never older than it may be."""

import asyncio
import collections
import dataclasses

import pytest

from carico_cli.live import loads as live_loads
from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.fixtures.golden import records
from tests.tools import waiting
from tests.unit.cli import fake_cluster

LOAD = pod_telemetry.PodLoad("app/default/server", 0.25, 0.0, 8e6)


def report(node: str = "node-1", *, seq: int = 1, uid: str = "uid-a", boot: str = records.BOOT) -> tuple[str, bytes]:
    found = pod_telemetry.PodLoads(node=node, boot=boot, seq=seq, ts_ns=1, loads={uid: LOAD})
    return subjects.pods(node), wire.encode_loads(found)


def listened_to(cluster: fake_cluster.Cluster) -> list[str]:
    return [subject for subject, _ in cluster.hub.subscriptions if subject.startswith("carico.v1.pods.")]


async def test_a_report_replaces_the_last_one_and_holds_for_three_intervals() -> None:
    clock = clocks.FakeClock(monotonic_s=100.0)
    dropped: collections.Counter[errors.Drop] = collections.Counter()
    known = live_loads.Loads(
        clock=clock, lease_s=10.0, on_drop=lambda reason: dropped.update([reason]), names=lambda: ()
    )
    known.take(*report(seq=2))
    clock.advance(live_loads.HOLDS_S)
    assert known.now() == {"node-1": {"uid-a": LOAD}}
    known.take(*report("node-2"))
    known.take(*report(seq=1, uid="uid-old"))
    known.take(subjects.pods("node-2"), report("node-1")[1])
    known.take(subjects.pods("node-1"), b"not JSON")
    clock.advance(0.5)
    assert known.now() == {"node-2": {"uid-a": LOAD}}
    assert sorted(dropped.elements()) == ["foreign_node", "replayed", "undecodable"]


async def test_loads_are_listened_to_only_while_they_are_looked_at() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    await cluster.advertise()
    async with cluster.running():
        known = cluster.reader.loads
        assert listened_to(cluster) == []
        await cluster.own.publish(*report())
        assert cluster.reader.picture().loads == {}
        known.watch()
        await waiting.until(lambda: listened_to(cluster) == [subjects.PODS_ALL])
        await cluster.own.publish(*report())
        await cluster.own.publish(subjects.pods("node-1"), b"{}")
        found = cluster.reader.picture()
        assert found.loads == {"node-1": {"uid-a": LOAD}}
        assert found.dropped == {"missing_field": 1}
        known.watch("node-2.example")
        await waiting.until(lambda: listened_to(cluster) == ["carico.v1.pods.node-2_example"])
        # No node has such a name, so there is nothing to listen to.
        known.watch("Node_2")
        await waiting.until(lambda: listened_to(cluster) == [])
        known.watch("node-1")
        await waiting.until(lambda: listened_to(cluster) == [subjects.pods("node-1")])
        known.end()
        await waiting.until(lambda: listened_to(cluster) == [])


async def test_agents_are_asked_at_once_for_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fake_cluster.Cluster()
    monkeypatch.setattr(live_loads, "ASKED_AT_ONCE", 2)

    async def answer(_: bytes) -> bytes:
        return report(uid=f"uid-{seq}", seq=seq)[1]

    # The agents of other nodes do not answer, as where kwok plays them.
    spec = buses.ServiceSpec(name="carico-agent", description="x", endpoints={"loads.get": answer}, node="node-1")
    await cluster.own.serve(spec)
    await cluster.advertise()
    async with cluster.running():
        known, seq = cluster.reader.loads, 1
        known.watch()
        await asyncio.wait_for(known.asked.wait(), waiting.WAIT_S)
        assert cluster.reader.picture().loads == {"node-1": {"uid-1": LOAD}}
        seq = 2
        known.watch("node-1")
        assert not known.asked.is_set()
        await asyncio.wait_for(known.asked.wait(), waiting.WAIT_S)
        assert cluster.reader.picture().loads == {"node-1": {"uid-2": LOAD}}
        await cluster.own.publish(*report(seq=3, uid="uid-3"))
        assert cluster.reader.picture().loads == {"node-1": {"uid-3": LOAD}}
        assert cluster.reader.picture().dropped == {}


async def test_who_looks_away_and_back_while_agents_are_asked_hears_from_all() -> None:
    cluster = fake_cluster.Cluster()
    asked = 0

    async def answer(_: bytes) -> bytes:
        nonlocal asked
        asked += 1
        # The first answer comes while somebody looks away and back: the subscription stays.
        if asked == 1:
            known.end()
            known.watch("node-1")
        return report(seq=asked, uid=f"uid-{asked}")[1]

    spec = buses.ServiceSpec(name="carico-agent", description="x", endpoints={"loads.get": answer}, node="node-1")
    await cluster.own.serve(spec)
    async with cluster.running():
        known = cluster.reader.loads
        known.watch("node-1")
        await waiting.until(lambda: asked == 2 and known.asked.is_set())
        assert cluster.reader.picture().loads == {"node-1": {"uid-2": LOAD}}


async def test_loads_are_listened_to_again_at_a_new_address() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.advertise()
    async with cluster.running():
        cluster.reader.loads.watch()
        await waiting.until(lambda: listened_to(cluster) == [subjects.PODS_ALL])
        bus = dataclasses.replace(fake_cluster.ADDRESS.bus, url="nats://127.0.0.1:4333")
        cluster.hub.set_away(True)
        moved = dataclasses.replace(fake_cluster.ADDRESS, bus=bus)
        cluster.where = lambda: moved
        # A bus in memory keeps the subscriptions of a connection that has ended.
        await waiting.until(lambda: cluster.reader.bus is None)
        cluster.hub.subscriptions.clear()
        cluster.hub.set_away(False)
        await waiting.until(lambda: cluster.connected == 2 and listened_to(cluster) == [subjects.PODS_ALL])
        await cluster.own.publish(*report())
        assert cluster.reader.picture().loads == {"node-1": {"uid-a": LOAD}}


async def test_a_subscription_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fake_cluster.Cluster()
    monkeypatch.setattr(live_loads, "AGAIN_S", 0.01)
    async with cluster.running():
        await waiting.until(lambda: cluster.reader.bus is not None)
        bus = cluster.reader.bus
        assert bus is not None
        subscribe, tried = bus.subscribe, [errors.BusUnavailable("not yet")]

        async def unready(subject: str, take: object) -> object:
            if tried:
                raise tried.pop()
            return await subscribe(subject, take)  # type: ignore[arg-type]

        bus.subscribe = unready  # type: ignore[method-assign, assignment]
        cluster.reader.loads.watch()
        await waiting.until(lambda: listened_to(cluster) == [subjects.PODS_ALL])
        assert tried == []
