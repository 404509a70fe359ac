"""The process around the API: its schema, and wrong settings."""

import pathlib
import runpy
import socket

import aiohttp
import orjson
import pytest
from aiohttp import test_utils

from carico_core.runtime.process import clock as clocks
from carico_local.api import cluster, main
from carico_local.api.http import server
from carico_local.api.model import schema
from carico_local.api.storage import store

REPOSITORY = pathlib.Path(__file__).parents[4]


async def test_watches_end_when_the_server_does(tmp_path: pathlib.Path) -> None:
    kept = store.Store(tmp_path)
    app = server.build(cluster.assemble(kept, clocks.FakeClock()), token="secret")
    running = test_utils.TestServer(app)
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session:
        await running.start_server()
        async with session.get(running.make_url("/api/v1/nodes?watch=1")) as answer:
            assert answer.status == 200
            await running.close()
            assert await answer.read() == b""
    kept.close()


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


def test_the_schema_is_what_the_installed_client_says() -> None:
    generator = runpy.run_path(str(REPOSITORY / "local/tools/generate_kubernetes_schema.py"))
    expected = {generator["full_name"](model): generator["definition"](model) for model in generator["reachable"]()}
    assert orjson.loads(orjson.dumps(expected)) == schema.definitions()
