"""Kubelet nodes: what they need is named where it is missing, and every tree of cgroups and free range is found."""

import ipaddress
import os
import pathlib

import pytest

from carico_core.domain import errors
from carico_local.kubelets import configuration, network, node_cgroups, programs
from carico_local.kubelets.compose import plane

MOUNTS = """tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,nodev,noexec,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset,clone_children 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,xattr,release_agent=/lib/agent,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime,nsdelegate 0 0
"""


def commands(folder: pathlib.Path, *names: str) -> dict[str, str]:
    """An environment in which these commands are on PATH, and nothing else."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "CNI_PATH": str(folder)}


def test_every_missing_program_is_named_at_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_SYSTEM_FOLDERS", ())
    monkeypatch.setattr(programs, "_PLUGIN_FOLDERS", ())
    environ = commands(tmp_path / "bin", *programs.NODE[1:], *programs.TABLES[:3], *programs.MAKER)
    named = r"containerd, the CNI plugins \(CNI_PATH\) not found: `apt.*--nodes process"
    with pytest.raises(errors.EnvironmentUnfit, match=named):
        programs.find(environ)


def test_what_is_there_is_found_without_tables_of_the_newer_protocol(tmp_path: pathlib.Path) -> None:
    environ = commands(
        tmp_path / "bin", *programs.NODE, *programs.TABLES[:3], *programs.MAKER, *programs.PLUGINS
    )  # fmt: skip
    found = programs.find(environ)
    assert found.plugins == tmp_path / "bin"
    assert found.commands["containerd"] == tmp_path / "bin/containerd"


def test_nodes_need_root_and_the_nearest_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(errors.EnvironmentUnfit, match=r"^--nodes kubelet needs root, or use --nodes process"):
        programs.check()


def test_trees_are_read_with_their_controllers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert node_cgroups.trees(tmp_path / "mounts") == {
        "/sys/fs/cgroup/cpu,cpuacct": "cpu,cpuacct",
        "/sys/fs/cgroup/cpuset": "cpuset",
        "/sys/fs/cgroup/systemd": "name=systemd",
        "/sys/fs/cgroup/unified": "",
    }


def stand_in(folder: pathlib.Path, name: str, script: str) -> pathlib.Path:
    """A command that notes its arguments in `said` next to it."""
    (folder / name).write_text(f'#!/bin/sh\ncd {folder}\necho "$@" >> said\n{script}\n')
    (folder / name).chmod(0o755)
    return folder / name


# Of a Linux 6.18: a VPN's table, which a rule asks before the main one, and what the machine has for itself.
ALL_TABLES = """Id 100:
  +-- 172.28.0.0/14 2 0 2
     |-- 172.30.0.0
        /24 universe THROW
     +-- 172.31.0.0/21 2 0 2
        +-- 172.31.0.0/24 2 0 2
           |-- 172.31.0.0
              /25 link UNICAST
           |-- 172.31.0.128
              /25 link UNICAST tos=16
        |-- 172.31.2.0
           /25 universe BLACKHOLE
Main:
  +-- 0.0.0.0/0 3 0 6
     |-- 0.0.0.0
        /0 link UNICAST
     |-- 192.0.2.0
        /24 link UNICAST
Local:
  +-- 0.0.0.0/0 2 0 2
     |-- 172.31.4.7
        /32 host LOCAL
     |-- 172.31.3.255
        /32 link BROADCAST
"""


def routed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *routes: str) -> None:
    """The machine sends to these networks, as Linux shows it."""
    lines = ["Main:"]
    for route in map(ipaddress.IPv4Network, routes):
        lines += [f"  |-- {route.network_address}", f"     /{route.prefixlen} universe UNICAST"]
    shown(tmp_path, monkeypatch, "\n".join([*lines, ""]))


def shown(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tables: str) -> None:
    """Linux shows these tables."""
    (tmp_path / "routes").write_text(tables)
    monkeypatch.setattr(network, "ROUTES", tmp_path / "routes")


def test_ranges_of_every_table_are_passed_over(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown(tmp_path, monkeypatch, ALL_TABLES)
    taken = [str(each) for each in network.CANDIDATES if each not in network.free()]
    assert taken == ["172.31.0.0/24", "172.31.2.0/24", "172.31.4.0/24", "172.30.0.0/24"]


def test_what_this_machine_shows_is_understood() -> None:
    # 127.0.0.1 is in every machine's table of its own addresses, and in no line of /proc/net/route.
    assert ipaddress.IPv4Network("127.0.0.0/8") in network._routes(network.ROUTES.read_text())


def test_ranges_that_the_machine_sends_to_are_passed_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = network.CANDIDATES[:3]
    # One of its own interfaces, one behind a gateway, and what says nothing: the default, and a VPN's to all of them.
    routed(tmp_path, monkeypatch, str(first), f"{second[128]}/32", "0.0.0.0/0", "172.16.0.0/12", "192.0.2.0/24")
    assert network.free()[0] == third
    made = network.ensure(stand_in(tmp_path, "ip", ""), "x")
    assert made == network.Network(addresses=third, gateway=str(third[1]))
    assert f"address add {third[1]}/24 dev {network.bridge('x')}" in (tmp_path / "said").read_text()


def test_a_machine_that_sends_to_every_range_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(tmp_path, monkeypatch, "172.31.0.0/16", "172.30.0.0/16", "172.29.0.0/16")
    with pytest.raises(errors.EnvironmentUnfit, match=r"no range from 172\.29\.63\.0/24 to 172\.31\.0\.0/24 is free"):
        network.free()


def test_composed_nodes_know_each_other_by_address_alone() -> None:
    own = plane.node("172.18.0.7", name="node-3", cpus=1.0, memory_bytes=2**30)
    assert own.address(plane.network("172.18.0.7")) == "172.18.0.7"
    assert own.pods == ipaddress.IPv4Network("10.244.7.0/24")
    others = plane.others(own, "172.18.0.7")
    assert len({other.pods for other in others} | {own.pods}) == 254
    assert all(other.pods.subnet_of(configuration.CLUSTER_RANGE) for other in others)
    far = next(other for other in others if other.number == 200)
    assert far.address(plane.network("172.18.0.7")) == "172.18.0.200"
