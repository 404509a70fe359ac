"""A server of aiohttp that others than its own clients can reach: its connections are bounded, and it is silent.

Servers import aiohttp from here, where it is loaded without what no server of ours uses.

No address can take the places of another: with all of them taken, a new connection closes one of the address that has
most, so that who opens connections without end does not keep a client out. Where clients show who they are, the oldest
connection whose client has not is closed instead: all of them may come from this machine.
"""

import asyncio
import contextlib
import dataclasses
import logging
import pathlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable

from carico_core.domain import errors
from carico_core.runtime.process import memory_use

with memory_use.without_system_certificates():
    import aiohttp as aiohttp
    from aiohttp import web as web
    from aiohttp import web_protocol

# aiohttp logs a traceback for each malformed request, which anybody can send.
SILENT = logging.Logger("aiohttp", level=logging.CRITICAL + 1)
# Too many open files, or a client that has gone: not in a busy loop.
_PAUSE_S = 0.1
# The connections whose clients have shown who they are, and some that have ended since.
_KNOWN: web.AppKey[set[web_protocol.RequestHandler]] = web.AppKey("known", set)
_ENDED_MOST = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most connections, and how long one may set up TLS, be without a request, and finish one at the end."""

    most: int
    handshake_s: float
    idle_s: float
    stop_s: float
    # How long a refused request is still read, so that the client can read the answer: the default of aiohttp.
    linger_s: float = 10.0
    # Whether `note_known` is called for the clients that may use it.
    knows_clients: bool = False


@contextlib.asynccontextmanager
async def serving(
    app: web.Application, listener: socket.socket, limits: Limits, *, context: ssl.SSLContext | None,
    on_refused: Callable[[], object] = lambda: None, handler_cancellation: bool = False,
) -> AsyncIterator[int]:  # fmt: skip
    """Serve for as long as the block runs, and yield the port; then finish the requests under way.

    `on_refused` is called for each connection for which another one, or it itself, is closed. `handler_cancellation`:
    a request whose client has gone is cancelled.
    """
    runner = web.AppRunner(
        app, access_log=None, logger=SILENT, keepalive_timeout=limits.idle_s, lingering_time=limits.linger_s,
        shutdown_timeout=limits.stop_s, handler_cancellation=handler_cancellation,
    )  # fmt: skip
    known = app[_KNOWN] = set()
    await runner.setup()
    try:
        assert runner.server is not None
        with listener:
            connections = _Connections(runner.server, limits, on_refused, known)
            accepting = asyncio.ensure_future(connections.accept(listener, context))
            try:
                yield int(listener.getsockname()[1])
            finally:
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)
    finally:
        await runner.cleanup()


def listen(host: str, port: int, limits: Limits, *, purpose: str, advice: str) -> socket.socket:
    """Return a socket that listens there. Raises `EnvironmentUnfit` with what it is for, and what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=limits.most)
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot listen on {host}:{port} for {purpose} ({error.strerror}): {advice}"
        ) from error
    listener.setblocking(False)
    return listener


def server_tls() -> ssl.SSLContext:
    """Return what a server needs for TLS, yet without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def read_tls(
    certificate: str | pathlib.Path, key: str | pathlib.Path | None, *, authority: str | pathlib.Path | None, flags: str
) -> ssl.SSLContext:  # fmt: skip
    """Return TLS with a server's PEM files; with an authority, clients need certificates by it.

    Raises `SettingsError`; `flags` are those that name the files.
    """
    context = server_tls()
    try:
        context.load_cert_chain(certificate, key)
        if authority:
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        # An SSLError is an OSError.
        raise errors.SettingsError(
            f"{flags}: the certificate, key or CA cannot be read ({error}): expected PEM files"
        ) from error
    return context


def note_known(request: web.Request) -> None:
    """Note that a request's client has shown who it is: its connection makes no room for those that have not."""
    known = request.app.get(_KNOWN)
    if known is not None:
        known.add(request.protocol)


class _Connections:
    """At most so many connections, from the moment they are accepted, which asyncio's servers cannot bound."""

    def __init__(
        self, server: web.Server, limits: Limits, on_refused: Callable[[], object],
        known: set[web_protocol.RequestHandler],
    ) -> None:  # fmt: skip
        self._server = server
        self._known = known
        self._limits = limits
        self._on_refused = on_refused
        # The address of the other side.
        self._setting_up: dict[asyncio.Task[None], str] = {}

    async def accept(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    accepted, (address, *_) = await loop.sock_accept(listener)
                except OSError:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                if len(self._known) > len(self._server.connections) + _ENDED_MOST:
                    self._known.intersection_update(self._server.connections)
                if len(self._server.connections) + len(self._setting_up) >= self._limits.most:
                    self._on_refused()
                    if not self._make_room(address):
                        accepted.close()
                        continue
                    # The one that was closed goes.
                    await asyncio.sleep(0)
                task = loop.create_task(self._serve(accepted, context))
                self._setting_up[task] = address
                task.add_done_callback(self._setting_up.pop)
        finally:
            for task in list(self._setting_up):
                task.cancel()
            await asyncio.gather(*self._setting_up, return_exceptions=True)

    def _make_room(self, address: str) -> bool:
        """Close the connection that a new one is worth more than; return False if there is none."""
        if self._limits.knows_clients:
            return self._close_unknown()
        held: dict[str, list[Callable[[], object]]] = {}
        for each in self._server.connections:
            if each.transport is not None and not each.transport.is_closing():
                held.setdefault(each.transport.get_extra_info("peername")[0], []).append(each.transport.abort)
        for task, other in self._setting_up.items():
            held.setdefault(other, []).append(task.cancel)
        crowd = max(held.values(), key=len, default=[])
        # With one less than the new one's, that address would take its place back.
        if len(crowd) <= len(held.get(address, ())) + 1:
            return False
        crowd[0]()
        return True

    def _close_unknown(self) -> bool:
        """Close the oldest connection whose client has not shown who it is; return False if there is none."""
        for task in self._setting_up:
            task.cancel()
            return True
        for each in self._server.connections:
            if each.transport is not None and not each.transport.is_closing() and each not in self._known:
                each.transport.abort()
                return True
        return False

    async def _serve(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        """Set up TLS, after which the server has the connection."""
        loop = asyncio.get_running_loop()
        most_s = None if context is None else self._limits.handshake_s
        with contextlib.suppress(OSError):
            await loop.connect_accepted_socket(
                self._server, accepted, ssl=context, ssl_handshake_timeout=most_s, ssl_shutdown_timeout=most_s
            )
