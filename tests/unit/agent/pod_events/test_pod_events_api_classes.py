"""Classes of Pods from the API: as they become known, through its absence, and with odd objects in between."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from carico_agent.pod_events import adapter, api_classes, pod_states
from carico_agent.reporting import advertisement
from carico_core.domain import messages
from carico_core.runtime.process import clock as clocks
from tests.tools import waiting
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects


async def told(watch: api_classes.ApiClasses, uid: str, expected: str) -> None:
    await waiting.until(lambda: watch.of(uid) == expected)


def watch_of(kube: memory_kube.MemoryKube) -> api_classes.ApiClasses:
    async def connect() -> memory_kube.MemoryKube:
        return kube

    return api_classes.ApiClasses("node-0", connect=connect)


@contextlib.asynccontextmanager
async def running(watch: api_classes.ApiClasses) -> AsyncIterator[None]:
    following = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def create(kube: memory_kube.MemoryKube, name: str, node: str = "node-0", **metadata: Any) -> str:
    made = objects.pod_object(name)
    made["metadata"] |= metadata
    made["spec"]["nodeName"] = node
    return str(kube.objects.create("pods", made, "test")["metadata"]["uid"])


async def test_the_classes_of_a_nodes_pods_follow_the_api() -> None:
    kube = memory_kube.MemoryKube(clock=clocks.SystemClock())
    owner = {"kind": "Job", "name": "pi", "uid": "1", "controller": True, "apiVersion": "batch/v1"}
    first = create(kube, "first", ownerReferences=[owner])
    watch = watch_of(kube)
    calls: list[int] = []
    watch.on_change(lambda: calls.append(1))
    async with running(watch):
        await told(watch, first, "Job/default/pi")
        labelled = create(kube, "second", labels={"app.kubernetes.io/name": "web"})
        await told(watch, labelled, "app/default/web")
        elsewhere = create(kube, "third", node="node-1", ownerReferences=[owner])
        fourth = create(kube, "fourth", ownerReferences=[owner])
        await told(watch, fourth, "Job/default/pi")
        assert watch.of(elsewhere) == messages.ANY_CLASS
        assert len(calls) == 3
        kube.objects.delete("pods", ("default", "first"), {}, "test")
        await told(watch, first, messages.ANY_CLASS)


async def test_each_pod_has_its_own_template() -> None:
    kube = memory_kube.MemoryKube(clock=clocks.SystemClock())
    owner = {"kind": "Job", "name": "pi", "uid": "1", "controller": True, "apiVersion": "batch/v1"}
    first = create(kube, "first", ownerReferences=[owner])
    watch = watch_of(kube)
    assert watch.template(first) is None
    async with running(watch):
        await told(watch, first, "Job/default/pi")
        before = watch.template(first)
        resources = {"requests": {"cpu": "250m", "memory": "64Mi"}}
        made = objects.pod_object("second", containers=[{"name": "main", "image": "pi:2", "resources": resources}])
        made["metadata"]["ownerReferences"] = [owner]
        made["spec"]["nodeName"] = "node-0"
        second = str(kube.objects.create("pods", made, "test")["metadata"]["uid"])
        await told(watch, second, "Job/default/pi")
        after = watch.template(second)
        assert watch.template(first) == before
    assert before is not None and after is not None
    assert before.requests == {} and after.requests == {"cpu": 0.25, "memory": 64 * 2.0**20}
    assert before.image != after.image


async def test_a_pod_that_failed_is_counted_once() -> None:
    kube = memory_kube.MemoryKube(clock=clocks.SystemClock())
    owner = {"kind": "Job", "name": "pi", "uid": "1", "controller": True, "apiVersion": "batch/v1"}
    first = create(kube, "first", ownerReferences=[owner])
    watch = watch_of(kube)
    async with running(watch):
        await told(watch, first, "Job/default/pi")
        for phase in ("Running", "Failed", "Failed"):
            found = kube.objects.get("pods", ("default", "first"), "test")
            kube.objects.update("pods", ("default", "first"), found | {"status": {"phase": phase}}, "test")
        last = create(kube, "last", ownerReferences=[owner])
        await told(watch, last, "Job/default/pi")
        assert watch.take_failed() == [first]
        assert watch.take_failed() == []


async def test_what_belongs_to_the_node_is_no_workload() -> None:
    kube = memory_kube.MemoryKube(clock=clocks.SystemClock())
    owner = {"kind": "DaemonSet", "name": "proxy", "uid": "1", "controller": True, "apiVersion": "apps/v1"}
    proxy = create(kube, "proxy", ownerReferences=[owner])
    node = {"kind": "Node", "name": "node-0", "uid": "2", "controller": True, "apiVersion": "v1"}
    static = {"kubernetes.io/config.mirror": "d1", "kubernetes.io/config.hash": "d1"}
    create(kube, "etcd", annotations=static, ownerReferences=[node])
    web = create(kube, "web", labels={"app.kubernetes.io/name": "web"})
    watch = watch_of(kube)
    told_of = pod_states.PodStates()
    for uid in (proxy, "d1", web, "not-at-the-api"):
        told_of.started(uid, 0.0)
    told_of.ended(web, 1.0)
    pods = adapter.Workloads(pods=Now(told_of), classes=watch)
    assert pods.current().running == {proxy, "d1", "not-at-the-api"}
    async with running(watch):
        await told(watch, web, "app/default/web")
        assert pods.current().running == {"not-at-the-api"}
        assert pods.current().baseline == {proxy, "d1"}
        assert advertisement.covers(pods.current(), pod_limit=110) == {"not-at-the-api", proxy, "d1", web}
        assert list(pods.current().ended) == [web]
        told_of_events: list[str] = []
        pods.on_event(lambda kind, uid, at_s: told_of_events.append(f"{uid} {kind.value} {at_s:g}"))
        told_of.created("new", 3.0)
        told_of.ended(proxy, 4.0)
        assert told_of_events == ["new created 3"]


async def test_a_daemons_pod_that_comes_later_is_no_workload_either() -> None:
    kube = memory_kube.MemoryKube(clock=clocks.SystemClock())
    create(kube, "first")
    watch = watch_of(kube)
    calls: list[int] = []
    watch.on_change(lambda: calls.append(1))
    async with running(watch):
        await waiting.until(lambda: calls)
        owner = {"kind": "DaemonSet", "name": "proxy", "uid": "1", "controller": True, "apiVersion": "apps/v1"}
        proxy = create(kube, "proxy", ownerReferences=[owner])
        await waiting.until(lambda: watch.is_baseline(proxy))
        assert len(calls) == 2


class Now:
    """Pod events of a ledger that the test keeps."""

    def __init__(self, kept: pod_states.PodStates) -> None:
        self._states = kept

    def current(self) -> pod_states.KnownPods:
        return self._states.current(2.0)

    def on_change(self, callback: Callable[[], None]) -> None:
        self._states.on_change(callback)

    def on_event(self, witness: pod_states.Witness) -> None:
        self._states.on_event(witness)

    async def run(self) -> None:
        await asyncio.Event().wait()
