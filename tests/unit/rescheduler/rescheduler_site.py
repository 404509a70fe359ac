"""A whole rescheduler on a memory API and bus, with a model of the controllers, agents and scheduler."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import orjson

from carico_core.domain import errors, pod_telemetry
from carico_core.numerics.rescheduling.containers import carico
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import settings, tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_rescheduler import app
from carico_rescheduler import settings as setting
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, planning
from tests.tools.memory import memory_bus
from tests.unit.rescheduler import fake_cluster
from tests.unit.scheduler import objects

T = TypeVar("T")


async def at_once(calculate: Callable[[], T]) -> T:
    """Calculate without a thread, which virtual time would not wait for."""
    return calculate()


def make(context: contexts.Context, asked: planning.PlanRequest) -> decision.Plan:
    """Plan with a search of some proposals."""
    return planning.make(context, dataclasses.replace(asked, effort=carico.Effort(proposals=2000)))


class Member(memory_bus.MemoryBus):
    """A member of the bus that can be cut off alone; `is_silent`: its connection looks alive nevertheless."""

    is_cut = is_silent = False

    @property
    def connected(self) -> bool:
        """Whether messages can be sent, as far as the member knows."""
        return super().connected and (not self.is_cut or self.is_silent)

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """Return the answer of a service; none arrives at a member that is cut off."""
        if self.is_cut:
            await asyncio.sleep(timeout_s)
            raise errors.BusUnavailable(f"{subject}: no answer in time")
        return await super().request(subject, payload, timeout_s=timeout_s)

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` for each message, while this member is not cut off."""
        return await super().subscribe(subject, lambda *message: None if self.is_cut else handler(*message))


class Site:
    """Two nodes: nine replicas on the first overload it. And reschedulers by name."""

    def __init__(self, replicas: int = 9) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.cluster = fake_cluster.FakeCluster(self.clock)
        self.cluster.every_s = 1.0
        self.bus = memory_bus.MemoryBus()
        self.report_every_s = 5.0
        for name in ("node-a", "node-b"):
            self.cluster.add_node(name)
        if replicas:
            self.cluster.add_deployment("web", ["node-a"] * replicas)
        self.members: dict[str, Member] = {}
        self.running: dict[str, tuple[app.Rescheduler, tasks.Stop, asyncio.Task[None]]] = {}
        # What the scheduler answers, by node.
        self.fits = {"node-a": 0, "node-b": 9}
        self.fits_on: Callable[[str], int] = lambda node: self.fits[node]
        self.stopped_by = "capacity"
        # The load of each Pod by its application, where it is not one task.
        self.loads: dict[str, pod_telemetry.PodLoad] = {}
        self._seq = 0

    def start(self, name: str, *flags: str) -> app.Rescheduler:
        """A rescheduler at work."""
        argv = ("--leader-identity", name, "--least-age-s", "600", "--every-s", "20", *flags)
        loaded = settings.load(setting.ReschedulerSettings, prefix="rescheduler", argv=argv, environ={}, program="test")
        made = app.Rescheduler(loaded, api=self.cluster.api, clock=self.clock, aside=at_once, make=make)
        stop, member = tasks.Stop(), Member(self.bus.hub)
        self.members[name] = member
        self.running[name] = made, stop, asyncio.create_task(made.run(member, stop))
        return made

    async def stop(self, name: str) -> None:
        """Ends a rescheduler as SIGTERM does."""
        _, stop, task = self.running.pop(name)
        stop.set()
        await task

    async def serve(self) -> None:
        """Answer as the scheduler."""

        async def fit(payload: bytes) -> bytes:
            asked = orjson.loads(payload)
            assert asked["pod"]["kind"] == "Pod" and asked["limit"] == 1
            rows = [
                {"node": node, "fits": self.fits_on(node), "stopped_by": self.stopped_by, "detail": "full"}
                for node in self.cluster.open & {asked["node"]}
            ]
            return orjson.dumps({"per_node": rows})

        await self.bus.serve(
            buses.ServiceSpec(name="carico-scheduler", description="test", endpoints={"capacity.fit": fit})
        )

    async def report_forever(self) -> None:
        """Report as the agents do: each Pod has one task, unless stated."""
        while True:
            self._seq += 1
            for node in sorted(self.cluster.open):
                now_ns = self.clock.wall_ns()
                made = objects.make_advertisement(node, 8.0, seq=self._seq, ts_ns=now_ns, sampled_at_ns=now_ns)
                await self.bus.publish(subjects.capacity(node), wire.encode_advertisement(made))
                mine = [each for each in self.cluster.pods() if each["spec"].get("nodeName") == node]
                plain = pod_telemetry.PodLoad("*", 1.0, 0.0, 2.0**20)
                loads = pod_telemetry.PodLoads(
                    node=node, boot=objects.BOOT, seq=self._seq, ts_ns=now_ns,
                    loads={
                        each["metadata"]["uid"]: self.loads.get(each["metadata"]["labels"]["app"], plain)
                        for each in mine
                    },
                )  # fmt: skip
                await self.bus.publish(subjects.pods(node), wire.encode_loads(loads))
            await asyncio.sleep(self.report_every_s)

    async def ask(self, verb: str, question: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the leader."""
        subject = subjects.query("rescheduler", verb)
        answer: dict[str, Any] = orjson.loads(
            await self.bus.request(subject, orjson.dumps(question or {}), timeout_s=5.0)
        )
        return answer

    def on(self, node: str) -> int:
        """How many Pods a node has."""
        return self.cluster.nodes_of("web").count(node)


@contextlib.asynccontextmanager
async def site(replicas: int = 9) -> AsyncIterator[Site]:
    """A site whose controllers, agents and scheduler are at work."""
    made = Site(replicas)
    await made.serve()
    works = [asyncio.create_task(made.cluster.act_forever()), asyncio.create_task(made.report_forever())]
    yield made
    for name in list(made.running):
        await made.stop(name)
    for each in works:
        each.cancel()
    await asyncio.gather(*works, return_exceptions=True)
