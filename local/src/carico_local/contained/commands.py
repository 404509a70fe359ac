"""The flags of the two programs of a contained node."""

import dataclasses
import pathlib

from carico_local import arguments
from carico_local.contained import settings, size

# Named in logs and files of the node alone.
CLUSTER = "compose"
READY_FILE = "ready.json"
# Spec 12: a node may not be emulated smaller than its scheduler can see.
_LEAST_SCALE = 0.005


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One contained node: what is chosen, what it is called and where, and how large its container is."""

    chosen: settings.ContainerSettings
    name: str
    address: str
    size: size.Size

    @property
    def scale(self) -> float:
        """Real CPU of one emulated core."""
        return min(1.0, max(_LEAST_SCALE, self.size.real_cores / self.chosen.cores))

    @property
    def ready_file(self) -> pathlib.Path:
        """Written by the kubelet once the Node is Ready."""
        return self.chosen.root / READY_FILE


def kubelet(node: Node) -> list[str]:
    """Return flags of the emulated kubelet. The container bounds its Pods: no right to make cgroups is needed."""
    options: dict[str, object] = {
        "name": node.name,
        "cluster": CLUSTER,
        "kubeconfig": node.chosen.kubeconfig,
        "root": node.chosen.root,
        "ready_file": node.ready_file,
        "cores": node.chosen.cores,
        "scale": node.scale,
        "memory_bytes": node.size.memory_bytes,
        "cgroups": "none",
        "address": node.address,
        "log_port": node.chosen.log_port,
        "drain_s": node.chosen.drain_s,
        "leave": True,
    }
    return arguments.flags(options)


def agent(node: Node) -> list[str]:
    """Return flags of the agent: it measures the container's cgroup, or processes where that shows no pressure."""
    sees = {"scope": "cgroup", "cgroup": size.OWN_GROUP} if not node.size.without else {"scope": "process"}
    options: dict[str, object] = {
        "node": node.name,
        **sees,
        # Of the fallback too: everything in the container descends from its first process.
        "root_pid": 1,
        "cores": node.chosen.cores,
        "scale": node.scale,
        "memory_bytes": node.size.memory_bytes,
        "pod_events": "kubernetes",
        "pod_classes": "kubernetes",
        "kubeconfig": node.chosen.kubeconfig,
        "http_host": "0.0.0.0",
        "http_port": node.chosen.http_port,
    }
    return arguments.flags(options)
