"""An embedded API and a node on a disk that is full for a while: what has finished is reported, and both go on."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from carico_local.node.runtime import client as runtime
from tests.integration.nodes import node_site
from tests.tools import waiting

# Back within 10 s of there being room; four times that, since the machine is shared.
BACK_WITHIN_S = 40.0
# The API's own work that writes: checkpoints every 10 s, conditions of Nodes every 5 s.
FULL_FOR_S = 11.0


@pytest.fixture
def small_disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a file system of its own, with 24 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root, to mount a file system")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "carico-test", folder], check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(path: pathlib.Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (2**16, 2**12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


def test_pods_that_finish_on_a_full_disk_keep_their_exit_codes(small_disk: pathlib.Path) -> None:
    with node_site.running(small_disk, "--latency", "0.1", "--cgroups", "none") as site:
        until = "until [ -e {} ]; do sleep 0.05; done"
        site.run("ends", "sh", "-c", f"{until.format(site.marks / 'end')}; echo done; exit 4")
        site.run("goes-on", "sh", "-c", until.format(site.marks / "later"))
        for name in ("ends", "goes-on"):
            site.until_phase(name, "Running")
        fill(small_disk / "filler")
        (site.marks / "end").touch()
        time.sleep(FULL_FOR_S)
        assert site.api is not None and site.api.poll() is None, (small_disk / "api.log").read_text()
        assert site.node is not None and site.node.poll() is None
        assert site.status("ends")["phase"] == "Running", "the API cannot take it yet"
        (small_disk / "filler").unlink()
        ended = node_site.terminated(site.until_phase("ends", "Failed", within_s=BACK_WITHIN_S))
        assert (ended["exitCode"], ended["reason"]) == (4, "Error")
        # Its record too, for the node's next process.
        records = site.root / "node" / "pods"
        site.until(lambda: len(list(records.glob("*/*/0/exit.json"))) == 1, "the record", within_s=BACK_WITHIN_S)
        (site.marks / "later").touch()
        assert node_site.terminated(site.until_phase("goes-on", "Succeeded"))["exitCode"] == 0
        site.run("new", "true")
        site.until_phase("new", "Succeeded", within_s=waiting.WAIT_S)


async def test_the_next_process_of_a_node_learns_what_a_full_disk_did_not_take(
    small_disk: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    root, mark = small_disk / "node", tmp_path / "end"
    directory = root / "pods" / "uid" / "main" / "0"
    directory.mkdir(parents=True)
    before = runtime.Runtime(root, runtime_group=None)
    command = runtime.ContainerCommand(
        id="uid/main/0", argv=("sh", "-c", f"until [ -e {mark} ]; do sleep 0.05; done; exit 4"),
        env={"PATH": runtime.container_path()}, cwd="/", directory=directory, group=None,
    )  # fmt: skip
    after = runtime.Runtime(root, runtime_group=None)
    try:
        await before.start(command)
        fill(small_disk / "filler")
        mark.touch()
        ended = await before.wait(command.id, directory=directory, group=None)
        assert not (directory / "exit.json").exists()
        # As where the node's process is killed: the runtime goes on.
        await after.connect()
        assert after.is_inherited
        assert await after.wait(command.id, directory=directory, group=None) == ended
        assert ended is not None
        assert ended.code == 4
    finally:
        await after.close(quit_runtime=True)
        # It was the child of the first.
        process = before._process
        await before.close(quit_runtime=False)
        await waiting.until(lambda: process is None or process.poll() is not None)
