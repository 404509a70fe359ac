"""Disconnect the clients of Pods that have been deleted; otherwise a connection lasts as long as its token.

A replica knows the connections that it let in itself since its start. The others end with their tokens.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import Any, Protocol

import orjson

from carico_auth import instruments, nats_jwt, policy
from carico_core.domain import errors
from carico_core.runtime.kube import list_watch, paged_lists
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles

EVERY_S = 5.0
# A watch that works may show a new Pod this much later than a review of its token did.
SETTLE_S = 15.0
# Connections that one replica remembers; beyond it the oldest is dropped. An account of agents has at most 12,000.
REMEMBERED_MOST = 50_000
_KICK_TIMEOUT_S = 2.0
# Only a watch that ends on time shows that its server works (`list_watch.FRESH_OPTIONS`); shorter than `SETTLE_S`, so
# that a client which had just connected is disconnected within half a minute as well.
_WATCHING = list_watch.Options(watch_s=10.0, grace_s=5.0)


class Api(Protocol):
    """The part of the Kubernetes API that shows Pods."""

    def mirror(
        self, path: str, *, options: list_watch.Options, read: paged_lists.Read | None = None,
        freshness: list_watch.Freshness | None = None,
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]: ...  # fmt: skip


class Bus(Protocol):
    """The part of the bus that reaches the servers."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A client of a Pod, as its server numbers it. Times are monotonic; at `ends_s` its token has expired."""

    server_id: str
    client_id: int
    name: str
    namespace: str
    pod_uid: str
    since_s: float
    ends_s: float


class EndedPods:
    """The connections of Pods, and the Pods that exist. Without the right to watch Pods it disconnects no client."""

    def __init__(
        self, api: Api, bus: Callable[[], Bus | None], counted: instruments.Instruments, *,
        namespaces: Collection[str], clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._api = api
        self._bus = bus
        self._counted = counted
        self._clock = clock
        # UIDs by namespace; None while they are unknown.
        self._pods: dict[str, set[str] | None] = dict.fromkeys(namespaces)
        # When the API last showed that the watch of a namespace works.
        self.freshness = {namespace: list_watch.Freshness(clock) for namespace in namespaces}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._line = logs.get("pods")
        self._limited = logs.RateLimited(self._line, clock=clock)

    def note(self, grant: policy.Grant, request: nats_jwt.Request) -> None:
        """Remember an accepted client if it belongs to a Pod."""
        if grant.pod_uid is None:
            return
        now_s = self._clock.monotonic_s()
        self._connections[request.server_id, request.client_id] = Connection(
            server_id=request.server_id, client_id=request.client_id, name=grant.name,
            namespace=grant.account.namespace, pod_uid=grant.pod_uid, since_s=now_s,
            ends_s=now_s + grant.expires_s - self._clock.wall_ns() / 1e9,
        )  # fmt: skip
        if len(self._connections) > REMEMBERED_MOST:
            del self._connections[next(iter(self._connections))]

    def connections(self) -> list[Connection]:
        """Return the connections that are remembered, the oldest first."""
        return list(self._connections.values())

    async def run_forever(self) -> None:
        """Watch Pods and disconnect the clients of those that are gone, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for namespace in self._pods:
                group.create_task(self._follow_forever(namespace))
            while True:
                await asyncio.sleep(EVERY_S)
                await self.sweep()

    async def sweep(self) -> None:
        """Disconnect each client whose Pod is gone. What a server does not answer is tried at the next sweep."""
        now_s = self._clock.monotonic_s()
        self._connections = {key: each for key, each in self._connections.items() if each.ends_s > now_s}
        silent: set[str] = set()
        for connection in [each for each in self._connections.values() if self._is_ended(each)]:
            # A server that does not answer is asked once, so that it does not delay what others are asked.
            if connection.server_id in silent or not self._is_ended(connection):
                continue
            if (bus := self._bus()) is None:
                return
            subject = roles.KICK_SUBJECTS.replace("*", connection.server_id)
            payload = orjson.dumps({"cid": connection.client_id})
            try:
                answer = await bus.request(subject, payload, timeout_s=_KICK_TIMEOUT_S)
            except errors.BusError as error:
                silent.add(connection.server_id)
                self._limited.warning(connection.server_id, "not disconnected", error=str(error))
                continue
            self._connections.pop((connection.server_id, connection.client_id), None)
            # A client that has left meanwhile is an error of the server's answer.
            if "error" not in _parsed(answer):
                self._counted.disconnected.inc()
                self._line.info("disconnected: its Pod is gone", identity=connection.name, pod_uid=connection.pod_uid)

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

    def _is_ended(self, connection: Connection) -> bool:
        pods = self._pods.get(connection.namespace)
        if pods is None or connection.pod_uid in pods:
            return False
        # A watch of a server that has stopped is silent and shows no new Pod: time counts only up to its last sign.
        age_s = self.freshness[connection.namespace].age_s()
        return age_s is not None and self._clock.monotonic_s() - age_s - connection.since_s > SETTLE_S

    async def _follow_forever(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        fresh = self.freshness[namespace]
        mirror = self._api.mirror(path, options=_WATCHING, read=_uid, freshness=fresh)
        async with contextlib.aclosing(mirror):
            async for event in mirror:
                self.take(namespace, event)


def _uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


def _parsed(answer: bytes) -> Mapping[str, Any]:
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return {"error": "no JSON"}
    return found if isinstance(found, dict) else {"error": "no object"}
