"""How many Pods fit once costs are known: below the ceilings, and what an unmeasured load may grow to.

`Trial`: a half-empty node tries one Pod where caution alone would keep it waiting for ever (ADR 30). A cautious cost
can be more than all that is left of a node, and where the node is never empty nothing would ever correct it: a class
that is not measured; one whose Pod ended before it showed, or showed wrongly; one that is larger than what standing
Pods leave. So where at least half of the ceiling is left, one such Pod gets in.
"""

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
    """Return the most Pods for now: an unmeasured load may only grow by a factor (0: without bound),
    and never past the Pod limit.

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
    """capacity = min_i H_i / c+_i, at most `most_pods` with the present ones; `closed`: a usage is at its guard."""
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
    """Return whether some usage is so high that even an empty node takes nothing."""
    return any(usage >= signal.GUARD for usage in usages)


def mode(*, full: bool, measured: bool, ahead_pods: float) -> base.Mode:
    """Return which equation made an estimate. full: a reading may have ended short of the truth.

    Ahead_pods: not shown yet.
    """
    if full:
        return "saturated"
    if not measured:
        return "warming"
    return "predicted" if abs(ahead_pods) > AHEAD_PODS else "measured"


class FullShare:
    """The share of each filtered usage that comes from samples at the end of their range.

    A filter takes a second or two to reach .97 on a node that went from half full to twice full, and every reading
    on the way falls short of the truth as the full one does.
    """

    __slots__ = ("_full_from", "_shares")

    def __init__(self, dimensions: int, *, full_from: float) -> None:
        self._full_from = full_from
        self._shares = [0.0] * dimensions

    def tick(self, samples: list[float], gains: list[float]) -> None:
        """Move on by one sample with the filter's gains in [0, 1]; a sample that is not a number counts as full."""
        shares = self._shares
        for index, (sample, gain) in enumerate(zip(samples, gains, strict=True)):
            full = 0.0 if sample < self._full_from else 1.0
            shares[index] += gain * (full - shares[index])

    def full(self, usages: list[float]) -> list[bool]:
        """Return whether each filtered usage may have ended short of the truth (d,)."""
        return [
            usage >= self._full_from or share > MOSTLY_OPEN for usage, share in zip(usages, self._shares, strict=True)
        ]


# Three full samples at the slow gain: what a container's start spike of 0.2 s does not reach.
MOSTLY_OPEN = 0.25


# Of the ceiling, what has to be left. Up to here a cost holds nothing up.
FROM = 0.5
# What the Pod is then said to take of the room: more than half, so that two never fit. The rest is for what is promised
# already: a small Pod that waits for its image would otherwise hold the tried one back for as long.
_OF_ROOM = 0.75
# A node on which no Pod has started or ended for this long stands still: what its Pods will give back is not coming.
_STILL_S = 15.0


class Trial:
    """Of one node; knows for how long it has stood still."""

    __slots__ = ("_still_s",)

    def __init__(self) -> None:
        self._still_s = 0.0

    def changed(self) -> None:
        """A Pod has started or ended."""
        self._still_s = 0.0

    def tick(self, dt_s: float) -> None:
        """Move on by this time."""
        self._still_s += dt_s

    def is_due(self, *, is_unknown: bool, runs: bool) -> bool:
        """Return whether a Pod is tried of a class that is not measured, or of one that does not run on the node.

        >>> Trial().is_due(is_unknown=True, runs=False), Trial().is_due(is_unknown=False, runs=False)
        (True, False)
        """
        return is_unknown or (self._still_s >= _STILL_S and not runs)


def cost_plus(plus: float, *, room: float, half: float, least: float) -> float:
    """c+ of a tried Pod in one dimension, in its unit: at most `plus`, and less than the room.

    half: FROM of the ceiling. least: what is known of the cost where that cannot be squeezed.

    >>> cost_plus(2.0, room=1.5, half=0.8, least=0.0), cost_plus(2.0, room=1.5, half=0.8, least=1.75)
    (1.125, 1.75)
    """
    return min(plus, max(half, _OF_ROOM * room, least))
