"""An agent in a Pod finds the node that its Pod runs on in the host's cgroup tree."""

import pathlib
from typing import Any

import pytest

from carico_agent import settings
from carico_agent.telemetry import sources
from carico_agent.telemetry.cgroups import own_node
from carico_core.domain import errors

UID = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11"


def agent(tmp_path: pathlib.Path, **more: Any) -> settings.AgentSettings:
    values: dict[str, Any] = {
        "node": "n1", "scope": sources.Scope.NODE, "pod_uid": UID, "proc": str(tmp_path / "proc"),
        "cgroup_root": str(tmp_path / "host"),
    }  # fmt: skip
    return settings.AgentSettings(**{**values, **more})


def mount(tmp_path: pathlib.Path, *lines: str) -> None:
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc" / "mounts").write_text("".join(f"{line}\n" for line in lines))


def pod(root: pathlib.Path, name: str = f"kubepods/burstable/pod{UID}") -> None:
    (root / name / "container").mkdir(parents=True)
    (root / "kubepods" / "besteffort" / "podaaaaaaaa-0000-0000-0000-000000000000").mkdir(parents=True)


def test_a_whole_host_is_measured_as_one(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "host" / "cgroup"
    pod(root)
    mount(tmp_path, "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", f"cgroup2 {root} cgroup2 ro 0 0")
    found = own_node.resolved(agent(tmp_path))
    assert (found.scope, found.cgroup) == (sources.Scope.HOST, ".")


def test_systemd_slices_are_known(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "host" / "cgroup"
    slices = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
    pod(root, slices)
    mount(tmp_path, f"cgroup2 {root} cgroup2 ro 0 0")
    assert own_node.resolved(agent(tmp_path)).cgroup == "."


def test_slices_below_another_root_are_known(tmp_path: pathlib.Path) -> None:
    # kind: cgroupRoot /kubelet and the systemd driver, which writes the way to a slice into its name.
    root = tmp_path / "host" / "cgroup"
    way = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
    pod(root, f"{way}/kubelet-kubepods-burstable-pod{UID.replace('-', '_')}.slice")
    (root / "kubelet.slice" / "cpu.max").write_text("max 100000\n")
    mount(tmp_path, f"cgroup2 {root} cgroup2 ro 0 0")
    found = own_node.resolved(agent(tmp_path))
    assert (found.scope, found.cgroup) == (sources.Scope.CGROUP, "kubelet.slice")


def test_a_node_in_a_container_is_its_root_group(tmp_path: pathlib.Path) -> None:
    # A private cgroup namespace: the container's group is the tree's root, and has a quota that a host's root has not.
    root = tmp_path / "host" / "cgroup"
    pod(root)
    (root / "cpu.max").write_text("200000 100000\n")
    mount(tmp_path, f"cgroup2 {root} cgroup2 ro 0 0")
    found = own_node.resolved(agent(tmp_path))
    assert (found.scope, found.cgroup) == (sources.Scope.CGROUP, ".")


def test_kubelets_that_share_a_host_are_distinguished(tmp_path: pathlib.Path) -> None:
    cpu, cpuacct = tmp_path / "host" / "cpu", tmp_path / "host" / "cpuacct"
    pod(cpu / "carico" / "n1")
    (cpu / "carico" / "n2" / "kubepods" / "podbbbbbbbb-0000-0000-0000-000000000000").mkdir(parents=True)
    (cpu / "carico" / "n1" / "cpu.cfs_quota_us").write_text("100000")
    (cpuacct / "carico" / "n1").mkdir(parents=True)
    mount(tmp_path, f"cgroup {cpu} cgroup ro,cpu 0 0", f"cgroup {cpuacct} cgroup ro,cpuacct 0 0")
    found = own_node.resolved(agent(tmp_path))
    assert (found.scope, found.cgroup) == (sources.Scope.CGROUP, "carico/n1")


def test_other_scopes_stay_as_they_are(tmp_path: pathlib.Path) -> None:
    chosen = agent(tmp_path, scope=sources.Scope.HOST)
    assert own_node.resolved(chosen) is chosen


def test_the_containers_own_cgroups_do_not_count(tmp_path: pathlib.Path) -> None:
    pod(tmp_path / "own")
    mount(tmp_path, f"cgroup2 {tmp_path}/own cgroup2 rw 0 0")
    with pytest.raises(errors.EnvironmentUnfit, match="mount the host's /sys/fs/cgroup into this Pod"):
        own_node.resolved(agent(tmp_path))


def test_a_tree_without_the_pod_is_an_error_that_says_where_it_looked(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "host" / "cgroup"
    pod(root)
    mount(tmp_path, f"cgroup2 {root} cgroup2 ro 0 0")
    with pytest.raises(errors.EnvironmentUnfit, match=f"no cgroup of Pod dead.* below {root}"):
        own_node.resolved(agent(tmp_path, pod_uid="deadbeef-0000-0000-0000-000000000000"))


def test_scope_node_needs_the_pods_uid(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="give --pod-uid UID"):
        agent(tmp_path, pod_uid="")
