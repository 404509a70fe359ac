"""What happens to a cluster besides faults: Pods are created and deleted, and nodes are cordoned."""

import asyncio
import contextlib
import dataclasses
import random
import time
from collections.abc import Mapping
from typing import Any

from carico_core.domain import errors
from tests.chaos.nemesis import history, nemesis_site

PODS_PATH = "/api/v1/namespaces/default/pods"
APP = "nemesis"
# A quarter of a second of an emulated core, then a time in which the Pod only waits; dash, date and sleep are all it
# needs. O_APPEND: lines of several Pods do not mix.
WORK = (
    'echo start "$UID_" "$NODE" "$(date +%s.%N)" >>{runs}; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; '
    'sleep {seconds}; echo end "$UID_" "$NODE" "$(date +%s.%N)" >>{runs}'
)
# Seconds between Pods, between two cordons, and for how long a node is cordoned.
POD_EVERY_S, CORDON_EVERY_S, CORDONED_S = 0.7, 5.0, 18.0
# Shares of the Pods: short ones, long ones that are still reserved or running when faults begin; deleted ones.
LONG_SHARE, DELETED_SHARE = 0.3, 0.15
SHORT_S, LONG_S = (0.5, 3.0), (8.0, 14.0)


class Work:
    """Creates and deletes Pods, and cordons nodes."""

    def __init__(self, site: nemesis_site.Site, rng: random.Random) -> None:
        self._site = site
        self._rng = rng
        self._number = 0
        self._works: list[asyncio.Task[None]] = []
        self._deletions: set[asyncio.Task[None]] = set()
        self._is_over = False

    async def label_nodes(self) -> None:
        """Give each node its zone."""
        for node, labels in nemesis_site.zones(self._site.plan).items():
            await self._patch_node(node, {"metadata": {"labels": dict(labels)}})
            self._site.history.nodes[node] = labels

    def start(self) -> None:
        """Begin to create Pods and to cordon nodes."""
        self._works = [asyncio.create_task(self._create_pods()), asyncio.create_task(self._cordon_nodes())]

    async def finish(self) -> None:
        """Finish what has begun, so that each Pod is recorded, and remove every cordon."""
        self._is_over = True
        await asyncio.gather(*self._works)
        await asyncio.gather(*self._deletions)

    def cancel(self) -> None:
        """End at once, after a failure."""
        for task in (*self._works, *self._deletions):
            task.cancel()

    async def _create_pods(self) -> None:
        """Create Pods until the work is over, and delete some of them."""
        while not self._is_over:
            self._number += 1
            name = f"pod-{self._number}"
            pod = await self._create(name)
            if self._rng.random() < DELETED_SHARE:
                self._deletions.add(asyncio.create_task(self._delete(pod, after_s=self._rng.uniform(0.0, 6.0))))
            await asyncio.sleep(self._rng.uniform(0.2, 1.8) * POD_EVERY_S)

    async def _cordon_nodes(self) -> None:
        """Cordon one node after another until the work is over; then none is cordoned."""
        while not self._is_over:
            node = self._rng.choice(self._site.plan.node_names)
            await self._cordon(node, True)
            for _ in range(round(CORDONED_S)):
                await asyncio.sleep(0.0 if self._is_over else 1.0)
            await self._cordon(node, False)
            await asyncio.sleep(0.0 if self._is_over else self._rng.uniform(0.5, 1.5) * CORDON_EVERY_S)

    async def _create(self, name: str) -> history.Pod:
        seconds = self._rng.uniform(*(LONG_S if self._rng.random() < LONG_SHARE else SHORT_S))
        selector = self._rng.choice(({}, {}, {"zone": "a"}, {"zone": "b"}))
        body = manifest(name, WORK.format(runs=self._site.runs, seconds=f"{seconds:.1f}"), selector)
        created_s = time.time()
        try:
            made: Any = await self._site.request("POST", PODS_PATH, body)
        except errors.Conflict:
            # The answer to an earlier attempt was lost.
            made = await self._site.request("GET", f"{PODS_PATH}/{name}")
        pod = history.Pod(uid=made["metadata"]["uid"], name=name, created_s=created_s, selector=selector)
        self._site.history.pods.append(pod)
        return pod

    async def _delete(self, pod: history.Pod, *, after_s: float) -> None:
        await asyncio.sleep(after_s)
        pods, index = self._site.history.pods, self._site.history.pods.index(pod)
        pods[index] = dataclasses.replace(pod, deleted_s=time.time())
        is_forced = self._rng.random() < 0.5
        only_it = {"gracePeriodSeconds": 0 if is_forced else 2, "preconditions": {"uid": pod.uid}}
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._site.request("DELETE", f"{PODS_PATH}/{pod.name}", only_it)
        if is_forced:
            # Its successor has the same name.
            with contextlib.suppress(errors.ApiError):
                await self._create(pod.name)

    async def _cordon(self, node: str, is_on: bool) -> None:
        await self._patch_node(node, {"spec": {"unschedulable": is_on or None}})
        self._site.history.cordons.append(history.Cordon(node=node, at_s=time.time(), is_on=is_on))

    async def _patch_node(self, node: str, patch: Mapping[str, Any]) -> None:
        kind = "application/merge-patch+json"
        await self._site.request("PATCH", f"/api/v1/nodes/{node}", patch, content_type=kind)


def manifest(name: str, script: str, selector: Mapping[str, str]) -> dict[str, Any]:
    """Return a Pod that runs a shell script once."""
    field = {"UID_": "metadata.uid", "NODE": "spec.nodeName"}
    env = [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in field.items()]
    container = {"name": "main", "image": "none", "command": ["sh", "-c", script], "env": env}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": APP}},
        "spec": {
            "schedulerName": "carico", "restartPolicy": "Never", "containers": [container],
            "nodeSelector": dict(selector), "terminationGracePeriodSeconds": 2,
        },
    }  # fmt: skip
