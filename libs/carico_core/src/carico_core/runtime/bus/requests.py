"""Many requests in one write, and their answers on one subscription; and one request that many answer.

nats-py's own `request` costs a task, a timer, a future and a random name for each; a scheduler that shares the work
sends one for each node of a cycle, and spent more time on that than on the rest of a commit.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.errors import Error as NatsError

    from carico_core.runtime.bus import nats_client

# With what NATS's services framework says why there is no answer (ADR-32). `services` is not imported for it: who only
# asks does not load that framework.
ERROR_HEADER = "Nats-Service-Error"
# The status of a request without subscribers: https://docs.nats.io/nats-concepts/core-nats/reqreply
_NO_RESPONDERS = "503"


class Request(NamedTuple):
    """What is asked. `headers`: lines that end with CRLF, or empty."""

    subject: str
    payload: bytes
    headers: bytes = b""


class Answer(NamedTuple):
    """What came: headers as they were, empty where there are none."""

    headers: bytes
    payload: bytes


class _Batch:
    def __init__(self, size: int) -> None:
        self.answers: list[Answer | None] = [None] * size
        self.missing = size
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Requests:
    """The requests of one connection."""

    def __init__(self, client: "nats_client.Client") -> None:
        self._client = client
        self._numbers = itertools.count()
        self._prefix = ""
        self._listening = asyncio.Lock()
        # The requests without an answer, by the last token of their reply subject.
        self._open: dict[str, tuple[_Batch, int]] = {}

    async def ask(self, requests: Sequence[Request], *, within_s: float) -> list[Answer | None]:
        """Return the answer to each; None to those that had none in time.

        Raises nats-py's errors if they cannot be sent.
        """
        await self._listen()
        if not self._client.is_connected:
            raise NatsError("not connected")
        batch, tokens, parts = _Batch(len(requests)), [], []
        for index, each in enumerate(requests):
            token = str(next(self._numbers))
            tokens.append(token)
            self._open[token] = (batch, index)
            parts.append(_command(each, self._prefix + token))
        try:
            # nats-py offers no batch: this is its inner door, as in `pull_consumer`.
            await self._client._send_command(b"".join(parts))
            self._client.stats["out_msgs"] += len(parts)
            self._client.stats["out_bytes"] += sum(len(each.payload) for each in requests)
            await self._client._flush_pending()
            try:
                async with asyncio.timeout(within_s):
                    await batch.ended
            except TimeoutError:
                pass
        finally:
            for token in tokens:
                self._open.pop(token, None)
        return batch.answers

    async def _listen(self) -> None:
        """Subscribe once; the subscription is renewed with the connection."""
        async with self._listening:
            if not self._prefix:
                prefix = self._client.new_inbox() + "."
                await self._client.subscribe_raw(prefix + "*", self._take)
                self._prefix = prefix

    def _take(self, subject: str, _: str, headers: bytes, payload: bytes) -> None:
        found = self._open.pop(subject[len(self._prefix) :], None)
        if found is None:
            # Too late.
            return
        batch, index = found
        batch.answers[index] = Answer(headers, payload)
        batch.missing -= 1
        if not batch.missing and not batch.ended.done():
            batch.ended.set_result(None)


def _command(request: Request, reply: str) -> bytes:
    subject, payload = request.subject, request.payload
    if not request.headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(payload), payload)
    headers = b"NATS/1.0\r\n%s\r\n" % request.headers
    size = len(headers)
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
        subject.encode(), reply.encode(), size, size + len(payload), headers, payload,
    )  # fmt: skip


async def ask_all(client: Client, subject: str, payload: bytes = b"", *, within_s: float) -> list[tuple[float, bytes]]:
    """(seconds until it came, payload) of each answer that comes in time; none where there is no subscriber."""
    loop = asyncio.get_running_loop()
    found: list[tuple[float, bytes]] = []
    no_responders = asyncio.Event()

    async def on_answer(message: Msg) -> None:
        if not message.data and (message.headers or {}).get("Status") == _NO_RESPONDERS:
            no_responders.set()
        else:
            found.append((loop.time() - asked_s, bytes(message.data)))

    inbox = client.new_inbox()
    listening = await client.subscribe(inbox, cb=on_answer)
    asked_s = loop.time()
    try:
        await client.publish(subject, payload, reply=inbox)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await no_responders.wait()
    finally:
        await listening.unsubscribe()
    return found
