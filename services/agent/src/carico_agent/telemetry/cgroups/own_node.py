"""The node that the agent's own Pod runs on: a whole host, or one cgroup of it.

Several kubelets may share a host (kind, minikube, `cgroupRoot`). Each keeps its Pods below its own cgroup, and that
cgroup is the node. The kubelet names a Pod's cgroup after its UID, so the agent finds its own cgroup, and so the
node's, in the host's tree. /proc/self/cgroup does not show it if cgroup namespaces are private (v2).
"""

import dataclasses
import pathlib

from carico_agent import settings
from carico_agent.telemetry import port, sources
from carico_agent.telemetry.cgroups import hierarchy
from carico_core.domain import errors

# kind puts a node's tree two levels deep into the host's; a Pod's has four more levels.
DEEPEST = 8
# Files of a quota, which every cgroup has except the root of a hierarchy.
_QUOTA_FILES = ("cpu.cfs_quota_us", "cpu.max")


def resolved(chosen: settings.AgentSettings) -> settings.AgentSettings:
    """Return the settings with scope `node` replaced by what it is here: the host, or the node's cgroup.

    Raises `EnvironmentUnfit` if the Pod's cgroup cannot be found.
    """
    if chosen.scope is not sources.Scope.NODE:
        return chosen
    mounts = pathlib.Path(chosen.proc) / "mounts"
    try:
        tree = hierarchy.discover(mounts, below=chosen.cgroup_root)
    except port.Absent as error:
        raise errors.EnvironmentUnfit(
            f"{error}: mount the host's /sys/fs/cgroup into this Pod, and give the folder with --cgroup-root"
        ) from error
    node = find(tree, chosen.pod_uid)
    if node is None:
        raise errors.EnvironmentUnfit(
            f"no cgroup of Pod {chosen.pod_uid} below {', '.join(map(str, _roots(tree)))}: is --cgroup-root the host's "
            "tree, and --pod-uid this Pod's own?"
        )
    scope = sources.Scope.HOST if is_host(tree, node) else sources.Scope.CGROUP
    return dataclasses.replace(chosen, scope=scope, cgroup=node)


def find(tree: hierarchy.Tree, uid: str) -> str | None:
    """Return the path of the node's cgroup, below the tree's roots; None if no cgroup of Pod `uid` exists."""
    for root in _roots(tree):
        found = _pod(root, uid, DEEPEST)
        if found is not None:
            parts = found.relative_to(root).parts
            at = next((i for i, part in enumerate(parts) if hierarchy.ALL_PODS.fullmatch(part)), None)
            if at is not None:
                return "/".join(parts[:at]) or "."
    return None


def is_host(tree: hierarchy.Tree, node: str) -> bool:
    """Return whether the node's cgroup is the root of the hierarchy, that is, the host."""
    folder = tree.group(node).cpu
    return folder is None or not any((folder / name).exists() for name in _QUOTA_FILES)


def _roots(tree: hierarchy.Tree) -> list[pathlib.Path]:
    """Return the roots to search, those with quotas first: some runtimes put no Pods into an unused unified tree."""
    found = [tree.v1.get("cpu"), tree.v1.get("cpuacct"), tree.unified]
    return [root for root in found if root is not None]


def _pod(folder: pathlib.Path, uid: str, depth: int) -> pathlib.Path | None:
    children = hierarchy.folders(folder)
    for child in children:
        if hierarchy.pod_uid(child.name) == uid:
            return child
    if depth > 1:
        for child in children:
            found = _pod(child, uid, depth - 1)
            if found is not None:
                return found
    return None
