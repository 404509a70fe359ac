"""Which cgroup trees this machine has, read from its mounts: v1, v2, hybrid or none."""

import dataclasses
import enum
import os
import pathlib
from collections.abc import Mapping

from carico_local.cgroups import delegation

# What a node needs of each tree: quota, CPU time, memory limit, and pressure with one-write kill.
_V1_CONTROLLERS = ("cpu", "cpuacct", "memory")
UNIFIED = "unified"


class Version(enum.StrEnum):
    """How the trees are mounted."""

    V1 = "v1"
    V2 = "v2"
    HYBRID = "hybrid"
    NONE = "none"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The trees in use: controller ("cpu", "cpuacct", "memory", "unified") to mount point.

    On hybrid machines the limits are v1's and the pressure is the unified tree's; on pure v2 everything is unified.
    """

    version: Version
    trees: Mapping[str, pathlib.Path]

    @property
    def roots(self) -> tuple[pathlib.Path, ...]:
        """Each mount point once: controllers that are mounted together share one."""
        return tuple(dict.fromkeys(self.trees.values()))


def parse_mounts(text: str) -> Layout:
    """Return the layout that a text of the form of /proc/self/mounts describes.

    >>> parse_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0").version
    <Version.V2: 'v2'>
    """
    trees: dict[str, pathlib.Path] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        _, target, kind, options = fields[:4]
        path = pathlib.Path(_unescape(target))
        if kind == "cgroup2":
            trees.setdefault(UNIFIED, path)
        elif kind == "cgroup":
            for controller in set(options.split(",")) & set(_V1_CONTROLLERS):
                trees.setdefault(controller, path)
    return Layout(version=_version(trees), trees=trees)


def read_layout(mounts: pathlib.Path = pathlib.Path("/proc/self/mounts")) -> Layout:
    """Return the layout of this machine; `none` where the mounts cannot be read.

    A user who may not make groups at the root of v2 has a tree that begins at the group delegated by systemd, if any.
    """
    try:
        found = parse_mounts(mounts.read_text(encoding="utf-8"))
    except OSError:
        return Layout(version=Version.NONE, trees={})
    if found.version is Version.V2 and not os.access(found.trees[UNIFIED], os.W_OK):
        given = delegation.given(found.trees[UNIFIED])
        return found if given is None else dataclasses.replace(found, trees={UNIFIED: given})
    return found


def _unescape(target: str) -> str:
    # The kernel writes blanks in a mount point as octal escapes: proc_pid_mounts(5), getmntent(3).
    return target.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _version(trees: Mapping[str, pathlib.Path]) -> Version:
    has_v1 = any(controller in trees for controller in _V1_CONTROLLERS)
    if UNIFIED in trees:
        return Version.HYBRID if has_v1 else Version.V2
    return Version.V1 if has_v1 else Version.NONE
