"""Kubelets without an engine: what they need is named where it is missing, and every tree of cgroups is found."""

import ipaddress
import json
import os
import pathlib

import pytest

from carico_core.domain import errors
from carico_local.cluster import kubelet_programs
from carico_local.host_kubelets import cgroups, links, programs
from carico_local.kubelets import composed, configuration, network

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
    with pytest.raises(errors.EnvironmentUnfit, match=r"^containerd, the CNI plugins \(CNI_PATH\) not found: `apt"):
        programs.find(environ)


def test_what_is_there_is_found_without_tables_of_the_newer_protocol(tmp_path: pathlib.Path) -> None:
    environ = commands(
        tmp_path / "bin", *programs.NODE, *programs.TABLES[:3], *programs.MAKER, *programs.PLUGINS
    )  # fmt: skip
    found = programs.find(environ)
    assert found.plugins == tmp_path / "bin"
    assert found.commands["containerd"] == tmp_path / "bin/containerd"


def test_without_an_engine_and_without_programs_both_are_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(errors.EnvironmentUnfit, match=r"no docker command.*--nodes process.*but it needs root$"):
        kubelet_programs.check({"PATH": str(tmp_path)})


def test_trees_are_mounted_anew_by_their_controllers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert cgroups.trees(tmp_path / "mounts") == {
        "/sys/fs/cgroup/cpu,cpuacct": "cpu,cpuacct",
        "/sys/fs/cgroup/cpuset": "cpuset",
        "/sys/fs/cgroup/systemd": "name=systemd",
        "/sys/fs/cgroup/unified": "",
    }


def test_a_range_that_is_taken_is_passed_over(tmp_path: pathlib.Path) -> None:
    """A stand-in for `ip`, which knows one address and notes what it is told."""
    taken, free = network.CANDIDATES[0], network.CANDIDATES[1]
    before = [{"ifname": "eth0", "addr_info": [{"local": str(taken[9]), "prefixlen": 16 + 8}]}]
    after = [{"ifname": network.bridge("x"), "addr_info": [{"local": str(free[1]), "prefixlen": 24}]}]
    (tmp_path / "before").write_text(json.dumps(before))
    (tmp_path / "after").write_text(json.dumps(before + after))
    ip = tmp_path / "ip"
    ip.write_text(
        f'#!/bin/sh\ncd {tmp_path}\necho "$@" >> said\n'
        'case "$*" in *show*) if grep -q up said; then cat after; else cat before; fi ;; esac\n'
    )
    ip.chmod(0o755)
    made = links.ensure(ip, "x")
    assert made == network.Network(name="", addresses=free, gateway=str(free[1]))
    assert f"address add {free[1]}/24 dev {network.bridge('x')}" in (tmp_path / "said").read_text()


def test_composed_nodes_know_each_other_by_address_alone() -> None:
    own = composed.node("172.18.0.7", name="node-3", cpus=1.0, memory_bytes=2**30)
    assert own.address(composed.network("172.18.0.7")) == "172.18.0.7"
    assert own.pods == ipaddress.IPv4Network("10.244.7.0/24")
    others = composed.others(own, "172.18.0.7")
    assert len({other.pods for other in others} | {own.pods}) == 254
    assert all(other.pods.subnet_of(configuration.CLUSTER_RANGE) for other in others)
    far = next(other for other in others if other.number == 200)
    assert far.address(composed.network("172.18.0.7")) == "172.18.0.200"
