"""Requests that are sent in one write, and answered on one subscription."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from nats.errors import Error as NatsError

from carico_core.runtime.bus import requests
from tests.unit.scheduler import objects

ONE = requests.Request("a.one", b"1", b"Key: value\r\n")
TWO = requests.Request("a.two", b"22")


class Client:
    """A client of NATS that writes down what is sent."""

    def __init__(self) -> None:
        self.is_connected = True
        self.stats = {"out_msgs": 0, "out_bytes": 0}
        self.subscribed: list[str] = []
        self.written: list[bytes] = []
        self.sink: Callable[[str, str, bytes, bytes], None]

    def new_inbox(self) -> str:
        """The same one always."""
        return "_INBOX.me"

    async def subscribe_raw(self, subject: str, sink: Callable[[str, str, bytes, bytes], None]) -> None:
        """Keeps who is to be called."""
        self.subscribed.append(subject)
        self.sink = sink

    async def _send_command(self, command: bytes) -> None:
        self.written.append(command)

    async def _flush_pending(self) -> None:
        pass


def made() -> tuple[Client, requests.Requests]:
    client: Any = Client()
    return client, requests.Requests(client)


def test_all_requests_are_one_write_and_answers_come_in_any_order() -> None:
    async def main() -> None:
        client, asked = made()
        asking = asyncio.create_task(asked.ask([ONE, TWO], within_s=1.0))
        await asyncio.sleep(0)
        assert client.written == [
            b"HPUB a.one _INBOX.me.0 24 25\r\nNATS/1.0\r\nKey: value\r\n\r\n1\r\nPUB a.two _INBOX.me.1 2\r\n22\r\n"
        ]
        client.sink("_INBOX.me.1", "", b"", b"second")
        client.sink("_INBOX.me.0", "", b"NATS/1.0\r\n\r\n", b"first")
        assert await asking == [requests.Answer(b"NATS/1.0\r\n\r\n", b"first"), requests.Answer(b"", b"second")]
        assert (client.subscribed, client.stats) == (["_INBOX.me.*"], {"out_msgs": 2, "out_bytes": 3})

    objects.run_fast(main())


def test_the_first_requests_at_the_same_time_subscribe_once() -> None:
    async def main() -> None:
        client, asked = made()
        subscribe = client.subscribe_raw

        async def later(subject: str, sink: Callable[[str, str, bytes, bytes], None]) -> None:
            await asyncio.sleep(0.1)
            await subscribe(subject, sink)

        client.subscribe_raw = later  # type: ignore[method-assign]
        await asyncio.gather(asked.ask([ONE], within_s=0.1), asked.ask([TWO], within_s=0.1))
        assert client.subscribed == ["_INBOX.me.*"]
        assert len(client.written) == 2

    objects.run_fast(main())


def test_an_answer_that_is_late_or_comes_twice_answers_no_other_request() -> None:
    async def main() -> None:
        client, asked = made()
        first = asyncio.create_task(asked.ask([ONE, TWO], within_s=1.0))
        await asyncio.sleep(0.5)
        client.sink("_INBOX.me.0", "", b"", b"first")
        client.sink("_INBOX.me.0", "", b"", b"again")
        assert await first == [requests.Answer(b"", b"first"), None]
        second = asyncio.create_task(asked.ask([TWO], within_s=1.0))
        await asyncio.sleep(0)
        client.sink("_INBOX.me.1", "", b"", b"late")
        client.sink("_INBOX.me.another", "", b"", b"unasked")
        assert await second == [None]
        assert client.subscribed == ["_INBOX.me.*"]

    objects.run_fast(main())


def test_nothing_is_sent_without_a_connection() -> None:
    async def main() -> None:
        client, asked = made()
        client.is_connected = False
        with pytest.raises(NatsError):
            await asked.ask([ONE], within_s=1.0)
        assert client.written == []

    objects.run_fast(main())
