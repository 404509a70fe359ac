"""Plays a workload of scheduler_perf: creates what its operations name, and times the Pods that it measures."""

import asyncio
import contextlib
import copy
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from bench.cluster import _cluster, _objects, _volumes, _watched, _workloads
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects

# An advertisement is fresh for 2.5 s; the player shares the machine with what it measures.
REPEAT_S = 2.0
# What a node can advertise; some workloads have one Node that takes 90,000 Pods.
_LIMIT_MOST, _COVERS_MOST = 4000, 1500
_CORE = "/api/v1"
# By kind: the path of its group, its plural, and whether it is in a namespace.
_PATHS = {
    "Node": (_CORE, "nodes", False), "Namespace": (_CORE, "namespaces", False), "Pod": (_CORE, "pods", True),
    "Service": (_CORE, "services", True), "PersistentVolume": (_CORE, "persistentvolumes", False),
    "PersistentVolumeClaim": (_CORE, "persistentvolumeclaims", True),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes", False),
}  # fmt: skip


class Player:
    """Plays the operations of one workload."""

    def __init__(self, cluster: _cluster.Cluster, pods: _watched.Pods, *, check: Callable[[], None]) -> None:
        self._api = cluster.api
        self._bus: nats_bus.NatsBus = cluster.bus
        self._pods = pods
        self._check_scheduler = check
        self._boot = clocks.boot_id(_cluster.CLOCK)
        self._number = itertools.count(1)
        self._namespaces: set[str] = set()
        # Namespace and labels of each Pod that was created, by UID, and those for which no operation has waited.
        self._created: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._pending: set[str] = set()
        self._measured: list[str] = []
        self._collecting: _workloads.Op | None = None
        self._collected_from: set[str] = set()
        self._background: list[asyncio.Task[None]] = []
        # Work for as long as the workload is played.
        self.tasks: list[asyncio.Task[None]] = []

    async def play(self, workload: _workloads.Workload) -> float:
        """Return how many of the measured Pods were bound a second, from the first to the last."""
        try:
            for index, op in enumerate(workload.ops):
                await self._play(index, op)
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)
        bound_s = sorted(self._pods.bound_s[uid] for uid in self._measured if uid in self._pods.bound_s)
        return (len(bound_s) - 1) / max(bound_s[-1] - bound_s[0], 1e-3)

    def _check(self) -> None:
        """Raise what has ended the scheduler, or an operation in the background."""
        self._check_scheduler()
        for task in (*self._background, *self.tasks):
            if task.done():
                task.result()

    async def advertise(self) -> None:
        """Publish for each Node every two seconds, until cancelled; room is for as many Pods as a Node takes."""
        while True:
            began_s = time.monotonic()
            for index, node in enumerate(list(self._pods.limits)):
                if index % _cluster.AT_ONCE == 0:
                    due_s = began_s + REPEAT_S * index / len(self._pods.limits)
                    await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                await self._publish(node)
            await asyncio.sleep(max(0.0, began_s + REPEAT_S - time.monotonic()))

    async def advertise_new(self) -> None:
        """Publish for each new Node at once, as its agent would, until cancelled."""
        while True:
            await self._publish(await self._pods.new.get())

    async def _publish(self, node: str) -> None:
        limit = min(self._pods.limits.get(node, 0), _LIMIT_MOST)
        covers = frozenset(itertools.islice(self._pods.covers.get(node, ()), _COVERS_MOST))
        payload = _objects.advertisement(
            node, self._boot, next(self._number), covers, capacity=limit + 1.0, limit=limit
        )  # fmt: skip
        await self._bus.publish(subjects.capacity(node), payload)

    async def _play(self, index: int, op: _workloads.Op) -> None:
        works: Mapping[str, Callable[[_workloads.Op, str], Awaitable[None]]] = {
            "createNodes": self._create_nodes, "createNamespaces": self._create_namespaces,
            "createPods": self._create_pods, "createPodSets": self._create_pod_sets, "createAny": self._create_any,
            "updateAny": self._update_any, "deletePods": self._delete_pods, "churn": self._begin_churn,
            "barrier": self._barrier, "sleep": self._sleep, "startCollectingMetrics": self._start_collecting,
            "stopCollectingMetrics": self._stop_collecting,
        }  # fmt: skip
        await works[op["opcode"]](op, op.get("namespace", f"namespace-{index}"))

    async def _create_nodes(self, op: _workloads.Op, _: str) -> None:
        bodies = []
        for index in range(op["count"]):
            node = copy.deepcopy(_of_template(op, "nodeTemplatePath", index, _DEFAULT_NODE))
            metadata = node["metadata"]
            name = metadata.setdefault("name", f"{metadata.pop('generateName', '')}{next(self._number)}")
            labels = metadata.setdefault("labels", {})
            labels["kubernetes.io/hostname"] = name
            if (by_turns := op.get("labelNodePrepareStrategy")) is not None:
                labels[by_turns["labelKey"]] = by_turns["labelValues"][index % len(by_turns["labelValues"])]
            if (unique := op.get("uniqueNodeLabelStrategy")) is not None:
                labels[unique["labelKey"]] = f"value-{next(self._number)}"
            bodies.append(node)
            if (strategy := op.get("nodeAllocatableStrategy")) is not None:
                node["status"]["allocatable"] = node["status"]["capacity"] | strategy["nodeAllocatable"]
                bodies.append(_volumes.csi_node(name, strategy))
        await _each(bodies, lambda body: self._create(body, ""))

    async def _create_namespaces(self, op: _workloads.Op, _: str) -> None:
        plain = _workloads.template(op["namespaceTemplatePath"]) if "namespaceTemplatePath" in op else None
        for index in range(op["count"]):
            await self._namespace(f"{op['prefix']}-{index}", plain)

    async def _namespace(self, name: str, plain: Mapping[str, Any] | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces.add(name)
        body = copy.deepcopy(dict(plain or {"apiVersion": "v1", "kind": "Namespace"}))
        body.setdefault("metadata", {})["name"] = name
        await self._create(body, "")

    async def _create_pods(self, op: _workloads.Op, namespace: str) -> None:
        await self._namespace(namespace)
        uids: list[str] = []

        async def create(index: int) -> None:
            body = _of_template(op, "podTemplatePath", index, _DEFAULT_POD)
            volume = _volumes.bound_volume(op, namespace, index)
            if volume is None:
                uid = await self._create(body, namespace)
            else:
                await self._create_volume(volume, namespace)
                uid = await self._create(_volumes.with_claim(body, f"pvc-{index}"), namespace)
            self._created[uid] = (namespace, body["metadata"].get("labels", {}))
            uids.append(uid)

        await _each(range(op["count"]), create)
        if op.get("skipWaitToCompletion"):
            self._pending |= set(uids)
        else:
            await self._until_placed(uids)
        if op.get("collectMetrics"):
            self._measured += uids

    async def _create_volume(self, made: _volumes.Volume, namespace: str) -> None:
        for body in made:
            await self._create(body, namespace)
            path = f"{_path(body['kind'], namespace)}/{body['metadata']['name']}/status"
            kind = api_actions.MERGE_PATCH
            await self._api.request("PATCH", path, body=_volumes.BOUND, content_type=kind)

    async def _create_pod_sets(self, op: _workloads.Op, _: str) -> None:
        for number in range(op["count"]):
            await self._create_pods(op["createPodsOp"], f"{op['namespacePrefix']}-{number}")

    async def _create_any(self, op: _workloads.Op, namespace: str) -> None:
        await self._namespace(namespace)
        await self._create(_workloads.template(op["templatePath"]), namespace)

    async def _update_any(self, op: _workloads.Op, _: str) -> None:
        """Replace objects at a rate, and then their status, as upstream does."""
        count, rate, namespace = op.get("count", 1), op.get("updatePerSecond", 0), op.get("namespace", "")
        began_s = time.monotonic()
        for index in range(count):
            if rate:
                await asyncio.sleep(max(0.0, began_s + (index + 1) / rate - time.monotonic()))
            body = _workloads.template(op["templatePath"], index, count)
            path = f"{_path(body['kind'], namespace)}/{body['metadata']['name']}"
            for part in (op.get("subresources", [""])[0], "status"):
                await self._api.request("PUT", f"{path}/{part}" if part else path, body=body)

    async def _create(self, body: Mapping[str, Any], namespace: str) -> str:
        made = await self._api.request("POST", _path(body["kind"], namespace), body=body)
        return str(made["metadata"]["uid"])

    async def _until_placed(self, uids: Iterable[str]) -> None:
        left = set(uids)

        def are_placed() -> bool:
            left.difference_update([uid for uid in left if uid in self._pods.bound_s or uid in self._pods.gone])
            return not left

        await self._pods.until(are_placed, self._check)

    async def _barrier(self, op: _workloads.Op, _: str) -> None:
        """Wait for the Pods for which no operation has waited yet, in these namespaces and with these labels."""
        uids = {uid for uid in self._pending if self._is_named(uid, op)}
        if op.get("stageRequirement") == "Attempted":
            await self._pods.until(lambda: uids <= self._pods.attempted | self._pods.gone, self._check)
            return
        await self._until_placed(uids)
        self._pending -= uids

    def _is_named(self, uid: str, op: _workloads.Op) -> bool:
        namespace, labels = self._created[uid]
        wanted = op.get("labelSelector", {})
        return namespace in op.get("namespaces", (namespace,)) and wanted.items() <= labels.items()

    async def _sleep(self, op: _workloads.Op, _: str) -> None:
        await asyncio.sleep(_seconds(op["duration"]))

    async def _start_collecting(self, op: _workloads.Op, _: str) -> None:
        self._collecting, self._collected_from = op, set(self._created)

    async def _stop_collecting(self, _: _workloads.Op, __: str) -> None:
        op, before = self._collecting, self._collected_from
        assert op is not None
        self._measured += [uid for uid in self._created if uid not in before and self._is_named(uid, op)]
        self._collecting = None

    async def _delete_pods(self, op: _workloads.Op, namespace: str) -> None:
        deletion = asyncio.create_task(self._delete(op, namespace))
        if op.get("skipWaitToCompletion"):
            self._background.append(deletion)
        else:
            await deletion

    async def _delete(self, op: _workloads.Op, namespace: str) -> None:
        path = _path("Pod", namespace)
        selector = ",".join(f"{key}={value}" for key, value in op.get("labelSelector", {}).items())
        params = {"labelSelector": selector} if selector else {}
        rate = op.get("deletePodsPerSecond", 0)
        if not rate:
            await self._api.request("DELETE", path, params=params)
            return
        found = (await self._api.request("GET", path, params=params))["items"]
        began_s = time.monotonic()
        for index, pod in enumerate(found):
            await asyncio.sleep(max(0.0, began_s + (index + 1) / rate - time.monotonic()))
            with contextlib.suppress(errors.NotFound):
                await self._api.request("DELETE", f"{path}/{pod['metadata']['name']}")

    async def _begin_churn(self, op: _workloads.Op, namespace: str) -> None:
        await self._namespace(namespace)
        self._background.append(asyncio.create_task(self._churn(op, namespace)))

    async def _churn(self, op: _workloads.Op, namespace: str) -> None:
        """Create an object of each template at intervals; with `recreate`, delete the oldest once there are enough."""
        bodies = [_workloads.template(path) for path in op["templatePaths"]]
        most = op.get("number", 0)
        slots: list[list[str]] = [[""] * most for _ in bodies]
        interval_s = op.get("intervalMilliseconds", 500) / 1e3
        for turn in itertools.count():
            await asyncio.sleep(interval_s)
            if op["mode"] == "create":
                if most and turn >= most:
                    return
                for body in bodies:
                    await self._create(body, namespace)
                continue
            for body, names in zip(bodies, slots, strict=True):
                names[turn % most] = await self._recreate(body, namespace, names[turn % most])

    async def _recreate(self, body: Mapping[str, Any], namespace: str, name: str) -> str:
        path = _path(body["kind"], namespace)
        if not name:
            return str((await self._api.request("POST", path, body=body))["metadata"]["name"])
        with contextlib.suppress(errors.NotFound):
            await self._api.request("DELETE", f"{path}/{name}")
        return ""


# As upstream's defaults, for operations without a template: node_util.go, and MakePodSpec in test/utils/runners.go.
_DEFAULT_NODE: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Node", "metadata": {"generateName": "sample-node-"},
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    },
}  # fmt: skip
_AMOUNTS = {"cpu": "100m", "memory": "500Mi"}
_DEFAULT_POD: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "sample-pod-"},
    "spec": {
        "containers": [{"name": "pause", "image": "pause", "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS}}]
    },
}  # fmt: skip


@contextlib.asynccontextmanager
async def on(cluster: _cluster.Cluster, check: Callable[[], None]) -> AsyncIterator[Player]:
    """Follow the cluster's Pods and Nodes, and advertise for these, for as long as the block."""
    pods = _watched.Pods(cluster.api)
    player = Player(cluster, pods, check=check)
    works = (pods.follow_pods(), pods.follow_nodes(), player.advertise(), player.advertise_new())
    player.tasks = [asyncio.create_task(each) for each in works]
    try:
        yield player
    finally:
        for task in player.tasks:
            task.cancel()
        await asyncio.gather(*player.tasks, return_exceptions=True)


def _of_template(op: _workloads.Op, key: str, index: int, default: dict[str, Any]) -> dict[str, Any]:
    """Return the object with this number of an operation; `default` if the operation names no template."""
    return _workloads.template(op[key], index, op["count"]) if key in op else default


def _path(kind: str, namespace: str) -> str:
    group, plural, is_namespaced = _PATHS[kind]
    return f"{group}/namespaces/{namespace}/{plural}" if is_namespaced else f"{group}/{plural}"


def _seconds(duration: str) -> float:
    """Return a duration of a workload, as "30s" or "2m"."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    return float(duration[:-1]) * units[duration[-1]]


async def _each(items: Iterable[Any], work: Callable[[Any], Awaitable[Any]]) -> None:
    """Do the work for all items, as many at a time as the API is sent requests."""
    waiting = iter(items)

    async def some() -> None:
        for item in waiting:
            await work(item)

    await asyncio.gather(*(some() for _ in range(_cluster.IN_FLIGHT)))
