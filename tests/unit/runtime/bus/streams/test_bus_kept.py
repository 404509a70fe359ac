"""What streams keep, as aggregators answer it to readers: whole, newest first where it has to be cut, and bounded."""

import asyncio
import itertools
import random

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.streams import kept
from carico_core.wire import subjects
from tests.tools.memory import memory_bus


async def serving(bus: memory_bus.MemoryBus) -> kept.Ask:
    """A question to an aggregator on this bus."""
    await bus.serve(buses.ServiceSpec(name="carico-aggregator", description="x", endpoints=kept.endpoints(bus)))

    async def ask(subject: str, question: bytes) -> bytes:
        return await bus.request(subject, question, timeout_s=1.0)

    return ask


async def test_nothing_is_kept_at_first() -> None:
    ask = await serving(memory_bus.MemoryBus())
    assert await kept.ask_model(ask) is None
    assert await kept.ask_capacities(ask) == []
    assert await kept.ask_decisions(ask, None, None, 10) == []


async def test_the_model_comes_as_it_is_stored() -> None:
    bus = memory_bus.MemoryBus()
    await bus.put_model(b"\x81\xff")
    assert await kept.ask_model(await serving(bus)) == b"\x81\xff"


async def test_more_capacities_than_an_answer_holds_come_in_several() -> None:
    bus = memory_bus.MemoryBus()
    ask = await serving(bus)
    sent = [(subjects.capacity(f"n{number:03d}"), b"x" * 60_000) for number in range(30)]
    for subject, payload in sent:
        await bus.publish(subject, payload)
    asked: list[int] = []

    async def measured(subject: str, question: bytes) -> bytes:
        answer = await ask(subject, question)
        asked.append(len(answer))
        return answer

    assert await kept.ask_capacities(measured) == sent
    # Of 30 messages eight fit into an answer; none asks whether there are more.
    assert len(asked) == 4
    assert max(asked) < 1 << 20


async def test_nodes_that_advertise_without_end_do_not_keep_a_reader_asking() -> None:
    """They come again, after those that were not read yet."""
    asked: list[int] = []

    class Busy(memory_bus.MemoryBus):
        async def capacities_page(self, first_seq: int, most_bytes: int) -> buses.StoredPage:
            asked.append(first_seq)
            found = [(subjects.capacity(f"n{seq % 10}"), b"%d" % seq) for seq in range(first_seq, first_seq + 4)]
            return buses.StoredPage(messages=found, following_seq=first_seq + 4, left=6)

    found = await kept.ask_capacities(await serving(Busy()))
    assert dict(found) == {subjects.capacity(f"n{seq % 10}"): b"%d" % seq for seq in range(1, 13)}
    assert asked == [1, 5, 9]


@pytest.mark.parametrize("seed", range(10))
async def test_a_node_that_advertises_before_it_was_read_is_not_missed(seed: int) -> None:
    """It goes to the end, behind nodes that have been read and advertise again as well."""
    nodes = {f"n{number:02d}": number + 1 for number in range(100)}
    rng = random.Random(seed)

    class Moving(memory_bus.MemoryBus):
        async def capacities_page(self, first_seq: int, most_bytes: int) -> buses.StoredPage:
            stored = sorted((seq, node) for node, seq in nodes.items() if seq >= first_seq)
            page = stored[:10]
            for again in rng.sample(sorted(nodes), 4):
                nodes[again] = max(nodes.values()) + 1
            messages = [(subjects.capacity(node), b"{}") for _, node in page]
            return buses.StoredPage(messages=messages, following_seq=page[-1][0] + 1, left=len(stored) - len(page))

    found = await kept.ask_capacities(await serving(Moving()))
    assert {subject for subject, _ in found} == {subjects.capacity(node) for node in nodes}


async def test_of_too_many_decisions_the_newest_are_answered_oldest_first() -> None:
    bus = memory_bus.MemoryBus()
    ask = await serving(bus)
    for number in range(100):
        await bus.publish(subjects.decision("default", f"p{number:03d}"), b"%03d" % number + b"x" * 20_000)
    found = await kept.ask_decisions(ask, None, None, 100)
    numbers = [int(payload[:3]) for _, payload in found]
    assert numbers == list(range(100 - len(found), 100))
    assert 10 < len(found) < 100
    assert [each[0] for each in await kept.ask_decisions(ask, "default", "p007", 5)] == [
        subjects.decision("default", "p007")
    ]


async def test_bytes_that_are_no_text_spoil_nothing_of_others() -> None:
    bus = memory_bus.MemoryBus()
    ask = await serving(bus)
    await bus.publish(subjects.capacity("liar"), b"\xff\xfe")
    await bus.publish(subjects.capacity("n1"), b"{}")
    assert (subjects.capacity("n1"), b"{}") in await kept.ask_capacities(ask)


@pytest.mark.parametrize("question", [b"[]", b"no JSON", b'{"limit":0}', b'{"limit":"x"}', b'{"namespace":7}'])
async def test_a_malformed_question_is_refused(question: bytes) -> None:
    ask = await serving(memory_bus.MemoryBus())
    with pytest.raises(errors.CaricoError):
        await ask(kept.DECISIONS, question)


async def test_reads_take_turns_with_a_pause_after_each() -> None:
    loop = asyncio.get_running_loop()
    reading: list[int] = []
    spans: list[tuple[float, float]] = []

    class Slow(memory_bus.MemoryBus):
        async def get_model(self) -> bytes | None:
            reading.append(1)
            assert len(reading) == 1
            began_s = loop.time()
            await asyncio.sleep(0.05)
            spans.append((began_s, loop.time()))
            reading.pop()
            return b"m"

    endpoint = kept.endpoints(Slow())["kept.model"]
    await asyncio.gather(*(endpoint(b"") for _ in range(4)))
    for (before_s, ended_s), (next_s, _) in itertools.pairwise(spans):
        assert next_s - ended_s >= 0.9 * (ended_s - before_s)
