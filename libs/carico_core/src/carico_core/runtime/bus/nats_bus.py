"""The bus on NATS with JetStream, by nats-py, which only this package imports.

Rules that were measured (docs of nats-py do not say them): callbacks must never raise, or the read loop dies while
`is_connected` stays true; nothing is buffered while disconnected; pull requests are repeated at a reconnect
(`pull_consumer`).
"""

import asyncio
import collections
import contextlib
import functools
import pathlib
import random
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, NoReturn

from carico_core.domain import errors
from carico_core.runtime.bus import connection_options
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import refusals, tls
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.aio.subscription import Subscription
    from nats.errors import Error as NatsError
    from nats.js import JetStreamContext

    from carico_core.runtime.bus import nats_client, nats_server, requests, upkeep
    from carico_core.runtime.bus.security import renewal as bus_renewal
    from carico_core.runtime.bus.streams import claims, direct_get, jetstream, kept, pull_consumer
from carico_core.wire import roles, streams, subjects

if TYPE_CHECKING:
    from carico_core.runtime.bus import responders

STORE_TIMEOUT_S = 2.0
SETTLE_TIMEOUT_S = 2


class NatsBus:
    """One connection. Made by `connect`. What asks the server raises `BusUnavailable` if no answer comes."""

    def __init__(
        self, client: "nats_client.Client", watch: connection_options.Watch, *,
        name: str, lease_s: float, copies: int, owns_streams: bool, rng: random.Random,
    ) -> None:  # fmt: skip
        self._client = client
        self._js: JetStreamContext = client.jetstream(timeout=STORE_TIMEOUT_S)
        self._lease_s = lease_s
        self._copies = copies
        self._owns_streams = owns_streams
        self._log = logs.get("bus", connection=name)
        self._watch = watch
        self._claims = claims.NatsClaims(client, subscribe=self._subscribe)
        self._pullers: list[pull_consumer.Puller] = []
        self._upkeep = upkeep.Upkeep(client, watch, prepare=self.prepare, rng=rng)
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

    @property
    def claims(self) -> buses.Claims:
        """The stream of claims."""
        return self._claims

    async def publish(self, subject: str, payload: bytes) -> None:
        """Send to current subscribers, and to the stream that keeps the subject, if any, without its acknowledgement.

        Raises `BusUnavailable`: nothing is buffered, old signals are worthless. Raises `BusError` if it is too large.
        """
        if not self._client.is_connected:
            raise errors.BusUnavailable(f"not connected to NATS: {subject} was not sent")
        with nats_server.Translated(subject):
            await self._client.publish(subject, payload)

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` for each message of `subject` (wildcards allowed) from now on, across reconnects."""
        return await self._subscribe(subject, lambda subject, _, payload: handler(subject, payload))

    async def subscribe_each(self, subjects: Collection[str], handler: buses.Handler) -> dict[str, buses.Subscription]:
        """Call `handler` for each message of any of many subjects, without waiting until the server knows of them."""
        sink = self._guarded(lambda subject, _, payload: handler(subject, payload))
        found: dict[str, buses.Subscription] = {}
        for subject in subjects:
            with nats_server.Translated(subject):
                found[subject] = _Subscription(await self._client.subscribe_raw(subject, sink))
        return found

    async def pull(self) -> AsyncGenerator[list[buses.QueueItem], None]:
        """Yield batches of the work queue, for ever; replicas share them. Closing it returns what was not handed on."""
        puller = pull_consumer.Puller(self._client, stream=streams.SUBSPACES, consumer=streams.CONSUMER)
        self._pullers.append(puller)
        try:
            async with contextlib.aclosing(puller.batches()) as batches:
                async for batch in batches:
                    yield list(batch)
        finally:
            self._pullers.remove(puller)

    async def acknowledge(self, items: Sequence[buses.QueueItem]) -> None:
        """Acknowledge messages in one write; what could not be sent comes again."""
        replies = [item.reply for item in items if isinstance(item, pull_consumer.QueueItem)]
        with contextlib.suppress(NatsError, OSError):
            await pull_consumer.acknowledge_all(self._client, replies)

    async def backlog(self) -> buses.Backlog:
        """Return how the streams and the work queue stand; for roles that may look at them."""
        with nats_server.Translated("streams"):
            return await jetstream.backlog(self._js)

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Return each node's newest advertisement."""
        with nats_server.Translated(streams.CAPACITY):
            read = direct_get.read(self._client, streams.CAPACITY, subjects.CAPACITY_ALL)
            # One that was replaced while we read has come twice: the later is the newer.
            return list({message.subject: message.payload async for message in read}.items())

    async def capacities_page(self, first_seq: int, most_bytes: int) -> buses.StoredPage:
        """Return what is stored of nodes' advertisements from `first_seq` on, as much as fits."""
        with nats_server.Translated(streams.CAPACITY):
            page = await direct_get.page_from(
                self._client, streams.CAPACITY, subjects.CAPACITY_ALL, first_seq=first_seq, most_bytes=most_bytes
            )
        found = [(message.subject, message.payload) for message in page.messages]
        following = page.messages[-1].seq + 1 if page.messages else first_seq
        return buses.StoredPage(messages=found, following_seq=following, left=page.left)

    async def put_model(self, payload: bytes) -> None:
        """Keep the model of the cluster for late joiners."""
        with nats_server.Translated("the model"):
            await self._js.publish(streams.MODEL_SUBJECT, payload, timeout=STORE_TIMEOUT_S)

    async def get_model(self) -> bytes | None:
        """Return the model kept last."""
        with nats_server.Translated("the model"):
            found = await direct_get.last(self._client, streams.MODEL_STREAM, streams.MODEL_SUBJECT)
        # A key that was deleted leaves an empty message.
        return found.payload if found is not None and found.payload else None

    async def put_usage(self, key: int, payload: bytes) -> None:
        """Keep what is known of the usage of some classes (`key`: 0 to USAGE_KEYS - 1)."""
        with nats_server.Translated("usage"):
            await self._js.publish(streams.usage_subject(key), payload, timeout=STORE_TIMEOUT_S)

    async def get_usage(self, key: int) -> bytes | None:
        """Return what was kept last under a key."""
        with nats_server.Translated("usage"):
            found = await direct_get.last(self._client, streams.USAGE_STREAM, streams.usage_subject(key))
        return found.payload if found is not None and found.payload else None

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
        """Return the newest `limit` of one Pod, or the last of each of the `limit` newest Pods; oldest first."""
        subject = subjects.decisions(namespace, pod)
        with nats_server.Translated(streams.DECISIONS):
            if namespace is None or pod is None:
                last = await direct_get.newest_of_each(self._client, streams.DECISIONS, subject, limit=limit)
                return [(message.subject, message.payload) for message in last]
            found: collections.deque[tuple[str, bytes]] = collections.deque(maxlen=limit)
            async for message in direct_get.read(self._client, streams.DECISIONS, subject):
                found.append((message.subject, message.payload))
            return list(found)

    async def recent_summaries(self) -> list[bytes]:
        """Return the summaries of the cluster that are kept, oldest first."""
        with nats_server.Translated(streams.HISTORY):
            read = direct_get.read(self._client, streams.HISTORY, subjects.SUMMARY)
            return [message.payload async for message in read]

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """Return the answer of a service. Raises `BusError` if that is an error."""
        with nats_server.Translated(subject):
            answer = await self._client.request(subject, payload, timeout=timeout_s)
        failure = (answer.headers or {}).get(requests.ERROR_HEADER)
        if failure is not None:
            raise errors.BusError(f"{subject}: {failure}")
        return bytes(answer.data)

    async def service_stats(self, name: str, *, within_s: float) -> list[tuple[float, bytes]]:
        """Return (seconds until it came, JSON) of each instance of a service; takes `within_s`."""
        return await self._ask_all(f"$SRV.STATS.{name}", b"", within_s=within_s)

    async def request_all(self, subject: str, payload: bytes, *, within_s: float) -> list[bytes]:
        """Return all answers that come in `within_s`; their number is unknown. Raises `BusUnavailable`."""
        return [answer for _, answer in await self._ask_all(subject, payload, within_s=within_s)]

    async def serve(self, service: buses.ServiceSpec) -> buses.ServiceHandle:
        """Answer the questions to a service."""
        # Imported here: most commands only ask, and NATS's services framework takes as long to import as our own bus.
        from carico_core.runtime.bus import services

        with nats_server.Translated(service.name):
            found = await services.serve(self._client, service)
            await self._settle()
        return found

    async def respond(
        self, subject: str, answer: "responders.Answer", *, group: str, on_dropped: Callable[[], None]
    ) -> "responders.Responder":
        """Answer requests that others of the `group` do not. Raises `BusUnavailable`."""
        from carico_core.runtime.bus import responders

        found = responders.Responder(self._client, answer, log=self._log, on_dropped=on_dropped)
        with nats_server.Translated(subject):
            await found.start(subject, group=group)
            await self._settle()
        return found

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` each time the bus is back."""
        self._upkeep.on_reconnect(callback)

    async def wait_closed(self) -> NoReturn:
        """Wait for the end of the connection. Raises `BusUnavailable` once it is closed for good."""
        await self._upkeep.wait_closed()

    async def close(self) -> None:
        """Leave the bus; what was published is flushed first."""
        await self._upkeep.end()
        if self._client.is_connected:
            with contextlib.suppress(NatsError, TimeoutError):
                await self._client.flush(timeout=1)
        with contextlib.suppress(NatsError):
            await self._client.close()

    async def check_inbox(self) -> None:
        """Raise `BusRefused` where no answer may reach us: our inboxes are those of another role."""
        await (await self.subscribe(self._client.new_inbox(), lambda *_: None)).unsubscribe()
        trouble = self._watch.trouble
        if trouble is not None and trouble.kind is refusals.Kind.RIGHT:
            raise errors.BusRefused(trouble.text)

    async def prepare(self) -> list[str]:
        """Check the server and, for a role that owns streams, create those that are missing; return their names.

        Raises `BusTooOld`, `EnvironmentUnfit` (no JetStream), `StreamMismatch`, `BusUnavailable`.
        """
        nats_server.check(self._client)
        if not self._owns_streams:
            return []
        with nats_server.Translated("streams"):
            return await jetstream.ensure(self._js, lease_s=self._lease_s, copies=self._copies)

    def keep_streams(self) -> None:
        """Make streams again that are deleted from now on."""
        self._upkeep.keep_streams(self._restart_pulls)

    def renew_by(self, renewal: "bus_renewal.Renewal") -> None:
        """Replace the connection before its token expires, from now on."""
        self._upkeep.renew_by(renewal)

    async def _subscribe(self, subject: str, take: Callable[[str, bytes, bytes], None]) -> buses.Subscription:
        """Call `take` with subject, headers and payload of each message, across reconnects."""
        with nats_server.Translated(subject):
            found = await self._client.subscribe_raw(subject, self._guarded(take))
            await self._settle()
        return _Subscription(found)

    def _guarded(self, take: Callable[[str, bytes, bytes], None]) -> "nats_client.Sink":
        def guarded(subject: str, reply: str, headers: bytes, payload: bytes) -> None:
            try:
                take(subject, headers, payload)
            except Exception:  # one message must not end the subscription of all
                self._log.exception("message handler failed", subject=subject)

        return guarded

    async def _ask_all(self, subject: str, payload: bytes, *, within_s: float) -> list[tuple[float, bytes]]:
        if not self._client.is_connected:
            raise errors.BusUnavailable(f"not connected to NATS: {subject} was not asked")
        with nats_server.Translated(subject):
            return await requests.ask_all(self._client, subject, payload, within_s=within_s)

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


class ReaderBus(NatsBus):
    """One connection of a reader, who asks an aggregator for what streams keep."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Return each node's newest advertisement."""
        return await kept.ask_capacities(self._ask)

    async def get_model(self) -> bytes | None:
        """Return the model kept last."""
        return await kept.ask_model(self._ask)

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
        """Return the newest `limit` of one Pod, or the last of each of the `limit` newest Pods; oldest first."""
        return await kept.ask_decisions(self._ask, namespace, pod, limit)

    async def recent_summaries(self) -> list[bytes]:
        """Return the summaries of the cluster that are kept, oldest first."""
        return await kept.ask_summaries(self._ask)

    async def _ask(self, subject: str, question: bytes) -> bytes:
        return await self.request(subject, question, timeout_s=kept.ANSWER_S)


async def connect(
    settings: buses.BusSettings, *,
    name: str, clock: clocks.Clock, owns_streams: bool = True, inbox: str = roles.INBOX,
    within_s: float | None = None, on_trouble: connection_options.OnTrouble = lambda _: None,
) -> NatsBus:  # fmt: skip
    """Return a bus that is connected and has its streams; waits for the server for as long as it takes, or `within_s`.

    `on_trouble`: called with each thing that goes wrong with the connection, now and later.

    Without `owns_streams` (agents) neither streams nor consumers are asked for, and no right to do so is needed: until
    another role has made them, what needs them raises `BusUnavailable`. `inbox`: the prefix of the role's inboxes.

    Raises `BusTooOld`, `StreamMismatch`, and `SettingsError` for credentials and certificates that cannot be read;
    after `within_s` `BusUnavailable`, or `BusRefused` where the server answers and does not let us in.
    """
    watch = connection_options.Watch(
        logs.get("bus", connection=name), settings, clock=clock, on_trouble=on_trouble
    )  # fmt: skip
    try:
        async with asyncio.timeout(within_s):
            return await _connect(settings, watch, name=name, clock=clock, owns_streams=owns_streams, inbox=inbox)
    except TimeoutError:
        if watch.trouble is not None and watch.trouble.kind in refusals.LASTING:
            raise errors.BusRefused(watch.trouble.text) from None
        why = "" if watch.trouble is None else f": {watch.trouble.text}"
        raise errors.BusUnavailable(f"cannot connect within {within_s:g} s{why}") from None


async def _connect(
    settings: buses.BusSettings, watch: connection_options.Watch, *,
    name: str, clock: clocks.Clock, owns_streams: bool, inbox: str,
) -> NatsBus:  # fmt: skip
    rng = random.Random(f"{name}{clock.wall_ns()}")
    options = connection_options.options(settings, name=name, inbox=inbox, watch=watch, rng=rng)
    make_tls = tls.context_maker(settings)
    make_client = functools.partial(nats_client.Client, make_tls, shows_certificate=bool(settings.tls_cert))
    client = make_client()
    await nats_server.join(client, options, watch, rng)
    is_reader = (settings.inbox_prefix or inbox) == roles.inbox(roles.Role.READER)
    bus = (ReaderBus if is_reader else NatsBus)(
        client, watch, name=name, lease_s=settings.lease_s, copies=settings.copies, owns_streams=owns_streams, rng=rng
    )
    try:
        await nats_server.until_ready(bus.prepare, watch=watch, rng=rng)
    except BaseException:
        await bus.close()
        raise
    if owns_streams:
        bus.keep_streams()
    if settings.token_file:
        bus.renew_by(
            bus_renewal.Renewal(
                client, make_client=make_client, options=options,
                token=pathlib.Path(settings.token_file), log=watch.log, clock=clock, rng=rng,
            )
        )  # fmt: skip
    watch.log.info("connected", url=nats_server.address(client), server=str(client.connected_server_version))
    return bus


class _Subscription:
    def __init__(self, found: "Subscription") -> None:
        self._found = found

    async def unsubscribe(self) -> None:
        with contextlib.suppress(NatsError):
            await self._found.unsubscribe()
