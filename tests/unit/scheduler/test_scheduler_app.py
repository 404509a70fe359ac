"""The service around the engine: settings, readiness, stop; on the memory bus and the memory API."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import orjson
import pytest

from carico_core.domain import decision, errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings, tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler import app
from carico_scheduler import settings as setting
from carico_scheduler.engine import engine
from carico_scheduler.rules import policy
from tests.tools.memory import memory_bus, memory_kube
from tests.unit.scheduler import objects


def load(*argv: str) -> setting.SchedulerSettings:
    return settings.load(setting.SchedulerSettings, prefix="scheduler", argv=argv, environ={}, program="test")


def test_settings_become_the_rules() -> None:
    chosen = load("--score", "relative", "--release", "paper", "--threshold", "0.5", "--bus-lease-s", "20")
    rules = chosen.rules()
    assert (rules.score, rules.release) == (policy.ScoreMode.RELATIVE, policy.Release.PAPER)
    assert (rules.threshold, rules.lease_s, rules.fallback) == (0.5, 20.0, policy.Fallback.WAIT)
    assert load().rules() == policy.Policy()
    assert not load("--no-default-spread").rules().default_spread
    assert load("--baseline-namespaces", "system").rules().baseline_namespaces == {"system"}


def test_a_removed_setting_names_what_took_its_place() -> None:
    with pytest.raises(
        errors.SettingsError, match="--extender-exempt was removed: CARICO_SCHEDULER_BASELINE_NAMESPACES"
    ):
        load("--extender-exempt", "system")
    with pytest.raises(errors.SettingsError, match="CARICO_EXTENDER_EXEMPT was removed: CARICO_SCHEDULER_BASELINE"):
        settings.load(
            setting.SchedulerSettings, prefix=setting.PREFIX,
            program=setting.PROGRAM, argv=[], environ={"CARICO_EXTENDER_EXEMPT": "system"},
        )  # fmt: skip


@pytest.mark.parametrize(
    "argv", [("--threshold", "0"), ("--score", "best"), ("--binds-in-flight", "0"), ("--foo", "1")]
)
def test_settings_that_cannot_be_are_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(errors.SettingsError):
        load(*argv)


@contextlib.asynccontextmanager
async def service() -> AsyncIterator[tuple[app.Scheduler, memory_bus.MemoryBus, memory_kube.MemoryKube, tasks.Stop]]:
    clock = objects.LoopClock(asyncio.get_running_loop())
    api = memory_kube.MemoryKube(clock=clock)
    bus = memory_bus.MemoryBus()
    stop = tasks.Stop()
    scheduler = app.Scheduler(load(), api=api, clock=clock)
    assert set(scheduler.health.not_ready()) == {"kubernetes", "bus", "leadership"}
    task = asyncio.create_task(scheduler.run(bus, stop))
    yield scheduler, bus, api, stop
    stop.set()
    await task


def advertisement(clock: clocks.Clock, seq: int, capacity: float = 2.0) -> bytes:
    now_ns = clock.wall_ns()
    return wire.encode_advertisement(
        objects.make_advertisement(seq=seq, capacity=capacity, ts_ns=now_ns, sampled_at_ns=now_ns)
    )


def test_from_start_to_stop() -> None:
    async def main() -> None:
        published: list[tuple[str, bytes]] = []
        async with service() as (scheduler, bus, api, _):
            await bus.subscribe(subjects.DECISION_ALL, lambda subject, payload: published.append((subject, payload)))
            await asyncio.sleep(0.5)
            assert scheduler.health.not_ready() == {}
            assert scheduler.health.not_alive() == {}
            api.objects.create("nodes", objects.node_object("node-0"), "test")
            api.objects.create("pods", objects.pod_object("pod-0"), "test")
            await bus.publish(subjects.capacity("node-0"), advertisement(scheduler._clock, 1))
            await asyncio.sleep(0.5)
            found = wire.decode_decision(published[0][1], subject=published[0][0])
            assert (found.outcome, found.node) == (decision.Outcome.BOUND, "node-0")
            assert b'"found":true' in await bus.request(
                subjects.query("scheduler", "decision.get"), b'{"pod":"pod-0"}', timeout_s=1.0
            )
            text = scheduler.metrics.render().decode()
            assert 'carico_scheduler_binds_total{fate="bound"} 1.0' in text
            assert 'carico_scheduler_decisions_total{outcome="bound"} 1.0' in text
            await bus.publish(subjects.capacity("node-0"), b"{")
            api.go_away()
            await asyncio.sleep(5.0)
            told = await bus.request(subjects.query("scheduler", "pod.explain"), b'{"pod":"pod-0"}', timeout_s=1.0)
            assert 5.0 <= orjson.loads(told)["api_silent_s"] <= 6.0
            assert "kubernetes" in scheduler.health.not_ready()
            assert (
                'carico_scheduler_dropped_messages_total{reason="undecodable"} 1.0'
                in scheduler.metrics.render().decode()
            )
            api.come_back()
            await asyncio.sleep(15.0)
            assert scheduler.health.not_ready().keys() == {"advertisements"}
            await bus.publish(subjects.capacity("node-0"), advertisement(scheduler._clock, 2))
            await asyncio.sleep(0.1)
            assert scheduler.health.not_ready() == {}

    objects.run_fast(main())


def test_an_api_that_had_nothing_to_tell_is_silent_from_when_it_stops_to_answer() -> None:
    async def main() -> None:
        async with service() as (scheduler, bus, api, _):
            await asyncio.sleep(300.0)
            api.go_away()
            await asyncio.sleep(3.0)
            told = await bus.request(subjects.query("scheduler", "pod.explain"), b'{"pod":"pod-0"}', timeout_s=1.0)
            # It renews its Lease every two seconds.
            assert 3.0 <= orjson.loads(told)["api_silent_s"] <= 5.5
            api.come_back()
            await asyncio.sleep(3.0)
            told = await bus.request(subjects.query("scheduler", "pod.explain"), b'{"pod":"pod-0"}', timeout_s=1.0)
            assert orjson.loads(told)["api_silent_s"] is None
            assert scheduler.leadership.leads()

    objects.run_fast(main())


def test_a_stop_lets_binds_under_way_end_and_publishes_what_is_left() -> None:
    async def main() -> None:
        published: list[str] = []
        async with service() as (scheduler, bus, api, stop):
            await bus.subscribe(subjects.DECISION_ALL, lambda subject, _: published.append(subject))
            api.objects.create("nodes", objects.node_object("node-0"), "test")
            await asyncio.sleep(0.5)
            api.latency_s = 1.0
            api.objects.create("pods", objects.pod_object("pod-0"), "test")
            await asyncio.sleep(0.1)
            await bus.publish(subjects.capacity("node-0"), advertisement(scheduler._clock, 1))
            await asyncio.sleep(0.1)
            assert scheduler.engine.binder.in_flight == 1
            stop.set()
        assert api.objects.get("pods", ("default", "pod-0"), "test")["spec"]["nodeName"] == "node-0"
        assert published == [subjects.decision("default", "pod-0")]

    objects.run_fast(main())


def test_advertisements_kept_by_the_bus_are_used_at_once() -> None:
    async def main() -> None:
        clock = objects.LoopClock(asyncio.get_running_loop())
        api, bus, stop = memory_kube.MemoryKube(clock=clock), memory_bus.MemoryBus(), tasks.Stop()
        api.objects.create("nodes", objects.node_object("node-0"), "test")
        api.objects.create("pods", objects.pod_object("pod-0"), "test")
        await bus.publish(subjects.capacity("node-0"), advertisement(clock, 1))
        scheduler = app.Scheduler(load(), api=api, clock=clock)
        task = asyncio.create_task(scheduler.run(bus, stop))
        await asyncio.sleep(0.5)
        assert api.objects.get("pods", ("default", "pod-0"), "test")["spec"]["nodeName"] == "node-0"
        stop.set()
        await task

    objects.run_fast(main())


class BusWithoutStore(memory_bus.MemoryBus):
    """A bus whose messages flow while its store does not answer."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        raise errors.BusUnavailable("JetStream does not answer")


def test_live_advertisements_are_heard_while_the_store_of_the_bus_is_away() -> None:
    async def main() -> None:
        clock = objects.LoopClock(asyncio.get_running_loop())
        api, bus, stop = memory_kube.MemoryKube(clock=clock), BusWithoutStore(), tasks.Stop()
        api.objects.create("nodes", objects.node_object("node-0"), "test")
        api.objects.create("pods", objects.pod_object("pod-0"), "test")
        scheduler = app.Scheduler(load(), api=api, clock=clock)
        task = asyncio.create_task(scheduler.run(bus, stop))
        await asyncio.sleep(3.0)
        await bus.publish(subjects.capacity("node-0"), advertisement(clock, 1))
        await asyncio.sleep(0.5)
        assert api.objects.get("pods", ("default", "pod-0"), "test")["spec"]["nodeName"] == "node-0"
        assert b'"found":true' in await bus.request(
            subjects.query("scheduler", "decision.get"), b'{"pod":"pod-0"}', timeout_s=1.0
        )
        stop.set()
        await task

    objects.run_fast(main())


def test_a_node_that_floods_is_left_out_while_the_store_of_the_bus_is_away() -> None:
    async def main() -> None:
        clock = objects.LoopClock(asyncio.get_running_loop())
        api, bus, stop = memory_kube.MemoryKube(clock=clock), BusWithoutStore(), tasks.Stop()
        for name in ("node-0", "node-1"):
            api.objects.create("nodes", objects.node_object(name), "test")
        task = asyncio.create_task(app.Scheduler(load(), api=api, clock=clock).run(bus, stop))
        await asyncio.sleep(3.0)
        for _ in range(engine.ALLOWED.most + 1):
            await bus.publish(subjects.capacity("node-1"), b"x")
        await asyncio.sleep(0.1)
        heard = {subject for subject, _ in bus.hub.subscriptions}
        assert subjects.capacity("node-0") in heard
        assert heard.isdisjoint({subjects.CAPACITY_ALL, subjects.capacity("node-1")})
        stop.set()
        await task

    objects.run_fast(main())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("carico,Default", "got 'Default', expected a DNS name"),
        ("carico,carico", "a name is there twice"),
        (",".join(f"s{number}" for number in range(9)), "got 9 names, expected 1 to 8"),
    ],
)
def test_names_that_cannot_be_are_refused(given: str, says: str) -> None:
    with pytest.raises(errors.SettingsError, match=says):
        load("--names", given)


@pytest.mark.parametrize("given", ["Kube System", "kube_system", "carico.io"])
def test_a_namespace_that_cannot_be_is_refused(given: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        load("--baseline-namespaces", f"carico,{given}")
    assert str(caught.value) == f"--baseline-namespaces: got {given!r}, expected a namespace's name"


@pytest.mark.parametrize("given", ["Scheduler", "a.b", "-a", "a" * 47])
def test_a_replica_must_fit_into_a_subject_with_its_start(given: str) -> None:
    with pytest.raises(errors.SettingsError, match=r"--replica: got .*, expected a lower-case RFC 1123 label"):
        load("--replica", given)
    assert load("--replica", "a" * 46).replica == "a" * 46


def test_the_names_become_the_rules() -> None:
    assert load().rules().names == {"carico"}
    assert load("--names", "carico,default-scheduler").rules().names == {"carico", "default-scheduler"}
