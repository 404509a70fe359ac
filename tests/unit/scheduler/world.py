"""A small cluster in memory around one or more scheduling engines: an API that fails on demand, and its kubelets."""

import asyncio
import collections
import dataclasses
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from carico_core.domain import errors, messages
from carico_core.runtime.kube import api_actions, list_watch
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks as paces
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import instants
from carico_scheduler.engine import engine, parts
from carico_scheduler.report import decisions, events, instruments
from carico_scheduler.rules import policy
from carico_scheduler.sharing import member
from tests.tools.memory import memory_kube, memory_objects
from tests.unit.scheduler import objects

# Time is the loop's: nobody waits for these pauses. Shorter ones are thousands of lists while the API is away.
OPTIONS = dataclasses.replace(memory_kube.OPTIONS, backoff_first_s=0.05, backoff_most_s=0.5)
NO_RIGHTS = errors.Forbidden(status=403, reason="Forbidden", message="no rights", request="POST binding")


class FaultyKube(memory_kube.MemoryKube):
    """An API whose answers to binds may be lost, late or refused; it counts the binds that took."""

    def __init__(self, clock: clocks.Clock, rng: random.Random, fault_share: float) -> None:
        super().__init__(clock=clock)
        self._chaos = rng
        self.fault_share = fault_share
        # True: a deleted Pod stays, as while its kubelet ends its containers.
        self.is_graceful = False
        # How long after its deletion its grace period ends.
        self.grace_s = 30.0
        # Whether a bind is refused for good, by its body.
        self.refuses: Callable[[Any], bool] = lambda body: False
        self.binds: collections.Counter[str] = collections.Counter()
        self._late: set[asyncio.Task[None]] = set()

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
                      content_type: str = "application/json", timeout_s: float = 10.0,
                      permit: Callable[[], None] | None = None) -> Any:  # fmt: skip
        """As the memory API's, with faults."""
        await asyncio.sleep(self._chaos.uniform(0.0, 0.02))
        if permit is not None:
            permit()
        if method == "DELETE" and self.is_graceful:
            pod = await super().request("GET", path)
            ends_at_ns = self._clock.wall_ns() + round(self.grace_s * 1e9)
            pod["metadata"]["deletionTimestamp"] = instants.format_time(ends_at_ns)
            self.requests.append(f"DELETE {path}")
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            return self.objects.update("pods", key, pod, f"DELETE {path}")
        if not path.endswith("/binding"):
            if self._chaos.random() < self.fault_share / 4:
                raise errors.ApiUnavailable(f"{method} {path}: 503")
            return await super().request(method, path, params=params, body=body, content_type=content_type)
        if self.refuses(body):
            raise NO_RIGHTS
        fault = self._chaos.choice(["lost", "refused", "late"]) if self._chaos.random() < self.fault_share else ""
        if fault == "refused":
            raise errors.ApiUnavailable(f"{path}: 503")
        if fault == "late":
            task = asyncio.create_task(self._bind_late(path, body))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise errors.ApiUnavailable(f"{path}: no answer in time")
        answer = await self._bind_once(path, body)
        if fault == "lost":
            raise errors.ApiUnavailable(f"{path}: the answer was lost")
        return answer

    def mirror(
        self, path: str, *, options: list_watch.Options = OPTIONS, **more: Any
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]:  # fmt: skip
        """As the memory API's, with longer pauses after a failure."""
        return super().mirror(path, options=options, **more)

    async def _bind_once(self, path: str, body: Any) -> Any:
        answer = await super().request("POST", path, body=body)
        self.binds[body["metadata"]["uid"]] += 1
        return answer

    async def _bind_late(self, path: str, body: Any) -> None:
        await asyncio.sleep(self._chaos.uniform(0.0, 3.0))
        try:
            await self._bind_once(path, body)
        except errors.CaricoError:
            return


class World:
    """Nodes, kubelets with agents, and scheduling engines on one FaultyKube."""

    def __init__(
        self, *, seed: int = 0, engines: int = 1, fault_share: float = 0.0, room: float = 3.0,
        rules: policy.Policy | None = None,
    ) -> None:  # fmt: skip
        loop = asyncio.get_running_loop()
        self._rules = policy.Policy() if rules is None else rules
        self.clock = objects.LoopClock(loop)
        self.rng = random.Random(seed)
        self.kube = FaultyKube(self.clock, random.Random(seed + 1), fault_share)
        self.room = room
        self._writers: list[events.Writer] = []
        self.engines = [self._engine(index) for index in range(engines)]
        self.pod_s = (0.2, 2.0)
        self._seq = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.largest: collections.Counter[str] = collections.Counter()
        # Set at the end of each round of the kubelets.
        self.round = asyncio.Event()
        # The Pods at a version of the API's objects: see `pods_now`.
        self._seen: tuple[int, list[dict[str, Any]]] = (0, [])

    def _engine(self, index: int) -> engine.Engine:
        log = decisions.Log(
            boot=f"{index:016x}", threshold=1.0, clock=self.clock, on_record=lambda _: None, on_drop=lambda: None
        )
        counted = instruments.Instruments(metrics.Metrics("scheduler"))
        recorder = api_actions.EventRecorder(
            self.kube, clock=self.clock, controller="carico-scheduler", instance="test"
        )
        pace = paces.Pace(1000.0, clock=self.clock)
        writer = events.Writer(recorder, pace=pace, on_drop=lambda why: counted.lost_events.labels(why).inc())
        self._writers.append(writer)
        return engine.Engine(
            parts.EngineParts(
                policy=self._rules, kube=self.kube, clock=self.clock, rng=random.Random(index), log=log, events=writer,
                metrics=counted, binds_in_flight=8, bind_timeout_s=1.0, event_after_s=1.0, **self.more(index),
            ),
            share=self.share(index, counted),
        )  # fmt: skip

    def more(self, index: int) -> dict[str, Any]:
        """Further parts of an engine."""
        return {}

    def share(
        self, index: int, counted: instruments.Instruments
    ) -> Callable[[engine.Engine], member.Member] | None:  # fmt: skip
        """What makes an engine a member; None: it decides alone."""
        return None

    def start_engine(self, one: engine.Engine) -> list[asyncio.Task[None]]:
        """Runs the parts of an engine."""
        works = [
            one.decide_forever(),
            one.report_forever(),
            one.conditions.write_forever(),
            one.preemptor.work_forever(),
            one.gangs.work_forever(),
            *one.informers.works().values(),
        ]
        tasks = [asyncio.create_task(work) for work in works]
        self._tasks += tasks
        return tasks

    async def start(self, nodes: int = 3) -> None:
        """Nodes, kubelets and engines at work."""
        for index in range(nodes):
            self.kube.objects.create("nodes", objects.node_object(f"node-{index}"), "test")
        await self.start_engines(nodes)

    async def start_engines(self, nodes: int) -> None:
        """Kubelets and engines at work, over Nodes that are there."""
        for one in self.engines:
            self.start_engine(one)
        self._tasks += [asyncio.create_task(each.write_forever()) for each in self._writers]
        self._tasks.append(asyncio.create_task(self._live(nodes)))

    async def stop(self) -> None:
        """Ends everything."""
        for one in self.engines:
            await one.binder.drain(5.0)
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        failed = [each for each in results if isinstance(each, Exception)]
        assert not failed, failed

    def refuse_binds(self, times: int, error: errors.CaricoError = NO_RIGHTS) -> None:
        """The next so many binds are answered by this error."""
        for _ in range(times):
            self.kube.fail_next(error, method="POST", path="/binding")

    def create_pod(self, name: str, **spec: Any) -> str:
        """The UID of a new Pod."""
        made = self.kube.objects.create("pods", objects.pod_object(name, **spec), "test")
        return str(made["metadata"]["uid"])

    def pods(self) -> list[dict[str, Any]]:
        """All Pods as the API has them."""
        return self.kube.objects.all("pods", memory_objects.parse_selector("", {}))

    def pods_now(self) -> list[dict[str, Any]]:
        """The same for what looks at every step and changes nothing: copied when something has changed alone."""
        version = self.kube.objects.version
        if self._seen[0] != version:
            self._seen = (version, self.pods())
        return self._seen[1]

    async def until_ended(self, within_s: float = 300.0) -> None:
        """Returns when every Pod has succeeded; time is the loop's."""
        async with asyncio.timeout(within_s):
            while any(pod["status"].get("phase") != "Succeeded" for pod in self.pods_now()):
                await self.round.wait()

    def advertise(self, node: str, capacity: float, pods: int, covers: frozenset[str]) -> None:
        """Every engine hears this advertisement."""
        self._seq += 1
        now_ns = self.clock.wall_ns()
        made: messages.Advertisement = objects.make_advertisement(
            node, capacity, seq=self._seq, ts_ns=now_ns, sampled_at_ns=now_ns, pods=pods, covers=covers
        )
        for one in self.engines:
            one.on_advertisement(subjects.capacity(node), wire.encode_advertisement(made))

    async def _live(self, nodes: int) -> None:
        """What kubelets and agents do: run what is bound, end it after a while, tell capacity and covers."""
        ends: dict[str, float] = {}
        told_ended: dict[str, tuple[str, float]] = {}
        while True:
            await asyncio.sleep(0.1)
            self.round.set()
            self.round = asyncio.Event()
            now_s = self.clock.monotonic_s()
            running_on: dict[str, set[str]] = collections.defaultdict(set)
            for pod in self.pods_now():
                uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
                phase = pod["status"].get("phase")
                if node and phase == "Pending":
                    ends[uid] = now_s + self.rng.uniform(*self.pod_s)
                    self._set_phase(pod, phase := "Running")
                elif phase == "Running" and ends[uid] <= now_s:
                    told_ended[uid] = (node, now_s)
                    self._set_phase(pod, phase := "Succeeded")
                if phase == "Running":
                    running_on[node].add(uid)
            for index in range(nodes):
                name = f"node-{index}"
                running = running_on[name]
                self.largest[name] = max(self.largest[name], len(running))
                ended = {uid for uid, (node, at_s) in told_ended.items() if node == name and at_s > now_s - 60.0}
                self.advertise(name, max(self.room - len(running), 0.0), len(running), frozenset(running | ended))

    def _set_phase(self, pod: dict[str, Any], phase: str) -> None:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.kube.objects.update("pods", key, pod | {"status": pod["status"] | {"phase": phase}}, "test")


def check_nothing_left(made: World) -> None:
    """No engine waits for, holds or binds a Pod."""
    for one in made.engines:
        assert len(one.state.queue) == 0
        assert len(one.state.reservations) == 0
        assert one.state.reservations.reserved_count == 0
        assert one.binder.in_flight == 0
