"""Where the files of a cgroup are: pure v2, pure v1, or hybrid (v1 controllers, PSI in the unified tree only)."""

import dataclasses
import enum
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import kernel_file

# "pod<uid>" (cgroupfs driver) or "...-pod<uid with _ for ->.slice" (systemd driver).
_POD = re.compile(r"(?:^|-)pod([0-9a-f][0-9a-f_-]{7,})(?:\.slice)?$")
# The kubelet's cgroup of all Pods, by the cgroupfs driver or the systemd driver. The latter repeats the parents in the
# name: kubelet.slice/kubelet-kubepods.slice with kind's cgroupRoot /kubelet.
ALL_PODS = re.compile(r"kubepods|(?:.+-)?kubepods\.slice")
# How the kernel writes a blank, a tab or a backslash in a mount point: proc_pid_mounts(5).
_ESCAPE = re.compile(r"\\([0-7]{3})")
_CONTROLLERS = frozenset({"cpu", "cpuacct", "cpuset", "memory"})
# Maximum depth from a node's root to its containers: kubepods/burstable/pod/container.
POD_DEPTH = 4


class Mount(NamedTuple):
    """A mounted hierarchy: v2's, or one of v1, whose controllers are among its mount options."""

    folder: pathlib.Path
    is_unified: bool
    options: tuple[str, ...]


class Layout(enum.StrEnum):
    """How a machine mounts its cgroups."""

    V1 = "v1"
    V2 = "v2"
    HYBRID = "hybrid"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Roots of the mounted hierarchies: per v1 controller, and the unified one."""

    layout: Layout
    v1: dict[str, pathlib.Path]
    unified: pathlib.Path | None

    def group(self, name: str) -> "Group":
        """Return the folders of one cgroup by its path below the roots (or an absolute path in one of them).

        Raises `Absent` if no root contains the cgroup.
        """
        below = self._below(name)
        roots = {controller: root / below for controller, root in self.v1.items()}
        group = Group(
            layout=self.layout,
            v1={controller: path for controller, path in roots.items() if path.is_dir()},
            unified=self.unified / below if self.unified is not None and (self.unified / below).is_dir() else None,
        )
        needed = group.unified if self.layout is Layout.V2 else group.v1.get("cpuacct")
        if needed is None:
            raise port.Absent(
                f"cgroup {name}", f"not in the {self.layout} tree of this machine, or no right to read it"
            )
        return group

    def lineage(self, name: str) -> tuple["Group", ...]:
        """Return the cgroup and its parents, nearest first, as far as they are mounted here. Raises `Absent`.

        In a container this ends at the container's own cgroup: limits above it are not visible.
        """
        below = pathlib.PurePosixPath(self._below(name))
        return tuple(self.group(str(each)) for each in (below, *below.parents))

    def _below(self, name: str) -> str:
        path = pathlib.Path(name)
        for root in (*self.v1.values(), self.unified):
            if root is not None and path.is_absolute() and path.is_relative_to(root):
                return str(path.relative_to(root))
        return name.strip("/") or "."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The folders of one cgroup in all hierarchies that contain it."""

    layout: Layout
    v1: dict[str, pathlib.Path]
    unified: pathlib.Path | None

    @property
    def pressure(self) -> pathlib.Path | None:
        """cpu.pressure, which exists in the unified tree only."""
        return None if self.unified is None else self.unified / "cpu.pressure"

    @property
    def cpu(self) -> pathlib.Path | None:
        """The folder with the quota and cpu.stat."""
        return self.unified if self.layout is Layout.V2 else self.v1.get("cpu")


def discover(mounts: pathlib.Path = pathlib.Path("/proc/mounts"), *, below: str = "") -> Tree:
    """Return how this machine mounts its cgroups. Raises `Absent` if it mounts none.

    `below`: only mounts at or below this folder count. In a container, that is the mount of the host's tree:
    /sys/fs/cgroup is the container's own.
    """
    try:
        return parse_mounts(mounts.read_text(encoding="utf-8", errors="replace").splitlines(), below=below)
    except OSError as error:
        raise port.Absent(str(mounts), error.strerror or "cannot be read") from None


def mounts_of(lines: Iterable[str]) -> Iterator[Mount]:
    """Yield the cgroup hierarchies in lines of /proc/mounts."""
    for line in lines:
        words = line.split()
        if len(words) >= 4 and words[2] in ("cgroup", "cgroup2"):
            folder = _ESCAPE.sub(lambda escape: chr(int(escape[1], 8)), words[1])
            yield Mount(pathlib.Path(folder), words[2] == "cgroup2", tuple(words[3].split(",")))


def parse_mounts(lines: Iterable[str], *, below: str = "") -> Tree:
    """Return the tree that lines of /proc/mounts describe.

    >>> parse_mounts(["cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0"]).layout
    <Layout.V2: 'v2'>

    Raises `Absent` if no cgroup is mounted (`below`).
    """
    v1: dict[str, pathlib.Path] = {}
    unified: pathlib.Path | None = None
    for each in mounts_of(lines):
        if below and not each.folder.is_relative_to(below):
            continue
        if each.is_unified:
            unified = unified or each.folder
        else:
            v1 |= {option: each.folder for option in each.options if option not in v1}
    controllers = {name: folder for name, folder in v1.items() if name in _CONTROLLERS}
    if not controllers and unified is None:
        raise port.Absent("cgroups", f"none is mounted below {below}" if below else "none is mounted")
    layout = Layout.V2 if not controllers else Layout.V1 if unified is None else Layout.HYBRID
    return Tree(layout=layout, v1=controllers, unified=unified)


def pod_uid(folder: str) -> str | None:
    """Return the Pod UID in the name of a cgroup's folder; None if it is not a Pod's.

    >>> pod_uid("kubepods-burstable-pod1c9c1f31_3a0e_4b7c_9f0e_2f6a0d5f4c11.slice")
    '1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11'
    """
    match = _POD.search(folder)
    return None if match is None else match[1].replace("_", "-")


def pods(root: pathlib.Path, *, depth: int = POD_DEPTH) -> Iterator[pathlib.Path]:
    """Return the Pods' folders below a node's.

    Folders that disappear meanwhile are skipped. Raises `OSError` as `folders` does.
    """
    if depth == 0:
        return
    for child in folders(root):
        if pod_uid(child.name) is not None:
            yield child
        else:
            yield from pods(child, depth=depth - 1)


def pods_of_kubelet(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Return the same, where a kubelet keeps all of them in one folder without a look at the others of a host."""
    parents = [child for child in folders(root) if ALL_PODS.fullmatch(child.name)]
    if not parents:
        yield from pods(root)
    for parent in parents:
        yield from pods(parent, depth=POD_DEPTH - 1)


def folders(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the folders in a folder; none if it disappeared.

    Raises `OSError` if file descriptors or memory are exhausted.
    """
    try:
        # scandir recognizes folders without a stat of each file; a Pod's cgroup has two dozen.
        with os.scandir(root) as entries:
            return [root / entry.name for entry in entries if entry.is_dir()]
    except OSError as error:
        if kernel_file.is_exhausted(error):
            raise
        return []
