"""Publish the messages of a thousand nodes, a scheduler and an aggregator from one process.

For tests and the bench of the web page, which see nothing of a cluster but its messages. The numbers wander as those of
a busy cluster do; the messages are made by the encoders that the services use.
"""

import asyncio
import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from carico_core.domain import decision, messages, pod_telemetry
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects

BOOT = "18e9f814b6bb5a96"
DIMS = ("cpu", "memory")
# Messages of a second are sent in this many portions, as by independent nodes.
PORTIONS = 50
SUMMARY_EVERY_S = 5
_TASKS, _BYTES = 8.0, 16e9
_COST = {"cpu": messages.Estimate(mean=1.2, sd=0.1), "memory": messages.Estimate(mean=1.9e8, sd=2.5e7)}
_BASELINE = {"cpu": messages.Estimate(mean=0.2, sd=0.05), "memory": messages.Estimate(mean=6e8, sd=4e7)}


@dataclasses.dataclass(slots=True)
class Node:
    """One simulated node. `running`: the UIDs of its Pods; empty: as many as there happen to be."""

    name: str
    pods: int
    seq: int = 0
    is_silent: bool = False
    running: frozenset[str] = frozenset()


class FakeFleet:
    """Publishes for `count` nodes once a second each, with decisions and models."""

    def __init__(
        self, bus: nats_bus.NatsBus, *, count: int, clock: clocks.Clock, agents: nats_bus.NatsBus | None = None,
        seed: int = 1,
    ) -> None:  # fmt: skip
        self._bus = bus
        # Where agents have an account of their own.
        self._agents = bus if agents is None else agents
        self._clock = clock
        self._rng = np.random.default_rng(seed)
        self.nodes = [Node(name=f"node-{i + 1}", pods=int(self._rng.integers(0, 6))) for i in range(count)]
        self._decided = 0
        self._modelled = 0
        self._summarised = 0

    async def publish_past(self, seconds: float = 900.0) -> None:
        """Publish the summaries of the time before: Pods wait from a third of it on, for a third."""
        count = int(seconds / SUMMARY_EVERY_S)
        for number in range(count):
            before_s = (count - number) * SUMMARY_EVERY_S
            waits = count / 3 <= number < 2 * count / 3
            await self.say_summary(before_s=before_s, waiting=27 if waits else 0, absent=number == count // 2)

    async def say_summary(self, *, before_s: float = 0.0, waiting: int = 0, absent: bool = False) -> None:
        """Publish a summary of the cluster, as of a time before now. absent: node-3 fell silent then."""
        self._summarised += 1
        now_ns = self._clock.wall_ns() - round(before_s * 1e9)
        events = (messages.ClusterEvent(now_ns, "node", "node-3", "absent"),) if absent else ()
        share = 0.3 + 0.2 * math.sin(self._summarised / 9)
        payload = wire.encode_summary(
            messages.ClusterSummary(
                boot=BOOT, seq=self._summarised, ts_ns=now_ns, span_s=SUMMARY_EVERY_S, nodes={"fresh": len(self.nodes)},
                pods=3 * len(self.nodes), capacity=2.0 * len(self.nodes), capacity_sd=0.2 * len(self.nodes),
                usage={dim: messages.Percentiles(share - 0.1, share, share + 0.2) for dim in DIMS}, waiting=waiting,
                oldest_s=42.0 if waiting else 0.0, placed=20, placed_waited_s=0.1, events=events,
            )
        )  # fmt: skip
        await self._bus.publish(subjects.SUMMARY, payload)

    async def publish_forever(self, *, decisions_each_s: float = 4.0) -> None:
        """Publish until cancelled."""
        second = 0
        while True:
            started_s = self._clock.monotonic_s()
            for portion in range(PORTIONS):
                for node in self.nodes[portion::PORTIONS]:
                    if not node.is_silent:
                        await self._agents.publish(subjects.capacity(node.name), self.advertisement(node))
                # 1 / PORTIONS of a second after the last one, however long publishing took.
                due_s = started_s + (portion + 1) / PORTIONS
                await asyncio.sleep(max(0.0, due_s - self._clock.monotonic_s()))
                if (portion * decisions_each_s) % PORTIONS < decisions_each_s:
                    await self.decide(second)
            await self.say_model()
            if second % SUMMARY_EVERY_S == 0:
                await self.say_summary()
            second += 1

    def advertisement(self, node: Node) -> bytes:
        """Return the next advertisement of a node."""
        if self._rng.random() < 0.1:
            node.pods = int(np.clip(node.pods + self._rng.choice((-1, 1)), 0, 6))
        node.pods = len(node.running) or node.pods
        node.seq += 1
        some = frozenset(f"{node.name}-{i:04d}-4000-8000-{node.seq // 60:012d}" for i in range(node.pods))
        cpu = float(np.clip(0.03 + 0.15 * node.pods + self._rng.normal(0, 0.02), 0, 1))
        memory = float(np.clip(0.05 + 0.06 * node.pods + self._rng.normal(0, 0.004), 0, 1))
        capacity = max(0.0, (0.85 - cpu) / 0.15)
        now_ns = self._clock.wall_ns()
        return wire.encode_advertisement(
            messages.Advertisement(
                node=node.name, boot=BOOT, seq=node.seq, ts_ns=now_ns, sampled_at_ns=now_ns - 5_000_000,
                capacity=capacity, capacity_sd=0.1 + 0.1 * capacity, bottleneck="cpu" if capacity < 4 else None,
                signal=capacity, baseline=_BASELINE, cost=_COST, pods=node.pods, limit=2 * node.pods + 4,
                covers=node.running or some,
                mode=messages.Mode.MEASURED if node.pods else messages.Mode.PREDICTED,
                usage={"cpu": cpu, "memory": memory}, parts={"cpu.utilisation": cpu, "cpu.pressure": cpu / 2},
                direction={"cpu": 0.8 * cpu, "memory": 0.8 * memory},
                headroom={"cpu": (0.85 - cpu) * _TASKS, "memory": (0.85 - memory) * _BYTES},
            )
        )  # fmt: skip

    async def decide(self, second: int) -> str:
        """Return the name of a Pod that was just placed, or, every fifth time, that waits."""
        self._decided += 1
        pod = f"job-{second // 20}-{self._decided:05d}"
        chosen = self.nodes[int(self._rng.integers(len(self.nodes)))]
        is_placed = self._decided % 5 != 0
        refusal = decision.Rejection(reason=decision.Reason.CAPACITY, detail="0.4 free of threshold 1, 1 reserved")
        others = [self.nodes[int(i)] for i in self._rng.integers(len(self.nodes), size=3)]
        candidates = [
            decision.Candidate(
                node=node.name, capacity=2.4 - i, reserved=float(i), age_s=0.3, seq=node.seq, score=2.0 - i,
                rejection=None if is_placed and i == 0 else refusal,
            )
            for i, node in enumerate([chosen, *others])
        ]  # fmt: skip
        said = decision.Decision(
            id=f"{BOOT}-{self._decided}", boot=BOOT, seq=self._decided, ts_ns=self._clock.wall_ns(),
            namespace="default", pod=pod, uid=f"uid-{self._decided}",
            outcome=decision.Outcome.BOUND if is_placed else decision.Outcome.UNSCHEDULABLE,
            node=chosen.name if is_placed else None, free=2.4 if is_placed else None, threshold=1.0, attempt=1,
            waited_s=float(math.exp(self._rng.normal(-3.5, 1.6))), decided_us=float(self._rng.uniform(20, 60)),
            candidates=tuple(candidates), refused={} if is_placed else {"capacity": len(self.nodes)},
            message=f"{chosen.name} had room for 2.4 Pods (threshold 1)" if is_placed
            else f"0/{len(self.nodes)} nodes fit: {len(self.nodes)} at capacity",
        )  # fmt: skip
        await self._bus.publish(subjects.decision(said.namespace, said.pod), wire.encode_decision(said))
        return f"{said.namespace}/{said.pod}"

    async def say_loads(self, node: str, seq: int, loads: Mapping[str, pod_telemetry.PodLoad]) -> None:
        """Report what a node's Pods use, by UID."""
        said = pod_telemetry.PodLoads(node=node, boot=BOOT, seq=seq, ts_ns=self._clock.wall_ns(), loads=loads)
        await self._agents.publish(subjects.pods(node), wire.encode_loads(said))

    async def answer_loads(self, node: str, loads: Mapping[str, pod_telemetry.PodLoad]) -> None:
        """Answer what a node's Pods use, as its agent does, from now on."""

        async def answer(_: bytes) -> bytes:
            return wire.encode_loads(
                pod_telemetry.PodLoads(node=node, boot=BOOT, seq=1, ts_ns=self._clock.wall_ns(), loads=loads)
            )

        spec = buses.ServiceSpec(name="carico-agent", description="test", endpoints={"loads.get": answer}, node=node)
        await self._agents.serve(spec)

    async def say_model(self) -> None:
        """Publish and store the model of the cluster."""
        self._modelled += 1
        rows = np.array([[0.8 * (0.03 + 0.15 * n.pods), 0.8 * (0.05 + 0.06 * n.pods)] for n in self.nodes])
        now_ns = self._clock.wall_ns()
        payload = wire.encode_model(
            messages.GlobalModel(
                replica="aggregator", boot=BOOT, seq=self._modelled, ts_ns=now_ns, epoch=now_ns // 1_000_000,
                merge="round", contributors=len(self.nodes), weight=4.0 * len(self.nodes), dims=DIMS,
                gram=rows.T @ rows / len(rows), evidence={}, peak_pods_per_core=1.5,
            )
        )  # fmt: skip
        await self._bus.publish(subjects.MODEL, payload)
        await self._bus.put_model(payload)
