"""The class of each Pod on this node, as the Kubernetes API shows its owner: for the other adapters, which see UIDs.

A Pod is bound half a second before its container starts, so that its class is known by then; one that is not yet
known counts as of the general class, and moves to its own as soon as it is told.
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Protocol

from carico_agent import settings
from carico_core.domain import messages, pod_class
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube, logs
from carico_core.wire import kubernetes

PODS = "/api/v1/pods"


class Api(Protocol):
    """What is needed of a client."""

    def mirror(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncGenerator[kube.MirrorEvent, None]:
        """List and watch for ever."""
        ...

    async def close(self) -> None:
        """Nothing; it is not used any more."""
        ...


def open_classes(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> "PodClasses":
    """The classes of the Pods bound to the agent's Node."""
    wanted = kube.KubeSettings(kubeconfig=chosen.kubeconfig, context=chosen.kube_context)
    return PodClasses(chosen.node, connect=lambda: kube.connect(wanted, clock=clock, user_agent=settings.PROGRAM))


class PodClasses:
    """See `carico_agent.ports.PodClasses`."""

    def __init__(self, node: str, *, connect: Callable[[], Awaitable[Api]]) -> None:
        self._node = node
        self._connect = connect
        self._classes: dict[str, str] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._log = logs.get("classes")

    def of(self, uid: str) -> str:
        """The class of a Pod; the general one where the API has not told."""
        return self._classes.get(uid, messages.ANY_CLASS)

    def on_change(self, callback: Callable[[], None]) -> None:
        """`callback` is called in the loop's thread after each Pod whose class becomes known."""
        self._callbacks.append(callback)

    async def run(self) -> None:
        """Never returns; keeps the classes up to date, as they were while the API is away. Raises `KubeconfigError`."""
        api = await self._connect()
        try:
            pods = api.mirror(PODS, params={"fieldSelector": f"spec.nodeName={self._node}"})
            async with contextlib.aclosing(pods) as events:
                async for event in events:
                    self._take(event)
        finally:
            await api.close()

    def _take(self, event: kube.MirrorEvent) -> None:
        match event:
            case kube.Listed(objects=objects):
                known = dict(self._classes)
                self._classes = dict(filter(None, map(self._read, objects)))
                if self._classes != known:
                    self._tell()
            case kube.Changed(type="DELETED", object=pod):
                self._classes.pop(str(pod["metadata"].get("uid", "")), None)
            case kube.Changed(object=pod):
                found = self._read(pod)
                if found is not None and self._classes.get(found[0]) != found[1]:
                    self._classes[found[0]] = found[1]
                    self._tell()

    def _read(self, pod: dict[str, Any]) -> tuple[str, str] | None:
        try:
            found = kubernetes.parse_pod(pod)
        except ValueError as error:
            self._log.warning("a Pod of the API cannot be read", why=str(error))
            return None
        return found.uid, pod_class.class_of(found)

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback()
