"""The cgroup trees of this machine, read from its mounts: v1, v2, hybrid or none."""

import dataclasses
import enum
import os
import pathlib
from collections.abc import Mapping

from carico_agent.telemetry.cgroups import hierarchy
from carico_local.cgroups import delegation

# What a node needs from the trees: quota, CPU time and memory limit; the unified one adds pressure and cgroup.kill.
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

    Hybrid machines have the limits in v1's trees and the pressure in the unified one; pure v2 has all in the unified.
    """

    version: Version
    trees: Mapping[str, pathlib.Path]

    @property
    def roots(self) -> tuple[pathlib.Path, ...]:
        """Each mount point once: controllers may share one."""
        return tuple(dict.fromkeys(self.trees.values()))


def parse_mounts(text: str) -> Layout:
    """Return the layout described by the text of /proc/self/mounts.

    >>> parse_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0").version
    <Version.V2: 'v2'>
    """
    trees: dict[str, pathlib.Path] = {}
    for each in hierarchy.mounts_of(text.splitlines()):
        for controller in (UNIFIED,) if each.is_unified else set(each.options) & set(_V1_CONTROLLERS):
            trees.setdefault(controller, each.folder)
    return Layout(version=_version(trees), trees=trees)


def read_layout(mounts: pathlib.Path = pathlib.Path("/proc/self/mounts")) -> Layout:
    """Return the layout of this machine; `none` where the mounts cannot be read.

    For a user who may not create groups at the root of v2, the tree begins at the group delegated by systemd, if any.
    """
    try:
        found = parse_mounts(mounts.read_text(encoding="utf-8"))
    except OSError:
        return Layout(version=Version.NONE, trees={})
    if found.version is Version.V2 and not os.access(found.trees[UNIFIED], os.W_OK):
        given = delegation.given(found.trees[UNIFIED])
        return found if given is None else dataclasses.replace(found, trees={UNIFIED: given})
    return found


def _version(trees: Mapping[str, pathlib.Path]) -> Version:
    has_v1 = any(controller in trees for controller in _V1_CONTROLLERS)
    if UNIFIED in trees:
        return Version.HYBRID if has_v1 else Version.V2
    return Version.V1 if has_v1 else Version.NONE
