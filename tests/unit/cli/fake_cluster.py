"""A cluster's signals without a cluster: advertisements, decisions, Pods, and the bus in memory that they are on."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import numpy as np
import orjson

from carico_cli.live import addresses, ports
from carico_cli.live import reader as readers
from carico_core.domain import decision, errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client, list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.tools import waiting
from tests.tools.memory import memory_bus

BOOT = "18e9f814b6bb5a96"
LEASE_S = 10.0
ADDRESS = addresses.Address(
    name="test", bus=buses.BusSettings(url="nats://127.0.0.1:4222"), kube=api_client.KubeSettings(kubeconfig="none")
)


def advertisement(node: str = "node-1", *, at_ns: int, seq: int = 1, **changed: Any) -> messages.Advertisement:
    """A node with three Pods, room for 2.1 more, and the CPU as what stops them."""
    found = messages.Advertisement(
        node=node, boot=BOOT, seq=seq, ts_ns=at_ns, sampled_at_ns=at_ns, capacity=2.1, capacity_sd=0.4,
        bottleneck="cpu", signal=0.7,
        baseline={"cpu": messages.Estimate(mean=0.05, sd=0.01), "memory": messages.Estimate(mean=5e7, sd=1e6)},
        cost={"cpu": messages.Estimate(mean=1.22, sd=0.09), "memory": messages.Estimate(mean=9.8e6, sd=1.5e6)},
        pods=3, covers=frozenset({"uid-1"}), mode=messages.Mode.MEASURED, usage={"cpu": 0.52, "memory": 0.11},
        parts={"cpu.utilisation": 0.95, "cpu.pressure": 0.09}, direction={"cpu": 0.5, "memory": 0.1},
        headroom={"cpu": 2.75, "memory": 9.0e8}, limit=8,
        classes={"*": messages.ClassCapacity(cost_plus={"cpu": 1.31, "memory": 1.13e7}, pods=3)},
    )  # fmt: skip
    return found._replace(**changed)


def placed(pod: str = "hello-0", *, seq: int = 1, **changed: Any) -> decision.Decision:
    """A Pod that was bound to node-1."""
    found = decision.Decision(
        id=f"{BOOT}-{seq}", boot=BOOT, seq=seq, ts_ns=seq * 10**9, namespace="default", pod=pod, uid=f"uid-{pod}",
        outcome=decision.Outcome.BOUND, node="node-1", free=2.1, threshold=1.0, attempt=1, waited_s=0.004,
        decided_us=210.0, candidates=(), refused={}, message="node-1 had room for 2.1 Pods (threshold 1)",
    )  # fmt: skip
    return dataclasses.replace(found, **changed)


def model(*, at_ns: int) -> messages.GlobalModel:
    """The model of two nodes."""
    return messages.GlobalModel(
        replica="aggregator", boot=BOOT, seq=1, ts_ns=at_ns, epoch=at_ns // 1_000_000, merge="round", contributors=2,
        weight=8.0, dims=("cpu", "memory"), gram=np.array([[0.25, 0.05], [0.05, 0.01]]), evidence={},
        peak_pods_per_core=1.0,
    )  # fmt: skip


def pod(name: str, *, phase: str = "Running", job: str | None = "hello", node: str | None = "node-1") -> dict[str, Any]:
    """A Pod as the API shows it."""
    labels = {} if job is None else {"carico.dev/job": job}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "creationTimestamp": "2026-11-21T10:00:00Z"},
        "spec": {"schedulerName": "carico", **({} if node is None else {"nodeName": node})},
        "status": {"phase": phase},
    }


HISTORY: dict[str, Any] = {
    "columns": ["sampled_at_ns", "capacity", "sd", "signal", "pods", "cpu", "memory"],
    "rows": [[number, 4.0 - number / 20, 0.4, 0.7, number // 10, number / 60, 0.1] for number in range(60)],
}
KEPT: dict[str, Any] = {
    "columns": ["age_s", "pods", "capacity", "capacity_sd", "cpu", "memory", "cpu.pressure"],
    "rows": [
        [890.0 - 10 * number, number // 10, 4.0 - number / 30, 0.4, number / 90, 0.1, 0.02] for number in range(90)
    ],
}
STANDING: dict[str, Any] = {
    "node": "node-1", "known": True, "bounds": [{"what": "cpu", "pods": 1.1, "detail": "2.2 tasks free"}],
    "refused_by": None, "trust": {"is_suspect": False}, "reserved_by": [], "history": KEPT,
}  # fmt: skip
STATE = {
    "node": "node-1", "boot": BOOT, "estimator": "footprint", "model": None, "source": "cgroup", "notes": ["no PSI"],
    "cores": 4.0, "scale": {"cpu": 8.0, "memory": 1e9}, "ceiling": {"cpu": 0.74, "memory": 0.95}, "samples": 10,
    "peak_pods_per_core": 1.0, "now": {"innovation": {"cpu": -0.01, "memory": 0.0}, "federated": True},
    "history": HISTORY,
}  # fmt: skip


class Api:
    """A mirror of Pods whose events are given by hand, and answers by path."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[list_watch.MirrorEvent] = asyncio.Queue()
        self.answers: dict[str, Any] = {}

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        """The answer of the path."""
        if path not in self.answers:
            raise errors.NotFound(status=404, reason="NotFound", message="not found", request=f"{method} {path}")
        return self.answers[path]

    async def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:  # fmt: skip
        """The answer of the path, a line at a time."""
        for line in self.answers[path].splitlines(keepends=True):
            yield line.encode()

    async def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None, options: list_watch.Options | None = None,
        freshness: list_watch.CopyAge | None = None,
    ) -> AsyncIterator[list_watch.MirrorEvent]:  # fmt: skip
        """What was put into `events`, for ever."""
        while True:
            event = await self.events.get()
            if freshness is not None:
                freshness.note()
            yield event


class Cluster:
    """A scheduler, an aggregator and an agent in memory, and a reader of them."""

    def __init__(self, nodes: int = 3) -> None:
        self.clock = clocks.FakeClock(monotonic_s=100.0)
        self.hub = memory_bus.Hub()
        self.api = Api()
        self.own = memory_bus.MemoryBus(self.hub)
        self.names = [f"node-{number + 1}" for number in range(nodes)]
        self.where: Callable[[], addresses.Address] = lambda: ADDRESS
        self.connected = 0
        self.reader = readers.Reader(lambda: self.where(), self._connect, clock=self.clock, lease_s=LEASE_S)

    @contextlib.asynccontextmanager
    async def _connect(self, address: addresses.Address) -> AsyncIterator[tuple[ports.Bus, ports.Api | str]]:
        if self.hub.away:
            raise errors.BusUnavailable("127.0.0.1:4222 is away")
        self.connected += 1
        bus = memory_bus.MemoryBus(self.hub)
        try:
            yield bus, self.api
        finally:
            await bus.close()

    async def serve(self) -> None:
        """The services answer from now on."""

        async def capacity_list(question: bytes) -> bytes:
            after = orjson.loads(question or b"{}").get("after", "")
            left = [{"node": name, "reserved": 1, "free": 1.1} for name in sorted(self.names) if name > after]
            # In pages of two nodes.
            return orjson.dumps({"nodes": left[:2], **({"next": left[1]["node"]} if len(left) > 2 else {})})

        async def explain(_: bytes) -> bytes:
            return orjson.dumps(STANDING)

        async def state(_: bytes) -> bytes:
            return orjson.dumps(STATE)

        for name, endpoints, node in (
            ("carico-scheduler", {"capacity.list": capacity_list, "node.explain": explain}, None),
            ("carico-aggregator", {"model.get": capacity_list}, None),
            ("carico-agent", {"state.get": state}, "node-1"),
        ):
            await self.own.serve(buses.ServiceSpec(name=name, description=name, endpoints=endpoints, node=node))

    async def advertise(self, *, seq: int = 1, **changed: Any) -> None:
        """Every node speaks."""
        for name in self.names:
            found = advertisement(name, at_ns=self.clock.wall_ns(), seq=seq, **changed)
            await self.own.publish(subjects.capacity(name), wire.encode_advertisement(found))

    async def decide(self, *decisions: decision.Decision) -> None:
        """The scheduler says what it decided."""
        for found in decisions:
            await self.own.publish(subjects.decision(found.namespace, found.pod), wire.encode_decision(found))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The reader runs, and has taken in what is kept."""
        self.api.events.put_nowait(list_watch.Listed(objects=[], resource_version="1"))
        task = asyncio.ensure_future(self.reader.run())
        try:
            await asyncio.wait_for(self.reader.complete.wait(), waiting.WAIT_S)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
