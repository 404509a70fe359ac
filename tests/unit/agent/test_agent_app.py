"""The agent on the memory bus: what is published when, what is dropped, and an outage."""

import asyncio
import dataclasses
import uuid

import orjson
import pytest

from carico_agent import app, ports, service, settings
from carico_agent.reporting import advertisement
from carico_agent.telemetry import port
from carico_core.domain import errors, pod_telemetry, usage
from carico_core.numerics import estimators
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire
from tests.tools.memory import memory_bus
from tests.unit.agent import agent_site
from tests.unit.scheduler import objects


async def test_one_advertisement_a_second_with_what_is_measured(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(5)
    assert [heard.seq for heard in one.heard] == [1, 2, 3, 4, 5]
    last = one.heard[-1]
    assert last.usage == pytest.approx({"cpu": 0.02, "memory": 0.1})
    assert (last.pods, last.covers, last.node) == (0, frozenset(), "node-1")
    assert last.sampled_at_ns == one.clock.wall_ns() - 900_000_000, "the first sample at once, then each ten"
    assert one.value("capacity_pods") == pytest.approx(last.capacity)
    assert one.value("sample_age_seconds") == 0.0
    assert one.metrics.value("model_age_seconds") is None, "there was none yet"
    assert one.value("node_info", node="node-1", estimator="footprint") == 1
    assert one.value("innovation_abs_ratio_count", dimension="cpu") > 0
    assert one.value("degraded", note="no PSI") == 1


async def test_a_pod_that_starts_or_ends_is_published_at_once(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(3)
    before = one.heard[-1]
    one.pods.become("uid-a")
    await one.settle()
    started = one.heard[-1]
    assert (started.seq, started.pods, started.covers) == (before.seq + 1, 1, frozenset({"uid-a"}))
    assert started.capacity < before.capacity
    one.pods.become(ended=("uid-a",))
    await one.settle()
    ended = one.heard[-1]
    assert (ended.seq, ended.pods, ended.covers) == (before.seq + 2, 0, frozenset({"uid-a"}))


async def test_what_pods_use_is_reported_by_class_and_survives_an_outage(
    rig: agent_site.Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig(reads_pods=True)
    monkeypatch.setattr(one.classes, "of", lambda uid: "Job/default/pi")
    heard: list[usage.ClassUsage] = []

    def hear(subject: str, payload: bytes) -> None:
        heard.append(wire.decode_usage(payload, subject=subject).classes["Job/default/pi"])

    one.hub.subscriptions.append((subjects.USAGE_ALL, hear))
    one.start()
    one.pods.become("a", "b")
    await one.seconds(7)
    assert [(each.pods, each.running) for each in heard] == [(2, 2)]
    assert heard[0].peaks == {"cpu": pytest.approx(0.5), "memory": 2.0**23}
    one.hub.set_away(True)
    await one.seconds(10)
    assert len(heard) == 1 and one.value("publish_errors_total", kind="usage") >= 1
    one.hub.set_away(False)
    await one.seconds(10)
    measured_s = sum(sum(each.seconds["cpu"].values()) for each in heard if each.seconds)
    assert measured_s == pytest.approx(2 * 25.0, abs=6.0)


async def test_an_agent_that_waits_for_a_cpu_does_not_report_more_than_pods_used(
    rig: agent_site.Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, reads, read = rig(reads_pods=True), 0, agent_site.Ledger.read

    def preempted(ledger: agent_site.Ledger, uid: str, *, has_several: bool = False) -> ports.PodAmounts:
        """Read; once, lose the CPU for half a second before the other Pod is read."""
        nonlocal reads
        found = read(ledger, uid, has_several=has_several)
        reads += 1
        if reads == 5:
            one.clock.advance(0.5)
        return found

    monkeypatch.setattr(agent_site.Ledger, "read", preempted)
    monkeypatch.setattr(one.classes, "of", lambda uid: "Job/default/pi")
    heard: list[usage.ClassUsage] = []

    def hear(subject: str, payload: bytes) -> None:
        heard.append(wire.decode_usage(payload, subject=subject).classes["Job/default/pi"])

    one.hub.subscriptions.append((subjects.USAGE_ALL, hear))
    one.start()
    one.pods.become("a", "b")
    await one.seconds(7)
    assert [each.peaks["cpu"] for each in heard] == [pytest.approx(0.5)]


async def test_the_load_of_each_pod_is_reported_every_ten_seconds(
    rig: agent_site.Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig(reads_pods=True)
    monkeypatch.setattr(one.classes, "of", lambda uid: "Job/default/pi")
    heard: list[pod_telemetry.PodLoads] = []
    one.hub.subscriptions.append(
        (subjects.PODS_ALL, lambda subject, payload: heard.append(wire.decode_loads(payload, subject=subject)))
    )
    one.start()
    one.pods.become("a", "b")
    await one.seconds(12)
    (first,) = heard
    assert {uid: load.pod_class for uid, load in first.loads.items()} == dict.fromkeys("ab", "Job/default/pi")
    assert first.loads["a"].cores == pytest.approx(0.5)
    one.pods.become(ended=("a", "b"))
    await one.seconds(10)
    assert (heard[-1].seq, heard[-1].loads) == (2, {}), "a node without Pods reports that it has none"


async def test_what_pods_use_can_be_asked_for_before_it_is_reported(
    rig: agent_site.Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig(reads_pods=True)
    monkeypatch.setattr(one.classes, "of", lambda uid: "Job/default/pi")
    asker = memory_bus.MemoryBus(one.hub)
    one.start()
    one.pods.become("a")
    await one.seconds(4)
    answer = await asker.request(subjects.query("agent", "loads.get", "node-1"), b"", timeout_s=1)
    found = wire.decode_loads(answer, subject=subjects.pods("node-1"))
    assert {uid: load.cores for uid, load in found.loads.items()} == {"a": pytest.approx(0.5)}


async def test_an_agent_without_classes_says_that_it_measures_no_pods(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(1)
    with pytest.raises(errors.BusError, match="not measured"):
        await memory_bus.MemoryBus(one.hub).request(subjects.query("agent", "loads.get", "node-1"), b"", timeout_s=1)


async def test_a_burst_of_starts_is_one_or_two_messages(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    before = len(one.heard)
    for number in range(30):
        one.pods.become(*(f"uid-{index}" for index in range(number + 1)))
    await one.settle()
    assert len(one.heard) - before <= 2
    assert one.heard[-1].pods == 30


def has_said_more(one: agent_site.Rig, seq: int) -> bool:
    return one.heard[-1].seq > seq


@pytest.mark.parametrize("estimator", sorted(estimators.SCALAR))
async def test_the_papers_modes_publish_when_the_hold_ends(rig: agent_site.Make, estimator: str) -> None:
    one = rig(estimator=estimator)
    one.start()
    await one.seconds(3)
    before = len(one.heard)
    one.pods.become("uid-a", holding=True)
    await one.settle()
    assert len(one.heard) == before
    one.pods.now = dataclasses.replace(one.pods.now, holding=False)
    one.clock.advance(0.1)
    one.agent.tick(0.0, 0)
    await one.settle()
    assert len(one.heard) == before + 1, "a hold ends by time, without a call"
    assert one.heard[-1].pods == 1


async def test_covers_are_bounded_and_keep_the_newest(rig: agent_site.Make) -> None:
    one = rig(pod_limit=10)
    one.start()
    await one.seconds(2)
    one.pods.become("running", ended=tuple(f"uid-{number}" for number in range(1000)))
    await one.settle()
    covers = one.heard[-1].covers
    assert len(covers) == 10 + advertisement.COVERS_MARGIN
    assert {"running", "uid-999"} <= covers
    assert "uid-0" not in covers


async def test_an_advertisement_of_the_largest_node_is_one_that_readers_take(rig: agent_site.Make) -> None:
    agent = rig(pod_limit=settings.POD_LIMIT_MOST)
    agent.start()
    await agent.seconds()
    running = [str(uuid.UUID(int=number)) for number in range(settings.POD_LIMIT_MOST)]
    ended = tuple(str(uuid.UUID(int=number)) for number in range(10_000, 15_000))
    agent.pods.become(*running, ended=ended)
    await agent.settle()
    assert len(agent.heard[-1].covers) == settings.POD_LIMIT_MOST + advertisement.COVERS_MARGIN


async def test_covers_are_those_of_the_count_that_is_advertised(rig: agent_site.Make) -> None:
    """A paper-mode agent that is asked to repeat itself during a hold must not release what it does not count."""
    one = rig(estimator="dual")
    one.start()
    await one.seconds(2)
    one.pods.become("uid-a", holding=True)
    outlets_refresh(one)
    await one.settle()
    last = one.heard[-1]
    assert (last.pods, last.covers) == (0, frozenset())
    one.pods.become("uid-a")
    await one.settle()
    assert (one.heard[-1].pods, one.heard[-1].covers) == (1, frozenset({"uid-a"}))


def outlets_refresh(one: agent_site.Rig) -> None:
    one.hub.set_away(True)
    one.hub.set_away(False)


async def test_an_outage_stops_neither_sampling_nor_learning_and_ends_with_a_publish(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    heard, samples = len(one.heard), one.agent.pipeline.samples
    one.hub.set_away(True)
    await one.seconds(60)
    assert len(one.heard) == heard
    assert one.agent.pipeline.samples == samples + 600
    assert one.value("publish_errors_total", kind="capacity") == 60
    one.hub.set_away(False)
    await one.settle()
    assert len(one.heard) == heard + 1, "one fresh message, no burst of old ones"
    assert one.heard[-1].sampled_at_ns == one.clock.wall_ns() - 900_000_000
    assert agent_site.SUBSPACE in one.hub.queue


async def test_a_message_that_would_end_the_connection_is_counted_and_not_sent(
    rig: agent_site.Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    before = len(one.heard)
    with monkeypatch.context() as large:
        large.setattr(one.agent, "next_capacity", lambda: b"x" * (codec.PAYLOAD_MAX_BYTES + 1))
        await one.seconds(1)
    assert len(one.heard) == before
    assert one.value("publish_errors_total", kind="capacity") == 1
    await one.seconds(1)
    assert len(one.heard) == before + 1


async def test_a_bus_closed_for_good_ends_the_service(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.settle()
    await one.bus.close()
    with pytest.raises(ExceptionGroup) as caught:
        await one.tasks[0]
    assert caught.group_contains(errors.BusUnavailable, match="for good")


async def test_broken_sources_are_counted_and_skipped(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    one.cpu.error = port.Broken("cpu.pressure", b"some avg")
    await one.seconds(4)
    assert one.value("sources_broken_total") == 40
    assert len(one.heard) == 2
    assert one.agent.not_sampling() == "no sample for 4.0 s"
    one.cpu.error = None
    one.memory.value = None
    await one.seconds(1)
    assert one.value("samples_empty_total") == 10
    one.memory.value = 0.1
    await one.seconds(1)
    assert one.agent.not_sampling() is None
    assert len(one.heard) == 3


async def test_the_state_can_be_asked_for(rig: agent_site.Make) -> None:
    one = rig()
    one.start()
    await one.seconds(3)
    one.pods.become("uid-a")
    await one.seconds(2)
    asker = memory_bus.MemoryBus(one.hub)
    answer = orjson.loads(await asker.request("carico.v1.query.agent.node-1.state.get", b"", timeout_s=1))
    assert (answer["node"], answer["source"], answer["notes"]) == ("node-1", "test", ["no PSI"])
    assert answer["now"]["pods"] == 1
    assert set(answer["now"]["cost"]) == {"cpu", "memory"}
    # At the first sample, three seconds, and more often for what has just come.
    assert len(answer["history"]["rows"]) == 13
    assert len(answer["history"]["rows"][0]) == len(answer["history"]["columns"])


def test_who_asks_without_end_gets_few_answers_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that sends as much as NATS carries is disconnected for a flood, and a reader could have it do so."""
    encoded = 0

    def view(agent: app.Agent) -> dict[str, object]:
        nonlocal encoded
        encoded += 1
        return {"node": "node-1"}

    async def main() -> int:
        monkeypatch.setattr(app.Agent, "view", view)
        one = agent_site.Rig()
        clock = objects.LoopClock(asyncio.get_running_loop())
        get = service._queries(one.agent, "node-1", clock).endpoints["state.get"]
        asked: list[asyncio.Future[bytes]] = [asyncio.ensure_future(get(b"")) for _ in range(1000)]
        await asyncio.sleep(0.999)
        answered = sum(each.done() for each in asked)
        for each in asked:
            each.cancel()
        return answered

    assert objects.run_fast(main()) == service.ANSWERS_A_SECOND
    assert encoded == 1
