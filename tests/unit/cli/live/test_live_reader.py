"""A reader of live signals: what it shows of a cluster in memory, and that an outage ends by itself."""

import asyncio
import dataclasses

import pytest

from carico_cli.live import addresses
from carico_cli.live import reader as readers
from carico_core.domain import errors
from carico_core.runtime.kube import list_watch
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.fixtures.golden import records
from tests.tools import waiting
from tests.tools.memory import memory_bus
from tests.unit.cli import fake_cluster


async def test_everything_that_is_said_is_in_the_picture() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    await cluster.advertise()
    await cluster.decide(fake_cluster.placed())
    async with cluster.running():
        cluster.api.events.put_nowait(list_watch.Listed(objects=[fake_cluster.pod("a")], resource_version="1"))
        await cluster.advertise(seq=2, pods=4)
        await waiting.until(lambda: cluster.reader.picture().jobs and cluster.reader.picture().services)
        found = cluster.reader.picture()
        assert [node.name for node in found.nodes] == ["node-1", "node-2", "node-3"]
        assert {node.advertisement.pods for node in found.nodes if node.advertisement} == {4}
        assert {node.reserved for node in found.nodes} == {1}
        assert [one.pod for one in found.decisions] == ["hello-0"]
        assert {one.name for one in found.services or ()} == {"carico-scheduler", "carico-aggregator"}
        assert found.trouble == []
        detail = await cluster.reader.detail("node-1")
        assert detail is not None
        assert detail.estimator == "footprint"
        assert await cluster.reader.detail("node-2") is None


async def test_a_bus_that_goes_and_comes_back_is_said_and_followed_again() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    await cluster.advertise()
    async with cluster.running():
        assert cluster.reader.picture().trouble == []
        cluster.hub.set_away(True)
        (line,) = cluster.reader.picture().trouble
        assert line.startswith("NATS: 127.0.0.1:4222 is away") or "nats://127.0.0.1:4222 is away" in line
        assert len(cluster.reader.picture().nodes) == 3
        cluster.clock.advance(20.0)
        assert {node.freshness.value for node in cluster.reader.picture().nodes} == {"absent"}
        cluster.hub.set_away(False)
        await cluster.advertise(seq=2)
        await waiting.until(lambda: not cluster.reader.picture().trouble)
        assert {node.freshness.value for node in cluster.reader.picture().nodes} == {"fresh"}
        assert cluster.connected == 1


async def test_history_that_nothing_answers_for_delays_nothing_after_a_reconnection() -> None:
    """As with an aggregator of an earlier version, or a stream that was deleted."""
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    await cluster.advertise()
    asked: list[None] = []

    async def unanswered() -> list[bytes]:
        asked.append(None)
        raise errors.BusUnavailable("no service answers")

    async with cluster.running():
        await waiting.until(lambda: cluster.reader.bus is not None)
        bus = cluster.reader.bus
        assert bus is not None
        bus.recent_summaries = unanswered  # type: ignore[method-assign]
        cluster.hub.set_away(True)
        cluster.hub.set_away(False)
        await waiting.until(lambda: asked)
        cluster.hub.set_away(True)
        read: list[None] = []
        latest = bus.latest_capacities

        async def capacities() -> list[tuple[str, bytes]]:
            read.append(None)
            return await latest()

        bus.latest_capacities = capacities  # type: ignore[method-assign]
        cluster.hub.set_away(False)
        await waiting.until(lambda: read)
        assert len(cluster.reader.picture().nodes) == 3


async def test_no_subscription_goes_on_once_another_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They went on with a bus that had been closed, and kept it."""
    cluster = fake_cluster.Cluster()
    tries: dict[str, int] = {}

    async def subscribe(bus: memory_bus.MemoryBus, subject: str, take: object) -> None:
        tries[subject] = tries.get(subject, 0) + 1
        if subject == subjects.MODEL:
            raise errors.BusError("not allowed")
        raise errors.BusUnavailable("not yet")

    monkeypatch.setattr(memory_bus.MemoryBus, "subscribe", subscribe)
    monkeypatch.setattr(readers, "AGAIN_S", 0.05)
    reading = asyncio.ensure_future(cluster.reader.run())
    try:
        await waiting.until(lambda: cluster.connected >= 3)
        # Until the next try, a moment later.
        await waiting.until(lambda: "not allowed" in cluster.reader.picture().trouble[0])
        names = [str(each.get_coro()) for each in asyncio.all_tasks()]
        assert sum("_until_done" in name for name in names) <= len(tries)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_cluster_that_was_taken_down_and_started_elsewhere_is_found() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.advertise()
    async with cluster.running():

        def gone() -> addresses.Address:
            raise errors.SettingsError("cluster 'test' is not running: start it with `carico up --name test`")

        cluster.where = gone
        cluster.hub.set_away(True)
        await waiting.until(lambda: "is not running" in cluster.reader.picture().trouble[0])
        other = fake_cluster.ADDRESS.bus.__class__(url="nats://127.0.0.1:4333")
        cluster.where = lambda: addresses.Address(name="test", bus=other, kube=fake_cluster.ADDRESS.kube)
        await waiting.until(lambda: "was restarted" in cluster.reader.picture().trouble[0])
        cluster.hub.set_away(False)
        await waiting.until(lambda: cluster.connected == 2)
        await cluster.advertise(seq=2)
        await waiting.until(lambda: not any("NATS" in line for line in cluster.reader.picture().trouble))
        assert {node.freshness.value for node in cluster.reader.picture().nodes} == {"fresh"}


async def test_without_an_answer_of_the_scheduler_those_that_share_still_place_pods() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.advertise()
    async with cluster.running():
        none = "scheduler: none answers: no Pod is placed, and `reserved` is not known"
        await waiting.until(lambda: none in cluster.reader.picture().trouble)
        # The holder of the Lease has just ended, and another member is leaving.
        for number, is_leaving in ((1, False), (2, False), (3, True)):
            each = dataclasses.replace(
                records.HEARTBEAT_REPORT, replica=f"scheduler-{number}", is_leaving=is_leaving, report=None
            )
            await cluster.own.publish(subjects.member(each.replica), wire.encode_heartbeat(each))
        said = "scheduler: none answers: `reserved` is not known; 2 that share the work still place Pods"
        await waiting.until(lambda: said in cluster.reader.picture().trouble)
        assert none not in cluster.reader.picture().trouble


async def test_an_api_that_takes_the_question_and_says_nothing_is_reported() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    await cluster.advertise()
    reading = asyncio.ensure_future(cluster.reader.run())
    try:
        await waiting.until(lambda: cluster.reader.picture().services)
        assert cluster.reader.picture().trouble == []
        cluster.clock.advance(7.0)
        assert "Kubernetes API: no answer for 7 s; jobs are not shown" in cluster.reader.picture().trouble
        cluster.api.events.put_nowait(list_watch.Listed(objects=[fake_cluster.pod("a")], resource_version="1"))
        await waiting.until(lambda: cluster.reader.picture().jobs)
        assert not any("API" in line for line in cluster.reader.picture().trouble)
        # It is frozen, and its watch stays open.
        cluster.clock.advance(31.0)
        assert "Kubernetes API: no answer for 31 s; jobs as last seen" in cluster.reader.picture().trouble
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_without_a_scheduler_the_nodes_are_shown_and_what_is_missing_is_said() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.advertise()
    async with cluster.running():
        await waiting.until(lambda: any("scheduler" in line for line in cluster.reader.picture().trouble))
        assert {node.reserved for node in cluster.reader.picture().nodes} == {None}
        await cluster.serve()
        await waiting.until(lambda: cluster.reader.picture().trouble == [])


async def test_a_brief_reader_lists_the_pods_once_and_asks_for_nothing_that_it_does_not_show() -> None:
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    await cluster.advertise()
    await cluster.decide(fake_cluster.placed())
    cluster.reader = readers.Reader(
        lambda: fake_cluster.ADDRESS, cluster._connect, clock=cluster.clock, lease_s=fake_cluster.LEASE_S,
        firsts=(readers.KEPT, readers.SCHEDULER, readers.PODS), is_brief=True,
    )  # fmt: skip
    cluster.api.events.put_nowait(list_watch.Listed(objects=[fake_cluster.pod("a")], resource_version="1"))
    async with cluster.running():
        found = cluster.reader.picture()
        assert (len(found.nodes), len(found.jobs)) == (3, 1)
        assert (found.decisions, found.services, found.model, found.summaries) == ((), None, None, ())
        assert cluster.api.events.qsize() == 1, "the watch that would follow is not opened"


async def test_nodes_do_not_look_silent_to_a_brief_reader_while_the_api_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readers, "KEPT_EVERY_S", 0.01)
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    await cluster.advertise()
    cluster.reader = readers.Reader(
        lambda: fake_cluster.ADDRESS, cluster._connect, clock=cluster.clock, lease_s=fake_cluster.LEASE_S,
        firsts=(readers.KEPT, readers.SCHEDULER, readers.PODS), is_brief=True,
    )  # fmt: skip
    reading = asyncio.create_task(cluster.reader.run())
    try:
        await waiting.until(lambda: cluster.reader.picture().nodes)
        cluster.clock.advance(6.0)
        await cluster.advertise(seq=2)
        await waiting.until(
            lambda: {node.freshness.value for node in cluster.reader.picture().nodes} == {"fresh"}, within_s=5.0
        )
        assert not cluster.reader.complete.is_set()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_node_that_advertises_is_fresh_to_a_brief_reader_also_where_nothing_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As while NATS' disk is full."""

    async def nothing(bus: memory_bus.MemoryBus) -> list[tuple[str, bytes]]:
        return []

    monkeypatch.setattr(memory_bus.MemoryBus, "latest_capacities", nothing)
    cluster = fake_cluster.Cluster()
    await cluster.serve()
    cluster.reader = readers.Reader(
        lambda: fake_cluster.ADDRESS, cluster._connect, clock=cluster.clock, lease_s=fake_cluster.LEASE_S,
        firsts=(readers.KEPT, readers.SCHEDULER), is_brief=True,
    )  # fmt: skip
    async with cluster.running():
        await cluster.advertise(seq=2)
        await waiting.until(
            lambda: {node.freshness.value for node in cluster.reader.picture().nodes} == {"fresh"}, within_s=5.0
        )
