"""Reading what streams keep by the direct-get API (ADR-31), in pages: no consumer is made and none is left behind.

`multi_last` looks made for the newest of each subject, but answers 413 and nothing else above 1,024 subjects
(measured); pages of `next_by_subj` have no such limit.
"""

import asyncio
import dataclasses
import math
from collections.abc import AsyncIterator
from typing import Any

import orjson

from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.errors import Error as NatsError

    from carico_core.runtime.bus import nats_client
    from carico_core.runtime.bus.streams import pull_consumer

# A page ends with either. By bytes, or a server takes who reads thousands of large messages for one that does not keep
# up, and hangs up (`max_pending`).
PAGE_MESSAGES = 1000
PAGE_BYTES = 1 << 20
PAGE_TIMEOUT_S = 2.0
_END_OF_PAGE = "204"
_NOT_FOUND = "404"
_SUBJECT, _SEQUENCE, _LEFT = b"Nats-Subject", b"Nats-Sequence", b"Nats-Num-Pending"
# Of a number of 64 bits.
_DIGITS_MOST = 20
# A first look goes back as far as two messages of each subject take; eight times as far each time that was not enough.
_FIRST = 2
_WIDER = 8


@dataclasses.dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a stream."""

    seq: int
    subject: str
    payload: bytes


@dataclasses.dataclass(slots=True)
class Page:
    """What an answer holds, and how many messages of the subject come after it."""

    messages: list[StoredMessage] = dataclasses.field(default_factory=list)
    left: int = 0


async def read(
    client: nats_client.Client, stream: str, subject: str, *, first_seq: int = 1
) -> AsyncIterator[StoredMessage]:
    """Yield each message of `subject` (wildcards allowed) from `first_seq` on, oldest first; nats-py's errors.

    Reading ends with as many as there were at the first page: where 5,000 advertisements a second replace others, a
    reader that takes fewer would never reach the end.
    """
    left = math.inf
    while left > 0:
        page = await page_from(client, stream, subject, first_seq=first_seq)
        for message in page.messages:
            yield message
        if not page.messages:
            return
        left = min(left - len(page.messages), page.left)
        first_seq = page.messages[-1].seq + 1


async def page_from(
    client: nats_client.Client, stream: str, subject: str, *, first_seq: int, most_bytes: int = PAGE_BYTES
) -> Page:  # fmt: skip
    """Return the messages of `subject` from `first_seq` on, as many as a page holds. Raises nats-py's errors."""
    query = {"seq": first_seq, "next_by_subj": subject, "batch": PAGE_MESSAGES, "max_bytes": most_bytes}
    return await _ask(client, stream, query)


async def last(client: nats_client.Client, stream: str, subject: str) -> StoredMessage | None:
    """Return the last message of one subject, which stands in what is asked: a right can be given to it alone.

    Raises nats-py's errors.
    """
    found = (await _ask(client, f"{stream}.{subject}", None)).messages
    return found[-1] if found else None


async def newest(client: nats_client.Client, stream: str, subject: str) -> StoredMessage | None:
    """Return the last message of one subject, by the right to read the whole stream. Raises nats-py's errors."""
    found = (await _ask(client, stream, {"last_by_subj": subject})).messages
    return found[-1] if found else None


async def newest_of_each(client: nats_client.Client, stream: str, subject: str, *, limit: int) -> list[StoredMessage]:
    """The last message of each subject, of the `limit` subjects written last, oldest first. Raises nats-py's errors."""
    last_of_all = await newest(client, stream, subject)
    window = _FIRST * limit
    while last_of_all is not None:
        first_seq = max(1, last_of_all.seq - window + 1)
        found: dict[str, StoredMessage] = {}
        async for message in read(client, stream, subject, first_seq=first_seq):
            found.pop(message.subject, None)  # so that the order is that of the last messages
            found[message.subject] = message
        if len(found) >= limit or first_seq == 1:
            return list(found.values())[-limit:]
        window *= _WIDER
    return []


def stored(headers: bytes, payload: bytes) -> StoredMessage | None:
    """Return the message of a stream that an answer holds; None for an answer that holds none."""
    subject, seq = pull_consumer.header_of(headers, _SUBJECT), _number(headers, _SEQUENCE)
    return None if subject is None or seq is None else StoredMessage(seq, subject.decode(errors="replace"), payload)


def _number(headers: bytes, name: bytes) -> int | None:
    value = pull_consumer.header_of(headers, name) or b""
    return int(value) if value.isdigit() and len(value) <= _DIGITS_MOST else None


async def _ask(client: nats_client.Client, stream: str, query: dict[str, Any] | None) -> Page:
    """One answer: a single message, or several and a status that ends them."""
    found = Page()
    is_page = query is not None and "batch" in query
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_message(_subject: str, _reply: str, headers: bytes, payload: bytes) -> None:
        message = stored(headers, payload)
        if message is not None:
            found.messages.append(message)
        if ended.done() or (message is not None and is_page):
            return
        status, said = pull_consumer.status_of(headers) or (_END_OF_PAGE, "")
        if status in (_END_OF_PAGE, _NOT_FOUND):
            found.left = _number(headers, _LEFT) or 0
            ended.set_result(None)
        else:
            ended.set_exception(NatsError(f"{stream} answers {status} {said}".strip()))

    inbox = client.new_inbox()
    # Without nats-py's records of messages and headers, which take as long as all the rest.
    listening = await client.subscribe_raw(inbox, on_message)
    try:
        await client.publish(f"$JS.API.DIRECT.GET.{stream}", b"" if query is None else orjson.dumps(query), reply=inbox)
        async with asyncio.timeout(PAGE_TIMEOUT_S):
            await ended
    finally:
        await listening.unsubscribe()
    return found
