"""Which connections are of Pods that have been deleted."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from carico_auth import connections
from carico_core.runtime.kube import list_watch, paged_lists
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts

# A watch that works may show a new Pod this much later than a review of its token did.
SETTLE_S = 15.0
# Only a watch that ends on time shows that its server works (`list_watch.FRESH_OPTIONS`); shorter than `SETTLE_S`, so
# that a client which had just connected is disconnected within half a minute as well.
_WATCHING = list_watch.Options(watch_s=10.0, grace_s=5.0)


class Api(Protocol):
    """The part of the Kubernetes API that shows Pods."""

    def mirror(
        self, path: str, *, options: list_watch.Options, read: paged_lists.Read | None = None,
        freshness: list_watch.CopyAge | None = None,
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]: ...  # fmt: skip


class EndedPods:
    """The Pods that exist. Without the right to watch Pods, none is taken to have ended."""

    def __init__(self, api: Api, *, namespaces: Collection[str], clock: clocks.Clock) -> None:
        self._api = api
        # UIDs by namespace; None while they are unknown.
        self._pods: dict[str, set[str] | None] = dict.fromkeys(namespaces)
        # When the API last showed that the watch of a namespace works.
        self.freshness = {namespace: list_watch.CopyAge(clock) for namespace in namespaces}
        self._limited = logs.RateLimited(logs.get("pods"), clock=clock)

    async def follow_forever(self) -> None:
        """Watch Pods, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for namespace in self._pods:
                group.create_task(self._follow(namespace))

    def ended(self, _: accounts.Account, found: Sequence[connections.Connection]) -> Iterator[connections.Connection]:
        """See `connections.Rule`: yield those whose Pod is gone."""
        return (each for each in found if each.is_open and self._is_ended(each))

    def take(self, namespace: str, event: list_watch.MirrorEvent) -> None:
        """Take in what the watch of a namespace shows."""
        pods = self._pods[namespace]
        match event:
            case list_watch.Listed():
                self._pods[namespace] = set(event.objects)
            case list_watch.Changed(type="DELETED") if pods is not None:
                pods.discard(_uid(event.object))
            case list_watch.Changed() if pods is not None:
                pods.add(_uid(event.object))
            case list_watch.Away():
                self._pods[namespace] = None
                self._limited.warning(
                    namespace, "Pods cannot be read: connections last as long as their tokens",
                    namespace=namespace, error=str(event.error),
                )  # fmt: skip

    def _is_ended(self, connection: connections.Connection) -> bool:
        client = connection.client
        pods = self._pods.get(client.namespace)
        if pods is None or client.uid in pods:
            return False
        # A watch of a server that has stopped is silent and shows no new Pod: time counts only up to its last sign.
        watch_age_s = self.freshness[client.namespace].age_s()
        return watch_age_s is not None and connection.age_s - watch_age_s > SETTLE_S

    async def _follow(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        fresh = self.freshness[namespace]
        mirror = self._api.mirror(path, options=_WATCHING, read=_uid, freshness=fresh)
        async with contextlib.aclosing(mirror):
            async for event in mirror:
                self.take(namespace, event)


def _uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["uid"])
