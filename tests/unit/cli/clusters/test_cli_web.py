"""`carico web` over the runs of a cluster: it serves each, and holds no port between them."""

import asyncio
import contextlib
import pathlib
import threading
import urllib.request

import pytest

from carico_cli.clusters import web
from carico_core.domain import errors
from carico_local.cluster import folders, free_ports, machine, plan, processes, state
from carico_web import settings as setting
from tests.tools import waiting

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")


def run(port: int, started_ns: int = 1) -> web.ClusterRun:
    chosen = setting.WebSettings(bus_websocket="ws://{host}:9", cluster="x", http_port=port)
    return web.ClusterRun(started_ns=started_ns, chosen=chosen, url=f"http://127.0.0.1:{port}")


def written(home: pathlib.Path, *, phase: state.Phase = state.Phase.READY, page: str = "http://127.0.0.1:8") -> None:
    """A cluster as its supervisor writes it."""
    paths = folders.Paths(home / "x")
    paths.root.mkdir(parents=True, exist_ok=True)
    paths.plan.write_text("{}")
    found = state.ClusterState(
        plan=plan.make_plan(plan.Options(name="x", nodes=1), MACHINE), phase=phase,
        supervisor=processes.ProcessId(pid=7, start_ticks=8), started_ns=1, nats_url="n", api_url="a",
        services=(), crashes=(), notes=(), failure=None, websocket_url="ws://{host}:9", page_url=page,
    )  # fmt: skip
    state.write(paths, found)


async def answers(url: str) -> int:
    return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).status)


async def test_it_ends_with_its_cluster_and_goes_on_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "LOOK_EVERY_S", 0.01)
    first = run(free_ports.choose_one())
    now: list[web.ClusterRun | None] = [first]
    said: list[str] = []
    monkeypatch.setattr("click.echo", said.append)
    task = asyncio.ensure_future(web.serve(first, lambda: now[0], opens=False))
    try:
        await waiting.until(lambda: len(said) == 1)
        assert said == [f"{first.url}   the live page of cluster x; Ctrl-C ends it"]
        assert await answers(first.url) == 200
        now[0] = None
        await waiting.until(lambda: len(said) == 2)
        assert said[1] == "cluster x is gone: the page returns after `carico up --name x`; Ctrl-C ends it"
        # The next run of the cluster wants the same port.
        assert free_ports.is_free(first.chosen.http_port)
        second = run(first.chosen.http_port, started_ns=2)
        now[0] = second
        await waiting.until(lambda: len(said) == 3)
        assert said[2] == said[0]
        assert await answers(second.url) == 200
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert free_ports.is_free(first.chosen.http_port)


def test_its_end_does_not_wait_for_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    started, ended = threading.Event(), threading.Event()

    def in_the_terminal(_: str) -> None:
        started.set()
        ended.wait()

    async def interrupted() -> None:
        task = asyncio.ensure_future(web.serve(run(free_ports.choose_one()), lambda: None, opens=True))
        await waiting.until(started.is_set)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    monkeypatch.setattr("click.launch", in_the_terminal)
    running = threading.Thread(target=lambda: asyncio.run(interrupted()))
    running.start()
    running.join(timeout=60)
    try:
        assert started.is_set() and not running.is_alive()
    finally:
        ended.set()
        running.join()


async def test_a_port_that_another_holds_is_one_line() -> None:
    async with asyncio.timeout(waiting.WAIT_S):
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            with pytest.raises(errors.EnvironmentUnfit, match=f"is `carico web --name x` running already, at .*{port}"):
                await web.serve(run(port), lambda: None, opens=False)
        finally:
            server.close()


def test_a_cluster_is_there_as_long_as_its_supervisor_is_and_does_not_end(tmp_path: pathlib.Path) -> None:
    assert web.run_now(tmp_path, "x") is None
    written(tmp_path)
    # Its supervisor is gone: what it wrote last is no longer true.
    assert web.run_now(tmp_path, "x") is None
    with folders.acquire(folders.Paths(tmp_path / "x")):
        assert web.run_now(tmp_path, "x") == run(8)
        written(tmp_path, phase=state.Phase.STOPPING)
        assert web.run_now(tmp_path, "x") is None
        written(tmp_path, page="")
        with pytest.raises(errors.SettingsError, match="by a version without the page"):
            web.run_of(tmp_path, "x")
    with pytest.raises(errors.SettingsError, match="is not running: start it with `carico up --name x`"):
        web.run_of(tmp_path, "x")
