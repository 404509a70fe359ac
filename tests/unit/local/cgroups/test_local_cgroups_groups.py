"""Cgroup layouts from mounts, and groups on trees that are plain folders."""

import errno
import json
import os
import pathlib

import pytest

from carico_local import process_ids
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout, node_group, sweep

RECORDED = pathlib.Path(__file__).parents[3] / "fixtures" / "cgroup" / "6.1-v2"
POD = "pod1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11"
V1 = """cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /c/memory cgroup rw,relatime,memory 0 0
cgroup /c/systemd cgroup rw,name=systemd 0 0
"""
UNIFIED = "cgroup2 /c/unified cgroup2 rw 0 0\n"


@pytest.mark.parametrize(
    ("mounts", "version", "roots"),
    [
        (V1, "v1", 2),
        (V1 + UNIFIED, "hybrid", 3),
        (UNIFIED, "v2", 1),
        ("proc /proc proc rw 0 0\nbroken\n", "none", 0),
        ("cgroup2 /with\\040blank cgroup2 rw 0 0\n", "v2", 1),
    ],
)
def test_layouts(mounts: str, version: str, roots: int) -> None:
    found = layout.parse_mounts(mounts)
    assert (found.version.value, len(found.roots)) == (version, roots)


def v2(root: pathlib.Path, *, offered: str = "cpuset cpu io memory pids", enabled: str = "") -> layout.Layout:
    (root / "cgroup.controllers").write_text(f"{offered}\n")
    (root / "cgroup.subtree_control").write_text(f"{enabled}\n")
    return layout.Layout(version=layout.Version.V2, trees={layout.UNIFIED: root})


def test_limits_on_v2_are_one_file_each(tmp_path: pathlib.Path) -> None:
    group = groups.Group(layout=v2(tmp_path), path="g")
    group.create()
    group.set_cpu(cores=0.5, period_us=10_000)
    group.set_memory(1024)
    assert (tmp_path / "g" / "cpu.max").read_text() == "5000 10000"
    assert (tmp_path / "g" / "memory.max").read_text() == "1024"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_v2_passes_down_what_is_not_yet_and_what_is_welcome_only_where_it_is_offered(tmp_path: pathlib.Path) -> None:
    found = v2(tmp_path, enabled="cpu pids")
    groups.Group(layout=found, path="g").create()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
    found = v2(tmp_path, enabled="cpu memory")
    groups.Group(layout=found, path="h").create(welcome=("rdma", "io"))
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+io"
    found = v2(tmp_path, enabled="cpu memory")
    (tmp_path / "cgroup.subtree_control").chmod(0o444)
    groups.Group(layout=found, path="i").create()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "cpu memory\n", "nothing to write: no right is needed"


def test_a_controller_that_the_kernel_has_not_is_named(tmp_path: pathlib.Path) -> None:
    found = open_node(v2(tmp_path, offered="cpuset cpu io pids"))
    assert found.group is None
    assert found.reason == f"no controller memory at {tmp_path}/cgroup.controllers"
    assert not (tmp_path / "carico-c").exists(), "all or nothing"


def test_a_group_with_processes_of_its_own_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = pathlib.Path.write_text

    def refuse(path: pathlib.Path, text: str, **more: str) -> int:
        if path.name == "cgroup.subtree_control":
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return written(path, text, **more)

    found = v2(tmp_path)
    monkeypatch.setattr(pathlib.Path, "write_text", refuse)
    reason = open_node(found).reason
    assert reason == (
        "the group contains processes itself, so it cannot enable controllers for groups below at "
        f"{tmp_path}/cgroup.subtree_control"
    )


# The kernel's least, default and most, and between them what runc 1.3.2 and later write.
@pytest.mark.parametrize(
    ("shares", "weight"), [(2, 1), (3, 2), (102, 17), (1024, 100), (2000, 170), (22_000, 1204), (2**18, 10_000)]
)
def test_the_weight_at_the_cpu_is_shares_on_v1_and_a_curve_of_them_on_v2(
    tmp_path: pathlib.Path, shares: int, weight: int
) -> None:
    unified = groups.Group(layout=v2(tmp_path), path="g")
    unified.create()
    unified.set_cpu_weight(shares=shares)
    assert (tmp_path / "g" / "cpu.weight").read_text() == str(weight)
    trees = {name: tmp_path / name for name in ("cpu", layout.UNIFIED)}
    hybrid = groups.Group(layout=layout.Layout(version=layout.Version.HYBRID, trees=trees), path="g")
    hybrid.create()
    hybrid.set_cpu_weight(shares=shares)
    assert (tmp_path / "cpu" / "g" / "cpu.shares").read_text() == str(shares)
    assert list((tmp_path / layout.UNIFIED / "g").iterdir()) == []


@pytest.mark.parametrize("swap", [True, False])
def test_memory_on_v2_is_bounded_without_swap(tmp_path: pathlib.Path, swap: bool) -> None:
    group = groups.Group(layout=v2(tmp_path), path="g")
    group.create()
    limit = tmp_path / "g" / "memory.swap.max"
    if swap:
        limit.write_text("max\n")
    group.set_memory(4096)
    assert limit.exists() == swap
    assert not swap or limit.read_text() == "0"


def test_a_container_on_v2_ends_as_one_where_the_kernel_can(tmp_path: pathlib.Path) -> None:
    group = groups.Group(layout=v2(tmp_path), path="g")
    group.create()
    group.end_as_one()
    assert list((tmp_path / "g").iterdir()) == [], "Linux before 4.19"
    (tmp_path / "g" / "memory.oom.group").write_text("0\n")
    group.end_as_one()
    assert (tmp_path / "g" / "memory.oom.group").read_text() == "1"


def test_limits_on_v1_go_to_their_controllers(tmp_path: pathlib.Path) -> None:
    trees = {name: tmp_path / name for name in ("cpu", "cpuacct", "memory")}
    group = groups.Group(layout=layout.Layout(version=layout.Version.V1, trees=trees), path="a/b")
    group.create()
    group.set_cpu(cores=0.025, period_us=10_000)
    group.set_memory(4096)
    assert (tmp_path / "cpu/a/b/cpu.cfs_quota_us").read_text() == "1000"
    assert (tmp_path / "cpu/a/b/cpu.cfs_period_us").read_text() == "40000"
    assert (tmp_path / "memory/a/b/memory.limit_in_bytes").read_text() == "4096"
    assert all((trees[name] / "a/b").is_dir() for name in trees)


def test_memory_used_leaves_out_what_can_be_dropped(tmp_path: pathlib.Path) -> None:
    directory = tmp_path / "memory" / "g"
    directory.mkdir(parents=True)
    (directory / "memory.usage_in_bytes").write_text("1000\n")
    (directory / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 300\n")
    (directory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    trees = {"memory": tmp_path / "memory"}
    group = groups.Group(layout=layout.Layout(version=layout.Version.V1, trees=trees), path="g")
    assert group.memory_used_bytes() == 700
    assert group.oom_kills() == 2


@pytest.mark.parametrize("path", ["node", f"node/{POD}", f"node/{POD}/main"])
def test_v2_tells_a_kill_for_want_of_memory_in_every_group_above_the_process(path: str) -> None:
    group = groups.Group(layout=layout.Layout(version=layout.Version.V2, trees={layout.UNIFIED: RECORDED}), path=path)
    assert group.oom_kills() == 1
    used = group.memory_used_bytes()
    assert used is not None
    assert 0 < used <= 2**20


def open_node(found: layout.Layout) -> node_group.NodeGroup:
    return node_group.open_node(found, cluster="c", node="n", cores=0.5, memory_bytes=2**20, period_us=10_000)


def test_no_or_partial_trees_are_the_named_fallback() -> None:
    none = open_node(layout.Layout(version=layout.Version.NONE, trees={}))
    assert none.fallback == "process-accounting"
    partial = layout.Layout(version=layout.Version.V1, trees={"cpu": pathlib.Path("/nonexistent")})
    assert "cpuacct, memory" in open_node(partial).reason


def test_a_tree_that_cannot_be_written_is_the_fallback_with_its_reason(tmp_path: pathlib.Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    found = open_node(layout.Layout(version=layout.Version.V2, trees={layout.UNIFIED: blocked}))
    assert found.group is None
    assert "Not a directory" in found.reason


def test_only_the_process_that_was_recorded_is_killed(tmp_path: pathlib.Path) -> None:
    own = process_ids.start_ticks(os.getpid())
    assert own is not None
    # Another process with a reused id has another start time: this test survives it.
    (tmp_path / "runtime.json").write_text(f'{{"pid": {os.getpid()}, "start_ticks": {own - 1}}}')
    assert sweep.kill_recorded(tmp_path) == 0
    (tmp_path / "runtime.json").write_text("not json")
    assert sweep.kill_recorded(tmp_path) == 0
    assert process_ids.start_ticks(2**22 + 1) is None


@pytest.mark.parametrize("is_gone", [True, False])
def test_groups_that_systemd_gave_to_who_started_the_nodes_are_swept_from_outside_of_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    swept: list[groups.Group] = []

    def destroy(group: groups.Group) -> bool:
        swept.append(group)
        return is_gone

    monkeypatch.setattr(layout, "read_layout", lambda: layout.Layout(version=layout.Version.V2, trees={}))
    monkeypatch.setattr(groups.Group, "destroy", destroy)
    scope = tmp_path / "user.slice" / "run-1.scope"
    (scope / "carico-c" / "n").mkdir(parents=True)
    (scope / "carico-c" / "n" / "cgroup.procs").write_text("2\n3\n")
    said = {"path": "carico-c/n", "layout": "v2", "trees": {"unified": str(scope / "carico-c" / "n")}}
    files = [tmp_path / f"{number}.ready.json" for number in range(5)]
    for file, cgroup in zip(files, (said, None, {**said, "layout": "hybrid"}, {**said, "path": "other"}), strict=False):
        file.write_text(json.dumps({"node": "n", "cgroup": cgroup}))
    found = sweep.sweep("c", ready_files=files)
    assert [group.directories for group in swept] == [(scope / "carico-c",)]
    assert (found.killed, found.remaining) == (2, () if is_gone else (str(scope / "carico-c"),))
    assert sweep.sweep("other", ready_files=files) == sweep.Swept(killed=0, remaining=())
