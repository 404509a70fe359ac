"""What every adapter of the stream of claims does: the fake in memory and NATS itself pass the same tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import nats
import pytest

from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock
from carico_core.wire import streams, subjects
from tests.tools import waiting
from tests.tools.memory import memory_bus
from tests.tools.sites import nats_site

SUBJECT = subjects.claim("node-1.example")
OTHER = subjects.claim("node-2")


class Site:
    """A bus on which members join, and whose stream of claims can be lost."""

    def __init__(self, join: Callable[[], Any], lose: Callable[[], Any]) -> None:
        self.join = join
        self.lose = lose


@pytest.fixture(params=["memory", "nats"])
async def site(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Site]:
    members: list[Any] = []
    hub = memory_bus.Hub()
    server = nats_site.NatsServer(tmp_path / "nats") if request.param == "nats" else None

    async def join() -> Any:
        if server is None:
            found: Any = memory_bus.MemoryBus(hub)
        else:
            found = await nats_bus.connect(
                buses.BusSettings(url=server.url), name=f"member-{len(members)}", clock=clock.SystemClock()
            )
        members.append(found)
        return found

    async def lose() -> None:
        if server is None:
            hub.lose_claims()
            return
        client = await nats.connect(server.url)
        await client.jetstream().delete_stream(streams.CLAIMS)
        await client.close()
        await waiting.answered(members[0].prepare)

    if server is not None:
        server.start()
    try:
        yield Site(join, lose)
    finally:
        for each in members:
            await each.close()
        if server is not None:
            server.stop()


def change(seq: int, payload: bytes = b"x", subject: str = SUBJECT) -> buses.GuardedWrite:
    return buses.GuardedWrite(subject=subject, payload=payload, seq=seq)


async def test_a_change_is_stored_if_nothing_newer_is(site: Site) -> None:
    bus = await site.join()
    (first,) = await bus.claims.change([change(0, b"1")])
    (second,) = await bus.claims.change([change(first.seq, b"2")])
    kept = await bus.claims.newest(SUBJECT)
    assert (kept.subject, kept.payload, kept.seq) == (SUBJECT, b"2", second.seq)
    assert second.seq > first.seq


async def test_of_two_changes_of_one_version_one_is_refused(site: Site) -> None:
    one, other = await site.join(), await site.join()
    (first,) = await one.claims.change([change(0, b"1")])
    ends = await asyncio.gather(
        one.claims.change([change(first.seq, b"one")]), other.claims.change([change(first.seq, b"other")])
    )
    stored = [payload for payload, (end,) in zip((b"one", b"other"), ends, strict=True) if end.seq is not None]
    assert sorted(end.is_conflict for (end,) in ends) == [False, True]
    assert (await one.claims.newest(SUBJECT)).payload == stored[0]


async def test_a_version_that_does_not_exist_yet_is_refused(site: Site) -> None:
    bus = await site.join()
    (first,) = await bus.claims.change([change(0, b"1")])
    ends = await bus.claims.change([change(first.seq + 1000, b"2"), change(1000, b"3", OTHER)])
    assert [(end.seq is None, end.is_conflict) for end in ends] == [(True, True), (True, True)]
    # A stream that has lost what it had stored is noticed by these numbers.
    assert [end.newest for end in ends] == [first.seq, 0]
    assert {each.subject: each.payload for each in await bus.claims.all()} == {SUBJECT: b"1"}


async def test_changes_of_one_call_are_stored_or_refused_alone(site: Site) -> None:
    bus = await site.join()
    await bus.claims.change([change(0, b"1")])
    ends = await bus.claims.change([change(0, b"2"), change(0, b"3", OTHER)])
    assert [(end.seq is None, end.is_conflict) for end in ends] == [(True, True), (False, False)]
    assert {each.subject: each.payload for each in await bus.claims.all()} == {SUBJECT: b"1", OTHER: b"3"}


async def test_followers_receive_what_was_stored_and_nothing_else(site: Site) -> None:
    writer, reader = await site.join(), await site.join()
    seen: list[buses.Kept] = []
    await reader.claims.follow(seen.append)
    (first,) = await writer.claims.change([change(0, b"1")])
    await writer.claims.change([change(0, b"refused")])
    (second,) = await writer.claims.change([change(first.seq, b"2")])
    await writer.claims.change([buses.GuardedWrite(subject=subjects.CLAIMS_EPOCH, payload=b"epoch", seq=0, lasts=True)])
    (last,) = await writer.claims.change([change(0, b"3", OTHER)])
    await waiting.until(lambda: len(seen) == 3)
    assert [(each.subject, each.payload, each.seq) for each in seen] == [
        (SUBJECT, b"1", first.seq), (SUBJECT, b"2", second.seq), (OTHER, b"3", last.seq),
    ]  # fmt: skip
    assert seen[2] == await reader.claims.newest(OTHER)


async def test_an_epoch_is_made_once_and_is_no_claim(site: Site) -> None:
    bus = await site.join()
    assert await bus.claims.newest(subjects.CLAIMS_EPOCH) is None
    made = [buses.GuardedWrite(subject=subjects.CLAIMS_EPOCH, payload=name, seq=0, lasts=True) for name in (b"a", b"b")]
    (first,) = await bus.claims.change(made[:1])
    (second,) = await bus.claims.change(made[1:])
    assert (first.seq is not None, second.is_conflict) == (True, True)
    assert (await bus.claims.newest(subjects.CLAIMS_EPOCH)).payload == b"a"
    assert await bus.claims.all() == []


async def test_a_lost_stream_has_lost_its_epoch_too(site: Site) -> None:
    bus = await site.join()
    await bus.claims.change(
        [change(0), buses.GuardedWrite(subject=subjects.CLAIMS_EPOCH, payload=b"a", seq=0, lasts=True)]
    )
    await site.lose()
    assert await bus.claims.newest(subjects.CLAIMS_EPOCH) is None
    assert await bus.claims.all() == []
    (again,) = await bus.claims.change([change(0)])
    assert again.seq is not None
