"""What the API's watches show of Pods and Nodes while a workload is played."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from carico_core.runtime.kube import api_client, list_watch
from carico_core.wire.kubernetes import api_objects

# Upstream's limit for each wait.
WAIT_S = 600.0


class Pods:
    """What the API's watches show: each Pod's labels and when it was bound, and which Pods each Node has."""

    def __init__(self, api: api_client.KubeClient) -> None:
        self._api = api
        self._changed = asyncio.Event()
        # By UID: when the watch first showed the Pod bound (monotonic).
        self.bound_s: dict[str, float] = {}
        # Pods about which a scheduler has stated something, and those that are gone.
        self.attempted: set[str] = set()
        self.gone: set[str] = set()
        self.limits: dict[str, int] = {}
        self.covers: dict[str, set[str]] = {}
        # Nodes that the watch has just shown for the first time.
        self.new: asyncio.Queue[str] = asyncio.Queue()

    async def follow_pods(self) -> None:
        """Follow all Pods until cancelled."""
        async with contextlib.aclosing(self._api.mirror("/api/v1/pods")) as mirror:
            async for event in mirror:
                match event:
                    case list_watch.Listed():
                        for pod in event.objects:
                            self._take(pod)
                    case list_watch.Changed(type="DELETED"):
                        self._end(event.object)
                    case list_watch.Changed():
                        self._take(event.object)
                self._changed.set()

    async def follow_nodes(self) -> None:
        """Follow all Nodes until cancelled."""
        async with contextlib.aclosing(self._api.mirror("/api/v1/nodes")) as mirror:
            async for event in mirror:
                match event:
                    case list_watch.Listed():
                        for node in event.objects:
                            self._take_node(node)
                    case list_watch.Changed(type="DELETED"):
                        self.limits.pop(event.object["metadata"]["name"], None)
                    case list_watch.Changed():
                        self._take_node(event.object)

    async def until(self, condition: Callable[[], bool], check: Callable[[], None]) -> None:
        """Return once the condition holds; `check` raises if it never will. Raises `TimeoutError`."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                check()
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 1.0)

    def _take(self, pod: Mapping[str, Any]) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if node is not None and uid not in self.bound_s:
            self.bound_s[uid] = time.monotonic()
            self.covers.setdefault(node, set()).add(uid)
        if node is not None or any(
            each["type"] == "PodScheduled" for each in pod.get("status", {}).get("conditions", ())
        ):
            self.attempted.add(uid)

    def _end(self, pod: Mapping[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        self.gone.add(uid)
        self.covers.get(pod["spec"].get("nodeName"), set()).discard(uid)

    def _take_node(self, node: Mapping[str, Any]) -> None:
        found = api_objects.parse_node(node)
        if found.name not in self.limits:
            self.new.put_nowait(found.name)
        self.limits[found.name] = found.pod_limit
