"""Switches and numbers of `footprint`."""

from dataclasses import dataclass, field

from carico_core.numerics.estimators import cost_constants


@dataclass(frozen=True, slots=True, kw_only=True)
class FootprintConstants:
    """Switches and numbers beside those of each dimension (cost_constants.CostConstants).

    by_class: False puts all Pods into one class. federated: peers' evidence is used. risk_sd: standard deviations
    added to a cost. growth: by which factor an unmeasured load may grow at once, 0: without bound. unknown_per_core:
    divided into the cores, the Pods a node may always run. start_lag_s: from a container's start to the first usage
    that its telemetry can show. censored: a full node's readings say "at least" only. eager_s: how long after a class
    has come each few samples are learnt from at once.
    """

    by_class: bool = True
    federated: bool = True
    risk_sd: float = 1.0
    growth: float = 4.0
    unknown_per_core: float = 1.7
    start_lag_s: float = 0.2
    censored: bool = True
    eager_s: float = 6.0
    per_dimension: cost_constants.CostConstants = field(default_factory=cost_constants.CostConstants)


DEFAULT = FootprintConstants()
