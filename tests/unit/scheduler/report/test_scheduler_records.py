"""Records and Events: remembered, bounded, kept while the bus is away, and never in the way."""

import asyncio
import collections
import gc
import random
import tracemalloc
from unittest import mock

import orjson
import pytest

from carico_core.domain import cluster, decision, errors
from carico_core.runtime.bus import serving
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.answers import known, queries
from carico_scheduler.decide import cycle
from carico_scheduler.report import decisions, events
from carico_scheduler.rules import policy as policies
from carico_scheduler.state import node_state, state
from tests.unit import paged_answers
from tests.unit.scheduler import objects

FACTS = decisions.Facts(
    outcome=decision.Outcome.BOUND, node="node-0", free=2.0, candidates=(), refused={"capacity": 1}, message="room"
)


class FakeBus:
    """A bus that can be away."""

    def __init__(self) -> None:
        self.connected = True
        self.published: list[tuple[str, bytes]] = []

    async def publish(self, subject: str, payload: bytes) -> None:
        await asyncio.sleep(0)
        if not self.connected:
            raise errors.BusUnavailable("away")
        self.published.append((subject, payload))


def make_log(clock: clocks.Clock) -> tuple[decisions.Log, list[None]]:
    drops: list[None] = []
    return decisions.Log(
        boot=objects.BOOT, threshold=1.0, clock=clock, on_record=lambda _: None, on_drop=lambda: drops.append(None)
    ), drops


async def test_records_decode_as_published_and_grow_by_one() -> None:
    log, _ = make_log(clocks.FakeClock(monotonic_s=10.0))
    bus = FakeBus()
    for name in ("a", "b.c"):
        log.record(objects.make_waiting(objects.make_pod(name), 4.0), FACTS)
    assert await log.publish_some(bus)
    found = [wire.decode_decision(payload, subject=subject) for subject, payload in bus.published]
    assert [(each.pod, each.seq, each.waited_s) for each in found] == [("a", 1, 6.0), ("b.c", 2, 6.0)]
    assert found[0] == log.latest("default", "a")
    assert bus.published[1][0] == subjects.decision("default", "b.c")


async def test_records_wait_while_the_bus_is_away_and_the_oldest_gives_way() -> None:
    log, drops = make_log(clocks.FakeClock())
    bus = FakeBus()
    bus.connected = False
    waiting = objects.make_waiting(objects.make_pod())
    for _ in range(decisions.UNPUBLISHED_MAX + 5):
        log.record(waiting, FACTS)
    assert not await log.publish_some(bus)
    assert len(drops) == 5
    bus.connected = True
    assert await log.publish_some(bus)
    assert len(bus.published) == decisions.UNPUBLISHED_MAX
    assert orjson.loads(bus.published[0][1])["seq"] == 6


async def test_a_record_that_the_bus_never_takes_keeps_no_other_waiting() -> None:
    """The Pods of one tenant must not end the decisions that all others see."""
    log, drops = make_log(clocks.FakeClock())

    class Bus(FakeBus):
        async def publish(self, subject: str, payload: bytes) -> None:
            if subject == subjects.decision("default", "large"):
                raise errors.BusError("too large")
            await super().publish(subject, payload)

    bus = Bus()
    for name in ("large", "usual"):
        log.record(objects.make_waiting(objects.make_pod(name)), FACTS)
    assert await log.publish_some(bus)
    assert [subject for subject, _ in bus.published] == [subjects.decision("default", "usual")]
    assert (len(drops), log.unpublished_count) == (1, 0)


async def test_remembered_decisions_are_bounded() -> None:
    log, _ = make_log(clocks.FakeClock())
    for index in range(decisions.REMEMBERED_MAX + 1):
        log.record(objects.make_waiting(objects.make_pod(f"p{index}")), FACTS)
    assert log.latest("default", "p0") is None
    assert log.latest("default", "p1") is not None


async def test_what_is_remembered_of_a_published_record_takes_little_more_than_its_payload() -> None:
    """Eight thousand records are remembered: as objects they took three times as much, in small pieces."""
    log, _ = make_log(clocks.FakeClock())

    def facts(index: int) -> decisions.Facts:
        return FACTS._replace(candidates=tuple(
            decision.Candidate(node=f"node-{each}", capacity=index / 7, reserved=each / 7, age_s=index / 1000, seq=each,
                               score=index / 11, rejection=None)
            for each in range(8)
        ))  # fmt: skip

    bus, pods = FakeBus(), 500
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for index in range(pods):
        log.record(objects.make_waiting(objects.make_pod(f"p{index}")), facts(index))
    assert await log.publish_some(bus)
    sizes = sum(len(payload) for _, payload in bus.published)
    bus.published.clear()
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < 1.5 * sizes
    found = log.latest("default", "p7")
    assert found is not None and found.candidates == facts(7).candidates


class SlowRecorder:
    """Writes Events when it is let."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may = asyncio.Event()
        self.notes: list[str] = []
        self._error = error

    async def record(self, pod: cluster.Pod, *, reason: str, action: str, note: str, warning: bool = False) -> None:
        await self.may.wait()
        if self._error is not None:
            raise self._error
        self.notes.append(f"{'Warning' if warning else 'Normal'} {reason} {action} {note}")


async def drained(writer: events.Writer) -> None:
    task = asyncio.create_task(writer.write_forever())
    for _ in range(3 * events.WAITING_MAX):
        await asyncio.sleep(0)
    task.cancel()


def make_writer(recorder: SlowRecorder) -> tuple[events.Writer, collections.Counter[str]]:
    drops: collections.Counter[str] = collections.Counter()
    pace = tasks.Pace(0.0, clock=clocks.FakeClock())
    return events.Writer(recorder, pace=pace, on_drop=lambda why: drops.update([why])), drops


async def test_events_are_written_in_order_and_the_line_is_bounded() -> None:
    recorder = SlowRecorder()
    writer, drops = make_writer(recorder)
    writer.scheduled(objects.make_pod(), "assigned")
    writer.failed(objects.make_pod(), "0/1 nodes fit")
    for _ in range(events.WAITING_MAX):
        writer.failed(objects.make_pod(), "more")
    assert drops == {"queue_full": 2}
    recorder.may.set()
    await drained(writer)
    assert recorder.notes == [
        "Normal Scheduled Binding assigned",
        "Warning FailedScheduling Scheduling 0/1 nodes fit",
        *["Warning FailedScheduling Scheduling more"] * (events.WAITING_MAX - 2),
    ]


async def test_events_of_one_namespace_delay_and_displace_none_of_another() -> None:
    recorder = SlowRecorder()
    writer, drops = make_writer(recorder)
    for _ in range(events.WAITING_MAX):
        writer.failed(objects.make_pod(namespace="flood"), "flood")
    for text in ("first", "second"):
        writer.scheduled(objects.make_pod(namespace="quiet"), text)
    assert drops == {"queue_full": 2}
    recorder.may.set()
    await drained(writer)
    assert [each.rpartition(" ")[2] for each in recorder.notes[:5]] == ["flood", "first", "flood", "second", "flood"]
    assert len(recorder.notes) == events.WAITING_MAX


async def test_an_event_that_cannot_be_written_is_counted_and_passed_over() -> None:
    recorder = SlowRecorder(errors.ApiUnavailable("away"))
    recorder.may.set()
    writer, drops = make_writer(recorder)
    writer.scheduled(objects.make_pod(), "assigned")
    await drained(writer)
    assert drops == {"ApiUnavailable": 1}


def make_answers() -> tuple[queries.Answers, decisions.Log, state.State]:
    clock = clocks.FakeClock(monotonic_s=100.0)
    log, _ = make_log(clock)
    found = state.State(policies.Policy(), random.Random(0))
    from_these = known.Known(state=found, log=log, cycle=cycle.Cycle(policies.Policy()), lease_s=10.0)
    answers = queries.Answers(
        known=from_these, clock=clock, led_by=lambda: None, away=dict, silent_s=mock.AsyncMock(return_value=None)
    )
    return answers, log, found


async def test_decision_get() -> None:
    answers, log, _ = make_answers()
    log.record(objects.make_waiting(objects.make_pod("a")), FACTS)
    found = orjson.loads(await answers.decision_get(b'{"pod": "a"}'))
    assert found["found"] is True
    assert found["decision"]["node"] == "node-0"
    assert orjson.loads(await answers.decision_get(b'{"namespace": "x", "pod": "a"}'))["found"] is False
    for bad in (b"", b"[]", b"{", b'{"pod": 1}', b'{"pod": "a", "namespace": null}'):
        with pytest.raises(serving.BadQuestion):
            await answers.decision_get(bad)


async def test_capacity_and_reservations_list() -> None:
    answers, _, known_state = make_answers()
    known_state.put_nodes([objects.make_node("node-0", unschedulable=True), objects.make_node("silent", ready=False)])
    advertisement = objects.make_advertisement("node-0", 3.0)
    known_state.put_advertisement(node_state.Heard(advertisement=advertisement, sampled_s=97.0), 98.0)
    known_state.put_pod(objects.make_pod("a", node_name="node-0"), 98.0)
    nodes = orjson.loads(await answers.capacity_list(b""))["nodes"]
    assert [(each["node"], each["freshness"], each["free"], each["reserved"]) for each in nodes] == [
        ("node-0", "ageing", 2.0, 1), ("silent", "absent", None, 0),
    ]  # fmt: skip
    assert orjson.loads(await answers.capacity_list(b""))["ts"] == answers.clock.wall_ns()
    assert [(each["ready"], each["schedulable"]) for each in nodes] == [(True, False), (False, True)]
    rows = orjson.loads(await answers.reservations_list(b""))["reservations"]
    for bad in (b"[]", b'{"after": 3}'):
        for ask in (answers.capacity_list, answers.reservations_list):
            with pytest.raises(serving.BadQuestion):
                await ask(bad)
    assert rows == [{"node": "node-0", "pod": "default/a", "uid": "uid-a", "age_s": 2.0, "binding": False}]


async def test_ten_thousand_reservations_come_in_pages_that_nats_takes() -> None:
    answers, _, known_state = make_answers()
    count = 10_000
    # The longest names that Kubernetes allows; a UID has 36 characters.
    uids = [f"{number:05d}".rjust(36, "u") for number in range(count)]
    for number, uid in enumerate(reversed(uids)):
        name, namespace = f"{number:05d}".rjust(253, "p"), "n" * 63
        pod = objects.make_pod(name, namespace=namespace, uid=uid, node_name=f"{number % 100:03d}".rjust(253, "n"))
        known_state.put_pod(pod, 98.0)
    pages = -(-count // queries.RESERVATIONS_MOST)
    assert await paged_answers.every(answers.reservations_list, "reservations", "uid") == (uids, pages)


async def test_a_list_of_many_nodes_comes_in_pages_that_nats_takes() -> None:
    answers, _, known_state = make_answers()
    names = [f"{number:05d}".ljust(253, "n") for number in range(2 * serving.NODES_MOST + 1)]
    known_state.put_nodes([objects.make_node(name) for name in reversed(names)])
    for name in names[: serving.NODES_MOST]:
        advertisement = objects.make_advertisement(name, 100.0 / 3.0)
        known_state.put_advertisement(node_state.Heard(advertisement=advertisement, sampled_s=97.0), 98.0)
    assert await paged_answers.every(answers.capacity_list, "nodes", "node") == (names, 3)
