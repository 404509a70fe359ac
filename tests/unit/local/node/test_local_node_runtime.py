"""A container runtime that ends at any moment, on a full disk say, is restarted or reported; nothing waits for it."""

import asyncio
import json
import os
import pathlib
import resource

import pytest

from carico_local.node.containers import handlers
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import landlock, records
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


async def test_of_a_closed_folder_a_container_reads_what_its_node_shares_with_it_and_nothing_else(
    tmp_path: pathlib.Path,
) -> None:
    """As of the folder of an ordinary user's clusters, also where another process asks for the container."""
    if not landlock.version():
        pytest.skip("the kernel has no Landlock")
    opened = records.open_root(tmp_path / "node", is_private=False)
    for folder in (tmp_path, opened.root, opened.shared):
        (folder / "file").write_text(f"{folder.name}\n")
    made = runtime.Runtime(opened.root, runtime_group=None, closed=(str(tmp_path),))
    other = runtime.Runtime(opened.root, runtime_group=None)
    for name, client in (("of the node", made), ("of another", other)):
        # Another client takes the place of the first one.
        await asyncio.wait_for(client.connect(), waiting.WAIT_S)
        script = f"cat {opened.shared}/file {opened.root}/file {tmp_path}/file"
        directory = opened.begin(name, "c", 0)
        wanted = runtime.ContainerCommand(
            id=name, argv=("sh", "-c", script), env={"PATH": os.environ["PATH"]}, cwd="/", directory=directory,
            group=None,
        )  # fmt: skip
        await asyncio.wait_for(client.start(wanted), waiting.WAIT_S)
        await asyncio.wait_for(client.wait(name, directory=directory, group=None), waiting.WAIT_S)
        said = (directory / records.LOG).read_text()
        assert said.count("Permission denied") == 2
        assert " shared\n" in said
    await other.close(quit_runtime=False)
    await asyncio.wait_for(made.connect(), waiting.WAIT_S)
    await made.close(quit_runtime=True)


async def test_a_runtime_that_may_open_no_more_files_starts_no_container_and_keeps_the_others(
    tmp_path: pathlib.Path,
) -> None:
    opened = records.open_root(tmp_path / "node", is_private=False)
    made = runtime.Runtime(opened.root, runtime_group=None)
    await asyncio.wait_for(made.connect(), waiting.WAIT_S)

    def command(name: str) -> runtime.ContainerCommand:
        argv, directory = ("/bin/sleep", "600"), opened.begin(name, "c", 0)
        return runtime.ContainerCommand(id=name, argv=argv, env={}, cwd="/", directory=directory, group=None)

    async def start(name: str) -> None:
        await asyncio.wait_for(made.start(command(name)), waiting.WAIT_S)

    await start("first")
    zygote = json.loads((opened.root / records.RUNTIME).read_bytes())["pid"]
    before = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir(f"/proc/{zygote}/fd")))
    # The log of the container can be opened, and nothing more.
    least = min(set(range(max(used) + 2)) - used) + 1
    resource.prlimit(zygote, resource.RLIMIT_NOFILE, (least, before[1]))
    with pytest.raises(runtime.StartFailed, match="Too many open files"):
        await start("second")
    resource.prlimit(zygote, resource.RLIMIT_NOFILE, before)
    assert set(map(int, os.listdir(f"/proc/{zygote}/fd"))) == used
    await start("third")
    assert json.loads((opened.root / records.RUNTIME).read_bytes())["pid"] == zygote
    await made.close(quit_runtime=True)


async def test_what_a_probe_writes_in_parts_is_reported_whole() -> None:
    """As cat does: the name first, then the reason."""
    asked = handlers.Exec(command=("sh", "-c", "printf one; sleep 0.3; printf two; exit 1"))
    where = handlers.Inside(address="", env={"PATH": "/usr/bin:/bin"}, cwd="/", procs=())
    assert await handlers.perform(asked, where, timeout_s=waiting.WAIT_S) == "onetwo"
