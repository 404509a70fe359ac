"""A tool that is killed while it makes the nodes' network: `carico down` finds it nevertheless, `carico up` goes on."""

import pathlib

import pytest

from carico_local.cluster import client, folders
from carico_local.cluster import plan as plans
from carico_local.cluster.services import kubelet_nodes
from carico_local.kubelets import network


class Killed(BaseException):
    """The end of a tool that has no time to clean up."""


def kubelet_plan(**binaries: str) -> plans.Plan:
    return plans.Plan(
        name="t", control_plane=plans.ControlPlane.REAL, node_kind=plans.NodeKind.KUBELET, nodes=1, cores=1, scale=1.0,
        memory_bytes=2**30, estimator=None, ceiling_cpu=None, merge=None, aggregators=1, schedulers=1,
        binaries=binaries,
    )  # fmt: skip


@pytest.fixture
def paths(tmp_path: pathlib.Path) -> folders.Paths:
    found = folders.Paths(tmp_path / "t")
    found.run.mkdir(parents=True)
    return found


def command(folder: pathlib.Path, name: str, script: str) -> pathlib.Path:
    (folder / name).write_text(f'#!/bin/sh\necho "$*" >> {folder}/said\n{script}\n')
    (folder / name).chmod(0o755)
    return folder / name


async def test_a_bridge_of_this_machine_is_removed(paths: folders.Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[str] = []

    def made_and_killed(*_: object) -> network.Network:
        raise Killed

    monkeypatch.setattr(network, "ensure", made_and_killed)
    monkeypatch.setattr(network, "remove", lambda _, cluster: swept.append(cluster))
    with pytest.raises(Killed):
        kubelet_nodes.prepare(kubelet_plan(ip="ip"), paths)
    await client.clear(paths)
    assert swept == ["t"]


def test_a_bridge_without_an_address_is_replaced(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = network.bridge("t")
    (tmp_path / "routes").write_text("Main:\n")
    monkeypatch.setattr(network, "ROUTES", tmp_path / "routes")
    ip = command(
        tmp_path, "ip",
        f"""case "$*" in
        "link delete {bridge}") rm {tmp_path}/link;;
        "link add {bridge} type bridge") [ ! -e {tmp_path}/link ] || exit 2; touch {tmp_path}/link;;
        esac""",
    )  # fmt: skip
    (tmp_path / "link").touch()
    assert network.ensure(ip, "t").gateway == "172.31.0.1"
