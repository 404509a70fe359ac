"""The bus in one process's memory, for tests: the same contract as `nats_bus`, no sockets, no time."""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import NoReturn

import orjson

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.streams import kept
from carico_core.wire import streams, subjects


class Hub:
    """What several `MemoryBus` share: subscriptions, the queue, the latest values. `away` plays an outage."""

    def __init__(self) -> None:
        self.subscriptions: list[tuple[str, buses.Handler]] = []
        self.queue: OrderedDict[str, bytes] = OrderedDict()
        self.queued = asyncio.Condition()
        self.capacities: dict[str, bytes] = {}
        self.decisions: list[tuple[str, bytes]] = []
        self.summaries: list[bytes] = []
        self.model: bytes | None = None
        self.claims: dict[str, buses.Kept] = {}
        self.claim_seq = itertools.count(1)
        self.claim_followers: list[Callable[[buses.Kept], None]] = []
        self.usage: dict[int, bytes] = {}
        self.endpoints: dict[str, buses.Endpoint] = {}
        # What serves now, by an id of its own.
        self.services: dict[str, buses.ServiceSpec] = {}
        self.buses: list[MemoryBus] = []
        self.away = False
        self.numbers = itertools.count()

    def lose_claims(self) -> None:
        """Lose what the stream of claims holds, as a server that keeps it in memory does when it restarts."""
        self.claims.clear()
        self.claim_seq = itertools.count(1)

    def set_claims_back(self, older: Mapping[str, buses.Kept]) -> None:
        """Give the stream of claims an older state, as servers of which the one that lags behind is left do."""
        self.claims = dict(older)
        self.claim_seq = itertools.count(1 + max((each.seq for each in older.values()), default=0))

    def set_away(self, away: bool) -> None:
        """Take the bus away from every member, or give it back."""
        back = self.away and not away
        self.away = away
        if back:
            for member in self.buses:
                member.came_back()


class MemoryBus:
    """One member's view of a `Hub`."""

    def __init__(self, hub: Hub | None = None) -> None:
        self.hub = hub or Hub()
        self.hub.buses.append(self)
        self._closed = asyncio.Event()
        self._reconnect_callbacks: list[Callable[[], None]] = []
        self._reconnects = 0
        self._sent = (0, 0)

    @property
    def connected(self) -> bool:
        """True while messages can be sent."""
        return not self.hub.away and not self._closed.is_set()

    @property
    def traffic(self) -> buses.Traffic:
        """What this member has published so far; what it receives is not counted."""
        return buses.Traffic(out_messages=self._sent[0], out_bytes=self._sent[1], reconnects=self._reconnects)

    @property
    def claims(self) -> buses.Claims:
        """The stream of claims."""
        return _Claims(self)

    async def publish(self, subject: str, payload: bytes) -> None:
        """Call every handler that matches, in the order of subscription."""
        self._require(subject)
        self._sent = (self._sent[0] + 1, self._sent[1] + len(payload))
        hub = self.hub
        if matches(subjects.CAPACITY_ALL, subject):
            hub.capacities[subject] = payload
        elif matches(subjects.DECISION_ALL, subject):
            hub.decisions.append((subject, payload))
        elif subject == subjects.SUMMARY:
            hub.summaries.append(payload)
        elif matches(subjects.SUBSPACE_ALL, subject):
            async with hub.queued:
                hub.queue.pop(subject, None)
                hub.queue[subject] = payload
                hub.queued.notify_all()
        for pattern, handler in list(hub.subscriptions):
            if matches(pattern, subject):
                handler(subject, payload)

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` for each message of `subject`."""
        self._require(subject)
        entry = (subject, handler)
        self.hub.subscriptions.append(entry)
        return _Subscription(self.hub, entry)

    async def subscribe_each(self, subjects: Collection[str], handler: buses.Handler) -> dict[str, buses.Subscription]:
        """Call `handler` for each message of any of `subjects`."""
        return {subject: await self.subscribe(subject, handler) for subject in subjects}

    async def pull(self) -> AsyncGenerator[list[buses.QueueItem], None]:
        """Yield all that is queued, as soon as there is something."""
        hub = self.hub
        while True:
            async with hub.queued:
                await hub.queued.wait_for(lambda: bool(hub.queue))
                batch: list[buses.QueueItem] = [_QueueItem(s, p) for s, p in hub.queue.items()]
                hub.queue.clear()
            yield batch

    async def acknowledge(self, items: Sequence[buses.QueueItem]) -> None:
        """Do nothing: a pulled message has left the queue already."""

    async def backlog(self) -> buses.Backlog:
        """Return how the streams and the work queue stand."""
        self._require("streams")
        hub = self.hub
        held = {
            streams.CAPACITY: list(hub.capacities.values()), streams.SUBSPACES: list(hub.queue.values()),
            streams.DECISIONS: [payload for _, payload in hub.decisions],
            streams.HISTORY: hub.summaries,
            streams.CLAIMS: [each.payload for each in hub.claims.values()],
            streams.MODEL_STREAM: [] if hub.model is None else [hub.model],
            streams.USAGE_STREAM: list(hub.usage.values()),
        }  # fmt: skip
        stored = tuple(
            buses.Stored(stream=name, messages=len(held[name]), size_bytes=sum(map(len, held[name])))
            for name in streams.ALL
        )
        return buses.Backlog(streams=stored, pending=len(hub.queue), unacknowledged=0, redelivered=0)

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Return each node's newest advertisement."""
        self._require("capacities")
        return list(self.hub.capacities.items())

    async def capacities_page(self, first_seq: int, most_bytes: int) -> buses.StoredPage:
        """Return them from one on, as many as fit; here their number is that in the order of nodes."""
        found = kept.that_fit((await self.latest_capacities())[first_seq - 1 :], most_bytes)
        following = first_seq + len(found)
        return buses.StoredPage(messages=found, following_seq=following, left=len(self.hub.capacities) - following + 1)

    async def put_model(self, payload: bytes) -> None:
        """Keep the model."""
        self._require("the model")
        self.hub.model = payload

    async def get_model(self) -> bytes | None:
        """Return the model kept last."""
        self._require("the model")
        return self.hub.model

    async def put_usage(self, key: int, payload: bytes) -> None:
        """Keep what is known of the usage of some classes."""
        self._require("usage")
        self.hub.usage[key] = payload

    async def get_usage(self, key: int) -> bytes | None:
        """Return what was kept last under a key."""
        self._require("usage")
        return self.hub.usage.get(key)

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
        """Return the newest `limit` of one Pod, or the last of each of the `limit` newest Pods; oldest first."""
        self._require("decisions")
        pattern = subjects.decisions(namespace, pod)
        found = [(s, p) for s, p in self.hub.decisions if matches(pattern, s)]
        if namespace is None or pod is None:
            last: dict[str, bytes] = {}
            for subject, payload in found:
                last.pop(subject, None)  # so that the order is that of the last messages
                last[subject] = payload
            found = list(last.items())
        return found[-limit:]

    async def recent_summaries(self) -> list[bytes]:
        """Return the summaries of the cluster that are kept, oldest first."""
        self._require("summaries")
        return list(self.hub.summaries)

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """Return the answer of a service."""
        self._require(subject)
        endpoint = self.hub.endpoints.get(subject)
        if endpoint is None:
            raise errors.BusUnavailable(f"{subject}: no service answers")
        try:
            return await endpoint(payload)
        except errors.CaricoError as error:
            raise errors.BusError(f"{subject}: {error}") from error

    async def service_stats(self, name: str, *, within_s: float) -> list[tuple[float, bytes]]:
        """(0, JSON) of each instance of a service: who it is; nothing is counted here."""
        self._require(name)
        found = self.hub.services.items()
        return [(0.0, _stats(identity, spec)) for identity, spec in found if spec.name == name]

    async def serve(self, service: buses.ServiceSpec) -> buses.ServiceHandle:
        """Answer the questions to a service."""
        own = {subjects.query(service.short_name, verb, service.node): e for verb, e in service.endpoints.items()}
        self.hub.endpoints.update(own)
        identity = f"{service.name}-{next(self.hub.numbers)}"
        self.hub.services[identity] = service
        return _ServiceHandle(self.hub, identity, tuple(own))

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` each time the bus is back."""
        self._reconnect_callbacks.append(callback)

    def came_back(self) -> None:
        """End the outage."""
        self._reconnects += 1
        for callback in self._reconnect_callbacks:
            callback()

    async def wait_closed(self) -> NoReturn:
        """Raise `BusUnavailable` once this member has closed."""
        await self._closed.wait()
        raise errors.BusUnavailable("the connection to NATS is closed for good")

    async def close(self) -> None:
        """Leave the bus."""
        self._closed.set()

    def _require(self, what: str) -> None:
        if not self.connected:
            raise errors.BusUnavailable(f"not connected: {what}")


def matches(pattern: str, subject: str) -> bool:
    """Return whether `subject` is one of `pattern`: `*` stands for one token, `>` for all that follow.

    >>> matches("a.*.c", "a.b.c"), matches("a.>", "a.b.c"), matches("a.*", "a.b.c")
    (True, True, False)
    """
    wanted, got = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(got) > index
        if index >= len(got) or token not in ("*", got[index]):
            return False
    return len(wanted) == len(got)


class _Claims:
    """See `port.Claims`."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus

    async def change(self, changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
        """See `port.Claims`."""
        return [self._change(each) for each in changes]

    async def newest(self, subject: str) -> buses.Kept | None:
        """See `port.Claims`."""
        return self._hub(subject).claims.get(subject)

    async def all(self) -> list[buses.Kept]:
        """See `port.Claims`."""
        claims = self._hub(streams.CLAIMS).claims
        return [each for each in claims.values() if matches(subjects.CLAIM_ALL, each.subject)]

    async def follow(self, handler: Callable[[buses.Kept], None]) -> buses.Subscription:
        """See `port.Claims`."""
        hub = self._hub(subjects.CLAIMED_ALL)
        hub.claim_followers.append(handler)
        return _Following(hub, handler)

    def _change(self, change: buses.GuardedWrite) -> buses.WriteOutcome:
        if not self._bus.connected:
            return buses.WriteOutcome()
        hub = self._bus.hub
        newest = hub.claims.get(change.subject)
        newest_seq = 0 if newest is None else newest.seq
        if change.seq != newest_seq:
            return buses.WriteOutcome(is_conflict=True, newest=newest_seq)
        stored = buses.Kept(subject=change.subject, payload=change.payload, seq=next(hub.claim_seq))
        hub.claims[change.subject] = stored
        if matches(subjects.CLAIM_ALL, change.subject):
            for follower in list(hub.claim_followers):
                follower(stored)
        return buses.WriteOutcome(seq=stored.seq)

    def _hub(self, what: str) -> Hub:
        if not self._bus.connected:
            raise errors.BusUnavailable(f"not connected: {what}")
        return self._bus.hub


class _Following:
    def __init__(self, hub: Hub, handler: Callable[[buses.Kept], None]) -> None:
        self._hub = hub
        self._handler = handler

    async def unsubscribe(self) -> None:
        if self._handler in self._hub.claim_followers:
            self._hub.claim_followers.remove(self._handler)


class _Subscription:
    def __init__(self, hub: Hub, entry: tuple[str, buses.Handler]) -> None:
        self._hub = hub
        self._entry = entry

    async def unsubscribe(self) -> None:
        if self._entry in self._hub.subscriptions:
            self._hub.subscriptions.remove(self._entry)


class _ServiceHandle:
    def __init__(self, hub: Hub, identity: str, endpoints: tuple[str, ...]) -> None:
        self._hub = hub
        self._identity = identity
        self._endpoints = endpoints

    async def close(self) -> None:
        self._hub.services.pop(self._identity, None)
        for subject in self._endpoints:
            self._hub.endpoints.pop(subject, None)


class _QueueItem:
    __slots__ = ("payload", "subject")

    def __init__(self, subject: str, payload: bytes) -> None:
        self.subject = subject
        self.payload = payload

    async def term(self) -> None:
        """Do nothing: a pulled message has left the queue already."""


def _stats(identity: str, spec: buses.ServiceSpec) -> bytes:
    """As NATS's services framework answers, with what a bus in memory knows."""
    metadata = {} if spec.node is None else {"node": spec.node}
    endpoints = [{"name": verb.replace(".", "-"), "num_requests": 0, "num_errors": 0} for verb in spec.endpoints]
    return orjson.dumps(
        {"name": spec.name, "id": identity, "version": spec.version, "metadata": metadata, "endpoints": endpoints}
    )
