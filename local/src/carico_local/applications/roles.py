"""How the Pods of a service act on requests and messages."""

import asyncio
import collections
import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from carico_local.applications import catalog, frames, network, work

# How long a broker keeps a reader's request open while a topic has no event, as Kafka's fetch.max.wait.ms.
FETCH_WAIT_S = 0.5
# Messages that one answer has at most, and that a topic keeps.
BATCH_MOST = 100
KEPT = 10_000
# After a failed call, a reader waits so long; its messages are handled again.
AGAIN_S = 0.05
LAST_TRIES = 100
STATS = "/stats"


class Work:
    """Answers the requests of a service by its routes."""

    def __init__(self, service: catalog.Service, client: network.Client, cores: work.Cores) -> None:
        self._service = service
        self._client = client
        self._cores = cores

    async def handle(self, request: frames.Message) -> frames.Message:
        """Work, call others, and answer. Raises `network.Failed`."""
        route = self._service.routes.get(request.head.get("route", "/"))
        if route is None:
            raise network.Failed(f"{self._service.name}: no route {request.head.get('route')!r}")
        events: Sequence[int] = request.head.get("events", ())
        await self._cores.work(route.work_ms / 1e3)
        passed: Sequence[int] = ()
        for call in route.calls:
            answer = await self._client.call(
                call.service, _head(call, self._service.name, events), _body(call, events)
            )  # fmt: skip
            passed = answer.head.get("events", ())
        head: dict[str, Any] = {"events": passed} if route.passes_on else {}
        return frames.Message(head=head, body=bytes(route.answer_bytes + len(head.get("events", ()))))


class Broker:
    """Topics in memory. Each group gets each message of a topic once, whichever of its members asks first."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = collections.defaultdict(_Topic)

    async def handle(self, request: frames.Message) -> frames.Message:
        """Store messages (`/publish`), or return those of a topic that a group has not read (`/fetch`)."""
        topic = self._topics[str(request.head.get("topic", ""))]
        if request.head.get("route") == "/publish":
            events: Sequence[int] = request.head.get("events", ())
            topic.append(events, each_bytes=len(request.body) // max(len(events), 1))
            return frames.Message(head={})
        if request.head.get("route") == "/fetch":
            found = await topic.fetch(str(request.head.get("group", "")))
            return frames.Message(
                head={"events": [event for event, _ in found]}, body=bytes(sum(size for _, size in found))
            )
        raise network.Failed(f"broker: no route {request.head.get('route')!r}")


class _Topic:
    """The newest messages, and where each group is in them. A group begins with the oldest that is kept."""

    def __init__(self) -> None:
        # (Event, its bytes); how many there have ever been, and how many of these each group has read.
        self._kept: collections.deque[tuple[int, int]] = collections.deque(maxlen=KEPT)
        self._total = 0
        self._read: dict[str, int] = {}
        self._arrived = asyncio.Event()

    def append(self, events: Sequence[int], *, each_bytes: int) -> None:
        self._kept.extend((event, each_bytes) for event in events)
        self._total += len(events)
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def fetch(self, group: str) -> list[tuple[int, int]]:
        """Return the next messages of a group, at once or as soon as there are some; none after a while."""
        self._read.setdefault(group, 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FETCH_WAIT_S):
                while self._read[group] == self._total:
                    await self._arrived.wait()
        first = self._total - len(self._kept)
        at = max(self._read[group], first)
        found = list(itertools.islice(self._kept, at - first, at - first + BATCH_MOST))
        self._read[group] = at + len(found)
        return found


class TopicReader:
    """Reads a broker's topic until it is stopped, and handles each batch of messages as one request."""

    def __init__(self, service: catalog.Service, client: network.Client, cores: work.Cores) -> None:
        assert service.reads is not None, "a reader reads a topic"
        self._service = service
        self._reads = service.reads
        self._client = client
        self._work = Work(service, client, cores)
        self._is_stopping = False

    async def run(self) -> None:
        """Read until `stop`; what was read last is still handled."""
        while not self._is_stopping:
            try:
                found = await self._client.call(self._reads.service, _head(self._reads, self._service.name, ()))
            except network.Failed:
                await asyncio.sleep(AGAIN_S)
                continue
            events = found.head.get("events", ())
            if events:
                await self._handle(frames.Message(head={"events": events}))

    async def _handle(self, batch: frames.Message) -> None:
        """Handle a batch, again and again until it works; one that is stopped meanwhile gives up after a while."""
        tries_left = LAST_TRIES
        while tries_left:
            try:
                await self._work.handle(batch)
            except network.Failed:
                tries_left -= self._is_stopping
                await asyncio.sleep(AGAIN_S)
            else:
                return

    def stop(self) -> None:
        """Read no further batch."""
        self._is_stopping = True


def _head(call: catalog.Call, group: str, events: Sequence[int]) -> Mapping[str, Any]:
    head: dict[str, Any] = {"route": call.route}
    if call.topic:
        head |= {"topic": call.topic, "group": group}
    return head | {"events": events} if events else head


def _body(call: catalog.Call, events: Sequence[int]) -> bytes:
    # Each event has the size of one request.
    return bytes(call.request_bytes * max(len(events), 1))
