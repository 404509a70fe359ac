"""Requests to one HTTP/1.1 server over persistent connections: only the part of HTTP that the Kubernetes API uses.

It exists for the thousands of small requests of a scheduler, each of which takes several times as much CPU in aiohttp
(ADR 41). httptools parses the answers; streams and proxies go through aiohttp.
"""

import asyncio
import contextlib
import functools
import re
import socket
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from carico_core.runtime.kube import http_answer as answers

# Go's server closes an idle connection after minutes, proxies and other servers earlier; aiohttp's client after 15 s.
KEPT_S = 15.0
# A dead peer is detected after KEEPALIVE_IDLE_S and 3 probes, also on a watch without events for minutes.
KEEPALIVE_IDLE_S = 15
KEEPALIVE_INTERVAL_S = 5
KEEPALIVE_PROBES = 3
# Methods that may be retried if a persistent connection ends before any part of an answer (RFC 9110, 9.2.2).
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
_PLAIN = re.compile(r"[A-Za-z0-9/._~-]+")
_PATH_SAFE = "/%:@!$&'()*+,;=~"


class Call(NamedTuple):
    """One request, without what all requests have in common. Named tuples are created faster than dataclasses."""

    method: str
    path: str
    params: Mapping[str, str] | None
    data: bytes | None = None
    content_type: str = "application/json"
    permit: Callable[[], None] | None = None

    @property
    def name(self) -> str:
        """The request, for messages."""
        return f"{self.method} {self.path}"

    @property
    def verb(self) -> str:
        """The HTTP method, or WATCH."""
        return "WATCH" if self.params is not None and "watch" in self.params else self.method


class Ended(OSError):
    """The connection ended before the answer was complete. `is_clean`: before any part of it arrived."""

    def __init__(self, why: str, *, is_clean: bool) -> None:
        self.is_clean = is_clean
        super().__init__(why)


class _Connection(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self, limit_bytes: int) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader = answers.Reader(limit_bytes)
        self._waiting: asyncio.Future[answers.Answer] | None = None
        self.idle_since_s = 0.0

    @property
    def is_open(self) -> bool:
        """True while a request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> answers.Answer:
        """Return the answer. The connection is unusable if this raises or is cancelled."""
        if self._transport is None or self._transport.is_closing():
            raise Ended("the server closed the connection", is_clean=True)
        waiting: asyncio.Future[answers.Answer] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        self._transport.write(request)
        try:
            answer = await waiting
        except BaseException:
            self.close()
            raise
        finally:
            self._waiting = None
        if not self._reader.keeps:
            self.close()
        return answer

    def close(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports are no subclasses of it.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Pass on the answer once it is complete."""
        if self._waiting is None or self._waiting.done():
            # Not an answer: some servers announce like this that they are about to close.
            self.close()
            return
        try:
            answer = self._reader.feed(data)
        except OSError as error:
            self._waiting.set_exception(error)
            self.close()
            return
        if answer is not None:
            self._waiting.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Complete the waiting request."""
        self._transport = None
        if self._waiting is None or self._waiting.done():
            return
        answer = self._reader.end() if error is None else None
        if answer is not None:
            self._waiting.set_result(answer)
        else:
            why = f"the connection ended: {error}" if error else "the server closed the connection"
            self._waiting.set_exception(Ended(why, is_clean=self._reader.is_untouched))


class Server:
    """One server, and the persistent connections to it."""

    def __init__(
        self, url: str, *, tls: ssl.SSLContext | None, server_hostname: str | None, headers: Mapping[str, str],
        connect_timeout_s: float, limit_bytes: int, configure: Callable[[socket.socket], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """`headers` are sent with every request; `limit_bytes` is the maximum size of a body.

        `configure` is called with each new connection's socket.
        """
        parts = urllib.parse.urlsplit(url)
        is_tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if is_tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if is_tls else None
        self._server_hostname = (server_hostname or self._host) if is_tls else None
        self._common = _header_lines((("Host", parts.netloc.rpartition("@")[2]), *headers.items()))
        self._connect_timeout_s = connect_timeout_s
        self._limit_bytes = limit_bytes
        self._configure = configure
        # Connections without a request, the last used one at the end.
        self._idle: list[_Connection] = []
        self._sweep_due: asyncio.TimerHandle | None = None

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None, headers: Mapping[str, str], body: bytes,
        permit: Callable[[], None] | None = None,
    ) -> answers.Answer:  # fmt: skip
        """Return the answer. Raises `OSError`, and what `permit` raises, which is called right before sending."""
        request = self._encode(method, path, params, headers, body)
        while True:
            kept = self._take_kept()
            connection = kept or await self._connect()
            try:
                if permit is not None:
                    permit()
                answer = await connection.ask(request)
            except Ended as error:
                if kept is not None and error.is_clean and method in _IDEMPOTENT:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            self._keep(connection)
            return answer

    def close(self) -> None:
        """Close the idle connections."""
        if self._sweep_due is not None:
            self._sweep_due.cancel()
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _encode(
        self, method: str, path: str, params: Mapping[str, str] | None, headers: Mapping[str, str], body: bytes
    ) -> bytes:
        target = self._prefix + (path if _is_plain(path) else urllib.parse.quote(path, safe=_PATH_SAFE))
        if params:
            target += f"?{urllib.parse.urlencode(params)}"
        length = f"Content-Length: {len(body)}\r\n" if body or method in ("POST", "PUT", "PATCH") else ""
        head = f"{method} {target} HTTP/1.1\r\n{self._common}{_header_lines(tuple(headers.items()))}{length}\r\n"
        return head.encode("latin-1") + body

    def _take_kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    def _keep(self, connection: _Connection) -> None:
        if not connection.is_open:
            return
        loop = asyncio.get_running_loop()
        connection.idle_since_s = loop.time()
        self._idle.append(connection)
        if self._sweep_due is None:
            self._sweep_due = loop.call_later(KEPT_S, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that were idle for long, and repeat while any is left."""
        before_s = loop.time() - KEPT_S
        for connection in self._idle:
            if connection.idle_since_s <= before_s:
                connection.close()
        self._idle = [each for each in self._idle if each.is_open]
        self._sweep_due = loop.call_later(KEPT_S, self._sweep, loop) if self._idle else None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout_s):
            transport, connection = await loop.create_connection(
                functools.partial(_Connection, self._limit_bytes), self._host, self._port,
                ssl=self._tls, server_hostname=self._server_hostname,
            )  # fmt: skip
        # The connection may have ended meanwhile. uvloop has no socket of it then, or one that raises ValueError.
        if (made := transport.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._configure(made)
        return connection


# Most requests have the same: a token of a kilobyte need not be checked for each.
@functools.lru_cache(maxsize=16)
def _header_lines(headers: tuple[tuple[str, str], ...]) -> str:
    """Return the headers as they are sent. Raises `ValueError` for a value with invalid characters."""
    for name, value in headers:
        if not (value.isprintable() and value.isascii()):
            raise ValueError(f"{name}: got a value with characters that a header cannot contain")
    return "".join([f"{name}: {value}\r\n" for name, value in headers])


def _is_plain(path: str) -> bool:
    """Return whether no character of a path needs quoting, as in all valid names."""
    return _PLAIN.fullmatch(path) is not None


def create_socket(address: Any) -> socket.socket:
    """Return a socket for an address of `getaddrinfo`: a socket factory for aiohttp."""
    family, kind, protocol, _, _ = address
    connection = socket.socket(family=family, type=kind, proto=protocol)
    keep_alive(connection)
    return connection


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel probe a silent peer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
