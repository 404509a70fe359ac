"""The agent on the memory bus: what is published when, what is dropped, and an outage."""

import asyncio
import dataclasses
import functools
import random
import uuid
from collections.abc import Callable, Iterator

import numpy as np
import orjson
import pytest

from carico_agent import advertisement, app, outlets, sampler, service, settings
from carico_agent.churn import ledger
from carico_agent.telemetry import panel, port
from carico_core.domain import errors, messages, recording
from carico_core.numerics.estimators import registry
from carico_core.runtime import clock as clocks
from carico_core.runtime import memory_bus
from carico_core.runtime import metrics as metric
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.tools import waiting

CAPACITY = subjects.capacity("node-1")
SUBSPACE = subjects.subspace("node-1")


class Gauge:
    """A share that the test sets; None and errors too."""

    def __init__(self, value: float) -> None:
        self.value: float | None = value
        self.error: Exception | None = None

    def read(self) -> float | None:
        if self.error is not None:
            raise self.error
        return self.value


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    running: frozenset[str] = frozenset()
    ended: tuple[str, ...] = ()
    holding: bool = False


class Pods:
    """Pod events that the test makes."""

    def __init__(self) -> None:
        self.now = Set()
        self.callbacks: list[Callable[[], None]] = []
        self.witnesses: list[ledger.Witness] = []

    def current(self) -> Set:
        return self.now

    def on_change(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def on_event(self, witness: ledger.Witness) -> None:
        self.witnesses.append(witness)

    async def run(self) -> None:
        await asyncio.Event().wait()

    def become(self, *running: str, ended: tuple[str, ...] = (), holding: bool = False) -> None:
        self.now = Set(running=frozenset(running), ended=ended, holding=holding)
        for callback in self.callbacks:
            callback()


class Classes:
    """What the API tells of Pods: nothing but what the test says."""

    def __init__(self) -> None:
        self.placed: Callable[[str, str, int], None] = lambda *_: None

    def of(self, _uid: str) -> str:
        return messages.ANY_CLASS

    def is_baseline(self, _uid: str) -> bool:
        return False

    def on_change(self, callback: Callable[[], None]) -> None:
        pass

    def on_placed(self, callback: Callable[[str, str, int], None]) -> None:
        self.placed = callback

    async def run(self) -> None:
        await asyncio.Event().wait()


class Rig:
    """One agent, its surroundings, and the bus as others see it."""

    def __init__(self, **chosen: object) -> None:
        self.clock = clocks.FakeClock()
        self.boot, self.classes = clocks.boot_id(self.clock), Classes()
        self.cpu, self.memory, self.pods = Gauge(0.02), Gauge(0.1), Pods()
        self.metrics = metric.Metrics("agent")
        facts = panel.Facts(dims=("cpu", "memory"), scale=(8.0, 8e9), cores=4.0, source="test", notes=("no PSI",))
        self.agent = app.Agent(
            app.Parts(
                settings=settings.AgentSettings(node="node-1", **chosen),  # type: ignore[arg-type]
                panel=panel.Panel(facts, {"cpu": self.cpu, "memory": self.memory}),
                pods=self.pods,
                clock=self.clock,
                metrics=self.metrics,
                boot=self.boot,
                classes=self.classes,
            )
        )
        self.hub = memory_bus.Hub()
        self.bus = memory_bus.MemoryBus(self.hub)
        self.heard: list[messages.Advertisement] = []
        self.hub.subscriptions.append((subjects.CAPACITY_ALL, self._hear))
        self.tasks: list[asyncio.Task[None]] = []

    def _hear(self, subject: str, payload: bytes) -> None:
        self.heard.append(wire.decode_advertisement(payload, subject=subject))

    def start(self) -> None:
        self.tasks.append(asyncio.create_task(service.talk(self.agent, self.bus, node="node-1")))

    async def seconds(self, count: int = 1) -> None:
        for _ in range(count):
            for _ in range(10):
                self.clock.advance(0.1)
                self.agent.tick(0.0, 0)
            await self.settle()

    async def settle(self) -> None:
        # Two turns of the coalescing pause: what was due has been sent.
        await asyncio.sleep(2.5 * outlets.COALESCE_S)

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.value(name, labels) or 0.0

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()


@pytest.fixture
def rig() -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**chosen: object) -> Rig:
        made.append(Rig(**chosen))
        return made[-1]

    yield make
    for one in made:
        one.stop()


Make = Callable[..., Rig]


def model(seq: int = 1, *, boot: str = "0" * 16, ts_ns: int = 1_700_000_000_000_000_000, **more: object) -> bytes:
    fields: dict[str, object] = {
        "replica": "aggregator-0",
        "boot": boot,
        "seq": seq,
        "ts_ns": ts_ns,
        "epoch": seq,
        "merge": "round",
        "contributors": 3,
        "weight": 12.0,
        "dims": ("cpu", "memory"),
        "gram": np.array([[0.3, 0.05], [0.05, 0.02]]),
        "evidence": {},
        "peak_pods_per_core": 1.5,
    }
    return wire.encode_model(messages.GlobalModel(**(fields | more)))  # type: ignore[arg-type]


async def test_one_advertisement_a_second_with_what_is_measured(rig: Make) -> None:
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


async def test_a_pod_that_starts_or_ends_is_published_at_once(rig: Make) -> None:
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


async def test_a_burst_of_starts_is_one_or_two_messages(rig: Make) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    before = len(one.heard)
    for number in range(30):
        one.pods.become(*(f"uid-{index}" for index in range(number + 1)))
    await one.settle()
    assert len(one.heard) - before <= 2
    assert one.heard[-1].pods == 30


async def test_the_estimator_hears_when_the_runtime_begins_to_create_a_container(
    rig: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, heard = rig(), list[str]()
    monkeypatch.setattr(one.agent.pipeline, "creating", lambda: heard.append("creating"))
    (witness,) = one.pods.witnesses
    for kind in (recording.EventKind.CREATED, recording.EventKind.STARTED, recording.EventKind.ENDED):
        witness(kind, "a", 1.0)
    assert heard == ["creating"]
    assert one.value("pod_events_total", kind="created") == 1


async def test_the_lead_is_learnt_from_pods_that_name_an_advertisement_heard_on_the_bus(rig: Make) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    (witness,) = one.pods.witnesses
    before = one.agent.state
    assert before is not None
    assert before.lead_s == pytest.approx(1.1)
    for number in range(40):
        said, at_s = one.heard[-1], one.clock.monotonic_s()
        one.clock.advance(0.3)
        one.classes.placed(f"uid-{number}", said.boot, said.seq)
        one.classes.placed(f"odd-{number}", "f" * 16, said.seq)
        for kind in (recording.EventKind.CREATED, recording.EventKind.STARTED, recording.EventKind.ENDED):
            for name in ("uid", "odd", "not-told-of"):
                witness(kind, f"{name}-{number}", at_s + 0.3)
        await one.seconds(1)
        await waiting.until(functools.partial(has_said_more, one, said.seq))
    assert (said.boot, one.value("lead_seconds_count")) == (one.boot, 40)
    assert one.value("lead_seconds_sum") == pytest.approx(40 * 0.3, abs=40 * 0.1)
    assert one.agent.state is not None
    assert one.agent.state.lead_s == pytest.approx(0.3, abs=0.12)
    assert one.value("learnt_lead_seconds") == one.agent.state.lead_s
    assert one.agent.view()["now"]["lead_s"] == one.agent.state.lead_s


def has_said_more(one: Rig, seq: int) -> bool:
    return one.heard[-1].seq > seq


@pytest.mark.parametrize("estimator", sorted(registry.SCALAR))
async def test_the_papers_modes_publish_when_the_hold_ends(rig: Make, estimator: str) -> None:
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


async def test_covers_are_bounded_and_keep_the_newest(rig: Make) -> None:
    one = rig(pod_limit=10)
    one.start()
    await one.seconds(2)
    one.pods.become("running", ended=tuple(f"uid-{number}" for number in range(1000)))
    await one.settle()
    covers = one.heard[-1].covers
    assert len(covers) == 10 + advertisement.COVERS_MARGIN
    assert {"running", "uid-999"} <= covers
    assert "uid-0" not in covers


async def test_an_advertisement_of_the_largest_node_is_one_that_readers_take(rig: Make) -> None:
    agent = rig(pod_limit=settings.POD_LIMIT_MOST)
    agent.start()
    await agent.seconds()
    running = [str(uuid.UUID(int=number)) for number in range(settings.POD_LIMIT_MOST)]
    ended = tuple(str(uuid.UUID(int=number)) for number in range(10_000, 15_000))
    agent.pods.become(*running, ended=ended)
    await agent.settle()
    assert len(agent.heard[-1].covers) == settings.POD_LIMIT_MOST + advertisement.COVERS_MARGIN


async def test_the_own_model_is_queued_when_it_moved_or_aged(rig: Make) -> None:
    one = rig(epsilon=0.5, subspace_max_age_s=5.0)
    one.start()
    await one.seconds(1)
    first = one.hub.queue[SUBSPACE]
    await one.seconds(3)
    assert one.hub.queue[SUBSPACE] == first, "did not move"
    await one.seconds(3)
    aged = one.hub.queue[SUBSPACE]
    assert aged != first, "too old"
    one.cpu.value = 0.9
    await one.seconds(2)
    moved = wire.decode_subspace(one.hub.queue[SUBSPACE], subject=SUBSPACE)
    assert one.hub.queue[SUBSPACE] != aged
    assert (moved.dims, moved.weight, moved.scale.tolist()) == (("cpu", "memory"), 4.0, [8.0, 8e9])


async def test_the_clusters_model_is_followed_and_bad_ones_are_counted(rig: Make) -> None:
    one = rig()
    one.start()
    await one.seconds(2)
    assert one.agent.state is not None
    assert not one.agent.state.federated
    sender = memory_bus.MemoryBus(one.hub)
    await sender.publish(subjects.MODEL, b"not a model")
    await sender.publish(subjects.MODEL, model(5, dims=("disk", "net")))
    await sender.publish(subjects.MODEL, model(6))
    await sender.publish(subjects.MODEL, model(6))
    await sender.publish(subjects.MODEL, model(3))
    assert one.value("models_total") == 1
    one.clock.advance(4.0)
    assert one.value("model_age_seconds") >= 4.0
    assert one.value("model_drops_total", reason="replayed") == 2
    assert one.value("model_drops_total", reason="wrong_shape") == 1
    assert one.value("model_drops_total", reason="undecodable") == 1
    await one.seconds(1)
    assert one.agent.state.federated


async def test_covers_are_those_of_the_count_that_is_advertised(rig: Make) -> None:
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


def outlets_refresh(one: Rig) -> None:
    one.hub.set_away(True)
    one.hub.set_away(False)


async def test_a_model_no_share_could_make_is_dropped(rig: Make) -> None:
    one = rig()
    await one.seconds(1)
    one.agent.on_model(subjects.MODEL, model(1, gram=np.array([[1e9, 0.0], [0.0, 1e9]])))
    assert one.value("model_drops_total", reason="out_of_range") == 1
    assert one.value("models_total") == 0


async def test_ten_thousand_mutated_models_stop_nothing(rig: Make) -> None:
    one = rig()
    await one.seconds(1)
    rng = random.Random(7)
    good = bytearray(model(1))
    for _ in range(10_000):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        one.agent.on_model(subjects.MODEL, bytes(bad[: rng.randint(1, len(bad))]))
    await one.seconds(1)
    assert one.agent.state is not None
    assert np.isfinite(one.agent.state.estimate.capacity)


async def test_a_late_joiner_takes_the_stored_model_unless_it_is_old(rig: Make) -> None:
    fresh, stale, broken = rig(), rig(), rig()
    fresh.hub.model = model(ts_ns=fresh.clock.wall_ns() - 5 * 10**9)
    stale.hub.model = model(ts_ns=stale.clock.wall_ns() - 3600 * 10**9)
    broken.hub.model = b"\x00"
    for one in (fresh, stale, broken):
        one.start()
        await one.seconds(1)
    assert fresh.value("models_total") == 1
    assert stale.value("model_drops_total", reason="too_old") == 1
    assert broken.value("model_drops_total", reason="wrong_type") == 1


async def test_an_outage_stops_neither_sampling_nor_learning_and_ends_with_a_fresh_publish(rig: Make) -> None:
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
    assert SUBSPACE in one.hub.queue


async def test_a_bus_closed_for_good_ends_the_service(rig: Make) -> None:
    one = rig()
    one.start()
    await one.settle()
    await one.bus.close()
    with pytest.raises(ExceptionGroup) as caught:
        await one.tasks[0]
    assert caught.group_contains(errors.BusUnavailable, match="for good")


async def test_broken_sources_are_counted_and_skipped(rig: Make) -> None:
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


async def test_the_state_can_be_asked_for(rig: Make) -> None:
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


def test_agents_do_not_sample_in_step_and_late_ones_skip() -> None:
    clock = clocks.FakeClock()
    phases = [
        sampler.Sampler(lambda _, __: None, period_s=0.1, clock=clock, rng=random.Random(boot))._phase_s
        for boot in ("a", "b", "c", "d")
    ]
    assert len({round(phase, 3) for phase in phases}) == 4
    assert all(0 <= phase < 0.1 for phase in phases)
    one = sampler.Sampler(lambda _, __: None, period_s=0.1, clock=clock, rng=random.Random(1))
    one._due_s = 10.0
    assert one.next_due(10.05) == 0
    assert one._due_s == pytest.approx(10.1)
    assert one.next_due(10.45) == 3
    assert one._due_s == pytest.approx(10.5)


async def test_a_sampler_whose_tick_fails_ends_with_its_error() -> None:
    def fail(_: float, __: int) -> None:
        raise RuntimeError("bug")

    one = sampler.Sampler(fail, period_s=0.001, clock=clocks.SystemClock(), rng=random.Random(1))
    with pytest.raises(RuntimeError, match="bug"):
        await one.run()
