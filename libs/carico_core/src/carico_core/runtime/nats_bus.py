"""The bus on NATS with JetStream, by nats-py; together with `bus_streams` the only importer of `nats`.

Rules that were measured (docs of nats-py do not say them): callbacks must never raise, or the read loop dies while
`is_connected` stays true; nothing is buffered while disconnected; pulls are asked for anew at a reconnect (`bus_pull`).
"""

import asyncio
import contextlib
import pathlib
import random
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import orjson

from carico_core.domain import errors
from carico_core.runtime import bus as buses
from carico_core.runtime import clock as clocks
from carico_core.runtime import logs, optional_imports

with optional_imports.hidden("aiohttp"):
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.errors import Error as NatsError
    from nats.js import JetStreamContext
    from nats.js.errors import Error as JetStreamError
    from nats.js.errors import KeyNotFoundError, NoKeysError

    from carico_core.runtime import bus_pull, bus_service, bus_streams
from carico_core.wire import subjects

# 2.12 brought atomic batches of direct gets and per-subject schedules; what is tested here starts there.
MINIMUM_VERSION = (2, 12)
CONNECT_TIMEOUT_S = 5
# A half-open connection is noticed after two missed pings.
PING_INTERVAL_S = 5
RECONNECT_FIRST_S = 0.1
RECONNECT_MOST_S = 2.0
STORE_TIMEOUT_S = 2.0
# A subscription that falls this far behind drops the newest messages: bound it well above one second of 10,000 nodes.
PENDING_MESSAGES = 100_000
PENDING_BYTES = 256 * 1024 * 1024


class NatsBus:
    """One connection. Made by `connect`."""

    def __init__(self, client: Client, *, name: str, lease_s: float) -> None:
        self._client = client
        self._js: JetStreamContext = client.jetstream(timeout=STORE_TIMEOUT_S)
        self._lease_s = lease_s
        self._log = logs.get("bus", connection=name)
        self._closed = asyncio.Event()
        self.closing = False
        self._reconnect_callbacks: list[Callable[[], None]] = []
        self._pullers: list[bus_pull.Puller] = []

    @property
    def connected(self) -> bool:
        """True while messages can be sent."""
        return bool(self._client.is_connected)

    async def publish(self, subject: str, payload: bytes) -> None:
        """Sends to whoever listens now."""
        if not self._client.is_connected:
            raise errors.BusUnavailable(f"not connected to NATS: {subject} was not sent")
        with _translated(subject):
            await self._client.publish(subject, payload)

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Calls `handler` for each message of `subject`, across reconnects."""

        async def on_message(message: Msg) -> None:
            try:
                handler(message.subject, message.data)
            except Exception:  # one message must not end the subscription of all
                self._log.exception("message handler failed", subject=message.subject)

        with _translated(subject):
            found = await self._client.subscribe(
                subject, cb=on_message, pending_msgs_limit=PENDING_MESSAGES, pending_bytes_limit=PENDING_BYTES
            )
            # The command is written by the flusher: give it its turn, or messages of the next instant are missed.
            await asyncio.sleep(0)
        return _Subscription(found)

    async def enqueue(self, subject: str, payload: bytes, *, msg_id: str) -> None:
        """Stores into the work queue."""
        if not self._client.is_connected:
            raise errors.BusUnavailable(f"not connected to NATS: {subject} was not stored")
        with _translated(subject):
            await self._js.publish(subject, payload, timeout=STORE_TIMEOUT_S, headers={"Nats-Msg-Id": msg_id})

    async def pull(self) -> AsyncIterator[list[buses.QueueItem]]:
        """Batches of the work queue: whatever is there, as soon as something is."""
        puller = bus_pull.Puller(self._client, stream=bus_streams.SUBSPACES, consumer=bus_streams.CONSUMER)
        self._pullers.append(puller)
        try:
            async for batch in puller.batches():
                yield [_QueueItem(self._client, message) for message in batch]
        finally:
            self._pullers.remove(puller)

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Each node's newest advertisement."""
        return await self._direct(bus_streams.CAPACITY, {"multi_last": [subjects.CAPACITY_ALL]})

    async def put_model(self, payload: bytes) -> None:
        """Keeps the model of the cluster."""
        with _translated("the model"):
            bucket = await self._js.key_value(bus_streams.MODEL_BUCKET)
            await bucket.put(bus_streams.MODEL_KEY, payload)

    async def get_model(self) -> bytes | None:
        """The model kept last."""
        with _translated("the model"):
            bucket = await self._js.key_value(bus_streams.MODEL_BUCKET)
            try:
                return (await bucket.get(bus_streams.MODEL_KEY)).value
            except (KeyNotFoundError, NoKeysError):
                return None

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
        """All kept of one Pod, oldest first, or the last one of each Pod."""
        subject = subjects.decisions(namespace, pod)
        if namespace is not None and pod is not None:
            query: dict[str, Any] = {"seq": 1, "next_by_subj": subject, "batch": limit}
        else:
            query = {"multi_last": [subject], "batch": limit}
        return await self._direct(bus_streams.DECISIONS, query)

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """The answer of a service."""
        with _translated(subject):
            answer = await self._client.request(subject, payload, timeout=timeout_s)
        failure = (answer.headers or {}).get(bus_service.ERROR_HEADER)
        if failure is not None:
            raise errors.BusError(f"{subject}: {failure}")
        return bytes(answer.data)

    async def serve(self, service: buses.ServiceSpec) -> buses.ServiceHandle:
        """Answers the questions to a service."""
        with _translated(service.name):
            return await bus_service.serve(self._client, service)

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Calls `callback` each time the bus is back."""
        self._reconnect_callbacks.append(callback)

    async def wait_closed(self) -> None:
        """Returns once the connection is closed for good."""
        await self._closed.wait()

    async def close(self) -> None:
        """Leaves the bus; what was published is flushed first."""
        self.closing = True
        if self._client.is_connected:
            with contextlib.suppress(NatsError, TimeoutError):
                await self._client.flush(timeout=1)
        with contextlib.suppress(NatsError):
            await self._client.close()

    async def prepare(self) -> None:
        """Checks the server and creates streams. Raises `BusTooOld`, `StreamMismatch`, `BusUnavailable`."""
        self._check_version()
        with _translated("streams"):
            await bus_streams.ensure(self._js, lease_s=self._lease_s)

    def reconnected(self) -> None:
        """The connection is back: work that waits for the old one starts over, and others are told."""
        for puller in self._pullers:
            puller.restart()
        for callback in self._reconnect_callbacks:
            try:
                callback()
            except Exception:  # a raising callback would end nats-py's reconnecting
                self._log.exception("reconnect callback failed")

    def closed(self) -> None:
        """The connection is gone for good."""
        self._closed.set()

    async def _direct(self, stream: str, query: dict[str, Any]) -> list[tuple[str, bytes]]:
        """A batch by the direct-get API (ADR-31), which answers with many messages and a status at the end."""
        found: list[tuple[str, bytes]] = []
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def on_message(message: Msg) -> None:
            headers = message.headers or {}
            if "Nats-Subject" in headers:
                found.append((headers["Nats-Subject"], message.data))
            elif not ended.done():
                ended.set_result(None)

        inbox = self._client.new_inbox()
        with _translated(stream):
            listening = await self._client.subscribe(inbox, cb=on_message)
            try:
                await self._client.publish(f"$JS.API.DIRECT.GET.{stream}", orjson.dumps(query), reply=inbox)
                await asyncio.wait_for(ended, STORE_TIMEOUT_S)
            finally:
                await listening.unsubscribe()
        return found

    def _check_version(self) -> None:
        version = self._client.connected_server_version
        if (version.major, version.minor) < MINIMUM_VERSION:
            got = f"{version.major}.{version.minor}.{version.patch}"
            minimum = ".".join(map(str, MINIMUM_VERSION))
            raise errors.BusTooOld(got=got, minimum=minimum, url=_address(self._client))


async def connect(settings: buses.BusSettings, *, name: str, clock: clocks.Clock) -> NatsBus:
    """A bus that is connected and has its streams; waits for the server for as long as it takes.

    Raises `BusTooOld`, `StreamMismatch`, and `SettingsError` for credentials that cannot be read.
    """
    rng = random.Random(f"{name}{clock.wall_ns()}")
    watch = _Watch(logs.get("bus", connection=name))
    client = Client()
    options = _options(settings, name, watch, rng)
    while True:
        try:
            await client.connect(**options)
            break
        except (OSError, NatsError, TimeoutError) as error:
            await watch.on_error(error)
            await asyncio.sleep(rng.uniform(RECONNECT_FIRST_S, RECONNECT_MOST_S))
    bus = NatsBus(client, name=name, lease_s=settings.lease_s)
    watch.bus = bus
    while True:
        try:
            await bus.prepare()
        except errors.BusUnavailable as error:
            watch.log.warning("JetStream is not ready", error=str(error))
            await asyncio.sleep(rng.uniform(RECONNECT_FIRST_S, RECONNECT_MOST_S))
        except errors.UserError:
            await bus.close()
            raise
        else:
            watch.log.info("connected", url=_address(client), server=str(client.connected_server_version))
            return bus


def _options(settings: buses.BusSettings, name: str, watch: "_Watch", rng: random.Random) -> dict[str, Any]:
    return {
        "servers": [part.strip() for part in settings.url.split(",")],
        "name": name,
        "error_cb": watch.on_error,
        "disconnected_cb": watch.on_disconnect,
        "reconnected_cb": watch.on_reconnect,
        "closed_cb": watch.on_close,
        "max_reconnect_attempts": -1,
        # Jitter, so that a thousand agents do not come back in one instant.
        "reconnect_time_wait": rng.uniform(RECONNECT_FIRST_S, RECONNECT_MOST_S),
        "ping_interval": PING_INTERVAL_S,
        "max_outstanding_pings": 2,
        "connect_timeout": CONNECT_TIMEOUT_S,
        # Negative: publishing while disconnected raises. Old signals are worthless.
        "pending_size": -1,
        **_identity(settings),
    }


def _identity(settings: buses.BusSettings) -> dict[str, Any]:
    """Options of whatever proves who we are. Raises `SettingsError` where a file cannot be read."""
    found: dict[str, Any] = {}
    for path in (settings.credentials, settings.nkey, settings.token_file, settings.tls_ca, settings.tls_cert):
        if path and not pathlib.Path(path).is_file():
            raise errors.SettingsError(f"bus: got {path}, expected a file that can be read")
    if settings.credentials:
        found["user_credentials"] = settings.credentials
    if settings.nkey:
        found["nkeys_seed"] = settings.nkey
    if settings.token_file:
        found["token"] = lambda: pathlib.Path(settings.token_file).read_text().strip()
    if settings.tls_ca or settings.tls_cert:
        context = ssl.create_default_context(cafile=settings.tls_ca or None)
        if settings.tls_cert:
            context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
        found["tls"] = context
    return found


def _address(client: Client) -> str:
    """host:port of the server, without credentials."""
    url = client.connected_url
    return "?" if url is None else f"{url.hostname}:{url.port}"


class _Watch:
    """The client's callbacks: one line per change of state, and never an exception."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.bus: NatsBus | None = None
        self._away = False

    async def on_error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if re.search("authorization|permissions|authentication", text, re.IGNORECASE):
            self.log.error("refused by NATS", error=text)
        elif not self._away:
            self._away = isinstance(error, OSError)
            self.log.warning("NATS is away" if self._away else "NATS error", error=text)

    async def on_disconnect(self) -> None:
        if self.bus is None or not self.bus.closing:
            self.log.warning("disconnected from NATS")
        self._away = True

    async def on_reconnect(self) -> None:
        self._away = False
        self.log.info("reconnected to NATS")
        if self.bus is not None:
            self.bus.reconnected()

    async def on_close(self) -> None:
        if self.bus is not None:
            self.bus.closed()


class _Subscription:
    def __init__(self, found: Any) -> None:
        self._found = found

    async def unsubscribe(self) -> None:
        with contextlib.suppress(NatsError):
            await self._found.unsubscribe()


class _QueueItem:
    __slots__ = ("_client", "_message", "payload", "subject")

    def __init__(self, client: Client, message: Msg) -> None:
        self._client = client
        self._message = message
        self.subject: str = message.subject
        self.payload: bytes = message.data

    async def ack(self) -> None:
        # What is not acknowledged comes again, and is then dropped as not newer: nothing to mend here.
        with contextlib.suppress(errors.BusUnavailable):
            await bus_pull.acknowledge(self._client, self._message, b"")

    async def term(self) -> None:
        with contextlib.suppress(errors.BusUnavailable):
            await bus_pull.acknowledge(self._client, self._message, b"+TERM")


@contextlib.contextmanager
def _translated(what: str) -> Iterator[None]:
    """Foreign exceptions become ours, here and nowhere else; and a cancellation that nats-py lost is raised again.

    nats-py waits with `asyncio.wait_for`, which before Python 3.12 returns its result and forgets a cancellation that
    arrives in the same turn of the loop (python/cpython#86296). A service under load then did not end on SIGTERM.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        yield
    except (NatsError, JetStreamError, TimeoutError, OSError) as error:
        raise errors.BusUnavailable(f"{what}: {str(error) or type(error).__name__}") from error
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
