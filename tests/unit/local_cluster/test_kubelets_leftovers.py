"""A tool that is killed while it makes the nodes' network: `carico down` finds it nevertheless, `carico up` goes on."""

import os
import pathlib

import pytest

from carico_core.runtime.process import settings
from carico_local.cluster import client, host_nodes, kubelet_nodes, kubelet_programs, state
from carico_local.cluster import plan as plans
from carico_local.host_kubelets import links
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
def paths(tmp_path: pathlib.Path) -> state.Paths:
    found = state.Paths(tmp_path / "t")
    found.run.mkdir(parents=True)
    return found


def command(folder: pathlib.Path, name: str, script: str) -> pathlib.Path:
    (folder / name).write_text(f'#!/bin/sh\necho "$*" >> {folder}/said\n{script}\n')
    (folder / name).chmod(0o755)
    return folder / name


async def test_a_network_of_an_engine_is_removed(
    tmp_path: pathlib.Path, paths: state.Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(tmp_path, "docker", '[ "$1 $2" != "network ls" ] || echo made')
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def made_and_killed(*_: object) -> network.Network:
        raise Killed

    monkeypatch.setattr(network, "ensure", made_and_killed)
    with pytest.raises(Killed):
        kubelet_nodes.prepare(kubelet_plan(**{kubelet_programs.IMAGE: "i"}), paths, environ)
    monkeypatch.setattr(settings, "environment", lambda: environ)
    await client.clear(paths)
    assert "network rm made" in (tmp_path / "said").read_text().splitlines()


async def test_a_bridge_of_this_machine_is_removed(paths: state.Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[str] = []

    def made_and_killed(*_: object) -> network.Network:
        raise Killed

    monkeypatch.setattr(host_nodes, "network_of", made_and_killed)
    monkeypatch.setattr(host_nodes, "sweep", lambda cluster, _: swept.append(cluster))
    with pytest.raises(Killed):
        kubelet_nodes.prepare(kubelet_plan(), paths, {})
    await client.clear(paths)
    assert swept == ["t"]


def test_a_bridge_without_an_address_is_made_anew(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert links.ensure(ip, "t").gateway == "172.31.0.1"
