"""What every adapter of the bus does: the fake in memory and NATS itself pass the same tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus, serving
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock
from carico_core.wire import streams, subjects
from tests.tools import waiting
from tests.tools.memory import memory_bus
from tests.tools.sites import nats_site

WAIT_S = waiting.WAIT_S
# Nothing that is stored here is to grow too old before a slow machine has read it.
LEASE_S = 900.0
Join = Callable[[], Any]


@pytest.fixture(params=["memory", "nats"])
async def join(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Join]:
    """Gives a new member of one bus at each call."""
    members: list[Any] = []
    hub = memory_bus.Hub()
    server = nats_site.NatsServer(tmp_path / "nats") if request.param == "nats" else None

    async def member() -> Any:
        if server is None:
            found: Any = memory_bus.MemoryBus(hub)
        else:
            settings = buses.BusSettings(url=server.url, lease_s=LEASE_S)
            found = await nats_bus.connect(settings, name=f"member-{len(members)}", clock=clock.SystemClock())
        members.append(found)
        return found

    if server is not None:
        server.start()
    try:
        yield member
    finally:
        for each in members:
            await each.close()
        if server is not None:
            server.stop()


async def taken(bus: Any, count: int = 1) -> list[buses.QueueItem]:
    """Return so many items of the queue, which may come in several batches."""
    items: list[buses.QueueItem] = []
    async with asyncio.timeout(WAIT_S), contextlib.aclosing(bus.pull()) as batches:
        async for batch in batches:
            items += batch
            if len(items) >= count:
                return items
    raise AssertionError("the queue ended")


async def test_a_message_reaches_every_subscriber_of_its_subject_and_no_other(join: Join) -> None:
    writer, reader = await join(), await join()
    seen: list[tuple[str, bytes]] = []
    other: list[bytes] = []
    await reader.subscribe(subjects.CAPACITY_ALL, lambda subject, payload: seen.append((subject, payload)))
    await reader.subscribe(subjects.PARTIAL_ALL, lambda _, payload: other.append(payload))
    await writer.publish(subjects.capacity("n1.example"), b"1")
    await writer.publish(subjects.capacity("n2"), b"2")
    await waiting.until(lambda: len(seen) == 2)
    assert seen == [("carico.v1.capacity.n1_example", b"1"), ("carico.v1.capacity.n2", b"2")]
    assert other == []


async def test_many_subjects_are_heard_each_until_its_subscription_ends(join: Join) -> None:
    writer, reader = await join(), await join()
    seen: list[bytes] = []
    found = await reader.subscribe_each(
        [subjects.capacity(node) for node in ("a", "b")], lambda _, payload: seen.append(payload)
    )
    # The server knows of those when it knows of this one.
    await reader.subscribe(subjects.MODEL, lambda _, payload: seen.append(payload))
    for node in ("a", "b", "c"):
        await writer.publish(subjects.capacity(node), node.encode())
    await waiting.until(lambda: len(seen) == 2)
    await found[subjects.capacity("a")].unsubscribe()
    await reader.subscribe(subjects.PARTIAL_ALL, lambda _, payload: seen.append(payload))
    for node in ("a", "b"):
        await writer.publish(subjects.capacity(node), node.encode())
    await writer.publish(subjects.MODEL, b"end")
    await waiting.until(lambda: seen[-1] == b"end")
    assert seen == [b"a", b"b", b"b", b"end"]


async def test_a_handler_that_raises_is_called_again(join: Join, capsys: pytest.CaptureFixture[str]) -> None:
    bus = await join()
    # In memory a handler runs in the publisher's call, which raises: a test is to see it.
    raised = (
        pytest.raises(ValueError, match="a bug in a handler")
        if isinstance(bus, memory_bus.MemoryBus)
        else contextlib.nullcontext()
    )
    seen: list[bytes] = []

    def handler(_: str, payload: bytes) -> None:
        seen.append(payload)
        raise ValueError("a bug in a handler")

    await bus.subscribe("carico.v1.capacity.*", handler)
    for payload in (b"1", b"2"):
        with raised:
            await bus.publish("carico.v1.capacity.a", payload)
    await waiting.until(lambda: len(seen) == 2)
    assert seen == [b"1", b"2"]


async def test_an_ended_subscription_is_silent(join: Join) -> None:
    bus = await join()
    seen: list[bytes] = []
    fence: list[bytes] = []
    subscription = await bus.subscribe("carico.v1.capacity.*", lambda _, payload: seen.append(payload))
    await bus.subscribe("carico.v1.partial.*", lambda _, payload: fence.append(payload))
    await subscription.unsubscribe()
    await bus.publish("carico.v1.capacity.a", b"1")
    await bus.publish("carico.v1.partial.a", b"after")
    await waiting.until(lambda: fence)
    assert seen == []


async def test_the_queue_keeps_the_newest_of_each_node_and_gives_it_once(join: Join) -> None:
    writer, reader = await join(), await join()
    for seq in range(3):
        await writer.publish(subjects.subspace("n1"), f"n1-{seq}".encode())
    await writer.publish(subjects.subspace("n2"), b"n2-0")
    await waiting.answered(writer.backlog, lambda found: found.pending == 2)
    batch = await taken(reader, 2)
    assert sorted((item.subject, item.payload) for item in batch) == [
        ("carico.v1.subspace.n1", b"n1-2"),
        ("carico.v1.subspace.n2", b"n2-0"),
    ]
    await reader.acknowledge(batch)
    await writer.publish(subjects.subspace("n3"), b"n3-0")
    assert [item.payload for item in await taken(reader)] == [b"n3-0"]


async def test_a_batch_is_acknowledged_at_once_and_does_not_come_again(join: Join) -> None:
    bus = await join()
    for number in range(300):
        await bus.publish(subjects.subspace(f"n{number}"), b"x")
    seen: list[str] = []
    async with asyncio.timeout(WAIT_S), contextlib.aclosing(bus.pull()) as batches:
        async for batch in batches:
            await bus.acknowledge(batch)
            seen += [item.subject for item in batch]
            if len(seen) >= 300:
                break
    assert len(set(seen)) == 300
    await bus.acknowledge([])
    if isinstance(bus, nats_bus.NatsBus):
        stream = await bus._js.stream_info("CARICO_SUBSPACES")
        async with asyncio.timeout(WAIT_S):
            while stream.state.messages:
                stream = await bus._js.stream_info("CARICO_SUBSPACES")


async def test_replicas_share_the_queue(join: Join) -> None:
    writer = await join()
    taken: list[bytes] = []

    async def replica(bus: Any) -> None:
        async for batch in bus.pull():
            taken.extend(item.payload for item in batch)
            await bus.acknowledge(batch)

    tasks = [asyncio.create_task(replica(await join())) for _ in range(2)]
    try:
        for number in range(50):
            await writer.publish(subjects.subspace(f"n{number}"), str(number).encode())
        await waiting.until(lambda: len(taken) >= 50)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(map(int, taken)) == list(range(50))


async def test_late_joiners_find_the_newest_capacity_of_each_node(join: Join) -> None:
    writer = await join()
    for node in ("a", "b"):
        for seq in range(3):
            await writer.publish(subjects.capacity(node), f"{node}{seq}".encode())
    late = await join()
    found: list[tuple[str, bytes]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < 2 or not all(payload.endswith(b"2") for _, payload in found):
            found = await late.latest_capacities()
    assert sorted(found) == [("carico.v1.capacity.a", b"a2"), ("carico.v1.capacity.b", b"b2")]


async def test_no_capacities_is_an_empty_list(join: Join) -> None:
    assert await (await join()).latest_capacities() == []


async def test_usage_is_kept_by_key(join: Join) -> None:
    writer = await join()
    assert await writer.get_usage(3) is None
    await writer.put_usage(3, b"one")
    await writer.put_usage(3, b"two")
    await writer.put_usage(4, b"other")
    reader = await join()
    assert [await reader.get_usage(key) for key in (3, 4, 5)] == [b"two", b"other", None]


async def test_the_model_is_kept_for_late_joiners(join: Join) -> None:
    writer = await join()
    assert await writer.get_model() is None
    await writer.put_model(b"one")
    await writer.put_model(b"two")
    assert await (await join()).get_model() == b"two"


async def test_decisions_of_one_pod_come_oldest_first_and_of_all_the_last_of_each(join: Join) -> None:
    bus = await join()
    for pod, payload in (("p.1", b"1"), ("p.2", b"2"), ("p.1", b"3")):
        await bus.publish(subjects.decision("default", pod), payload)
    found: list[tuple[str, bytes]] = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < 2:
            found = await bus.recent_decisions("default", "p.1", 10)
    assert [payload for _, payload in found] == [b"1", b"3"]
    assert [payload for _, payload in await bus.recent_decisions(None, None, 10)] == [b"2", b"3"]
    assert [payload for _, payload in await bus.recent_decisions("default", "p.1", 1)] == [b"3"], "the newest are kept"
    assert [payload for _, payload in await bus.recent_decisions(None, None, 1)] == [b"3"]
    assert await bus.recent_decisions("elsewhere", None, 10) == []


async def test_summaries_are_kept_oldest_first(join: Join) -> None:
    bus = await join()
    assert await bus.recent_summaries() == []
    for payload in (b"1", b"2", b"3"):
        await bus.publish(subjects.SUMMARY, payload)
    assert await waiting.answered(bus.recent_summaries, lambda found: len(found) == 3) == [b"1", b"2", b"3"]


async def test_thousands_of_nodes_and_pods_are_read_whole(join: Join) -> None:
    bus = await join()
    # Above 1,024 subjects, the limit of one kind of direct get, and above a page of 1,000.
    nodes, pods = 2300, 1500
    for number in range(nodes):
        await bus.publish(subjects.capacity(f"n{number}"), b"%d" % number)
    for number in range(pods):
        await bus.publish(subjects.decision("default", f"p{number}"), b"%d" % number)
    await bus.publish(subjects.decision("default", "p0"), b"again")
    capacities = await waiting.answered(bus.latest_capacities, lambda found: len(found) == nodes)
    assert dict(capacities)[subjects.capacity("n17")] == b"17"
    again = (subjects.decision("default", "p0"), b"again")
    last = await waiting.answered(lambda: bus.recent_decisions(None, None, 3), lambda found: again in found)
    assert last[-1] == again
    assert [payload for _, payload in last[:2]] == [b"1498", b"1499"]
    await waiting.answered(lambda: bus.recent_decisions("default", None, 5000), lambda found: len(found) == pods)


async def test_a_service_answers_and_its_errors_arrive_as_errors(join: Join) -> None:
    server, client = await join(), await join()

    async def echo(payload: bytes) -> bytes:
        if payload == b"wrong":
            raise serving.BadQuestion("got wrong, expected right")
        if payload == b"early":
            raise errors.CaricoError("got early, expected later")
        return b"echo " + payload

    spec = buses.ServiceSpec(name="carico-agent", description="test", endpoints={"state.get": echo}, node="n1")
    handle = await server.serve(spec)
    subject = subjects.query("agent", "state.get", "n1")
    assert await client.request(subject, b"hello", timeout_s=WAIT_S) == b"echo hello"
    with pytest.raises(errors.BusError, match="expected right"):
        await client.request(subject, b"wrong", timeout_s=WAIT_S)
    # It was not the service's mistake.
    ((_, stats),) = await client.service_stats("carico-agent", within_s=1.0)
    assert [each["num_errors"] for each in orjson.loads(stats)["endpoints"]] == [0]
    with pytest.raises(errors.BusError, match="expected later"):
        await client.request(subject, b"early", timeout_s=WAIT_S)
    await handle.close()
    with pytest.raises(errors.BusUnavailable):
        await client.request(subject, b"hello", timeout_s=WAIT_S)


async def test_an_instance_that_is_frozen_takes_no_questions_from_those_of_other_queues(join: Join) -> None:
    async def freeze(_: bytes) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def echo(payload: bytes) -> bytes:
        return payload

    for answer in (freeze, echo):
        spec = buses.ServiceSpec(
            name="carico-x", description="test", endpoints={"a.get": answer}, queue=answer.__name__
        )
        await (await join()).serve(spec)
    asking, subject = await join(), subjects.query("x", "a.get")
    for number in range(8):
        payload = f"{number}".encode()
        assert await asking.request(subject, payload, timeout_s=WAIT_S) == payload


async def test_each_instance_of_a_service_says_who_it_is(join: Join) -> None:
    async def answer(payload: bytes) -> bytes:
        return payload

    spec = buses.ServiceSpec(name="carico-x", description="test", endpoints={"a.get": answer})
    asking = await join()
    assert await asking.service_stats("carico-x", within_s=WAIT_S) == []
    handles = [await (await join()).serve(spec) for _ in range(2)]

    async def answers() -> list[dict[str, Any]]:
        return [orjson.loads(payload) for _, payload in await asking.service_stats("carico-x", within_s=1.0)]

    found = await waiting.answered(answers, lambda found: len(found) == 2)
    assert [(each["name"], each["version"]) for each in found] == [("carico-x", buses.VERSION)] * 2
    assert len({each["id"] for each in found}) == 2
    assert [each["endpoints"][0]["num_requests"] for each in found] == [0, 0]
    await handles[0].close()
    (left,) = await waiting.answered(answers, lambda found: len(found) == 1)
    assert left["id"] in {each["id"] for each in found}


async def test_a_closed_bus_refuses_and_says_so(join: Join) -> None:
    bus = await join()
    await bus.close()
    with pytest.raises(errors.BusUnavailable, match="closed for good"):
        await asyncio.wait_for(bus.wait_closed(), WAIT_S)
    assert not bus.connected
    with pytest.raises(errors.BusUnavailable):
        await bus.publish(subjects.capacity("n1"), b"")


async def test_what_is_held_and_what_is_waiting_can_be_seen(join: Join) -> None:
    bus = await join()
    await bus.publish(subjects.subspace("n1"), b"12345")
    await bus.publish(subjects.capacity("n1"), b"1")

    async def held() -> dict[str, int]:
        return {each.stream: each.messages for each in (await bus.backlog()).streams}

    await waiting.answered(held, lambda told: told[streams.CAPACITY] and told[streams.SUBSPACES])
    found = await bus.backlog()
    assert (found.pending, found.unacknowledged, found.redelivered) == (1, 0, 0)
    empty = dict.fromkeys(
        (streams.DECISIONS, streams.CLAIMS, streams.HISTORY, streams.MODEL_STREAM, streams.USAGE_STREAM), 0
    )
    assert await held() == {streams.CAPACITY: 1, streams.SUBSPACES: 1, **empty}
    await bus.acknowledge(await taken(bus))
    await waiting.answered(held, lambda told: told[streams.SUBSPACES] == 0)
    assert (await bus.backlog()).pending == 0
    assert bus.traffic.out_messages >= 1
    assert bus.traffic.out_bytes >= 1
