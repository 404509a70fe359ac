"""Switches and numbers of `footprint`. docs/constants.md lists every number of the estimator with its reason."""

from dataclasses import dataclass, field

from carico_core.domain import messages


@dataclass(frozen=True, slots=True, kw_only=True)
class CostConstants:
    """Numbers of one dimension.

    few_pods: with fewer filtered Pods, usage is baseline. baseline_gain: per second. drift: of a cost, as a share of it
    per root second. unknown_sd: sd of an unmeasured cost, as a share of it. between_nodes: difference of a class's
    cost between nodes, as a share of it. entry_pods: from this many filtered Pods on, a measurement is evidence for
    others (the filtered count only approaches 1, and a single Pod of a short job has to reach it).
    growth_sd: sd of an unmeasured part of the profile, as a share of an unknown cost; 0: Pods do not grow.
    own_half_life_s: in which what is known about the Pods' own variance counts half; inf: they have none.
    """

    few_pods: float = 0.2
    baseline_gain: float = 0.1
    drift: float = 0.02
    unknown_sd: float = 0.7
    between_nodes: float = messages.BETWEEN_NODES
    entry_pods: float = 0.999
    growth_sd: float = 0.5
    own_half_life_s: float = 5.0
    # Width of a prior that has no effect, in full scales: for the node's own evidence.
    no_prior: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FootprintConstants:
    """Switches and numbers that are not per dimension.

    by_class: False puts all Pods into one class. federated: peers' evidence is used. risk_sd: standard deviations
    added to a cost. growth: factor by which an unmeasured load may grow at once; 0: without limit. start_lag_s: time
    from a container's start to the first usage that telemetry can show. censored: readings of a full node mean "at
    least". eager_s: how long after the first Pod of a class the estimator learns after every few samples.
    """

    by_class: bool = True
    federated: bool = True
    risk_sd: float = 1.0
    growth: float = 4.0
    start_lag_s: float = 0.2
    censored: bool = True
    eager_s: float = 6.0
    per_dimension: CostConstants = field(default_factory=CostConstants)

    @property
    def unknown_per_core(self) -> float:
        """The cautious cost of an unmeasured Pod, as a multiple of a core's share of the ceiling."""
        # c+ / c0 = (c0 + risk x .7 c0) / c0
        return 1.0 + self.risk_sd * self.per_dimension.unknown_sd


DEFAULT = FootprintConstants()
