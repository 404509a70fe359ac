"""Settings of a node that is one container; what is not here, its agent reads by itself (CARICO_AGENT_...)."""

import dataclasses
import pathlib

from carico_core.domain import names
from carico_core.runtime.process import settings

PREFIX = "CONTAINER"
PROGRAM = "carico-contained-node"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """Flags, or CARICO_CONTAINER_... in the environment."""

    kubeconfig: str = settings.setting(help="path of a kubeconfig")
    name: str = settings.setting(
        "", help="name of the Node; empty: the container's own, node-3 where it is PROJECT-node-3",
        why="an engine numbers the containers of a service that is scaled",
    )  # fmt: skip
    cores: float = settings.setting(
        4.0, help="emulated cores, whatever the container's quota is", unit="cores", minimum=0.1, why="spec 11's nodes"
    )
    root: pathlib.Path = settings.setting(
        pathlib.Path("/var/lib/carico/node"), help="directory of the node: records, logs, the runtime's socket"
    )
    drain_s: float = settings.setting(
        30.0, help="time that Pods have to finish once the container is asked to end", unit="s", minimum=0.0,
        maximum=3600.0, why="longer than a Pod of `train`; the engine's patience (stop_grace_period) must be longer",
    )  # fmt: skip
    log_port: int = settings.setting(10250, help="port of the kubelet's log endpoint", minimum=0, maximum=65535)
    http_port: int = settings.setting(8080, help="port of the agent's /readyz and /metrics", minimum=-1, maximum=65535)

    def __post_init__(self) -> None:
        if self.name and not names.is_subdomain(self.name):
            raise ValueError(f"--name: got {self.name!r}, which is not a valid Kubernetes name")
