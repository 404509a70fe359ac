"""Disconnect the clients of Pods that have been deleted; otherwise a connection lasts as long as its token.

The servers list their connections, each with the Pod of its token in its name (`policy.Grant.bus_name`). So a replica
also knows those that another one let in, or one that has been restarted since.
"""

import asyncio
import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import orjson

from carico_auth import instruments, policy
from carico_core.domain import errors
from carico_core.runtime.kube import list_watch, paged_lists
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import accounts

# Between two looks at the connections: soon after a Pod's end, and else, as for a server that was cut off then.
EVERY_S, IDLE_EVERY_S = 5.0, 60.0
# A watch that works may show a new Pod this much later than a review of its token did.
SETTLE_S = 15.0
# How long after a Pod's end clients may still come: its token is good for 20 s more, and counts as settled later.
AFTER_END_S = 60.0
# Connections that a server lists in one answer, of about 600 bytes each.
PAGE = 2048
# Servers answer at once; how many there are is not known.
ANSWERS_WITHIN_S = 1.0
_KICK_TIMEOUT_S = 2.0
# Only a watch that ends on time shows that its server works (`list_watch.FRESH_OPTIONS`); shorter than `SETTLE_S`, so
# that a client which had just connected is disconnected within half a minute as well.
_WATCHING = list_watch.Options(watch_s=10.0, grace_s=5.0)


class Api(Protocol):
    """The part of the Kubernetes API that shows Pods."""

    def mirror(
        self, path: str, *, options: list_watch.Options, read: paged_lists.Read | None = None,
        freshness: list_watch.CopyAge | None = None,
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]: ...  # fmt: skip


class Bus(Protocol):
    """The part of the bus that reaches the servers."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...

    async def request_all(self, subject: str, payload: bytes, *, within_s: float) -> Sequence[bytes]: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A client of a Pod, as its server numbers it, and for how long it has been connected."""

    server_id: str
    client_id: int
    pod: policy.PodOf
    age_s: float


class EndedPods:
    """The Pods that exist, and what connects for others. Without the right to watch Pods it disconnects no client."""

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
        self.freshness = {namespace: list_watch.CopyAge(clock) for namespace in namespaces}
        # Until then a Pod may have ended whose clients are still connected.
        self._hurry_until_s = float("-inf")
        self._line = logs.get("pods")
        self._limited = logs.RateLimited(self._line, clock=clock)

    async def run_forever(self) -> None:
        """Watch Pods and disconnect the clients of those that are gone, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for namespace in self._pods:
                group.create_task(self._follow_forever(namespace))
            idle_s = 0.0
            while True:
                await asyncio.sleep(EVERY_S)
                idle_s += EVERY_S
                if self.is_due() or idle_s >= IDLE_EVERY_S:
                    idle_s = 0.0
                    await self.sweep()

    def is_due(self) -> bool:
        """Return whether a Pod has ended recently."""
        return self._clock.monotonic_s() < self._hurry_until_s

    async def sweep(self) -> None:
        """Disconnect each client whose Pod is gone. What a server does not answer is tried at the next sweep."""
        bus = self._bus()
        if bus is None or all(pods is None for pods in self._pods.values()):
            return
        silent: set[str] = set()
        for account in accounts.POD_ACCOUNTS:
            for connection in await self._connections(bus, account):
                # A server that does not answer is asked once, so that it does not delay what others are asked.
                if connection.server_id not in silent and self._is_ended(connection):
                    self._hurry()
                    if not await self._disconnect(bus, connection):
                        silent.add(connection.server_id)

    def take(self, namespace: str, event: list_watch.MirrorEvent) -> None:
        """Take in what the watch of a namespace shows."""
        pods = self._pods[namespace]
        match event:
            case list_watch.Listed():
                self._pods[namespace] = set(event.objects)
                self._hurry()
            case list_watch.Changed(type="DELETED") if pods is not None:
                pods.discard(_uid(event.object))
                self._hurry()
            case list_watch.Changed() if pods is not None:
                pods.add(_uid(event.object))
            case list_watch.Away():
                self._pods[namespace] = None
                self._limited.warning(
                    namespace, "Pods cannot be read: connections last as long as their tokens",
                    namespace=namespace, error=str(event.error),
                )  # fmt: skip

    def _hurry(self) -> None:
        self._hurry_until_s = self._clock.monotonic_s() + AFTER_END_S

    async def _connections(self, bus: Bus, account: accounts.Account) -> list[Connection]:
        """Return the connections of Pods to an account, as all servers list them."""
        found: list[Connection] = []
        for offset in itertools.count(0, PAGE):
            question = orjson.dumps({"auth": True, "limit": PAGE, "offset": offset})
            try:
                answers = await bus.request_all(accounts.connections(account), question, within_s=ANSWERS_WITHIN_S)
                if not answers:
                    raise errors.BusUnavailable("no server answers")
            except errors.BusError as error:
                self._not_listed(account, error)
                return found
            has_more = False
            for answer in answers:
                # A server that reports an error must not hide the connections of the others.
                try:
                    connections, is_cut = parse_page(answer)
                except ValueError as error:
                    self._not_listed(account, error)
                    continue
                found += connections
                has_more = has_more or is_cut
            if not has_more:
                return found
        raise AssertionError("count() does not end")

    def _not_listed(self, account: accounts.Account, error: Exception) -> None:
        self._limited.warning("list", "connections cannot be listed", account=account.value, error=str(error))

    async def _disconnect(self, bus: Bus, connection: Connection) -> bool:
        """Return whether the server has answered."""
        subject = accounts.KICK_SUBJECTS.replace("*", connection.server_id)
        try:
            answer = await bus.request(
                subject, orjson.dumps({"cid": connection.client_id}), timeout_s=_KICK_TIMEOUT_S
            )  # fmt: skip
        except errors.BusError as error:
            self._limited.warning(connection.server_id, "not disconnected", error=str(error))
            return False
        # A client that has left, or that another replica has disconnected, is an error of the server's answer.
        if "error" not in _parsed(answer):
            self._counted.disconnected.inc()
            self._line.info(
                "disconnected: its Pod is gone", identity=connection.pod.identity, pod_uid=connection.pod.uid
            )
        return True

    def _is_ended(self, connection: Connection) -> bool:
        pods = self._pods.get(connection.pod.namespace)
        if pods is None or connection.pod.uid in pods:
            return False
        # A watch of a server that has stopped is silent and shows no new Pod: time counts only up to its last sign.
        watch_age_s = self.freshness[connection.pod.namespace].age_s()
        return watch_age_s is not None and connection.age_s - watch_age_s > SETTLE_S

    async def _follow_forever(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        fresh = self.freshness[namespace]
        mirror = self._api.mirror(path, options=_WATCHING, read=_uid, freshness=fresh)
        async with contextlib.aclosing(mirror):
            async for event in mirror:
                self.take(namespace, event)


def parse_page(answer: bytes) -> tuple[list[Connection], bool]:
    """Return the connections of Pods in a server's answer to CONNZ, and whether it has more.

    Raises `ValueError` for anything else. https://docs.nats.io/running-a-nats-service/configuration/sys_accounts
    """
    try:
        said = orjson.loads(answer)
        server_id, data = str(said["server"]["id"]), said["data"]
        now = datetime.datetime.fromisoformat(data["now"])
        listed = data["connections"]
        found = []
        for each in listed:
            pod = policy.parse_bus_name(each.get("authorized_user", ""))
            if pod is not None:
                age_s = (now - datetime.datetime.fromisoformat(each["start"])).total_seconds()
                found.append(Connection(server_id=server_id, client_id=int(each["cid"]), pod=pod, age_s=age_s))
        return found, int(data["offset"]) + len(listed) < int(data["total"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"expected a list of connections, got {answer[:200]!r} ({error!r})") from error


def _uid(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


def _parsed(answer: bytes) -> Mapping[str, Any]:
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return {"error": "no JSON"}
    return found if isinstance(found, dict) else {"error": "no object"}
