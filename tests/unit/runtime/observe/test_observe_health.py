"""The health server: verdicts, metrics, and malformed requests."""

import asyncio
import contextlib
import functools
import socket

import pytest
import structlog

from carico_core.domain import errors
from carico_core.runtime.observe import health
from carico_core.runtime.observe import metrics as metric
from tests.tools import waiting


async def ask(port: int, request: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body.decode()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_ready_follows_the_checks_and_health_its_own() -> None:
    why: list[str | None] = ["no bus yet"]
    metrics = metric.Metrics("agent")
    metrics.gauge("x", "x").set(1)
    server = await health.serve(
        health.Health({"bus": lambda: why[0], "samples": lambda: None}), metrics, host="127.0.0.1", port=0
    )
    try:
        assert await ask(server.port, get("/healthz")) == (200, "ok\n")
        assert await ask(server.port, get("/readyz")) == (503, "bus: no bus yet\n")
        why[0] = None
        assert await ask(server.port, get("/readyz?verbose")) == (200, "ok\n")
        status, body = await ask(server.port, get("/metrics"))
        assert status == 200
        assert "carico_agent_x 1.0" in body
        assert 'carico_check_failing{check="bus"} 0.0' in body
        why[0] = "away"
        assert 'carico_check_failing{check="bus"} 1.0' in (await ask(server.port, get("/metrics")))[1]
    finally:
        await server.close()


def test_why_a_service_is_not_ready_is_logged_once_for_each_change() -> None:
    why: dict[str, str | None] = {"bus": "no bus yet", "samples": None}
    made = health.Health({name: functools.partial(why.__getitem__, name) for name in why})
    with structlog.testing.capture_logs() as said:
        for bus, samples in (("away", None), ("away for 2 s", None), ("away", "none"), (None, None), (None, None)):
            why |= {"bus": bus, "samples": samples}
            made.probed()
    assert [(each["event"], each.get("why")) for each in said] == [
        ("not ready", {"bus": "away"}), ("not ready", {"bus": "away", "samples": "none"}), ("ready again", None),
    ]  # fmt: skip


async def test_a_failing_check_is_reported_and_leaves_no_connection_open() -> None:
    def broken() -> str | None:
        raise RuntimeError("a bug in a check")

    server = await health.serve(health.Health({"bus": broken}), metric.Metrics("agent"), host="127.0.0.1", port=0)
    try:
        async with asyncio.timeout(waiting.WAIT_S):
            assert (await ask(server.port, get("/readyz")))[0] == 500
            assert (await ask(server.port, get("/metrics")))[0] == 500
            assert (await ask(server.port, get("/healthz")))[0] == 200
    finally:
        await server.close()


async def test_its_end_does_not_wait_for_silent_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "REQUEST_TIMEOUT_S", 1e6)
    server = await health.serve(health.Health({}), metric.Metrics("agent"), host="127.0.0.1", port=0)
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        # Who comes later is answered: by then the first one is taken.
        assert (await ask(server.port, get("/healthz")))[0] == 200
        await server.close()
        assert await reader.read(-1) == b""
        writer.close()
    assert not caplog.records


async def test_connections_are_bounded_and_probes_are_answered() -> None:
    """Who opens connections without end would otherwise use up the files of the service."""
    server = await health.serve(health.Health({}), metric.Metrics("agent"), host="127.0.0.1", port=0)
    most = health.CONNECTIONS_MOST
    try:
        async with asyncio.timeout(60):
            held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(most)]
            for _ in range(most):
                assert (await ask(server.port, get("/healthz")))[0] == 200
                held.append(await asyncio.open_connection("127.0.0.1", server.port))
            for reader, _ in held[:most]:
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
            for _, writer in held:
                writer.close()
    finally:
        await server.close()


async def test_who_does_not_read_the_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_TIMEOUT_S", 0.2)
    counted = metric.Metrics("agent")
    gauge = counted.gauge("long", "many series", ["name"])
    for number in range(20_000):
        gauge.labels("x" * 400 + str(number)).set(1.0)
    server = await health.serve(health.Health({}), counted, host="127.0.0.1", port=0)
    loop, before = asyncio.get_running_loop(), asyncio.all_tasks()
    try:
        async with asyncio.timeout(60):
            with socket.socket() as silent:
                silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                silent.setblocking(False)
                await loop.sock_connect(silent, ("127.0.0.1", server.port))
                await loop.sock_sendall(silent, get("/metrics"))
                await waiting.until(lambda: asyncio.all_tasks() - before)
                await waiting.until(lambda: not asyncio.all_tasks() - before)
                found = b""
                while chunk := await loop.sock_recv(silent, 1 << 20):
                    found += chunk
            head, _, body = found.partition(b"\r\n\r\n")
            assert b"200 OK" in head and len(body) < int(head.split(b"Content-Length: ")[1].split()[0])
    finally:
        await server.close()


async def test_bad_requests_get_an_error_status() -> None:
    server = await health.serve(
        health.Health({}, alive={"loop": lambda: "stuck"}), metric.Metrics("agent"), host="127.0.0.1", port=0
    )
    try:
        assert (await ask(server.port, get("/healthz")))[0] == 503
        assert (await ask(server.port, get("/secret")))[0] == 404
        assert (await ask(server.port, b"POST /metrics HTTP/1.1\r\n\r\n"))[0] == 405
        assert (await ask(server.port, b"\r\n\r\n"))[0] == 400
        # Not a byte more than it reads to see that: Linux resets a connection that is closed with bytes unread.
        assert (await ask(server.port, b"GET " + b"x" * health.REQUEST_LIMIT_BYTES))[0] == 0, "cut off, not served"
        assert (await ask(server.port, get("/healthz")))[0] == 503, "and still answering"
    finally:
        await server.close()


async def test_a_port_in_use_is_one_line_and_off_serves_nothing() -> None:
    first = await health.serve(health.Health({}), metric.Metrics("agent"), host="127.0.0.1", port=0)
    try:
        with pytest.raises(errors.EnvironmentUnfit, match="--http-port"):
            await health.serve(health.Health({}), metric.Metrics("agent"), host="127.0.0.1", port=first.port)
    finally:
        await first.close()
    off = await health.serve(health.Health({}), metric.Metrics("agent"), host="127.0.0.1", port=health.OFF)
    assert off.port == health.OFF
    await off.close()


async def test_notes_are_shown_with_the_verdict() -> None:
    why: list[str | None] = [None]
    made = health.Health({"bus": lambda: why[0]}, notes={"leader": lambda: "node-1_17"})
    server = await health.serve(made, metric.Metrics("agent"), host="127.0.0.1", port=0)
    try:
        assert await ask(server.port, get("/readyz")) == (200, "ok\nleader: node-1_17\n")
        why[0] = "away"
        assert await ask(server.port, get("/readyz")) == (503, "bus: away\nleader: node-1_17\n")
        assert await ask(server.port, get("/healthz")) == (200, "ok\n")
    finally:
        await server.close()
