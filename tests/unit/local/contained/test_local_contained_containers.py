"""The parent of a contained node's containers: a fork of the first process, which the kubelet finds."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records
from tests.tools import waiting

FORK = """
import pathlib, sys
from carico_local.contained import main, pair, settings, size
from carico_local.node.runtime import zygote
found = size.Size(real_cores=0.5, memory_bytes=2**30, free_bytes=2**30, without="")
chosen = settings.ContainerSettings(kubeconfig="/x", root=pathlib.Path(sys.argv[1]))
node = settings.ContainedNode(chosen=chosen, name="node-1", address="127.0.0.1", size=found)
pathlib.Path(sys.argv[2]).write_text(str(pair.fork(lambda: main.containers(zygote, node))))
"""


@pytest.fixture
def forked(tmp_path: pathlib.Path) -> int:
    """Its process id; what forked it has ended since."""
    pid = tmp_path / "pid"
    # Without pipes, which it would hold open.
    subprocess.run(
        [sys.executable, "-OO", "-c", FORK, str(tmp_path), str(pid)], stdout=subprocess.DEVNULL, check=True, timeout=60
    )
    return int(pid.read_text())


def command(folder: pathlib.Path, name: str, *argv: str) -> runtime.ContainerCommand:
    directory = folder / name
    directory.mkdir()
    return runtime.ContainerCommand(id=name, argv=argv, env={"PATH": "/bin"}, cwd="/", directory=directory, group=None)


async def test_a_kubelet_finds_it_and_runs_containers(tmp_path: pathlib.Path, forked: int) -> None:
    try:
        socket = tmp_path / "runtime.sock"
        await waiting.until(socket.exists)
        containers = runtime.Runtime(tmp_path, runtime_group=None)
        assert await containers.connect() == frozenset()
        known = records.read_json(tmp_path / records.RUNTIME)
        assert known is not None
        assert known["pid"] == forked, "no other was started"
        for name, argv, code in (
            ("workload", ("carico-workload", "pi", "--seconds", "0.05"), 0),
            ("program", ("sh", "-c", "exit 3"), 3),
        ):
            wanted = command(tmp_path, name, *argv)
            await containers.start(wanted)
            ended = await containers.wait(name, directory=wanted.directory, group=None)
            assert ended is not None
            assert ended.code == code
        assert '"workload": "pi"' in (tmp_path / "workload" / records.LOG).read_text()
        await containers.close(quit_runtime=True)
        await waiting.until(lambda: not _runs(forked))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(forked, signal.SIGKILL)


async def test_where_it_has_ended_a_kubelet_starts_another(tmp_path: pathlib.Path, forked: int) -> None:
    await waiting.until((tmp_path / "runtime.sock").exists)
    os.kill(forked, signal.SIGKILL)
    await waiting.until(lambda: not _runs(forked))
    containers = runtime.Runtime(tmp_path, runtime_group=None)
    try:
        assert await containers.connect() == frozenset()
    finally:
        await containers.close(quit_runtime=True)


def _runs(pid: int) -> bool:
    """Whether a process is there and not only to be waited for."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
