"""The process around the API: its schema, and wrong settings."""

import asyncio
import contextlib
import pathlib
import runpy
import socket
from collections.abc import AsyncIterator

import aiohttp
import orjson
import pytest
from aiohttp import test_utils

from carico_core.runtime.kube import http_client
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_local.api import cluster, main
from carico_local.api.http import server
from carico_local.api.model import schema
from carico_local.api.storage import store
from tests.tools import waiting

REPOSITORY = pathlib.Path(__file__).parents[4]


async def test_watches_end_when_the_server_does(tmp_path: pathlib.Path) -> None:
    kept = store.Store(tmp_path)
    app = server.build(cluster.assemble(kept, clocks.FakeClock()), token="secret")
    running_server = test_utils.TestServer(app)
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session:
        await running_server.start_server()
        async with session.get(running_server.make_url("/api/v1/nodes?watch=1")) as answer:
            assert answer.status == 200
            await running_server.close()
            assert await answer.read() == b""
    kept.close()


@contextlib.asynccontextmanager
async def running(folder: pathlib.Path) -> AsyncIterator[int]:
    """The API as a process runs it; yields its port."""
    chosen = main.Settings(data=folder, port_file=folder / "port")
    stop = tasks.Stop()
    serving = asyncio.ensure_future(main.serve(chosen, clocks.SystemClock(), stop))
    try:
        await waiting.until(lambda: serving.done() or (folder / "port").exists())
        yield int((folder / "port").read_text())
    finally:
        stop.set()
        await serving


async def test_connections_without_the_token_keep_no_client_out(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user of the machine could take all files of the process, and keep them for an hour each."""
    monkeypatch.setattr(main, "CONNECTIONS_MOST", 4)
    async with running(tmp_path) as port, asyncio.timeout(waiting.WAIT_S):
        token = (tmp_path / "token").read_text()
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            watch = await session.get(f"http://127.0.0.1:{port}/api/v1/nodes?watch=1")
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
            for index in range(6):
                # Each on a connection of its own.
                async with session.get(f"http://127.0.0.1:{port}/api/v1/pods", headers={"Connection": "close"}) as one:
                    assert one.status == 200, index
            assert await idle[0][0].read() == b""
            assert not watch.content.at_eof()
            watch.close()
        for _, writer in idle:
            writer.close()


async def test_a_connection_without_a_request_is_closed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiohttp keeps them for an hour: of a client that was cut off, each that it had."""
    monkeypatch.setattr(main, "IDLE_S", 0.2)
    async with running(tmp_path) as port, asyncio.timeout(waiting.WAIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()


async def test_a_client_whose_machine_has_gone_is_noticed(tmp_path: pathlib.Path) -> None:
    listener = main._listen(main.Settings(data=tmp_path))
    with listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == http_client.KEEPALIVE_IDLE_S


def test_a_port_in_use_is_one_line_and_exit_code_2(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main.main(["--data", str(tmp_path), "--port", str(port)]) == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    assert f"127.0.0.1:{port}" in said


def test_an_unknown_flag_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--data", "d", "--prot", "1"]) == 2
    assert "--port" in capsys.readouterr().err


def test_the_token_on_the_command_line_was_removed_and_what_replaces_it_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["--token", "secret"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("carico-api: --token was removed: --token-file ") and said.count("\n") == 1


def test_the_schema_is_what_the_installed_client_says() -> None:
    generator = runpy.run_path(str(REPOSITORY / "local/tools/generate_kubernetes_schema.py"))
    expected = {generator["full_name"](model): generator["definition"](model) for model in generator["reachable"]()}
    assert orjson.loads(orjson.dumps(expected)) == schema.definitions()
