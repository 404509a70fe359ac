"""The bus on NATS with JetStream, by nats-py, which only this module and its parts (`bus_...`) import.

Rules that were measured (docs of nats-py do not say them): callbacks must never raise, or the read loop dies while
`is_connected` stays true; nothing is buffered while disconnected; pulls are asked for anew at a reconnect (`bus_pull`).
"""

import asyncio
import collections
import contextlib
import functools
import pathlib
import random
from collections.abc import AsyncGenerator, Callable, Sequence

from carico_core.domain import errors
from carico_core.runtime import bus as buses
from carico_core.runtime import bus_connection, bus_tls, logs, optional_imports
from carico_core.runtime import clock as clocks

with optional_imports.hidden_from_nats():
    from nats.aio.subscription import Subscription
    from nats.errors import Error as NatsError
    from nats.js import JetStreamContext

    from carico_core.runtime import (
        bus_client,
        bus_direct,
        bus_pull,
        bus_renewal,
        bus_respond,
        bus_server,
        bus_service,
        bus_streams,
        bus_survey,
        bus_upkeep,
    )
from carico_core.wire import roles, subjects

STORE_TIMEOUT_S = 2.0
SETTLE_TIMEOUT_S = 2


class NatsBus:
    """One connection. Made by `connect`."""

    def __init__(
        self, client: "bus_client.Client", watch: bus_connection.Watch, *,
        name: str, lease_s: float, copies: int, owns_streams: bool, rng: random.Random,
    ) -> None:  # fmt: skip
        self._client = client
        self._js: JetStreamContext = client.jetstream(timeout=STORE_TIMEOUT_S)
        self._lease_s = lease_s
        self._copies = copies
        self._owns_streams = owns_streams
        self._log = logs.get("bus", connection=name)
        self._pullers: list[bus_pull.Puller] = []
        self._upkeep = bus_upkeep.Upkeep(client, watch, prepare=self.prepare, rng=rng)
        self._upkeep.on_reconnect(self._restart_pulls)

    @property
    def connected(self) -> bool:
        """True while messages can be sent."""
        return bool(self._client.is_connected)

    @property
    def traffic(self) -> buses.Traffic:
        """What has gone over this connection so far."""
        stats = self._client.stats
        return buses.Traffic(
            in_messages=stats["in_msgs"],
            in_bytes=stats["in_bytes"],
            out_messages=stats["out_msgs"],
            out_bytes=stats["out_bytes"],
            reconnects=stats["reconnects"],
        )

    async def publish(self, subject: str, payload: bytes) -> None:
        """Sends to whoever listens now."""
        if not self._client.is_connected:
            raise errors.BusUnavailable(f"not connected to NATS: {subject} was not sent")
        with bus_server.translated(subject):
            await self._client.publish(subject, payload)

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Calls `handler` for each message of `subject`, across reconnects."""

        def take(subject: str, reply: str, headers: bytes, payload: bytes) -> None:
            try:
                handler(subject, payload)
            except Exception:  # one message must not end the subscription of all
                self._log.exception("message handler failed", subject=subject)

        with bus_server.translated(subject):
            found = await self._client.subscribe_raw(subject, take)
            await self._settle()
        return _Subscription(found)

    async def enqueue(self, subject: str, payload: bytes, *, msg_id: str) -> None:
        """Stores into the work queue."""
        if not self._client.is_connected:
            raise errors.BusUnavailable(f"not connected to NATS: {subject} was not stored")
        with bus_server.translated(subject):
            await self._js.publish(subject, payload, timeout=STORE_TIMEOUT_S, headers={"Nats-Msg-Id": msg_id})

    async def pull(self) -> AsyncGenerator[list[buses.QueueItem], None]:
        """Batches of the work queue: whatever is there, as soon as something is."""
        puller = bus_pull.Puller(self._client, stream=bus_streams.SUBSPACES, consumer=bus_streams.CONSUMER)
        self._pullers.append(puller)
        try:
            async with contextlib.aclosing(puller.batches()) as batches:
                async for batch in batches:
                    yield list(batch)
        finally:
            self._pullers.remove(puller)

    async def acknowledge(self, items: Sequence[buses.QueueItem]) -> None:
        """Acknowledges a batch in one write."""
        replies = [item.reply for item in items if isinstance(item, bus_pull.QueueItem)]
        with contextlib.suppress(NatsError, OSError):
            await bus_pull.acknowledge_all(self._client, replies)

    async def backlog(self) -> buses.Backlog:
        """How the streams and the work queue stand."""
        with bus_server.translated("streams"):
            return await bus_streams.backlog(self._js)

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Each node's newest advertisement."""
        with bus_server.translated(bus_streams.CAPACITY):
            found = [
                (message.subject, message.payload)
                async for message in bus_direct.read(self._client, bus_streams.CAPACITY, subjects.CAPACITY_ALL)
            ]
        # One that was replaced while we read has come twice: the later is the newer.
        return list(dict(found).items())

    async def put_model(self, payload: bytes) -> None:
        """Keeps the model of the cluster."""
        with bus_server.translated("the model"):
            await self._js.publish(bus_streams.MODEL_SUBJECT, payload, timeout=STORE_TIMEOUT_S)

    async def get_model(self) -> bytes | None:
        """The model kept last."""
        with bus_server.translated("the model"):
            found = await bus_direct.last(self._client, bus_streams.MODEL_STREAM, bus_streams.MODEL_SUBJECT)
        # A key that was deleted leaves an empty message.
        return found.payload if found is not None and found.payload else None

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
        """The newest `limit` of one Pod, or the last one of each of the `limit` Pods decided on last; oldest first."""
        subject = subjects.decisions(namespace, pod)
        with bus_server.translated(bus_streams.DECISIONS):
            if namespace is None or pod is None:
                last = await bus_direct.newest_of_each(self._client, bus_streams.DECISIONS, subject, limit=limit)
                return [(message.subject, message.payload) for message in last]
            found: collections.deque[tuple[str, bytes]] = collections.deque(maxlen=limit)
            async for message in bus_direct.read(self._client, bus_streams.DECISIONS, subject):
                found.append((message.subject, message.payload))
            return list(found)

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """The answer of a service."""
        with bus_server.translated(subject):
            answer = await self._client.request(subject, payload, timeout=timeout_s)
        failure = (answer.headers or {}).get(bus_service.ERROR_HEADER)
        if failure is not None:
            raise errors.BusError(f"{subject}: {failure}")
        return bytes(answer.data)

    async def service_stats(self, name: str, *, within_s: float) -> list[tuple[float, bytes]]:
        """(seconds until it came, JSON) of each instance of a service."""
        subject = f"$SRV.STATS.{name}"
        if not self._client.is_connected:
            raise errors.BusUnavailable(f"not connected to NATS: {subject} was not asked")
        with bus_server.translated(subject):
            return await bus_survey.ask_all(self._client, subject, within_s=within_s)

    async def serve(self, service: buses.ServiceSpec) -> buses.ServiceHandle:
        """Answers the questions to a service."""
        with bus_server.translated(service.name):
            found = await bus_service.serve(self._client, service)
            await self._settle()
        return found

    async def respond(
        self, subject: str, answer: "bus_respond.Answer", *, group: str, on_dropped: Callable[[], None]
    ) -> "bus_respond.Responder":
        """Answers requests that others of the `group` do not. Raises `BusUnavailable`."""
        found = bus_respond.Responder(self._client, answer, log=self._log, on_dropped=on_dropped)
        with bus_server.translated(subject):
            await found.start(subject, group=group)
            await self._settle()
        return found

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Calls `callback` each time the bus is back."""
        self._upkeep.on_reconnect(callback)

    async def wait_closed(self) -> None:
        """Returns once the connection is closed for good."""
        await self._upkeep.wait_closed()

    async def close(self) -> None:
        """Leaves the bus; what was published is flushed first."""
        await self._upkeep.end()
        if self._client.is_connected:
            with contextlib.suppress(NatsError, TimeoutError):
                await self._client.flush(timeout=1)
        with contextlib.suppress(NatsError):
            await self._client.close()

    async def prepare(self) -> None:
        """Checks the server and, for a role that owns streams, creates them.

        Raises `BusTooOld`, `EnvironmentUnfit` (no JetStream), `StreamMismatch`, `BusUnavailable`.
        """
        bus_server.check(self._client)
        if not self._owns_streams:
            return
        with bus_server.translated("streams"):
            await bus_streams.ensure(self._js, lease_s=self._lease_s, copies=self._copies)

    def renew_by(self, renewal: "bus_renewal.Renewal") -> None:
        """Makes the connection anew before its token expires, from now on."""
        self._upkeep.renew_by(renewal)

    def _restart_pulls(self) -> None:
        for puller in self._pullers:
            puller.restart()

    async def _settle(self) -> None:
        """Until the server knows of subscriptions just made; where it is away, it learns of them at the reconnect."""
        # nats-py writes the PING of a flush before commands that wait for its flusher: give that its turn first, or
        # the PONG proves nothing and messages of the next instant are missed (measured).
        await asyncio.sleep(0)
        if self._client.is_connected:
            with contextlib.suppress(NatsError, TimeoutError):
                await self._client.flush(timeout=SETTLE_TIMEOUT_S)


async def connect(
    settings: buses.BusSettings, *,
    name: str, clock: clocks.Clock, owns_streams: bool = True, inbox: str = roles.INBOX,
) -> NatsBus:  # fmt: skip
    """A bus that is connected and has its streams; waits for the server for as long as it takes.

    Without `owns_streams` (agents) neither streams nor consumers are asked for, and no right to do so is needed: until
    another role has made them, what needs them raises `BusUnavailable`. `inbox`: the prefix of the role's inboxes.

    Raises `BusTooOld`, `StreamMismatch`, and `SettingsError` for credentials and certificates that cannot be read.
    """
    rng = random.Random(f"{name}{clock.wall_ns()}")
    watch = bus_connection.Watch(logs.get("bus", connection=name), settings)
    options = bus_connection.options(settings, name=name, inbox=inbox, watch=watch, rng=rng)
    make_tls = bus_tls.context_maker(settings)
    make_client = functools.partial(bus_client.Client, make_tls, shows_certificate=bool(settings.tls_cert))
    client = make_client()
    await bus_server.join(client, options, watch, rng)
    bus = NatsBus(
        client, watch, name=name, lease_s=settings.lease_s, copies=settings.copies, owns_streams=owns_streams, rng=rng
    )
    try:
        await bus_server.until_ready(bus.prepare, log=watch.log, rng=rng)
    except BaseException:
        await bus.close()
        raise
    if settings.token_file:
        bus.renew_by(
            bus_renewal.Renewal(
                client, make_client=make_client, options=options,
                token=pathlib.Path(settings.token_file), log=watch.log, clock=clock, rng=rng,
            )
        )  # fmt: skip
    watch.log.info("connected", url=bus_server.address(client), server=str(client.connected_server_version))
    return bus


class _Subscription:
    def __init__(self, found: "Subscription") -> None:
        self._found = found

    async def unsubscribe(self) -> None:
        with contextlib.suppress(NatsError):
            await self._found.unsubscribe()
