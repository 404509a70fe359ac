"""Two schedulers on one memory API and bus: one works, the other knows all the same and is silent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, NoReturn

import orjson
import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import settings, tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler import app
from carico_scheduler import settings as setting
from tests.tools.memory import memory_bus, memory_kube, memory_objects
from tests.unit.scheduler import objects


class CutBus:
    """A scheduler's own connection to the bus, which can be cut; `is_noticed`: the client knows."""

    def __init__(self, bus: memory_bus.MemoryBus) -> None:
        self._bus = bus
        self.is_cut = False
        self.is_noticed = False

    @property
    def connected(self) -> bool:
        return not self.is_noticed

    @property
    def traffic(self) -> buses.Traffic:
        return self._bus.traffic

    async def publish(self, subject: str, payload: bytes) -> None:
        self._check()
        await self._bus.publish(subject, payload)

    async def subscribe(self, subject: str, handler: Callable[[str, bytes], None]) -> buses.Subscription:
        self._check()
        return await self._bus.subscribe(subject, lambda *message: None if self.is_cut else handler(*message))

    async def subscribe_each(
        self, subjects: Collection[str], handler: Callable[[str, bytes], None]
    ) -> dict[str, buses.Subscription]:
        return {subject: await self.subscribe(subject, handler) for subject in subjects}

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        self._check()
        return await self._bus.latest_capacities()

    async def serve(self, service: buses.ServiceSpec) -> buses.ServiceHandle:
        self._check()
        return await self._bus.serve(service)

    @property
    def claims(self) -> buses.Claims:
        return self._bus.claims

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        self._bus.on_reconnect(callback)

    async def wait_closed(self) -> NoReturn:
        await self._bus.wait_closed()

    def _check(self) -> None:
        if self.is_cut:
            raise errors.BusUnavailable("cut")


class Pair:
    """Two schedulers and the events they receive."""

    def __init__(self) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.api = memory_kube.MemoryKube(clock=self.clock)
        self.bus = memory_bus.MemoryBus()
        self.published: list[str] = []
        self.running: dict[str, tuple[app.Scheduler, tasks.Stop, asyncio.Task[None]]] = {}
        self._seq = 0

    def start(self, name: str, *flags: str, bus: app.Bus | None = None) -> app.Scheduler:
        """A scheduler at work."""
        argv = ("--leader-identity", name, *flags)
        loaded = settings.load(setting.SchedulerSettings, prefix="scheduler", argv=argv, environ={}, program="test")
        made, stop = app.Scheduler(loaded, api=self.api, clock=self.clock), tasks.Stop()
        self.running[name] = (made, stop, asyncio.create_task(made.run(bus or self.bus, stop)))
        return made

    async def advertise(self, node: str, capacity: float) -> None:
        """What a node says, to both."""
        self._seq += 1
        now_ns = self.clock.wall_ns()
        made = objects.make_advertisement(node, capacity, seq=self._seq, ts_ns=now_ns, sampled_at_ns=now_ns)
        await self.bus.publish(subjects.capacity(node), wire.encode_advertisement(made))

    def node_of(self, pod: str) -> str | None:
        """Where the API has a Pod."""
        found: str | None = self.api.objects.get("pods", ("default", pod), "test")["spec"].get("nodeName")
        return found

    def binds(self) -> int:
        """Binds that reached the API."""
        return sum(request.endswith("/binding") for request in self.api.requests)

    async def stop(self, name: str) -> None:
        """Ends a scheduler as SIGTERM does."""
        _, stop, task = self.running.pop(name)
        stop.set()
        await task


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    await made.bus.subscribe(subjects.DECISION_ALL, lambda subject, _: made.published.append(subject))
    made.api.objects.create("nodes", objects.node_object("node-0"), "test")
    yield made
    for name in list(made.running):
        await made.stop(name)


def test_a_standby_knows_all_and_says_nothing() -> None:
    async def main() -> None:
        async with pair() as made:
            first = made.start("a")
            await asyncio.sleep(1.0)
            second = made.start("b")
            await asyncio.sleep(1.0)
            await made.advertise("node-0", 2.0)
            for index in range(3):
                made.api.objects.create("pods", objects.pod_object(f"pod-{index}"), "test")
            await asyncio.sleep(4.0)
            await made.advertise("node-0", 2.0)
            assert made.binds() == 2
            assert len(second.engine.state.queue) == 1
            assert second.engine.state.reservations.reserved_count == 2
            assert second.engine.state.fleet.snapshot(0.0).row(0).capacity == 2.0
            assert second.health.not_ready() == first.health.not_ready() == {}
            assert (first.health.notes(), second.health.notes()) == ({"leader": "a (this replica)"}, {"leader": "a"})
            assert (lead(first.metrics), lead(second.metrics)) == (1.0, 0.0)
            answer = await made.bus.request(
                subjects.query("scheduler", "decision.get"), b'{"pod":"pod-0"}', timeout_s=1
            )
            assert b'"found":true' in answer
            events = made.api.objects.all("events", memory_objects.parse_selector("", {}))
            assert len({each["reportingInstance"] for each in events}) == 1

    objects.run_fast(main())


def test_who_leaves_the_pods_to_others_leaves_them_the_questions_too() -> None:
    async def main() -> None:
        async with pair() as made:
            first = made.start("a")
            made.start("b", "--no-own-pods", "--no-leader-election")
            await asyncio.sleep(1.0)
            await made.advertise("node-0", 2.0)
            made.api.objects.create("pods", objects.pod_object("pod-0"), "test")
            await asyncio.sleep(1.0)
            assert made.node_of("pod-0") == "node-0"
            assert len(made.bus.hub.services) == 1
            assert first.engine.state.reservations.reserved_count == 1
            question = b'{"pod":"pod-0"}'
            answer = await made.bus.request(subjects.query("scheduler", "decision.get"), question, timeout_s=1)
            assert b'"found":true' in answer

    objects.run_fast(main())


def test_who_leaves_the_pods_to_others_leaves_them_the_history_too_but_sends_rosters() -> None:
    async def main() -> None:
        async with pair() as made:
            summaries: list[str] = []
            rosters: list[str] = []
            await made.bus.subscribe(
                subjects.SUMMARY,
                lambda subject, payload: summaries.append(wire.decode_summary(payload, subject=subject).boot),
            )
            await made.bus.subscribe(subjects.roster("node-0"), lambda subject, _: rosters.append(subject))
            made.start("b", "--no-own-pods", "--no-leader-election")
            await asyncio.sleep(10.0)
            # With kube-scheduler alone there is no other that does.
            assert rosters
            assert not summaries
            made.start("a")
            await asyncio.sleep(20.0)
            assert len(summaries) >= 3
            assert len(set(summaries)) == 1

    objects.run_fast(main())


def test_a_stop_hands_over_at_once_with_every_reservation() -> None:
    async def main() -> None:
        async with pair() as made:
            made.start("a")
            await asyncio.sleep(1.0)
            second = made.start("b")
            await asyncio.sleep(1.0)
            await made.advertise("node-0", 2.0)
            for index in range(3):
                made.api.objects.create("pods", objects.pod_object(f"pod-{index}"), "test")
            await asyncio.sleep(0.5)
            await made.stop("a")
            await asyncio.sleep(1.5)
            assert second.leadership.leads()
            await made.advertise("node-0", 2.0)
            await asyncio.sleep(0.5)
            # The node accounts for none of the two: there is no room for the third.
            assert made.binds() == 2
            await made.advertise("node-0", 3.0)
            await asyncio.sleep(0.5)
            assert made.binds() == 3
            answer = await made.bus.request(subjects.query("scheduler", "reservations.list"), b"", timeout_s=1.0)
            assert answer.count(b'"pod"') == 3

    objects.run_fast(main())


def test_a_bind_that_waits_for_its_turn_as_the_term_ends_is_not_sent() -> None:
    async def main() -> None:
        async with pair() as made:
            first = made.start("a")
            await asyncio.sleep(1.0)
            await made.advertise("node-0", 2.0)
            made.api.objects.create("pods", objects.pod_object("pod-0"), "test")
            # Between the decision and the request the process sleeps: the next look at the clock is the permit.
            first.engine.binder._term = lambda: None
            await asyncio.sleep(0.5)
            assert made.node_of("pod-0") is None
            assert made.published == []
            assert first.engine.state.reservations.reserved_count == 0
            first.engine.binder._term = first.engine.term
            await made.advertise("node-0", 2.0)
            await asyncio.sleep(0.5)
            assert made.node_of("pod-0") == "node-0"
            text = first.metrics.render().decode()
            assert 'carico_scheduler_binds_total{fate="withheld"}' in text
            assert 'carico_scheduler_decisions_total{outcome="bound"} 1.0' in text
            assert 'outcome="bind_failed"' not in text

    objects.run_fast(main())


def test_a_question_is_answered_by_who_leads_before_and_after_a_change() -> None:
    async def explained(made: Pair, pod: str) -> dict[str, Any]:
        payload = orjson.dumps({"pod": pod})
        answer = await made.bus.request(subjects.query("scheduler", "pod.explain"), payload, timeout_s=1.0)
        found: dict[str, Any] = orjson.loads(answer)
        return found

    async def main() -> None:
        async with pair() as made:
            made.start("a")
            await asyncio.sleep(1.0)
            standby = made.start("b")
            await made.advertise("node-0", 1.0)
            for name in ("pod-0", "pod-1"):
                made.api.objects.create("pods", objects.pod_object(name), "test")
                await asyncio.sleep(0.5)
            first, second = await explained(made, "pod-0"), await explained(made, "pod-1")
            assert (first["state"], first["node"], first["decision"]["node"]) == ("bound", "node-0", "node-0")
            assert (second["state"], second["refused"]) == ("waiting", {"capacity": 1})
            for handler in standby.answers.endpoints().values():
                with pytest.raises(errors.CaricoError, match="is a standby"):
                    await handler(b"{}")
            await made.stop("a")
            await asyncio.sleep(1.5)
            await made.advertise("node-0", 1.0)
            await asyncio.sleep(0.5)
            after = await explained(made, "pod-0")
            # Where it is, the API knows; why, only the stream of records does by now.
            assert (after["state"], after["node"], after["covered"], after["decision"]) == (
                "bound",
                "node-0",
                False,
                None,
            )

    objects.run_fast(main())


def test_no_one_answers_questions_while_no_one_leads() -> None:
    async def main() -> None:
        async with pair() as made:
            made.start("a")
            made.start("b")
            await asyncio.sleep(2.0)
            made.api.go_away()
            await asyncio.sleep(15.0)
            assert not any(each.leadership.leads() for each, _, _ in made.running.values())
            try:
                await made.bus.request(subjects.query("scheduler", "capacity.list"), b"", timeout_s=1.0)
            except errors.BusUnavailable:
                pass
            else:
                raise AssertionError("somebody answered")
            made.api.come_back()
            await asyncio.sleep(10.0)
            assert await made.bus.request(subjects.query("scheduler", "capacity.list"), b"", timeout_s=1.0)

    objects.run_fast(main())


@pytest.mark.parametrize("is_noticed", [True, False], ids=["disconnected", "silent"])
def test_a_leader_cut_off_from_the_bus_hands_over_within_10_s_and_is_not_ready(is_noticed: bool) -> None:
    async def main() -> None:
        async with pair() as made:
            cut = CutBus(made.bus)
            first = made.start("a", bus=cut)
            await asyncio.sleep(1.0)
            second = made.start("b")
            await asyncio.sleep(1.0)
            await made.advertise("node-0", 2.0)
            assert first.leadership.leads()
            assert first.health.not_ready() == {}
            cut.is_cut, cut.is_noticed = True, is_noticed
            made.api.objects.create("pods", objects.pod_object("pod-0", nodeSelector={"later": "true"}), "test")
            for _ in range(10):
                await asyncio.sleep(1.0)
                await made.advertise("node-0", 2.0)
            assert second.leadership.leads()
            assert not first.leadership.leads()
            assert first.health.not_ready().keys() == ({"bus", "advertisements"} if is_noticed else {"advertisements"})
            assert second.health.not_ready() == {}
            made.api.objects.create("pods", objects.pod_object("pod-1"), "test")
            await asyncio.sleep(0.5)
            assert made.node_of("pod-1") == "node-0"

    objects.run_fast(main())


def test_a_scheduler_is_ready_without_agents_and_not_once_they_have_fallen_silent() -> None:
    async def main() -> None:
        async with pair() as made:
            only = made.start("a")
            by_requests = made.start("b", "--fallback", "requests", "--leader-name", "another")
            await asyncio.sleep(60.0)
            assert only.health.not_ready() == {}, "no agent has ever advertised"
            await made.advertise("node-0", 2.0)
            await asyncio.sleep(4.0)
            assert only.health.not_ready() == {}
            await asyncio.sleep(4.0)
            found = only.health.not_ready()
            assert found == {"advertisements": "no advertisement of any node has arrived for 8 s"}
            assert by_requests.health.not_ready() == {}
            made.api.objects.delete("nodes", ("", "node-0"), {}, "test")
            await asyncio.sleep(1.0)
            assert only.health.not_ready() == {}, "there is no node that could advertise"

    objects.run_fast(main())


def lead(of: metrics.Metrics) -> float | None:
    return of.value("leading")
