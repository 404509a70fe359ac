"""How many Pods fit once costs are known, and what an unmeasured load may grow to."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from carico_core.numerics import signal
from carico_core.numerics.estimators import base

# Dimensions that a Pod holds rather than uses at a rate.
STOCKS = frozenset({"memory", "gpu_memory"})
# A filtered count that is this close below a whole Pod is that Pod: the filter only ever approaches it.
NEARLY_ONE_POD = 0.1
# Pods by which the count may run ahead of what telemetry shows before the estimate counts as predicted.
AHEAD_PODS = 0.5


class Fit(NamedTuple):
    """How many Pods fit. `bottleneck`: the dimension that says so, None where a limit does."""

    capacity: float
    bottleneck: int | None


def limit(
    config: base.EstimatorConfig, *, own_peak_pods: float, peak_pods_per_core: float, growth: float,
    unknown_per_core: float,
) -> int:  # fmt: skip
    """Most Pods for now: an unmeasured load may only grow by a factor (0: without bound), and never past the Pod limit.

    The largest filtered counts so far: own_peak_pods of this node, peak_pods_per_core of the cluster (NaN: not known).
    """
    most = float(config.pod_limit)
    if growth > 0.0:
        cluster_peak_pods = peak_pods_per_core * config.cores if math.isfinite(peak_pods_per_core) else 0.0
        # n + new <= max(cores / 1.7, 2 x (largest filtered count per core seen in the cluster) x cores)
        grown = growth * max(cluster_peak_pods, own_peak_pods)
        most = min(most, max(config.cores / unknown_per_core, grown) + NEARLY_ONE_POD)
    return max(1, math.floor(most))


def fit(
    headroom: Sequence[float],
    cost_plus: Sequence[float],
    *,
    pods: float,
    most_pods: int,
    closed: bool,
) -> Fit:
    """capacity = min_i H_i / c+_i, at most `most_pods` beside the present ones; `closed`: a usage is at its guard."""
    rooms = [max(0.0, room) / cost for room, cost in zip(headroom, cost_plus, strict=True)]
    tightest = min(range(len(rooms)), key=rooms.__getitem__)
    capacity = rooms[tightest]
    if pods == 0.0 and not closed and capacity < 1.0:
        # An empty node takes one, or work larger than every node would wait for ever.
        capacity = 1.0
    most = max(0.0, most_pods - pods)
    if capacity > most:
        return Fit(most, None)
    return Fit(capacity, tightest)


def is_guarded(usages: Sequence[float]) -> bool:
    """Whether some usage is so high that even an empty node takes nothing."""
    return any(usage >= signal.GUARD for usage in usages)


def mode(*, full: bool, measured: bool, ahead_pods: float) -> base.Mode:
    """Which equation made an estimate. full: a reading may have ended short of the truth; ahead_pods: not shown yet."""
    if full:
        return "saturated"
    if not measured:
        return "warming"
    return "predicted" if abs(ahead_pods) > AHEAD_PODS else "measured"
