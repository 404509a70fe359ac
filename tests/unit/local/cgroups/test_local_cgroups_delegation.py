"""Groups of v2 that systemd has given to an ordinary user, on trees that are plain folders."""

import errno
import os
import pathlib

import pytest

from carico_local.cgroups import delegation, layout, node_group

SERVICE = "user.slice/user-1000.slice/user@1000.service"
SCOPE = f"{SERVICE}/app.slice/run-r7.scope"


class Tree:
    """A mounted v2 tree whose root cannot be written to; `given` are the groups that systemd has marked."""

    def __init__(self, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "tree"
        (self.root / SCOPE / "first").mkdir(parents=True)
        self.given: set[str] = {SERVICE}
        self.mounts = root / "mounts"
        self.mounts.write_text(f"cgroup2 {self.root} cgroup2 rw 0 0\n")
        self.own = root / "own"
        monkeypatch.setattr(os, "getxattr", self._mark)
        monkeypatch.setattr(os, "getuid", lambda: 1000)
        monkeypatch.setattr(os, "access", lambda path, mode: path != self.root)
        self._read = delegation.given
        monkeypatch.setattr(delegation, "given", lambda root: self._read(root, self.own))

    def layout_from(self, group: str) -> layout.Layout:
        """The layout that a process in this group reads."""
        self.own.write_text(f"0::/{group}\n")
        return layout.read_layout(self.mounts)

    def _mark(self, path: pathlib.Path, name: str) -> bytes:
        if name == "user.delegate" and str(path.relative_to(self.root)) in self.given:
            return b"1"
        raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path, monkeypatch)


@pytest.mark.parametrize("own", [SCOPE, f"{SCOPE}/first", f"{SCOPE}/carico-c/n.runtime"])
def test_a_scope_that_was_given_away_is_where_the_tree_begins(tree: Tree, own: str) -> None:
    tree.given.add(SCOPE)
    assert tree.layout_from(own).trees == {layout.UNIFIED: tree.root / SCOPE}


@pytest.mark.parametrize("own", ["", "user.slice/user-1000.slice/session-3.scope", f"{SERVICE}/app.slice/term.scope"])
def test_elsewhere_it_begins_where_it_is_mounted(tree: Tree, own: str) -> None:
    assert tree.layout_from(own).trees == {layout.UNIFIED: tree.root}, "the service manager's group is its own"


def test_who_may_write_at_the_root_makes_his_groups_there(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.given.add(SCOPE)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert tree.layout_from(SCOPE).trees == {layout.UNIFIED: tree.root}


def test_what_runs_in_a_scope_makes_room_for_its_nodes(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = tree.root / SCOPE
    (scope / "cgroup.controllers").write_text("cpu memory pids\n")
    (scope / "cgroup.subtree_control").write_text("\n")
    (scope / "cgroup.procs").write_text("11\n12\n")
    written, procs, passed = pathlib.Path.write_text, scope / "cgroup.procs", scope / "cgroup.subtree_control"

    def write(path: pathlib.Path, text: str, **more: str) -> int:
        if path == passed and procs.read_text():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if path == scope / "first" / "cgroup.procs":
            if text == "11":  # it has just ended
                raise ProcessLookupError
            written(procs, "")
        return written(path, text, **more)

    monkeypatch.setattr(pathlib.Path, "write_text", write)
    with pytest.raises(OSError, match="the group contains processes itself"):
        delegation.pass_down(scope, delegation.NEEDED)
    tree.given.add(SCOPE)
    with monkeypatch.context() as root:
        root.setattr(os, "getuid", lambda: 0)
        with pytest.raises(OSError, match="the group contains processes itself"):
            delegation.pass_down(scope, delegation.NEEDED)
    delegation.pass_down(scope, delegation.NEEDED)
    assert (scope / "first" / "cgroup.procs").read_text() == "12"
    assert passed.read_text() == "+cpu +memory"


def systemd_run(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *, code: int) -> None:
    fake = folder / "systemd-run"
    fake.write_text(f'#!/bin/sh\nshift $(($# - 1))\n"$@" && exit {code}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(("code", "named"), [(0, True), (1, False)])
def test_the_command_that_gives_a_group_is_named_where_it_works(
    tree: Tree, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, code: int, named: bool
) -> None:
    systemd_run(tmp_path, monkeypatch, code=code)
    made = pathlib.Path.mkdir

    def refuse(path: pathlib.Path, **more: bool) -> None:
        if tree.root in path.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        made(path, **more)

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    found = node_group.open_node(
        tree.layout_from(""), cluster="c", node="n", cores=0.5, memory_bytes=2**20, period_us=10_000
    )
    assert found.fallback == "process-accounting"
    assert found.reason.startswith(f"Permission denied at {tree.root}/carico-c")
    assert ("`systemd-run --user --scope -p Delegate=yes carico ...`" in found.reason) == named


def test_no_command_is_named_where_none_helps(
    tree: Tree, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd_run(tmp_path, monkeypatch, code=0)
    assert delegation.way_in(OSError(errno.EROFS, "Read-only file system"), tree.root) == ""
    assert delegation.way_in(OSError(errno.EACCES, "Permission denied"), tmp_path) == "", "this root can be written to"
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert delegation.way_in(OSError(errno.EACCES, "Permission denied"), tree.root) == ""
