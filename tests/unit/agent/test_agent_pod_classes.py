"""Classes of Pods from the API: as they become known, through its absence, and with odd objects in between."""

import asyncio
from typing import Any

from carico_agent.churn import classes
from carico_core.domain import messages
from carico_core.runtime import clock as clocks
from carico_core.runtime import memory_kube
from tests.unit.scheduler import objects


async def told(watch: classes.PodClasses, uid: str, expected: str) -> None:
    async with asyncio.timeout(5.0):
        while watch.of(uid) != expected:
            await asyncio.sleep(0.01)


def create(kube: memory_kube.MemoryKube, name: str, node: str = "node-0", **metadata: Any) -> str:
    made = objects.pod_object(name)
    made["metadata"] |= metadata
    made["spec"]["nodeName"] = node
    return str(kube.objects.create("pods", made, "test")["metadata"]["uid"])


async def test_the_classes_of_a_nodes_pods_follow_the_api() -> None:
    kube = memory_kube.MemoryKube(clock=clocks.SystemClock())
    owner = {"kind": "Job", "name": "pi", "uid": "1", "controller": True, "apiVersion": "batch/v1"}
    first = create(kube, "first", ownerReferences=[owner])

    async def connect() -> memory_kube.MemoryKube:
        return kube

    watch = classes.PodClasses("node-0", connect=connect)
    calls: list[int] = []
    watch.on_change(lambda: calls.append(1))
    running = asyncio.create_task(watch.run())
    try:
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
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
