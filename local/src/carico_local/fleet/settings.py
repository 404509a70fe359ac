"""The settings of a fleet of played nodes."""

import dataclasses

from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import settings

PREFIX = "fleet"
PROGRAM = "carico-fleet"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """Read once in `main`: environment CARICO_FLEET_..., flags --..."""

    kubeconfig: str = settings.setting(help="path of a kubeconfig that may create Nodes and list Pods")
    nodes: int = settings.setting(1000, help="how many, named node-1, node-2, ...", minimum=1, maximum=10_000)
    cores: int = settings.setting(4, help="cores of each", minimum=1, maximum=256)
    pods: int = settings.setting(110, help="most Pods of each", minimum=1, why="Kubernetes' default")
    pods_per_core: float = settings.setting(
        1.0, help="what each is said to take: nothing is measured here", unit="Pods per core", minimum=0.1, maximum=16.0
    )
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)
