"""A latency-sensitive workload: a small HTTP server that sends itself requests and records their latencies."""

import collections
import contextlib
import dataclasses
import json
import selectors
import socket
import threading
from collections.abc import Callable

import numpy as np

from carico_local.workloads import pacing, pi

# The newest latencies that are kept: about an hour and a half at 20 probes a second.
_KEPT = 100_000
_REQUEST_BYTES_MAX = 8192
_TIMEOUT_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Quantiles of the probes' latencies in milliseconds; None before the first."""

    count: int
    failed: int
    min_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class LatencyRecorder:
    """Latencies of the probe, the newest `_KEPT` of them."""

    def __init__(self) -> None:
        self._latencies_s: collections.deque[float] = collections.deque(maxlen=_KEPT)
        self._count = 0
        self.failed = 0

    def add(self, latency_s: float) -> None:
        """Add one latency."""
        self._latencies_s.append(latency_s)
        self._count += 1

    def latency(self) -> Latency:
        """Return the quantiles of the recorded latencies."""
        if not self._latencies_s:
            return Latency(
                count=0,
                failed=self.failed,
                min_ms=None,
                p50_ms=None,
                p90_ms=None,
                p95_ms=None,
                p99_ms=None,
                max_ms=None,
            )
        marks = np.quantile(np.array(self._latencies_s) * 1e3, (0.0, 0.5, 0.9, 0.95, 0.99, 1.0))
        low, p50, p90, p95, p99, high = (round(float(mark), 3) for mark in marks)
        return Latency(
            count=self._count, failed=self.failed,
            min_ms=low, p50_ms=p50, p90_ms=p90, p95_ms=p95, p99_ms=p99, max_ms=high,
        )  # fmt: skip


class Server:
    """One thread that answers requests in turn: `/` takes `work_s` on an emulated core, `/healthz` no work."""

    def __init__(self, *, host: str, port: int, work_s: float, scale: float, timer: pacing.Timer) -> None:
        self._socket = socket.create_server((host, port), backlog=128)
        self._work_cpu_s = work_s * scale
        self._scale = scale
        self._timer = timer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self.recorder = LatencyRecorder()
        self.answered = 0

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Start answering requests."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and free the port."""
        self._stopping.set()
        self._thread.join(_TIMEOUT_S)
        self._socket.close()

    def _run(self) -> None:
        pacer = pacing.Pacer(scale=self._scale, timer=self._timer)
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while not self._stopping.is_set():
                if selector.select(timeout=0.5):
                    # A client that disconnects or sends garbage must not end the server.
                    with contextlib.suppress(OSError):
                        connection, _ = self._socket.accept()
                        with connection:
                            self._answer(connection, pacer)
                    pacer.pace()

    def _answer(self, connection: socket.socket, pacer: pacing.Pacer) -> None:
        connection.settimeout(_TIMEOUT_S)
        request = b""
        while b"\r\n\r\n" not in request and len(request) < _REQUEST_BYTES_MAX:
            piece = connection.recv(_REQUEST_BYTES_MAX)
            if not piece:
                return
            request += piece
        target = [*request.split(b" ", 2), b""][1]
        status, body = self._body(target.decode("latin-1"), pacer)
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode("ascii") + body)

    def _body(self, target: str, pacer: pacing.Pacer) -> tuple[str, bytes]:
        if target == "/healthz":
            return "200 OK", b"ok\n"
        if target == "/latency":
            return "200 OK", json.dumps(dataclasses.asdict(self.recorder.latency())).encode() + b"\n"
        if target != "/":
            return "404 Not Found", b"expected /, /healthz or /latency\n"
        until_cpu_s = pacer.cpu_s + self._work_cpu_s
        pieces = pi.digits_of_pi(pi.DIGITS)
        while pacer.cpu_s < until_cpu_s and next(pieces, "") is None:
            pacer.pace()
        self.answered += 1
        return "200 OK", b"ok\n"


def probe(server: Server, *, host: str, rate_hz: float, stopped: Callable[[float], bool], timer: pacing.Timer) -> None:
    """Probe the server until `stopped` returns True; it is called between probes with the time it may wait."""
    period_s = 1.0 / rate_hz
    due_s = timer.monotonic_s()
    while not stopped(max(0.0, due_s - timer.monotonic_s())):
        start_s = timer.monotonic_s()
        try:
            _get(host, server.port)
        except OSError:
            server.recorder.failed += 1
        else:
            server.recorder.add(timer.monotonic_s() - start_s)
        # No burst after a slow answer: the next probe is due one period after this one was due, or at once.
        due_s = max(due_s + period_s, timer.monotonic_s())


def _get(host: str, port: int) -> None:
    with socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"got {answer[:40]!r}, expected HTTP/1.1 200")
