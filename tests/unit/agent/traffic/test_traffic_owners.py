"""Which Pod has a socket: by cgroups of every layout and driver, and by the files of processes."""

import pathlib
import socket

import pytest

from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.traffic import inet_diag, owners
from tests.unit.agent.traffic.kernel_messages import tcp

UIDS = ("1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11", "2c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c22")
PROC = pathlib.Path("/proc")


def pod(root: pathlib.Path, uid: str, *, parent: str = "kubepods.slice/kubepods-burstable.slice") -> pathlib.Path:
    """A Pod's folder with one container."""
    folder = root / parent / (f"kubepods-burstable-pod{uid.replace('-', '_')}.slice" if parent else f"pod{uid}")
    (folder / "cri-containerd-1.scope").mkdir(parents=True)
    return folder


def number(folder: pathlib.Path) -> int:
    return folder.stat().st_ino


def of(cgroup: int, cookie: int = 1) -> inet_diag.Socket:
    return tcp(cookie, ("10.0.0.1", 80), ("10.0.0.2", 81), cgroup=cgroup)


def unified(root: pathlib.Path) -> owners.Owners:
    return owners.Owners(hierarchy.Group(layout=hierarchy.Layout.V2, v1={}, unified=root), proc=PROC)


@pytest.mark.parametrize("parent", ["kubepods.slice/kubepods-burstable.slice", ""], ids=["kubelet", "emulated"])
def test_a_cgroup_identifies_its_pod(tmp_path: pathlib.Path, parent: str) -> None:
    found = unified(tmp_path)
    folders = [pod(tmp_path, uid, parent=parent) for uid in UIDS]
    inner = number(folders[1] / "cri-containerd-1.scope")
    foreign = number(tmp_path)
    found.look_up([of(number(folders[0]))])
    assert [found.of(of(each)) for each in (number(folders[0]), inner, foreign, 0)] == [*UIDS, None, None]


def test_cgroups_are_looked_at_for_unknown_ones_alone(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = unified(tmp_path)
    first = number(pod(tmp_path, UIDS[0]))
    looks: list[pathlib.Path] = []
    pods = hierarchy.pods_of_kubelet

    def counted(root: pathlib.Path) -> object:
        looks.append(root)
        return pods(root)

    monkeypatch.setattr(hierarchy, "pods_of_kubelet", counted)
    found.look_up([of(first), of(4711)])
    found.look_up([of(first), of(4711)])
    found.look_up([])
    assert len(looks) == 1
    second = number(pod(tmp_path, UIDS[1]))
    found.look_up([of(second)])
    assert (len(looks), found.of(of(second))) == (2, UIDS[1])


def test_other_services_of_a_host_are_not_looked_at(tmp_path: pathlib.Path) -> None:
    hidden = tmp_path / "system.slice" / f"pod{UIDS[1]}"
    hidden.mkdir(parents=True)
    folder = pod(tmp_path, UIDS[0])
    assert list(hierarchy.pods_of_kubelet(tmp_path)) == [folder]
    assert set(hierarchy.pods(tmp_path)) == {folder, hidden}


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_without_the_cgroup_of_a_socket_its_process_identifies_the_pod(tmp_path: pathlib.Path, layout: str) -> None:
    (tmp_path / f"pod{UIDS[0]}").mkdir()
    pid = PROC.joinpath("self").resolve().name
    (tmp_path / f"pod{UIDS[0]}" / "cgroup.procs").write_text(f"{pid}\n")
    # A kernel without cgroups of sockets states none.
    found = unified(tmp_path)
    if layout == "v1":
        group = hierarchy.Group(layout=hierarchy.Layout.V1, v1={"cpuacct": tmp_path}, unified=None)
        found = owners.Owners(group, proc=PROC)
    with socket.socket() as mine:
        inode = int(PROC.joinpath("self", "fd", str(mine.fileno())).readlink().name[8:-1])
        own = tcp(1, ("10.0.0.1", 80), ("10.0.0.2", 81), inode=inode)
        found.look_up([own])
        assert found.of(own) == UIDS[0]
        assert found.of(own._replace(inode=1)) is None


def test_pods_without_a_visible_process_are_counted(tmp_path: pathlib.Path) -> None:
    for uid, processes in zip(UIDS, ("0\n", ""), strict=True):
        (tmp_path / f"pod{uid}").mkdir()
        (tmp_path / f"pod{uid}" / "cgroup.procs").write_text(processes)
    found = owners.Owners(hierarchy.Group(layout=hierarchy.Layout.V2, v1={}, unified=tmp_path), proc=PROC)
    # 0 is a process of another PID namespace; the other Pod has none yet.
    assert found.members({}) == ([], 1)
    pid = int(PROC.joinpath("self").resolve().name)
    (tmp_path / f"pod{UIDS[1]}" / "cgroup.procs").write_text(f"{pid}\n")
    members, unread = found.members({})
    assert (members, unread) == ([owners.Member(UIDS[1], pid, owners.namespace_of(PROC / "self") or 0)], 1)
    known = owners.Member(UIDS[0], 7, 8)
    members, unread = found.members({UIDS[0]: known})
    assert (known in members, len(members), unread) == (True, 2, 0)
