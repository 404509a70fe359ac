"""The kubelet's log endpoint: /containerLogs/{namespace}/{pod}/{container}, with kubectl's options.

What else kubectl asks of a kubelet is refused with where it can be had.

Only the API server may use it: the embedded one has a token for each node, the real one a client certificate. As at the
embedded API, Host and Origin keep out the pages of a browser on this machine.
"""

import asyncio
import contextlib
import dataclasses
import pathlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import connections
from carico_core.runtime.process.connections import web
from carico_core.wire.kubernetes import instants
from carico_local.api import access
from carico_local.api.model import resources, statuses
from carico_local.node.reporting import status
from carico_local.node.runtime import logs as container_logs
from carico_local.node.runtime import records as files

# The most that `kubectl logs -f` lags behind. inotify would save nothing, since only followed logs are polled.
POLL_S = 0.25
# Returns the Pod of a namespace and name; None where the node has none.
FindPod = Callable[[str, str], Mapping[str, Any] | None]
# Everyone on this machine can connect, and the node needs its files for Pods. The API server has a connection for each
# log that it reads.
_LIMITS = connections.Limits(most=256, handshake_s=10.0, idle_s=90.0, stop_s=1.0, knows_clients=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of a log request: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/"""

    follow: bool
    previous: bool
    timestamps: bool
    tail_lines: int | None
    limit_bytes: int | None
    since_ns: int


def parse_query(query: Mapping[str, str], *, now_ns: int) -> Wanted:
    """Return the options of a query string. Raises `ValueError`."""
    since_ns = 0
    if "sinceSeconds" in query:
        since_ns = now_ns - int(query["sinceSeconds"]) * 10**9
    elif "sinceTime" in query:
        since_ns = round(instants.parse_instant(query["sinceTime"]) * 1e9)
    return Wanted(
        follow=query.get("follow") in ("true", "1"),
        previous=query.get("previous") in ("true", "1"),
        timestamps=query.get("timestamps") in ("true", "1"),
        tail_lines=int(query["tailLines"]) if "tailLines" in query else None,
        limit_bytes=int(query["limitBytes"]) if "limitBytes" in query else None,
        since_ns=since_ns,
    )


class LogServer:
    """Serves the log files of this node's containers."""

    def __init__(self, records: files.Records, *, find: FindPod, clock: clocks.Clock) -> None:
        self._records = records
        self._find = find
        self._clock = clock

    @contextlib.asynccontextmanager
    async def listening(
        self, host: str, port: int, *, token: str, tls: ssl.SSLContext | None
    ) -> AsyncIterator[int]:  # fmt: skip
        """Listen for as long as the block runs, and yield the port. Raises `EnvironmentUnfit`.

        `token`: for requests without a verified certificate.
        """
        is_verified = tls is not None and tls.verify_mode is ssl.CERT_REQUIRED
        hint = "logs are read through the cluster's API"
        guard = access.guard(None if is_verified else token, (host,), hint=hint, hosts_hint=hint)
        app = web.Application(middlewares=[_answer_refusals, guard])
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        app.router.add_get("/healthz", _healthz)
        app.router.add_route("*", "/{stream:exec|attach|portForward}/{rest:.*}", _refuse_stream)
        listener = connections.listen(
            host, port, _LIMITS, purpose="the logs of Pods",
            advice="stop the program that uses the port, or use --log-port 0 for a free one",
        )  # fmt: skip
        async with connections.serving(app, listener, _LIMITS, context=tls, handler_cancellation=True) as found:
            yield found

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            wanted = parse_query(request.query, now_ns=self._clock.wall_ns())
        except ValueError as error:
            return web.Response(status=400, text=f"bad log option: {error}\n")
        container, name = request.match_info["container"], request.match_info["pod"]
        pod = self._find(request.match_info["namespace"], name) or {}
        uid = pod["metadata"]["uid"] if pod else None
        last = None if uid is None else self._records.last_attempt(uid, container)
        if uid is None or last is None or "/" in container:
            reason = status.waiting_reason(pod, container)
            said = f'container "{container}" in pod "{name}" is waiting to start: {reason}\n'
            return web.Response(status=400, text=said)
        number = last.number - 1 if wanted.previous else last.number
        attempt = self._records.read_attempt(uid, container, number)
        if number < 0 or not attempt.directory.exists():
            return web.Response(status=400, text=f'previous terminated container "{container}" not found\n')
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for piece in self._pieces(attempt.directory, wanted):
                await response.write(piece)
            await response.write_eof()
        return response

    async def _pieces(self, directory: pathlib.Path, wanted: Wanted) -> AsyncIterator[bytes]:
        left = wanted.limit_bytes
        async for line in self._lines(directory, wanted):
            piece = line if left is None else line[:left]
            if piece:
                yield piece
            if left is not None:
                left -= len(piece)
                if left <= 0:
                    return

    async def _lines(self, directory: pathlib.Path, wanted: Wanted) -> AsyncIterator[bytes]:
        log = await asyncio.to_thread(container_logs.LogReader, directory / files.LOG)
        with contextlib.closing(log):
            entries = [entry for entry in container_logs.parse(log.read()) if entry.wall_ns >= wanted.since_ns]
            if wanted.tail_lines is not None:
                entries = container_logs.last_lines(entries, wanted.tail_lines)
            for entry in entries:
                yield entry.render(timestamps=wanted.timestamps)
            while wanted.follow:
                # Checked before reading, so that the last lines of a container that ends are not missed.
                ended = _has_ended(directory)
                for data in log.follow():
                    for entry in container_logs.parse(data):
                        yield entry.render(timestamps=wanted.timestamps)
                if ended:
                    return
                await asyncio.sleep(POLL_S)


def _has_ended(directory: pathlib.Path) -> bool:
    return (directory / files.EXITED).exists() or not directory.exists()


@web.middleware
async def _answer_refusals(request: web.Request, handler: access.Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except statuses.RequestFailed as refusal:
        return web.Response(status=refusal.code, text=f"{refusal.message}\n")


async def _refuse_stream(request: web.Request) -> web.StreamResponse:
    raise statuses.not_on_emulated_nodes(resources.OF_KUBELETS[request.match_info["stream"].lower()])


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")
