"""Requests by the short way: answers come out whole however they arrive; none is sent twice that must not be."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from carico_core.runtime.kube import http_answer as answers
from carico_core.runtime.kube import http_client
from tests.tools import waiting

LIMIT_BYTES = 10_000
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nX-A: b\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3;ext=1\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN
EMPTY = b"HTTP/1.1 204 No Content\r\nDate: now\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
TO_THE_END = b"HTTP/1.0 200 OK\r\n\r\nhello"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.mark.parametrize(
    ("text", "status", "body", "keeps"),
    [
        (PLAIN, 200, b"hello", True),
        (CHUNKED, 201, b"hello", True),
        (CONTINUED, 200, b"hello", True),
        (EMPTY, 204, b"", True),
        (CLOSING, 200, b"hello", False),
        (PLAIN + b"more", 200, b"hello", False),
        (CHUNKED + b"more", 201, b"hello", False),
    ],
)
def test_an_answer_is_the_same_however_it_arrives(text: bytes, status: int, body: bytes, keeps: bool) -> None:
    rng = random.Random(1)
    cuts = [[len(text)], [1] * len(text), *([rng.randrange(1, 9) for _ in text] for _ in range(20))]
    for sizes in cuts:
        reader, position, found = answers.Reader(LIMIT_BYTES), 0, None
        for size in sizes:
            found = found or reader.feed(text[position : position + size])
            position += size
            if found is not None:
                break
        assert found == answers.Answer(status, body)
        # What comes in a later read is refused by the connection, which waits for nothing then.
        assert reader.keeps == keeps or position < len(text)


def test_answers_follow_one_another() -> None:
    reader = answers.Reader(LIMIT_BYTES)
    for text, status, body in ((CONTINUED, 200, b"hello"), (CHUNKED, 201, b"hello"), (EMPTY, 204, b"")) * 2:
        touched = [reader.is_untouched, reader.feed(text[:7]), reader.is_untouched]
        assert touched == [True, None, False]
        assert reader.feed(text[7:]) == answers.Answer(status, body)
        assert reader.keeps


def test_an_answer_may_end_with_its_connection() -> None:
    reader = answers.Reader(LIMIT_BYTES)
    assert reader.feed(TO_THE_END) is None
    assert reader.end() == answers.Answer(200, b"hello")
    assert not reader.keeps


@pytest.mark.parametrize("text", [PLAIN[:-1], CHUNKED[:-2], b"HTTP/1.1 200 OK\r\n", b""])
def test_half_an_answer_is_none(text: bytes) -> None:
    reader = answers.Reader(LIMIT_BYTES)
    assert reader.feed(text) is None
    assert reader.end() is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", answers.BadAnswer),
        (b"x" * (answers.HEAD_LIMIT_BYTES + 1), answers.BadAnswer),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", answers.BadAnswer),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", answers.BadAnswer),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", answers.BadAnswer),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", answers.BadAnswer),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", answers.BadAnswer),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", answers.BadAnswer),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n", answers.TooLong),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + b"x" * 10_001, answers.TooLong),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10_001, answers.TooLong),
    ],
)
def test_what_is_no_answer_is_refused(text: bytes, error: type[OSError]) -> None:
    with pytest.raises(error):
        answers.Reader(LIMIT_BYTES).feed(text)


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[http_client.Server]:
    """A client of a server that answers by `serve`, once a connection."""

    connections: list[asyncio.Task[None]] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.append(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()

    listening = await asyncio.start_server(one, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server = http_client.Server(
        f"http://127.0.0.1:{port}/base/", tls=None, server_hostname=None, headers={"User-Agent": "test"},
        connect_timeout_s=5.0, limit_bytes=LIMIT_BYTES, configure=http_client.keep_alive,
    )  # fmt: skip
    async with listening, asyncio.timeout(waiting.WAIT_S):
        yield server
        server.close()
        await asyncio.gather(*connections)


async def ask(server: http_client.Server, method: str, path: str = "/x", **more: str) -> answers.Answer:
    return await server.request(method, path, params=None, headers=more, body=b"{}")


async def read(reader: asyncio.StreamReader) -> bytes:
    """One request with a body of two bytes."""
    return await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2)


async def test_a_connection_is_used_again_and_a_request_is_what_it_should_be() -> None:
    seen: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append([])
        while True:
            seen[-1].append(await read(reader))
            writer.write(PLAIN)

    async with serving(serve) as server:
        assert await ask(server, "POST", Authorization="Bearer t") == answers.Answer(200, b"hello")
        found = await server.request("GET", "/a b", params={"limit": "5", "continue": "x=/&"}, headers={}, body=b"{}")
        assert found.status == 200
    assert len(seen) == 1
    first, second = seen[0]
    lines = first.split(b"\r\n")
    assert lines[0] == b"POST /base/x HTTP/1.1"
    assert {b"User-Agent: test", b"Authorization: Bearer t", b"Content-Length: 2"} < set(lines)
    assert second.startswith(b"GET /base/a%20b?limit=5&continue=x%3D%2F%26 HTTP/1.1\r\n")


def test_services_run_on_another_loop() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await read(reader)
            writer.write(PLAIN)

    async def main() -> list[bytes]:
        async with serving(serve) as server:
            return [(await ask(server, "POST")).body for _ in range(2)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == [b"hello", b"hello"]


class HastyLoop(uvloop.Loop):
    """A loop whose connections have ended by the time they are made, as where the server is killed at that moment."""

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        made: Any = await super().create_connection(*arguments, **options)
        transport, connection = made
        transport.abort()
        while connection._transport is not None:
            await asyncio.sleep(0)
        return made


def test_a_connection_that_ends_as_it_is_made_is_a_failure_of_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with serving(serve) as server:
            await ask(server, "POST")

    with asyncio.Runner(loop_factory=HastyLoop) as runner, pytest.raises(http_client.Ended):
        runner.run(main())


@pytest.mark.parametrize(("method", "sent"), [("GET", 3), ("POST", 2)])
async def test_only_what_may_be_repeated_is_sent_again(method: str, sent: int) -> None:
    """The second request on a connection gets no answer: it may have been carried out."""
    arrived = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        await read(reader)
        arrived += 1
        writer.write(PLAIN)
        await read(reader)
        arrived += 1

    async with serving(serve) as server:
        await ask(server, method)
        if method == "POST":
            with pytest.raises(http_client.Ended):
                await ask(server, method)
        else:
            assert (await ask(server, method)).status == 200
        assert arrived == sent


async def test_a_connection_that_a_server_has_closed_is_not_used_again() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read(reader)
        writer.write(CLOSING if connections == 1 else PLAIN)

    async with serving(serve) as server:
        for _ in range(2):
            assert (await ask(server, "POST")).body == b"hello"
        assert connections == 2


async def test_an_unrequested_answer_ends_a_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read(reader)
        writer.write(PLAIN)
        await writer.drain()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await read(reader)
        writer.write(EMPTY)

    async with serving(serve) as server:
        first = await ask(server, "POST")
        assert first.status == 200
        while any(each.is_open for each in server._idle):
            await asyncio.sleep(0)
        assert (await ask(server, "POST")).status == 200


async def test_a_request_that_is_given_up_takes_its_connection_along() -> None:
    connections = 0
    silent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read(reader)
        if connections == 1:
            silent.set()
            await reader.read()
        writer.write(PLAIN)
        await reader.read()

    async with serving(serve) as server:
        asking = asyncio.create_task(ask(server, "POST"))
        await silent.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await ask(server, "POST")).status == 200
        assert connections == 2


async def test_a_header_is_one_line() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError

    async with serving(serve) as server:
        with pytest.raises(ValueError, match="Authorization"):
            await ask(server, "GET", Authorization="Bearer a\r\nX-Evil: 1")
