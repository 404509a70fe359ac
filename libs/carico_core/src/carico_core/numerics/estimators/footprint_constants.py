"""Switches and numbers of `footprint`."""

from dataclasses import dataclass, field

from carico_core.domain import fusion


@dataclass(frozen=True, slots=True, kw_only=True)
class CostConstants:
    """Numbers of the design's section 7, steps 3 to 6 and 10.

    few_pods: filtered Pods below which usage is baseline. baseline_gain: per second. drift: of a cost per root second,
    as a share of it. unknown_sd: of an unmeasured cost, as a share of it. between_nodes: difference of a class's
    cost between nodes, as a share of it. entry_pods: filtered Pods from which a measurement is evidence for others
    (a count only approaches 1, and a lone Pod of a short job has to get there).
    growth_sd: of a part of the profile that is not measured, as a share of an unknown cost; 0: Pods do not grow.
    """

    few_pods: float = 0.2
    baseline_gain: float = 0.1
    drift: float = 0.02
    unknown_sd: float = 0.7
    between_nodes: float = fusion.BETWEEN_NODES
    entry_pods: float = 0.999
    growth_sd: float = 0.5
    # A prior this wide, in full scales, leaves the node's own evidence free of any prior.
    no_prior: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FootprintConstants:
    """Switches and numbers other than those of each dimension.

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
    per_dimension: CostConstants = field(default_factory=CostConstants)


DEFAULT = FootprintConstants()
