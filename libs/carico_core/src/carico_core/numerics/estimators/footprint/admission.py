"""How many Pods fit once costs are known: below the ceilings, and within the growth limit of an unmeasured load.

`Trial`: a half-empty node tries one Pod that caution alone would keep waiting for ever (ADR 30). A cautious cost can
exceed all that is left of a node, and if the node is never empty, nothing would ever correct it. This happens to a
class that is not measured, to one whose Pod ended before telemetry showed it (or showed it wrongly), and to one that is
larger than the room that long-running Pods leave. So if at least half of the ceiling is free, one such Pod fits.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from carico_core.numerics import signal
from carico_core.numerics.estimators import base

# Dimensions that a Pod holds (bytes), rather than uses at a rate.
STOCKS = frozenset({"memory", "gpu_memory"})
# A filtered count this close below a whole number counts as that number: the filter only approaches it.
NEARLY_ONE_POD = 0.1
# The count may exceed the Pods that telemetry shows by this much before the estimate counts as predicted.
AHEAD_PODS = 0.5


class Fit(NamedTuple):
    """How many Pods fit. `bottleneck`: index of the limiting dimension; None if another limit applies."""

    capacity: float
    bottleneck: int | None


def limit(
    config: base.EstimatorConfig, *, own_peak_pods: float, peak_pods_per_core: float, growth: float,
    unknown_per_core: float,
) -> int:  # fmt: skip
    """Return the maximum number of Pods for now: an unmeasured load may grow `growth`-fold, up to the Pod limit.

    growth 0: without limit. own_peak_pods: largest filtered count so far on this node; peak_pods_per_core: in the
    cluster (NaN: unknown).
    """
    most = float(config.pod_limit)
    if growth > 0.0:
        cluster_peak_pods = peak_pods_per_core * config.cores if math.isfinite(peak_pods_per_core) else 0.0
        # n + new <= max(cores / 1.7, growth x (largest filtered count per core seen in the cluster) x cores)
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
    """Return min_i H_i / c+_i, such that with `pods` at most `most_pods` run; `closed`: a usage is at its guard."""
    rooms = [max(0.0, room) / cost for room, cost in zip(headroom, cost_plus, strict=True)]
    tightest = min(range(len(rooms)), key=rooms.__getitem__)
    capacity = rooms[tightest]
    if pods == 0.0 and not closed and capacity < 1.0:
        # An empty node takes one Pod; otherwise work larger than every node would wait for ever.
        capacity = 1.0
    most = max(0.0, most_pods - pods)
    if capacity > most:
        return Fit(most, None)
    return Fit(capacity, tightest)


def is_guarded(usages: Sequence[float]) -> bool:
    """Return whether a usage is so high that even a node without Pods takes none."""
    return max(usages) >= signal.GUARD


def mode(*, full: bool, measured: bool, ahead_pods: float) -> base.Mode:
    """Return which equation made an estimate.

    full: a reading may be below the true value. ahead_pods: Pods that telemetry does not show yet.
    """
    if full:
        return "saturated"
    if not measured:
        return "warming"
    return "predicted" if abs(ahead_pods) > AHEAD_PODS else "measured"


class FullShare:
    """The share of each filtered usage that comes from samples at the end of their range.

    If a node goes from half full to twice full, the filter needs a second or two to reach .97, and every reading until
    then is below the true value, as a full one is.
    """

    __slots__ = ("_full_from", "_shares")

    def __init__(self, dimensions: int, *, full_from: float) -> None:
        self._full_from = full_from
        self._shares = [0.0] * dimensions

    def tick(self, samples: Sequence[float], gains: Sequence[float]) -> None:
        """Advance by one sample with the filter's gains in [0, 1]; a sample that is not finite counts as full."""
        shares, full_from = self._shares, self._full_from
        for index, sample in enumerate(samples):
            full = 0.0 if sample < full_from else 1.0
            if full != shares[index]:
                shares[index] += gains[index] * (full - shares[index])

    def full(self, usages: list[float]) -> list[bool]:
        """Return for each filtered usage (d,) whether the true value may be higher."""
        return [
            usage >= self._full_from or share > MOSTLY_OPEN for usage, share in zip(usages, self._shares, strict=True)
        ]


# Three full samples at the slow gain, which a container's start spike of 0.2 s does not reach.
MOSTLY_OPEN = 0.25


# Share of the ceiling that must be free. A smaller cost delays no Pod.
FROM = 0.5
# Share of the room that the tried Pod counts for: more than half, so that two never fit. The rest is for reservations:
# otherwise a small Pod that waits for its image would delay the trial.
_OF_ROOM = 0.75
# After this time without a start or an end of a Pod, the node counts as stable: no room is about to become free.
_STILL_S = 15.0


class Trial:
    """Decides when one node tries a Pod, by how long the node has been stable."""

    __slots__ = ("_still_s",)

    def __init__(self) -> None:
        self._still_s = 0.0

    def changed(self) -> None:
        """Take in that a Pod has started or ended."""
        self._still_s = 0.0

    def tick(self, dt_s: float) -> None:
        """Advance by this time."""
        self._still_s += dt_s

    def is_due(self, *, is_unknown: bool, runs: bool) -> bool:
        """Return whether to try a Pod of a class that is not measured, or that does not run on the node.

        >>> Trial().is_due(is_unknown=True, runs=False), Trial().is_due(is_unknown=False, runs=False)
        (True, False)
        """
        return is_unknown or (self._still_s >= _STILL_S and not runs)


def cost_plus(plus: float, *, room: float, half: float, least: float) -> float:
    """Return c+ of a tried Pod in one dimension, in its unit: at most `plus`, and less than the room.

    half: FROM of the ceiling. least: the known cost of a dimension that Pods hold, else 0.

    >>> cost_plus(2.0, room=1.5, half=0.8, least=0.0), cost_plus(2.0, room=1.5, half=0.8, least=1.75)
    (1.125, 1.75)
    """
    return min(plus, max(half, _OF_ROOM * room, least))
