"""A small HTTP server for /healthz, /readyz and /metrics.

It uses asyncio streams and not aiohttp, which takes 9 MB per process: every agent contains this server.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.observe import metrics as metric

# A probe sends one short GET. A client that sends more, or nothing, is disconnected.
REQUEST_LIMIT_BYTES = 8192
REQUEST_TIMEOUT_S = 5.0
# A kubelet and a Prometheus have a few. Anyone who reaches the port could otherwise use up the files of the service.
CONNECTIONS_MOST = 64
OFF = -1

Check = Callable[[], str | None]
_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


class Health:
    """Named checks, which return None or the reason of a failure: `checks` of readiness, `alive` of liveness.

    `notes` are facts for people, shown by /readyz.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        *,
        alive: Mapping[str, Check] | None = None,
        notes: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        self._checks = dict(checks)
        self._alive = dict(alive or {})
        self._notes = dict(notes or {})
        self._last: Mapping[str, str] = {}

    def not_ready(self) -> dict[str, str]:
        """Return the failing readiness checks: check -> reason."""
        return _failing(self._checks)

    def probed(self) -> dict[str, str]:
        """Return `not_ready`, and log what has changed since the probe before: probes discard the reasons."""
        failing = self.not_ready()
        if failing.keys() != self._last.keys():
            if failing:
                logs.get("health").warning("not ready", why=failing)
            else:
                logs.get("health").info("ready again")
        self._last = failing
        return failing

    def notes(self) -> dict[str, str]:
        """Return facts for people: name -> text."""
        return {name: note() for name, note in self._notes.items()}

    def not_alive(self) -> dict[str, str]:
        """Return the failing liveness checks, which a restart should fix: check -> reason."""
        return _failing(self._alive)

    def readings(self) -> metric.Readings:
        """Return each check with 1 if it fails, for a gauge."""
        failing = {**self.not_ready(), **self.not_alive()}
        return [((name,), float(name in failing)) for name in (*self._checks, *self._alive)]


class Connections:
    """The open connections of a small server, which are closed with it."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def kept(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Register the connection of the current task (made by `asyncio.start_server`) in the block, then close it.

        With too many, the oldest one is closed: a probe sends its request at once, and is answered before that.
        """
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        if len(self._open) >= CONNECTIONS_MOST:
            self._open.pop(next(iter(self._open))).transport.abort()
        self._open[task] = writer
        try:
            yield
        finally:
            self._open.pop(task, None)
            # Who does not read the answer would keep a connection open that is only closed.
            writer.transport.abort()

    async def end(self) -> None:
        """Close all connections: browsers and probes open some without sending a request.

        From Python 3.12 on, `Server.wait_closed` would wait for them: as long as a request may take, and for ever if a
        stopped client does not read its answer. In 3.11, cancelling each would log a traceback.
        """
        tasks = list(self._open)
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


class Server:
    """A running health server."""

    def __init__(
        self, server: asyncio.Server | None, port: int, open_now: Connections,
        watch: asyncio.Task[None] | None = None,
    ) -> None:  # fmt: skip
        self._server = server
        self._open = open_now
        self._watch = watch
        self.port = port

    async def close(self) -> None:
        """Free the port and close all connections."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            await self._open.end()


async def serve(health: Health, metrics: metric.Metrics, *, host: str, port: int) -> Server:
    """Return a running server; `port` 0: a free one (see `.port`), -1: no server.

    Adds the metrics that every service has (`watched`). Raises `EnvironmentUnfit` if the address cannot be used.
    """
    open_now = Connections()
    if port == OFF:
        return Server(None, OFF, open_now)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with open_now.kept(writer):
            await _exchange(health, metrics, reader, writer)

    try:
        server = await asyncio.start_server(handle, host, port, limit=REQUEST_LIMIT_BYTES)
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot listen on {host}:{port} for health and metrics ({error.strerror}): give --http-port another port, "
            "0 for a free one or -1 for none"
        ) from error
    watch = asyncio.create_task(watched(health, metrics).run(), name="loop lag")
    return Server(server, server.sockets[0].getsockname()[1], open_now, watch)


def watched(health: Health, metrics: metric.Metrics) -> metric.LoopWatch:
    """Declare the metrics of failing checks and of the event loop's lag, and return what measures the lag."""
    metrics.reading(
        "check_failing", "1 for each check of /readyz and /healthz that fails", health.readings, labels=("check",),
        shared=True,
    )  # fmt: skip
    return metric.LoopWatch(metrics)


async def _exchange(
    health: Health, metrics: metric.Metrics, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
            try:
                status, content_type, body = _answer(head, health, metrics)
            except Exception:
                # A check or a gauge failed. Without this, each request would leave its connection open.
                logs.get("health").exception("request failed")
                status, content_type, body = 500, "text/plain", b"the service failed: see its log\n"
            writer.write(
                f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            )
            writer.write(body)
            writer.close()
            await writer.wait_closed()


def _answer(head: bytes, health: Health, metrics: metric.Metrics) -> tuple[int, str, bytes]:
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) != 3:
        return 400, "text/plain", b"expected an HTTP request\n"
    if words[0] != b"GET":
        return 405, "text/plain", b"expected GET\n"
    path = words[1].split(b"?", 1)[0]
    if path == b"/metrics":
        return 200, metric.CONTENT_TYPE, metrics.render()
    if path == b"/healthz":
        return _verdict(health.not_alive())
    if path == b"/readyz":
        return _verdict(health.probed(), health.notes())
    return 404, "text/plain", b"expected /healthz, /readyz or /metrics\n"


def _verdict(failing: Mapping[str, str], notes: Mapping[str, str] | None = None) -> tuple[int, str, bytes]:
    lines = "".join(f"{name}: {text}\n" for name, text in (*failing.items(), *(notes or {}).items()))
    return (503, "text/plain", lines.encode()) if failing else (200, "text/plain", f"ok\n{lines}".encode())


def _failing(checks: Mapping[str, Check]) -> dict[str, str]:
    verdicts = {name: check() for name, check in checks.items()}
    return {name: why for name, why in verdicts.items() if why is not None}
