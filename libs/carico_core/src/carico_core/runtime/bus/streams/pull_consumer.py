"""Pulling from a JetStream consumer with standing requests and a callback, in place of nats-py's `fetch`.

`fetch(n)` sits on messages that are there, has to be cancelled at a reconnect, and costs a task and a timer a message:
9,000 messages a second end to end, where this takes in over twice as many. Here a request for many messages stands
at the server, what comes is handed on at once, and a new request follows before the old one is used up. The protocol
is that of NATS' ADR-15 (`$JS.API.CONSUMER.MSG.NEXT`): a request ends with a status message or with its last message.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Sequence

import orjson

from carico_core.runtime.bus import nats_client
from carico_core.runtime.observe import logs
from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription
    from nats.errors import Error as NatsError

# Messages asked for at once, which also bounds what waits here; the next request goes out when half of it has come.
REQUEST_MESSAGES = 512
# A request that found nothing for this long ends by itself, and is made again.
EXPIRES_S = 30.0
# After an answer that says more than "nothing there" (consumer gone, server stopping): do not ask in a loop.
REFUSED_S = 0.5
LEAVE_S = 1.0
_NOTHING = "408"
_PENDING = b"Nats-Pending-Messages"
_ACKNOWLEDGED_ON = "$JS.ACK."
_STATUS = re.compile(rb"NATS/1\.0 (\d{3})(?: ([^\r]*))?\r\n")


class QueueItem:
    """One message of a consumer."""

    __slots__ = ("_client", "payload", "reply", "subject")

    def __init__(self, client: Client, subject: str, reply: str, payload: bytes) -> None:
        self._client = client
        self.subject = subject
        self.reply = reply
        self.payload = payload

    async def term(self) -> None:
        """It is poison: never again."""
        # What could not be answered comes again, and is refused again.
        with contextlib.suppress(NatsError):
            await self._client.publish(self.reply, b"+TERM")


class Puller:
    """The messages of one durable consumer, by batches of what has come."""

    def __init__(self, client: nats_client.Client, *, stream: str, consumer: str) -> None:
        self._client = client
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._request = orjson.dumps({"batch": REQUEST_MESSAGES, "expires": int(EXPIRES_S * 1e9)})
        self._log = logs.get("bus", consumer=consumer)
        self._come: list[QueueItem] = []
        self._wake = asyncio.Event()
        # How many messages the server still owes us for requests made.
        self._owed = 0
        self._refused: str | None = None

    def restart(self) -> None:
        """Forget the requests that were made: the server of a new connection knows none."""
        self._owed = 0
        self._wake.set()

    async def batches(self) -> AsyncGenerator[list[QueueItem], None]:
        """Yield what has come, as soon as something has; for ever."""
        inbox = self._client.new_inbox()
        listening = await self._client.subscribe_raw(inbox, self._on_message)
        try:
            while True:
                await self._ask(inbox)
                await self._wait()
                if self._come:
                    come, self._come = self._come, []
                    yield come
        finally:
            await self._leave(listening)

    async def _leave(self, listening: Subscription) -> None:
        """Give back what has come and was not handed on, so that other replicas get it now and not after its wait."""
        with contextlib.suppress(NatsError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await listening.drain()  # type: ignore[no-untyped-call]  # nats-py leaves it without types
                for message in self._come:
                    await self._client.publish(message.reply, b"-NAK")

    async def _ask(self, inbox: str) -> None:
        if self._refused is not None:
            self._log.warning("the queue refuses", answer=self._refused)
            self._refused = None
            await asyncio.sleep(REFUSED_S)
        if self._owed > REQUEST_MESSAGES // 2 or not self._client.is_connected:
            return
        # Counted before it is sent: an answer may arrive within the same turn of the loop.
        self._owed += REQUEST_MESSAGES
        try:
            await self._client.publish(self._subject, self._request, reply=inbox)
        except NatsError:
            # Not connected any more: `restart` follows.
            self._owed = 0

    async def _wait(self) -> None:
        """Until something happens; a request that got lost on the way is noticed by its expiry."""
        try:
            async with asyncio.timeout(EXPIRES_S + 5.0):
                await self._wake.wait()
        except TimeoutError:
            self._owed = 0
        self._wake.clear()

    def _on_message(self, subject: str, reply: str, headers: bytes, payload: bytes) -> None:
        status = status_of(headers) if headers and not payload else None
        if status is None:
            # What another client sends to this inbox is no message of the queue, and its reply must not be answered:
            # an empty one would have the server hang up.
            if reply.startswith(_ACKNOWLEDGED_ON):
                self._owed -= 1
                self._come.append(QueueItem(self._client, subject, reply, payload))
        elif status[0] != "100":
            self._end(*status, headers)
        self._wake.set()

    def _end(self, status: str, description: str, headers: bytes) -> None:
        """Note that a request has ended before all of it had come."""
        if status != _NOTHING:
            self._refused = f"{status} {description}".strip()
        try:
            self._owed = max(0, self._owed - int(header_of(headers, _PENDING) or b""))
        except ValueError:
            self._owed = 0


async def acknowledge_all(client: Client, replies: Sequence[str]) -> None:
    """Acknowledge many messages in one write. Raises nats-py's errors.

    `publish` costs 4 us of coroutines and checks a message, a tenth of what taking in a report costs altogether; the
    subjects are the server's own, so that nothing is left to check. nats-py offers no batch: this is its inner door.
    """
    if not replies or not client.is_connected:
        return
    await client._send_command(b"".join([b"PUB %s 0\r\n\r\n" % reply.encode() for reply in replies]))
    client.stats["out_msgs"] += len(replies)
    await client._flush_pending()


def status_of(headers: bytes) -> tuple[str, str] | None:
    """Code and description of a status message of the server; None for any other.

    >>> status_of(b"NATS/1.0 408 Request Timeout\\r\\n\\r\\n")
    ('408', 'Request Timeout')
    """
    found = _STATUS.match(headers)
    return None if found is None else (found[1].decode(), (found[2] or b"").decode(errors="replace"))


def header_of(headers: bytes, name: bytes) -> bytes | None:
    """Return the value of the last header of that name; None where there is none.

    The server adds its own after those of a stored message, whose writer could have chosen the same names.
    """
    _, found, rest = headers.rpartition(b"\r\n" + name + b": ")
    return rest.partition(b"\r\n")[0] if found else None
