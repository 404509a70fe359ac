"""An extender over a state in memory, and requests that a real kube-scheduler made."""

import asyncio
import json
import pathlib
import random
from typing import Any

from carico_core.runtime.observe import metrics
from carico_scheduler.decide import turns
from carico_scheduler.extender import extender_settings, server, service
from carico_scheduler.report import decisions, instruments
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects

RECORDED = pathlib.Path(__file__).parents[3] / "fixtures/extender"


class Desk:
    """An extender on a memory API whose Pods and Nodes the state is shown at once."""

    def __init__(self, rules: policy.Policy | None = None, **wanted: Any) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.kube = memory_kube.MemoryKube(clock=self.clock)
        self.state = state.State(rules or policy.Policy(), random.Random(0))
        self.turns = turns.Turns(self.state.fleet, self.state.queue)
        self.term: int | None = 0
        self.wakes = 0
        self.metrics = metrics.Metrics("scheduler")
        self.log = decisions.Log(
            boot="0" * 16, threshold=1.0, clock=self.clock, on_record=lambda _: None, on_drop=lambda: None
        )
        self.unit = server.ServedExtender(
            extender_settings.ExtenderSettings(enabled=True, **({"port": 0} | wanted)),
            service.ExtenderParts(
                state=self.state, kube=self.kube, clock=self.clock, rng=random.Random(0), log=self.log,
                metrics=instruments.Instruments(self.metrics), bind_timeout_s=1.0, term=lambda: self.term,
                wake=self._wake, turns=self.turns,
            ),
        )  # fmt: skip
        self.extender = self.unit.extender
        self._seq = 0

    def _wake(self) -> None:
        self.wakes += 1

    def node(self, name: str, capacity: float | None, **changes: Any) -> None:
        """A Node, and what it advertises."""
        self.state.put_node(objects.make_node(name))
        if capacity is not None:
            self.advertise(name, capacity, **changes)

    def advertise(self, name: str, capacity: float, age_s: float = 0.0, **changes: Any) -> None:
        """A newer advertisement."""
        self._seq += 1
        now_s = self.clock.monotonic_s()
        made = objects.make_advertisement(name, capacity, seq=self._seq, **changes)
        self.state.put_advertisement(node_state.Heard(advertisement=made, sampled_s=now_s - age_s), now_s)

    def pod(self, name: str, **changes: Any) -> dict[str, Any]:
        """A Pod at the API and in the state."""
        body = objects.pod_object(name, schedulerName="kube-carico")
        body["metadata"] |= {"uid": f"uid-{name}"} | changes.pop("metadata", {})
        made = self.kube.objects.create("pods", body, "test")
        self.state.put_pod(objects.make_pod(name, scheduler_name="kube-carico", **changes), self.clock.monotonic_s())
        return made

    def unshown_pod(self, name: str) -> dict[str, Any]:
        """A Pod at the API that the watch has not shown yet."""
        return self.kube.objects.create("pods", objects.pod_object(name, schedulerName="kube-carico"), "test")

    async def filter(self, pod: dict[str, Any], *names: str) -> dict[str, Any]:
        """The answer to a filter by names."""
        asked = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
        answer: dict[str, Any] = json.loads(await self.extender.filter(asked))
        return answer

    async def passed(self, pod: dict[str, Any], *names: str) -> list[str]:
        """The nodes that pass."""
        found: list[str] = (await self.filter(pod, *names))["NodeNames"]
        return found

    async def bind(self, pod: dict[str, Any], node: str) -> str:
        """The error of a bind; empty for none."""
        meta = pod["metadata"]
        asked = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
        return str(json.loads(await self.extender.bind(json.dumps(asked).encode()))["Error"])

    def show_bound(self, name: str, node: str) -> None:
        """The watch shows a Pod as bound."""
        pod = objects.make_pod(name, scheduler_name="kube-carico", node_name=node)
        self.state.put_pod(pod, self.clock.monotonic_s())

    def node_of(self, name: str) -> str | None:
        """Where the API has the Pod."""
        found: str | None = self.kube.objects.get("pods", ("default", name), "test")["spec"].get("nodeName")
        return found
