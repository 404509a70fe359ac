"""A container runtime that ends at any moment, on a full disk say, is restarted or reported; nothing waits for it."""

import asyncio
import pathlib

import pytest

from carico_local.node.containers import handlers
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records
from tests.tools import waiting

LISTED = b'{"event": "running", "started_ns": {"a": 7}, "exits": {"b": {"code": 4, "signal": 0, "wall_ns": 9}}}\n'
COMMAND = runtime.ContainerCommand(
    id="x", argv=("true",), env={}, cwd="/", directory=pathlib.Path("/nowhere"), group=None
)


async def serving(folder: pathlib.Path, *answers: bytes) -> asyncio.Server:
    """Gives one answer to each connection, and ends it."""
    left = list(answers)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0))
        writer.close()

    return await asyncio.start_unix_server(answer, folder / records.SOCKET)


async def test_a_runtime_that_ends_before_it_says_what_runs_is_reached_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    made = runtime.Runtime(tmp_path, runtime_group=None)
    monkeypatch.setattr(made, "_spawn", lambda: None)
    server = await serving(tmp_path, b"", LISTED)
    assert await asyncio.wait_for(made.connect(), 30.0) == {"a"}
    assert not made.is_inherited, "the first one ended, so another one was started"
    server.close()


async def test_what_a_full_disk_did_not_take_comes_from_the_runtime_that_is_still_there(tmp_path: pathlib.Path) -> None:
    server = await serving(tmp_path, LISTED)
    made = runtime.Runtime(tmp_path, runtime_group=None)
    await asyncio.wait_for(made.connect(), 30.0)
    assert made.is_inherited
    assert (made.found_ns("a"), made.found_ns("b"), made.found_ns("c")) == (7, 0, None)
    ended = await asyncio.wait_for(made.wait("b", directory=tmp_path, group=None), 30.0)
    assert ended == runtime.Exit(code=4, signal=0, finished_ns=9)
    server.close()


async def test_a_start_is_not_waited_for_where_the_runtime_ends_as_it_is_reached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    made = runtime.Runtime(tmp_path, runtime_group=None)

    async def lost() -> frozenset[str]:
        return frozenset()

    monkeypatch.setattr(made, "connect", lost)
    with pytest.raises(runtime.StartFailed, match="ended right after connecting"):
        await asyncio.wait_for(made.start(COMMAND), 30.0)


async def test_what_a_probe_writes_in_parts_is_reported_whole() -> None:
    """As cat does: the name first, then the reason."""
    asked = handlers.Exec(command=("sh", "-c", "printf one; sleep 0.3; printf two; exit 1"))
    where = handlers.Inside(address="", env={"PATH": "/usr/bin:/bin"}, cwd="/", procs=())
    assert await handlers.perform(asked, where, timeout_s=waiting.WAIT_S) == "onetwo"
