"""The node that an agent's own Pod runs on: a whole host, or one cgroup of it.

Several kubelets may share a host (kind, minikube, `cgroupRoot`): each then keeps its Pods below a group of its own, and
that group is the node. The kubelet names a Pod's group after its UID, so the agent finds its own group, and with it the
node's, in the host's tree alone. /proc/self/cgroup would say it too, but not where cgroup namespaces are private (v2).
"""

import dataclasses
import pathlib
import re

from carico_agent import settings
from carico_agent.telemetry import cgroup_tree, port, sources
from carico_core.domain import errors

# kind nests a node's tree two deep in the host's; below that come a Pod's four.
DEEPEST = 8
# The kubelet's group of all Pods: by the cgroupfs driver, or by the systemd driver, which puts the groups above into
# the name: with cgroupRoot /kubelet, as kind has it, kubelet.slice/kubelet-kubepods.slice.
_ALL_PODS = re.compile(r"kubepods|(?:.+-)?kubepods\.slice")
# A group has a quota, and only the root of a hierarchy has none.
_QUOTA_FILES = ("cpu.cfs_quota_us", "cpu.max")


def resolved(chosen: settings.AgentSettings) -> settings.AgentSettings:
    """Return the settings with scope node replaced by what it is here: host, or the node's cgroup.

    Raises `EnvironmentUnfit` where the Pod's cgroup is not to be seen.
    """
    if chosen.scope is not sources.Scope.NODE:
        return chosen
    mounts = pathlib.Path(chosen.proc) / "mounts"
    try:
        tree = cgroup_tree.discover(mounts, below=chosen.cgroup_root)
    except port.Absent as error:
        raise errors.EnvironmentUnfit(
            f"{error}: mount the host's /sys/fs/cgroup into this Pod, and name the folder with --cgroup-root"
        ) from error
    node = find(tree, chosen.pod_uid)
    if node is None:
        raise errors.EnvironmentUnfit(
            f"no cgroup of Pod {chosen.pod_uid} below {', '.join(map(str, _roots(tree)))}: is --cgroup-root the host's "
            "tree, and --pod-uid this Pod's own?"
        )
    scope = sources.Scope.HOST if is_host(tree, node) else sources.Scope.CGROUP
    return dataclasses.replace(chosen, scope=scope, cgroup=node)


def find(tree: cgroup_tree.Tree, uid: str) -> str | None:
    """Return the path below the tree's roots of the group that holds the node's Pods.

    None where none holds Pod `uid`.
    """
    for root in _roots(tree):
        found = _pod(root, uid, DEEPEST)
        if found is not None:
            parts = found.relative_to(root).parts
            at = next((i for i, part in enumerate(parts) if _ALL_PODS.fullmatch(part)), None)
            if at is not None:
                return "/".join(parts[:at]) or "."
    return None


def is_host(tree: cgroup_tree.Tree, node: str) -> bool:
    """Return whether the node's group is the root of the hierarchy, and so the host."""
    folder = tree.group(node).cpu
    return folder is None or not any((folder / name).exists() for name in _QUOTA_FILES)


def _roots(tree: cgroup_tree.Tree) -> list[pathlib.Path]:
    """Return where to look: the hierarchy with quotas first,
    since not every runtime puts Pods into an unused unified tree.
    """
    found = [tree.v1.get("cpu"), tree.v1.get("cpuacct"), tree.unified]
    return [root for root in found if root is not None]


def _pod(folder: pathlib.Path, uid: str, depth: int) -> pathlib.Path | None:
    children = cgroup_tree.folders(folder)
    for child in children:
        if cgroup_tree.pod_uid(child.name) == uid:
            return child
    if depth > 1:
        for child in children:
            found = _pod(child, uid, depth - 1)
            if found is not None:
                return found
    return None
