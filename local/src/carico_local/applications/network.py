"""Requests and answers over TCP, with the delay and rate of a network between nodes.

Emulated nodes share one machine, whose loopback has no delay, and not every kernel can emulate one (tc-netem). So the
client waits before it sends to a Pod of another node, and again before it takes the answer. All Pods of an emulated
node have addresses in one 127.x.y.0/24.
"""

import asyncio
import collections
import contextlib
import dataclasses
import math
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from carico_core.domain import errors
from carico_local.applications import directory as directories
from carico_local.applications import frames

PORT = 7400
# Longer than any request takes that is worth to wait for.
CALL_MOST_S = 20.0
# A Pod that ends still answers so long, since clients may not know it yet: as with a preStop hook.
LINGER_S = 2.0

Handler = Callable[[frames.Message], Awaitable[frames.Message]]


class Failed(errors.CaricoError):
    """A request without an answer; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A network between nodes: its delay in one direction, and its rate. The default delays nothing."""

    delay_s: float = 0.0
    bytes_per_s: float = math.inf

    def time_s(self, size: int) -> float:
        """Return how long a message of `size` bytes takes."""
        return self.delay_s + size / self.bytes_per_s


@dataclasses.dataclass(slots=True)
class Counts:
    """Bytes of requests and answers that a client has exchanged with Pods of its own node, and of others."""

    near_bytes: int = 0
    far_bytes: int = 0


def event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that sleeps for parts of a millisecond: epoll's timeouts are whole ones."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def same_node(one: str, other: str) -> bool:
    """Return whether two addresses of Pods are on one emulated node.

    >>> same_node("127.20.1.3", "127.20.1.9"), same_node("127.20.1.3", "127.20.2.3")
    (True, False)
    """
    return one.rpartition(".")[0] == other.rpartition(".")[0]


class Client:
    """Sends requests from a Pod (`own`: its address; empty: from outside of the cluster, without delay)."""

    def __init__(self, *, own: str, link: Link, directory: directories.Directory) -> None:
        self._own = own
        self._link = link
        self.directory = directory
        self._idle: dict[str, collections.deque[_Connection]] = collections.defaultdict(collections.deque)
        self.counts = Counts()

    async def call(self, service: str, head: Mapping[str, Any], body: bytes = b"") -> frames.Message:
        """Return the answer of one Pod of a service. Raises `Failed`."""
        address = self.directory.pick(service)
        if address is None:
            raise Failed(f"{service}: no Pod is ready")
        return await self.call_at(address, head, body, name=service)

    async def call_at(
        self, address: str, head: Mapping[str, Any], body: bytes = b"", *, name: str = ""
    ) -> frames.Message:
        """Return the answer of the Pod at an address. Raises `Failed`."""
        request = frames.Message(head=head, body=body)
        try:
            async with asyncio.timeout(CALL_MOST_S):
                answer = await self._exchange(address, request)
        except TimeoutError:
            raise Failed(f"{name or address}: no answer within {CALL_MOST_S:g} s") from None
        except OSError as error:
            raise Failed(f"{name or address}: {error}") from None
        if "error" in answer.head:
            raise Failed(f"{name or address}: {answer.head['error']}")
        return answer

    async def _exchange(self, address: str, request: frames.Message) -> frames.Message:
        is_far = bool(self._own) and not same_node(self._own, address)
        connection = self._take(address) or await self._connect(address, is_far=is_far)
        try:
            await self._cross(request, is_far=is_far)
            connection.writer.write(frames.encode(request))
            await connection.writer.drain()
            answer = await frames.read(connection.reader)
            if answer is None:
                raise ConnectionResetError("the connection ended before the answer")
            await self._cross(answer, is_far=is_far)
        except BaseException:
            connection.writer.close()
            raise
        self._idle[address].append(connection)
        return answer

    def _take(self, address: str) -> "_Connection | None":
        """Return an open connection that no request uses now."""
        waiting = self._idle[address]
        while waiting:
            found = waiting.pop()
            if not found.reader.at_eof() and not found.writer.is_closing():
                return found
            found.writer.close()
        return None

    async def _connect(self, address: str, *, is_far: bool) -> "_Connection":
        if is_far:
            # SYN and SYN-ACK.
            await asyncio.sleep(2 * self._link.delay_s)
        # From the Pod's own address, so that its traffic is known as its own.
        local = (self._own, 0) if self._own else None
        reader, writer = await asyncio.open_connection(address, PORT, local_addr=local)
        return _Connection(reader, writer)

    async def _cross(self, message: frames.Message, *, is_far: bool) -> None:
        """Count a message; wait as long as it takes between nodes."""
        size = frames.size(message)
        if not is_far:
            self.counts.near_bytes += size
            return
        self.counts.far_bytes += size
        time_s = self._link.time_s(size)
        if time_s > 0.0:
            await asyncio.sleep(time_s)

    def close(self) -> None:
        """Close all connections."""
        for waiting in self._idle.values():
            for each in waiting:
                each.writer.close()
        self._idle.clear()


@dataclasses.dataclass(frozen=True, slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Server:
    """Answers requests with a handler; an error of the handler is the answer to its request."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> None:
        """Listen at `PORT`. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, PORT)

    async def finish(self, *, linger_s: float = LINGER_S) -> None:
        """Answer for a little longer, then end connections as soon as no request is under way."""
        await asyncio.sleep(linger_s)
        await self._idle.wait()
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError):
                while (request := await frames.read(reader)) is not None:
                    self._count(1)
                    try:
                        writer.write(frames.encode(await self._answer(request)))
                        await writer.drain()
                    finally:
                        self._count(-1)
        finally:
            self._writers.discard(writer)
            writer.close()

    def _count(self, more: int) -> None:
        """Count the requests under way."""
        self._busy += more
        if self._busy:
            self._idle.clear()
        else:
            self._idle.set()

    async def _answer(self, request: frames.Message) -> frames.Message:
        try:
            return await self._handle(request)
        except errors.CaricoError as error:
            return frames.Message(head={"error": str(error)})
