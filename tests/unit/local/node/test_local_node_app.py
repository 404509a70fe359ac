"""The start of an emulated node."""

import asyncio
import errno
import os
import pathlib
import socket
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings as core_settings
from carico_core.runtime.process import tasks
from carico_local.api import access
from carico_local.cgroups import node_group
from carico_local.node import app, settings
from carico_local.node.reporting import registration
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records, users
from tests.tools import waiting
from tests.tools.memory import memory_kube


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_node_on_a_full_disk_waits_for_room_and_does_not_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, number: int
) -> None:
    failures = [OSError(number, os.strerror(number)) for _ in range(3)]
    write = records.write_json

    def write_json(path: pathlib.Path, document: dict[str, Any]) -> None:
        if failures:
            raise failures.pop()
        write(path, document)

    monkeypatch.setattr(records, "write_json", write_json)
    monkeypatch.setattr(app, "ROOM_EVERY_S", 0.0)
    await app.write_ready(tmp_path / "ready", {"pid": 7})
    assert records.read_json(tmp_path / "ready") == {"pid": 7}
    assert failures == []


async def test_a_ready_file_that_cannot_be_written_at_all_ends_the_node(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        await app.write_ready(tmp_path / "nowhere" / "ready", {})


def test_a_setting_that_was_removed_is_refused_with_what_replaces_it() -> None:
    environ = {"CARICO_NODE_SYNC_S": "3"}
    with pytest.raises(errors.SettingsError, match=r"CARICO_NODE_SYNC_S was removed: .* real kubelets have such"):
        core_settings.load(settings.NodeSettings, prefix="NODE", program="carico-node", argv=[], environ=environ)


async def _start(chosen: settings.NodeSettings) -> None:
    """Run a node up to the first thing that it cannot do."""
    access.write_kubeconfig(pathlib.Path(chosen.kubeconfig), name="c", url="http://127.0.0.1:1", token="t")
    connected: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
    await app._run(
        chosen, clocks.SystemClock(), tasks.Stop(), client=memory_kube.MemoryKube(),  # type: ignore[arg-type]
        opened=node_group.NodeGroup(group=None), kept=records.Records(chosen.root),
        pod_users=users.ContainerUsers(default=None), containers=runtime.Runtime(chosen.root, runtime_group=None),
        connected=connected,  # type: ignore[arg-type]
    )  # fmt: skip


async def test_a_certificate_that_cannot_be_read_is_not_taken_for_a_port_in_use(tmp_path: pathlib.Path) -> None:
    chosen = settings.NodeSettings(
        name="node-1", cluster="c", kubeconfig=str(tmp_path / "kubeconfig"), root=tmp_path,
        log_certificate=tmp_path / "none.crt", log_key=tmp_path / "none.key",
    )  # fmt: skip
    with pytest.raises(errors.SettingsError, match=r"--log-certificate, .*cannot be read \(.*No such file"):
        await _start(chosen)


async def test_a_log_port_in_use_is_named_with_what_to_do(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = settings.NodeSettings(
            name="node-1", cluster="c", kubeconfig=str(tmp_path / "kubeconfig"), root=tmp_path, log_port=port
        )
        said = f"cannot listen on 127.0.0.1:{port} for the logs of Pods .*--log-port 0"
        with pytest.raises(errors.EnvironmentUnfit, match=said):
            await _start(chosen)


async def test_a_node_that_waits_for_room_renews_its_lease(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """It is Ready: without a Lease of the last 40 s, the controller would evict its Pods for a full disk."""

    def write_json(path: pathlib.Path, document: dict[str, Any]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(records, "write_json", write_json)
    monkeypatch.setattr(registration, "RENEW_S", 0.01)
    access.write_kubeconfig(tmp_path / "kubeconfig", name="c", url="http://127.0.0.1:1", token="t")
    chosen = settings.NodeSettings(
        name="node-1", cluster="c", kubeconfig=str(tmp_path / "kubeconfig"), root=tmp_path,
        ready_file=tmp_path / "ready",
    )  # fmt: skip
    kube, stop = memory_kube.MemoryKube(), tasks.Stop()
    connected: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
    connected.set_result(frozenset())
    running = asyncio.create_task(
        app._run(
            chosen, clocks.SystemClock(), stop, client=kube, opened=node_group.NodeGroup(group=None),  # type: ignore[arg-type]
            kept=records.Records(tmp_path), pod_users=users.ContainerUsers(default=None),
            containers=runtime.Runtime(tmp_path, runtime_group=None), connected=connected,  # type: ignore[arg-type]
        )
    )  # fmt: skip
    renewals = "PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1"
    await waiting.until(lambda: running.done() or kube.requests.count(renewals) >= 3)
    stop.set()
    await running
    assert kube.requests.count(renewals) >= 3
