"""One agent on the memory bus, with gauges and Pods that the test sets."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from carico_agent import app, ports, service, settings
from carico_agent.pod_events import pod_states
from carico_agent.reporting import publishers
from carico_agent.telemetry import panel
from carico_core.domain import messages, usage
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.tools.memory import memory_bus

SUBSPACE = subjects.subspace("node-1")
# Of the loop, until a sender that was woken has sent.
TURNS = 20


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
    """A `PodSet` as an adapter tells it."""

    running: frozenset[str] = frozenset()
    ended: tuple[str, ...] = ()
    baseline: frozenset[str] = frozenset()
    holding: bool = False


class Pods:
    """Pod events that the test makes."""

    def __init__(self) -> None:
        self.now = Set()
        self.callbacks: list[Callable[[], None]] = []
        self.witnesses: list[pod_states.Witness] = []

    def current(self) -> Set:
        return self.now

    def on_change(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def on_event(self, witness: pod_states.Witness) -> None:
        self.witnesses.append(witness)

    async def run(self) -> None:
        await asyncio.Event().wait()

    def become(self, *running: str, ended: tuple[str, ...] = (), holding: bool = False) -> None:
        """Set which Pods run and have ended, and call the callbacks."""
        self.now = Set(running=frozenset(running), ended=ended, holding=holding)
        for callback in self.callbacks:
            callback()


class Classes:
    """What the API tells of Pods: nothing but what the test says."""

    def of(self, _uid: str) -> str:
        return messages.ANY_CLASS

    def is_baseline(self, _uid: str) -> bool:
        return False

    def template(self, _uid: str) -> usage.Template | None:
        return None

    def container(self, _uid: str, _folder: str) -> str | None:
        return None

    def take_failed(self) -> list[str]:
        return []

    def on_change(self, callback: Callable[[], None]) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


class Ledger:
    """Every Pod uses half a core."""

    def __init__(self, clock: clocks.Clock) -> None:
        self.clock = clock

    def read(self, _uid: str, *, has_several: bool = False) -> ports.PodAmounts:
        return ports.PodAmounts(cpu_s=0.5 * self.clock.monotonic_s(), memory_bytes=2.0**23)

    def forget(self, _uid: str) -> None:
        pass


class Rig:
    """One agent, its surroundings, and the bus as others see it."""

    def __init__(self, *, reads_pods: bool = False, **chosen: Any) -> None:
        self.clock = clocks.FakeClock()
        self.boot, self.classes = clocks.boot_id(self.clock), Classes()
        self.cpu, self.memory, self.pods = Gauge(0.02), Gauge(0.1), Pods()
        self.metrics = metric.Metrics("agent")
        facts = panel.Facts(dims=("cpu", "memory"), scale=(8.0, 8e9), cores=4.0, source="test", notes=("no PSI",))
        self.agent = app.Agent(
            app.Parts(
                settings=settings.AgentSettings(node="node-1", **chosen),
                panel=panel.Panel(facts, {"cpu": self.cpu, "memory": self.memory}),
                pods=self.pods,
                clock=self.clock,
                metrics=self.metrics,
                boot=self.boot,
                classes=self.classes,
                ledger=Ledger(self.clock) if reads_pods else None,
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
        """Lets the agent talk to the bus."""
        self.tasks.append(asyncio.create_task(service.use_bus(self.agent, self.bus, node="node-1", clock=self.clock)))

    async def seconds(self, count: int = 1) -> None:
        """So many seconds of samples."""
        for _ in range(count):
            for _ in range(10):
                self.clock.advance(0.1)
                self.agent.tick(0.0, 0)
            await self.settle()

    async def settle(self) -> None:
        """Returns when what was due has been sent."""
        # Each pause begins after the sender's own, and is longer: it ends later, however late both of them end.
        for pause_s in (0.0, 1.25 * publishers.COALESCE_S, 1.25 * publishers.COALESCE_S):
            await asyncio.sleep(pause_s)
            for _ in range(TURNS):
                await asyncio.sleep(0)

    def value(self, name: str, **labels: str) -> float:
        """A metric of the agent; 0 for one that was never set."""
        return self.metrics.value(name, labels) or 0.0

    def stop(self) -> None:
        """Ends what `start` began."""
        for task in self.tasks:
            task.cancel()


Make = Callable[..., Rig]


def model(seq: int = 1, *, boot: str = "0" * 16, ts_ns: int = 1_700_000_000_000_000_000, **more: Any) -> bytes:
    """A model of the cluster as an aggregator sends it."""
    fields: dict[str, Any] = {
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
    return wire.encode_model(messages.GlobalModel(**(fields | more)))
