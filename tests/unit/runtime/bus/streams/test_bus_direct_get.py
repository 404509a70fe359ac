"""What a stream keeps is read in pages up to its end, which may move meanwhile."""

import asyncio
import types
from typing import Any, cast

import orjson

from carico_core.runtime.bus import nats_client
from carico_core.runtime.bus.streams import direct_get

STREAM, KEPT = "S", 2_500


def stored(subject: str, seq: int, *, before: bytes = b"") -> bytes:
    """Headers of a stored message, as the server writes them after those that it came with."""
    return b"NATS/1.0\r\n%sNats-Stream: S\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\n\r\n" % (
        before, subject.encode(), seq,
    )  # fmt: skip


class GrowingStream:
    """A client of a server that stores another page of messages whenever a page was read."""

    def __init__(self, grows_by: int) -> None:
        self.last = KEPT
        self._grows_by = grows_by
        self._sink: nats_client.Sink

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def subscribe_raw(self, subject: str, sink: nats_client.Sink) -> Any:
        async def unsubscribe() -> None:
            self.last += self._grows_by

        self._sink = sink
        return types.SimpleNamespace(unsubscribe=unsubscribe)

    async def publish(self, subject: str, payload: bytes, reply: str) -> None:
        assert self.last < 100 * KEPT, "it is read without end"
        asked = orjson.loads(payload)
        end = min(asked["seq"] + asked["batch"], self.last + 1)
        for seq in range(asked["seq"], end):
            self._sink("_INBOX.x", "", stored(f"n.{seq % KEPT}", seq), b"x")
        headers = f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {self.last - end + 1}\r\n\r\n"
        self._sink("_INBOX.x", "", headers.encode(), b"")


def read(stream: GrowingStream) -> list[int]:
    async def reading() -> list[int]:
        return [each.seq async for each in direct_get.read(cast(Any, stream), STREAM, "n.>")]

    return asyncio.run(reading())


def test_all_is_read_once() -> None:
    assert read(GrowingStream(0)) == list(range(1, KEPT + 1))


def test_a_stream_that_grows_faster_than_it_is_read_ends_where_it_did() -> None:
    found = read(GrowingStream(direct_get.PAGE_MESSAGES + 1))
    assert found[:KEPT] == list(range(1, KEPT + 1))
    assert len(found) <= KEPT + direct_get.PAGE_MESSAGES


def test_headers_of_a_message_s_writer_do_not_replace_those_of_the_server() -> None:
    chosen = b"Nats-Subject: other\r\nNats-Sequence: 9\r\n"
    found = direct_get.stored(stored("n.1", 3, before=chosen), b"x")
    assert found == direct_get.StoredMessage(3, "n.1", b"x")
    for headers in (b"", b"NATS/1.0 404 Message Not Found\r\n\r\n", b"NATS/1.0\r\n" + chosen[:21] + b"\r\n"):
        assert direct_get.stored(headers, b"x") is None
    for number in (b"", b"x", b"-1", b"9" * 5000):
        assert direct_get.stored(b"NATS/1.0\r\nNats-Subject: n\r\nNats-Sequence: " + number + b"\r\n\r\n", b"") is None
