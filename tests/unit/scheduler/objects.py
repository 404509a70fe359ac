"""What the scheduler's tests are made of: Pods, Nodes, advertisements, and a loop whose time costs nothing."""

import asyncio
import math
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

from carico_core.domain import cluster, messages
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import queue
from tests.tools import advertised

T = TypeVar("T")
BOOT = "17979cfe362a0001"
LATER_BOOT = "17979cfe362a0002"


def make_pod(name: str = "pod-0", **changes: Any) -> cluster.Pod:
    """A Pod that waits for us; its UID follows its name."""
    values: dict[str, Any] = {
        "namespace": "default", "name": name, "uid": f"uid-{name}", "resource_version": "1",
        "scheduler_name": "carico", "node_name": None, "phase": "Pending", "priority": 0, "created_at_s": 0.0,
        "deleting": False, "labels": {}, "node_selector": {}, "tolerations": (), "owner": None, "image": "pi",
        "is_mirror": False, "request_cores": 0.0, "request_bytes": 0.0, "unsupported": (),
    }  # fmt: skip
    return cluster.Pod(**(values | changes))


def make_node(name: str = "node-0", **changes: Any) -> cluster.Node:
    """A ready Node of 4 cores."""
    values: dict[str, Any] = {
        "name": name, "uid": f"uid-{name}", "labels": {}, "taints": (),
        "unschedulable": False, "ready": True, "deleting": False, "allocatable_cores": 4.0,
        "allocatable_bytes": 8 * 2.0**30, "pod_limit": 110,
    }  # fmt: skip
    return cluster.Node(**(values | changes))


def make_advertisement(node: str = "node-0", capacity: float = 4.0, **changes: Any) -> messages.Advertisement:
    """An advertisement of a mode that states a capacity alone."""
    values: dict[str, Any] = {"boot": BOOT, "seq": 1, "at_ns": 10**18, "capacity_sd": 0.5, "pods": 0}
    return advertised.advertisement(node, room=capacity, **(values | changes))


def with_headroom(
    advertisement: messages.Advertisement, headroom: dict[str, float], cost: dict[str, float], limit: int | None = None
) -> messages.Advertisement:
    """The advertisement with the headroom and the one class of our own modes."""
    classes = {messages.ANY_CLASS: messages.ClassCapacity(cost_plus=cost, pods=advertisement.pods)}
    return advertisement._replace(headroom=headroom, classes=classes, limit=limit)


def make_waiting(pod: cluster.Pod, since_s: float = 0.0) -> queue.Waiting:
    """The Pod as the queue hands it out."""
    source = queue.Queue(random.Random(0))
    source.offer(pod, since_s)
    taken = source.take(since_s)
    assert taken is not None
    return taken


def pod_object(name: str, **spec: Any) -> dict[str, Any]:
    """A Pod as the API holds it."""
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"schedulerName": "carico", "containers": [{"name": "main", "image": "pi"}]} | spec,
        "status": {"phase": "Pending"},
    }  # fmt: skip


def node_object(name: str, **spec: Any) -> dict[str, Any]:
    """A ready Node as the API holds it."""
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip


class FastLoop(asyncio.SelectorEventLoop):
    """A loop that does not wait: where nothing is ready, its time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 1000.0

    def time(self) -> float:
        """The loop's own seconds."""
        return self._now_s

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is ready to run."""
        return not self._ready  # type: ignore[attr-defined]  # asyncio's own queue

    def _run_once(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # asyncio's own heap
        if not self._ready and timers:  # type: ignore[attr-defined]  # asyncio's own queue
            # The first may be cancelled: to jump to that one alone would leave a real wait for the next.
            due_s = timers[0].when() if not timers[0].cancelled() else _first_due_s(timers)
            self._now_s = max(self._now_s, due_s)
        # Real time never stands still either: a timer due "now" but for rounding would be set for ever.
        self._now_s += 1e-6
        super()._run_once()  # type: ignore[misc]  # asyncio's own step


def _first_due_s(timers: list[asyncio.TimerHandle]) -> float:
    """When the first timer that still runs is due; -inf where none does."""
    return min((each.when() for each in timers if not each.cancelled()), default=-math.inf)


class LoopClock:
    """A clock that shows a loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_s(self) -> float:
        """Seconds of the loop."""
        return self._loop.time()

    def wall_ns(self) -> int:
        """The same, as if since 1970 plus 10^18 ns."""
        return 10**18 + round(self._loop.time() * 1e9)


def run_fast(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main` on a `FastLoop`."""
    with asyncio.Runner(loop_factory=FastLoop) as runner:
        return runner.run(main)


ROW_FIELDS = (
    "allocatable_cores", "allocatable_bytes", "pod_limit", "placed", "workloads", "used_cores", "used_bytes",
    "capacity", "pods", "limit", "seq", "sampled_s", "reserved", "uncovered_since_s",
)  # fmt: skip


def row_values(row: snapshot.NodeRow) -> dict[str, object]:
    """All that a row says, as it is now; NaN, for what is not advertised, as text, as it equals nothing."""
    found = {name: getattr(row, name) for name in ROW_FIELDS}
    return {
        **{name: repr(value) for name, value in found.items()},
        "room": row.room._replace(taken=()),
        "left": row.left("gpu"),
    }
