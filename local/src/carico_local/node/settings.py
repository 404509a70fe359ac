"""Settings of an emulated node."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import ClassVar, Literal

from carico_core.runtime.process import settings

# Long enough that pressure rises as on a real node, short enough that a server's latency on the node is meaningful
# (ADR 13).
QUOTA_PERIOD_US = 20_000
# Of Pods, when the node is stopped.
STOP_GRACE_S = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Flags, or CARICO_NODE_... in the environment."""

    removed: ClassVar[Mapping[str, str]] = {
        "quota_period_ms": "the CPU quota's period is 20 ms",
        "sync_s": "emulated nodes have no volumes with files of ConfigMaps or Secrets; real kubelets have such volumes",
        "stop_grace_s": "Pods have 2 s to end when the node is stopped; --drain-s lets them finish before",
    }

    name: str = settings.setting(help="name of the Node")
    cluster: str = settings.setting(help="name of the local cluster; names its cgroups")
    kubeconfig: str = settings.setting(help="path of a kubeconfig")
    root: pathlib.Path = settings.setting(help="directory of the node: records, logs, the runtime's socket")
    ready_file: pathlib.Path | None = settings.setting(None, help="file written as JSON once the node is Ready")
    cores: float = settings.setting(
        4.0, help="emulated cores", unit="cores", minimum=0.1, why="a worker of the published cluster"
    )
    scale: float = settings.setting(
        0.125,
        help="real CPUs and memory, as a share of the emulated ones",
        minimum=0.005,
        maximum=1.0,
        why="three nodes on 2 CPUs",
    )
    memory_bytes: int = settings.setting(
        2**30, help="memory limit that is enforced: the node's memory x scale", unit="bytes", minimum=2**24
    )
    pods: int = settings.setting(110, help="maximum number of Pods", minimum=1, why="Kubernetes' default")
    latency: float = settings.setting(
        1.0,
        help="factor on the start and exit latencies of a container runtime",
        minimum=0.0,
        why="1: containerd's latency, with a median of 0.55 s",
    )
    address: str = settings.setting(
        "127.0.0.1", help="address of the node, where its log endpoint listens", why="emulated nodes share one machine"
    )
    log_port: int = settings.setting(0, help="port of the kubelet's log endpoint, 0 for a free one", minimum=0)
    log_certificate: pathlib.Path | None = settings.setting(
        None, help="certificate of the log endpoint; without one it uses plain HTTP, as the embedded API does"
    )
    log_key: pathlib.Path | None = settings.setting(None, help="key of that certificate")
    log_authority: pathlib.Path | None = settings.setting(
        None, help="certificate authority whose clients may read logs: the API server's own"
    )
    cgroups: Literal["auto", "none"] = settings.setting(
        "auto", help="none: plain processes without quota, as where cgroups are not writable"
    )
    allow_root: bool = settings.setting(
        False, help="let Pods with runAsUser 0 run as root, where the node itself does",
        why="such a Pod can read the tokens, kubeconfigs and state of all clusters of this machine",
    )  # fmt: skip
    closed: tuple[str, ...] = settings.setting(
        (), help="folders whose files no container may read, by Landlock",
        why="a node that cannot change users runs its Pods as the user that keys and tokens belong to",
    )  # fmt: skip
    drain_s: float = settings.setting(
        0.0, help="time that Pods have to finish their work before that; meanwhile the node takes no new ones",
        unit="s", minimum=0.0, maximum=3600.0, why="0: stopping a whole cluster does not wait for its Pods",
    )  # fmt: skip
    leave: bool = settings.setting(
        False, help="remove the Node from the API when it is stopped", why="a node that is stopped usually comes back"
    )

    @property
    def real_cores(self) -> float:
        """Real CPUs of the whole node."""
        return self.cores * self.scale
