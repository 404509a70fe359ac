"""Numbers of `footprint` for the costs of classes in one dimension."""

from dataclasses import dataclass

from carico_core.domain import fusion


@dataclass(frozen=True, slots=True, kw_only=True)
class CostConstants:
    """Numbers of the design's section 7, steps 3 to 6 and 10.

    few_pods: filtered Pods below which usage is baseline. baseline_gain: per second. drift: of a cost per root second,
    as a share of it. unknown_sd: of a cost nobody measured, as a share of it. between_nodes: difference of a class's
    cost between nodes, as a share of it. entry_pods: filtered Pods from which a measurement is evidence for others
    (a count only approaches 1, and a lone Pod of a short job has to get there).
    growth_sd: of a part of the profile that nobody measured, as a share of an unknown cost; 0: Pods do not grow.
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
