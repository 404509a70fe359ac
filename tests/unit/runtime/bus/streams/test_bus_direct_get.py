"""What a stream keeps is read in pages up to its end, which may move meanwhile."""

import asyncio
import types
from collections.abc import Awaitable, Callable
from typing import Any, cast

import orjson

from carico_core.runtime.bus.streams import direct_get

STREAM, KEPT = "S", 2_500
Take = Callable[[Any], Awaitable[None]]


class GrowingStream:
    """A client of a server that stores another page of messages whenever a page was read."""

    def __init__(self, grows_by: int) -> None:
        self.last = KEPT
        self._grows_by = grows_by
        self._take: Take

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def subscribe(self, subject: str, cb: Take) -> Any:
        async def unsubscribe() -> None:
            self.last += self._grows_by

        self._take = cb
        return types.SimpleNamespace(unsubscribe=unsubscribe)

    async def publish(self, subject: str, payload: bytes, reply: str) -> None:
        assert self.last < 100 * KEPT, "it is read without end"
        asked = orjson.loads(payload)
        end = min(asked["seq"] + asked["batch"], self.last + 1)
        for seq in range(asked["seq"], end):
            headers = {"Nats-Subject": f"n.{seq % KEPT}", "Nats-Sequence": str(seq)}
            await self._take(types.SimpleNamespace(headers=headers, data=b"x"))
        headers = {"Status": "204", "Nats-Num-Pending": str(self.last - end + 1)}
        await self._take(types.SimpleNamespace(headers=headers, data=b""))


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
