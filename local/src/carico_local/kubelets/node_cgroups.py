"""A node's cgroups, in every tree of this machine: a kubelet creates groups in all of them, not only those we read."""

import pathlib

from carico_agent.telemetry.cgroups import hierarchy
from carico_local.cgroups import delegation, node_group
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts

_PERIOD_US = 100_000
# A new group of v1 has no such values, and accepts no process without them.
_CPUSET = ("cpuset.cpus", "cpuset.mems")
# Mount options of a v1 tree that are not its controllers (proc_mounts(5), cgroups(7)).
_NOT_CONTROLLERS = ("rw", "ro", "relatime", "noatime", "nosuid", "nodev", "noexec", "xattr", "seclabel",
                    "clone_children", "release_agent=")  # fmt: skip


def trees(mounts: pathlib.Path = pathlib.Path("/proc/self/mounts")) -> dict[str, str]:
    """Return the controllers by the mount point of their tree, in the form of `mount -o`; empty for v2."""
    return {
        str(each.folder): ""
        if each.is_unified
        else ",".join(option for option in each.options if not option.startswith(_NOT_CONTROLLERS))
        for each in hierarchy.mounts_of(mounts.read_text(encoding="utf-8").splitlines())
    }


def node(cluster: str, name: str) -> groups.Group:
    """Return the group of one node."""
    return groups.Group(layout=_layout(), path=node_group.node_path(cluster, name))


def make(group: groups.Group, *, cpus: float, memory_bytes: int) -> None:
    """Create the group in every tree and limit it. Raises `OSError`."""
    group.create(welcome=_offered(group.layout))
    for root in group.layout.roots:
        _copy_cpuset(root, pathlib.PurePosixPath(group.path))
    group.set_cpu(cores=cpus, period_us=_PERIOD_US)
    group.set_memory(memory_bytes)


def remove(cluster: str) -> bool:
    """Remove the groups of the cluster's nodes with all processes; return False where that fails."""
    return groups.Group(layout=_layout(), path=node_group.cluster_path(cluster)).destroy()


def _layout() -> layouts.Layout:
    known = layouts.read_layout()
    others = {f"tree {target}": pathlib.Path(target) for target in trees()}
    return layouts.Layout(version=known.version, trees={**known.trees, **others})


def _copy_cpuset(root: pathlib.Path, path: pathlib.PurePosixPath) -> None:
    above = root
    for part in path.parts:
        below = above / part
        for name in _CPUSET:
            # v2 does not need this, and has no such file in its root.
            if (above / name).exists() and (below / name).exists() and not (below / name).read_text().strip():
                (below / name).write_text((above / name).read_text())
        above = below


def _offered(layout: layouts.Layout) -> tuple[str, ...]:
    """Return v2's controllers, all of which a kubelet needs; on v1 there is nothing to enable."""
    if layout.version is not layouts.Version.V2:
        return ()
    return tuple((layout.trees[layouts.UNIFIED] / delegation.OFFERED).read_text(encoding="ascii").split())
