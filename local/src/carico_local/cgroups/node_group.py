"""The cgroup of an emulated node: quota and memory limit, or the reason why there is none."""

import dataclasses
import errno
import pathlib
import subprocess

from carico_local.cgroups import delegation
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts

FALLBACK = "process-accounting"
# A process that joins the group and ends there, so that this process stays where it is.
_ENTER = 'echo 0 > "$1"'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A node's cgroup; `group` is None under the fallback, and `reason` is then why."""

    group: groups.Group | None
    reason: str = ""

    @property
    def fallback(self) -> str | None:
        """The name of the fallback in use, or None."""
        return FALLBACK if self.group is None else None


def cluster_path(cluster: str) -> str:
    """Return the path of the group that contains all groups of a cluster."""
    return f"carico-{cluster}"


def node_path(cluster: str, node: str) -> str:
    """Return the path of a node's cgroup, the same in every tree."""
    return f"{cluster_path(cluster)}/{node}"


def runtime_group(layout: layouts.Layout, cluster: str, node: str) -> groups.Group:
    """Return the unlimited group of the node's runtime, below the cluster's group, so that a sweep finds it too."""
    return groups.Group(layout=layout, path=f"{cluster_path(cluster)}/{node}.runtime")


def open_node(
    layout: layouts.Layout, *, cluster: str, node: str, cores: float, memory_bytes: int, period_us: int
) -> NodeGroup:
    """Create the node's cgroup, limited to `cores` real CPUs and `memory_bytes`; return it, or the fallback.

    A group that cannot be limited is removed again.
    """
    if layout.version is layouts.Version.NONE:
        return NodeGroup(group=None, reason="no cgroup file system is mounted")
    missing = [name for name in _needed(layout) if name not in layout.trees]
    if missing:
        return NodeGroup(group=None, reason=f"no cgroup tree with {', '.join(missing)} is mounted")
    found = groups.Group(layout=layout, path=node_path(cluster, node))
    try:
        # io: the agent's dimension "disk" needs io.stat for the node's share of a device.
        found.create(welcome=("io",))
        found.set_cpu(cores=cores, period_us=period_us)
        found.set_memory(memory_bytes)
        if layout.version is layouts.Version.V2:
            _try_a_pod(found)
    except OSError as error:
        found.try_remove()
        remove_if_empty(layout, cluster)
        way_in = delegation.way_in(error, layout.trees[layouts.UNIFIED]) if layout.version is layouts.Version.V2 else ""
        return NodeGroup(group=None, reason=f"{error.strerror} at {error.filename or found.path}{way_in}")
    return NodeGroup(group=found)


def remove_if_empty(layout: layouts.Layout, cluster: str) -> None:
    """Remove the cluster's own group from every tree in which it is empty."""
    for root in layout.roots:
        directory: pathlib.Path = root / cluster_path(cluster)
        try:
            directory.rmdir()
        except OSError:
            continue


def _try_a_pod(node: groups.Group) -> None:
    """Check that a process can join a group of the node. Raises OSError.

    On v2, moving a process requires write access to the nearest common ancestor of its old and new group too. Without
    it, a user may own a directory in which groups can be created but no process can ever run.
    """
    probe = node.child("probe")
    probe.create()
    try:
        for file in probe.procs_files:
            entering = subprocess.run(("/bin/sh", "-c", _ENTER, "sh", file), stderr=subprocess.DEVNULL, check=False)
            if entering.returncode != 0:
                raise PermissionError(errno.EACCES, "processes may not join", file)
    finally:
        probe.destroy()


def _needed(layout: layouts.Layout) -> tuple[str, ...]:
    return () if layout.version is layouts.Version.V2 else ("cpu", "cpuacct", "memory")
