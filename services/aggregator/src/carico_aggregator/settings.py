"""The settings of the aggregator."""

import dataclasses
import enum

from carico_core.domain import errors, names
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import settings

PREFIX = "aggregator"
PROGRAM = "carico-aggregator"


class Merge(enum.StrEnum):
    """How local models are merged into the model of the cluster."""

    ROUND = "round"
    SEQUENTIAL = "sequential"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorSettings:
    """Read once in `main`: environment CARICO_AGGREGATOR_..., flags --..."""

    replica: str = settings.setting("", help="name of this replica, unique in the cluster; empty: a random one")
    merge: Merge = settings.setting(
        Merge.ROUND,
        help="how local models are merged",
        why="round is order-free and the same on every replica; sequential is the paper's, and runs on one leader",
    )
    horizon_s: float = settings.setting(
        10.0,
        help="memory of merge `round`: after this time a report has lost 63 % of its weight",
        unit="s",
        minimum=0.1,
        maximum=3600.0,
    )
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)

    def __post_init__(self) -> None:
        if self.replica and not names.is_subdomain(self.replica):
            raise errors.SettingsError(f"--replica: got {self.replica!r}, expected a lower-case RFC 1123 name")
