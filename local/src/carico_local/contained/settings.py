"""Settings of a node that is one container, and the flags of its kubelet and agent that follow from them.

The agent reads all other settings itself (CARICO_AGENT_...).
"""

import dataclasses
import pathlib

from carico_core.domain import errors, names
from carico_core.runtime.process import setting_values, settings
from carico_local.contained import size

PREFIX = "CONTAINER"
PROGRAM = "carico-contained-node"
# Appears only in logs and files of the node.
CLUSTER = "compose"
READY_FILE = "ready.json"
# The lower bound of the node's own setting `scale`.
_LEAST_SCALE = 0.005


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """Flags, or CARICO_CONTAINER_... in the environment."""

    kubeconfig: str = settings.setting(help="path of a kubeconfig")
    name: str = settings.setting(
        "", help="name of the Node; empty: the container's own, node-3 where it is PROJECT-node-3",
        why="an engine numbers the containers of a service that is scaled",
    )  # fmt: skip
    bus_keys: str = settings.setting(
        "", help="directory with the key of each node's agent, agent-NODE.nk; empty: the agent's own settings say",
        why="containers of a service that is scaled have the same settings",
    )  # fmt: skip
    closed: tuple[str, ...] = settings.setting(
        (), help="folders whose files no Pod may read, by Landlock",
        why="Pods run as the user of the container, to which its keys and the API's token belong",
    )  # fmt: skip
    cores: float = settings.setting(
        4.0,
        help="emulated cores, whatever the container's quota is",
        unit="cores",
        minimum=0.1,
        why="a worker of the published cluster",
    )
    root: pathlib.Path = settings.setting(
        pathlib.Path("/var/lib/carico/node"), help="directory of the node: records, logs, the runtime's socket"
    )
    drain_s: float = settings.setting(
        30.0, help="time that Pods have to finish once the container is asked to end", unit="s", minimum=0.0,
        maximum=3600.0, why="longer than a Pod of `train`; the engine's stop_grace_period must be longer still",
    )  # fmt: skip
    log_port: int = settings.setting(10250, help="port of the kubelet's log endpoint", minimum=0, maximum=65535)
    http_port: int = settings.setting(8080, help="port of the agent's /readyz and /metrics", minimum=-1, maximum=65535)

    def __post_init__(self) -> None:
        if self.name and not names.is_subdomain(self.name):
            raise ValueError(f"--name: got {self.name!r}, expected a valid Kubernetes name")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainedNode:
    """One contained node: its settings, name, address, and the size of its container.

    `bus_key`: of its agent; None where the agent's own settings say.
    """

    chosen: ContainerSettings
    name: str
    address: str
    size: size.Size
    bus_key: pathlib.Path | None = None

    @property
    def scale(self) -> float:
        """Real CPU of one emulated core."""
        return min(1.0, max(_LEAST_SCALE, self.size.real_cores / self.chosen.cores))

    @property
    def ready_file(self) -> pathlib.Path:
        """Written by the kubelet once the Node is Ready."""
        return self.chosen.root / READY_FILE


def bus_key(folder: pathlib.Path, node: str) -> pathlib.Path:
    """Return the key of a node's agent, as `carico bus-config` names it. Raises `SettingsError` where there is none."""
    path = folder / f"agent-{node}.nk"
    if not path.is_file():
        raise errors.SettingsError(f"{path}: there is no key for the agent of {node} (compose/image/carico-bus-keys)")
    return path


def kubelet_flags(node: ContainedNode) -> list[str]:
    """Return flags of the emulated kubelet. The container itself limits the Pods, so cgroups need not be writable."""
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
        "closed": node.chosen.closed,
    }
    return setting_values.flags(options)


def agent_flags(node: ContainedNode) -> list[str]:
    """Return flags of the agent: it measures the container's cgroup, or processes where that has no pressure file."""
    scope = {"scope": "cgroup", "cgroup": size.OWN_GROUP} if not node.size.without else {"scope": "process"}
    options: dict[str, object] = {
        "node": node.name,
        **scope,
        # For the fallback: every process of the container descends from its first one.
        "root_pid": 1,
        "cores": node.chosen.cores,
        "scale": node.scale,
        "memory_bytes": node.size.memory_bytes,
        "pod_events": "kubernetes",
        "pod_classes": "roster",
        "kubeconfig": node.chosen.kubeconfig,
        "http_host": "0.0.0.0",
        "http_port": node.chosen.http_port,
    }
    if node.bus_key is not None:
        options["bus_nkey"] = node.bus_key
    return setting_values.flags(options)
