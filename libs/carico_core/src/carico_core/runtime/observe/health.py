"""A small HTTP server for /healthz, /readyz and /metrics.

On asyncio streams and not on aiohttp: every agent of the fleet carries it, and aiohttp costs 9 MB a process.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.observe import metrics as metric

# A probe sends one short GET; who sends more, or nothing, is cut off.
REQUEST_LIMIT_BYTES = 8192
REQUEST_TIMEOUT_S = 5.0
OFF = -1

Check = Callable[[], str | None]
_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


class Health:
    """Named checks: None is well, a text says why not. `checks` make it ready, `alive` keep it from a restart.

    `notes` are facts for people, shown with the verdict of readiness.
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

    def not_ready(self) -> dict[str, str]:
        """Return what keeps the service from being ready: check -> why."""
        return _failing(self._checks)

    def notes(self) -> dict[str, str]:
        """Facts for people: name -> what is so."""
        return {name: say() for name, say in self._notes.items()}

    def not_alive(self) -> dict[str, str]:
        """Return what a restart should fix: check -> why."""
        return _failing(self._alive)

    def readings(self) -> metric.Readings:
        """Return each check with 1 where it fails, for a gauge."""
        failing = {**self.not_ready(), **self.not_alive()}
        return [((name,), float(name in failing)) for name in (*self._checks, *self._alive)]


class Connections:
    """The connections that a small server of ours has open: it ends them with itself."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def kept(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """One more for as long as the block runs, in the task that `asyncio.start_server` made for it; then closed."""
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            yield
        finally:
            del self._open[task]
            with contextlib.suppress(OSError):
                writer.close()

    async def end(self) -> None:
        """End all connections: browsers and probes open some without sending a request.

        `Server.wait_closed` would wait for them from Python 3.12 on: for as long as a request may take, and for ever
        where a stopped client does not take its answer. Cancelled, each would be a traceback in 3.11.
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
        """Free the port and end all connections."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            await self._open.end()


async def serve(health: Health, metrics: metric.Metrics, *, host: str, port: int) -> Server:
    """Return a running server; `port` 0 takes a free one (see `.port`), -1 serves nothing.

    Adds to `metrics` what every service has (`watched`). Raises `EnvironmentUnfit` where the address cannot be used.
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
    """Return what feeds the lag of the event loop, declared in `metrics` with the checks of `health`."""
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
                # A check or a gauge at fault: each request would leave its connection open, until no file is left.
                logs.get("health").exception("request failed")
                status, content_type, body = 500, "text/plain", b"the service failed: its log says why\n"
            writer.write(
                f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            )
            writer.write(body)
            await writer.drain()


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
        return _verdict(health.not_ready(), health.notes())
    return 404, "text/plain", b"expected /healthz, /readyz or /metrics\n"


def _verdict(failing: Mapping[str, str], notes: Mapping[str, str] | None = None) -> tuple[int, str, bytes]:
    said = "".join(f"{name}: {text}\n" for name, text in (*failing.items(), *(notes or {}).items()))
    return (503, "text/plain", said.encode()) if failing else (200, "text/plain", f"ok\n{said}".encode())


def _failing(checks: Mapping[str, Check]) -> dict[str, str]:
    verdicts = {name: check() for name, check in checks.items()}
    return {name: why for name, why in verdicts.items() if why is not None}
