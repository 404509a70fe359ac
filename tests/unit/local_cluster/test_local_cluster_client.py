"""What ends with a cluster whose supervisor was killed."""

import json
import pathlib

import pytest

from carico_local.cgroups import sweep
from carico_local.cluster import client, processes, state
from carico_local.node import runtime


async def test_a_runtime_that_nothing_else_tells_of_ends_with_its_cluster(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = state.Paths(tmp_path / "cluster")
    # Not where a cluster keeps its nodes, and in no cgroup: as while the node that started it is being killed.
    root = tmp_path / "elsewhere"
    root.mkdir()
    monkeypatch.setenv(sweep.RUN_VARIABLE, str(paths.root))
    client_of_it = runtime.Runtime(root, runtime_group=None)
    assert await client_of_it.connect() == frozenset()
    pid = json.loads((root / "runtime.json").read_bytes())["pid"]
    found = processes.marked(f"{sweep.RUNTIME_VARIABLE}={paths.root}")
    assert [process.pid for process in found] == [pid]
    await client.clear(paths)
    assert not processes.is_alive(found[0])
    await client_of_it.close(quit_runtime=True)
