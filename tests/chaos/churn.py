"""A leader and a standby through which Pods pass for ever: what they keep of a Pod that has ended.

The whole scheduler (informers, state, decisions, binds, election) on the in-memory API and bus, without kubelets, in
virtual time. `python -m bench churn` measures the memory of long runs, `test_chaos_churn.py` what is still referenced.
"""

import asyncio
import collections
import contextlib
import gc
import types
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from carico_core.runtime.process import settings, tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler import app
from carico_scheduler import settings as setting
from tests.tools.memory import memory_bus, memory_kube, memory_objects
from tests.unit.scheduler import objects

NODES = 10
ROOM = 20
# Pods that are created at the same time; the nodes have room for all of them.
BATCH = 100
CLASSES = 5
# Changes that the API keeps for a watch that starts again.
HISTORY_KEPT = 2000
SUMMARIES_KEPT = 2
WITHIN_S = 60.0


class Churn:
    """Two schedulers on one API and one bus; `passed` Pods have been created, placed, run and removed."""

    def __init__(self) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.api = memory_kube.MemoryKube(clock=self.clock)
        self.bus = memory_bus.MemoryBus()
        self.schedulers = [self._scheduler(name) for name in ("one", "two")]
        self.passed = 0
        # Beyond the small numbers, which Python shares: those would not be counted.
        self._seq = 1000

    def _scheduler(self, name: str) -> app.Scheduler:
        chosen = settings.load(
            setting.SchedulerSettings, prefix="scheduler", argv=["--leader-identity", name], environ={}, program="test"
        )
        return app.Scheduler(chosen, api=self.api, clock=self.clock)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Churn"]:
        """Both schedulers at work, one of them leading."""
        stop = tasks.Stop()
        for index in range(NODES):
            self.api.objects.create("nodes", objects.node_object(f"node-{index}"), "test")
        works = [asyncio.create_task(scheduler.run(self.bus, stop)) for scheduler in self.schedulers]
        try:
            await self._until(lambda: any(scheduler.leadership.leads() for scheduler in self.schedulers))
            yield self
        finally:
            stop.set()
            await asyncio.gather(*works)

    async def pass_pods(self, count: int) -> None:
        """Let so many more Pods be created, placed, run, end and be removed."""
        for _ in range(count // BATCH):
            await self._pass_batch()

    async def _pass_batch(self) -> None:
        uids: dict[str, str] = {}
        for number in range(self.passed, self.passed + BATCH):
            body = objects.pod_object(f"pod-{number}")
            body["metadata"]["labels"] = {"app.kubernetes.io/name": f"app-{number % CLASSES}"}
            uids[f"pod-{number}"] = self.api.objects.create("pods", body, "test")["metadata"]["uid"]
        await self._advertise({})
        await self._until(lambda: all(self._pod(name)["spec"].get("nodeName") for name in uids))
        on_node = collections.defaultdict(set)
        for name, uid in uids.items():
            on_node[self._pod(name)["spec"]["nodeName"]].add(uid)
        for phase in ("Running", "Succeeded"):
            for name in uids:
                self.api.objects.update("pods", ("default", name), self._pod(name) | {"status": {"phase": phase}}, "")
            await self._advertise(on_node)
        for name in uids:
            self.api.objects.delete("pods", ("default", name), {}, "test")
        await self._until(lambda: all(not list(each.engine.state.records) for each in self.schedulers))
        self.passed += BATCH
        self._trim()

    async def _advertise(self, on_node: Mapping[str, set[str]]) -> None:
        self._seq += 1
        for index in range(NODES):
            node, now_ns = f"node-{index}", self.clock.wall_ns()
            covers = frozenset(on_node.get(node, ()))
            said = objects.make_advertisement(
                node, float(ROOM - len(covers)), seq=self._seq, ts_ns=now_ns, sampled_at_ns=now_ns, pods=len(covers),
                covers=covers,
            )  # fmt: skip
            await self.bus.publish(subjects.capacity(node), wire.encode_advertisement(said))
        await asyncio.sleep(0.1)

    def _pod(self, name: str) -> dict[str, Any]:
        return self.api.objects.get("pods", ("default", name), "test")

    def _trim(self) -> None:
        """Let API and bus forget what real ones forget too."""
        self.api.requests.clear()
        del self.bus.hub.decisions[:-HISTORY_KEPT]
        # One each five seconds, of 8 KiB, since orjson does not give back what its buffer has too much. All of them
        # would be 5 MB after a million Pods.
        del self.bus.hub.summaries[:-SUMMARIES_KEPT]
        kept = self.api.objects
        if len(kept.history) > HISTORY_KEPT:
            del kept.history[:-HISTORY_KEPT]
            kept.compacted = kept.history[0].version - 1
        for event in kept.all("events", memory_objects.parse_selector("", {})):
            kept.delete("events", (event["metadata"]["namespace"], event["metadata"]["name"]), {}, "test")

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await asyncio.sleep(0.02)


def referenced(root: object, *, without: Iterable[object]) -> collections.Counter[str]:
    """Count what an object keeps alive, directly or not, by type: each object once; no code, nothing of `without`."""
    skipped = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.FrameType)
    seen = {id(each) for each in without}
    counts: collections.Counter[str] = collections.Counter()
    left = [root]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, skipped):
            continue
        seen.add(id(each))
        counts[type(each).__name__] += 1
        left.extend(gc.get_referents(each))
    return counts
