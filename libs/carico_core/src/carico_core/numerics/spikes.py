"""Spikes in a sliding window, and PRONTO's Reject-Job signal computed from them (dissertation 2.3.8), for comparison.

The usual streaming rule for spikes is the smoothed z-score (J. P. G. van Brakel, "Robust peak detection algorithm
using z-scores", stackoverflow.com/questions/22583391, 2014). Whether PRONTO uses this rule is not confirmed.
"""

import collections
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from carico_core.numerics import arrays, fpca


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikeConstants:
    """When a value is a spike.

    window: number of values for comparison. threshold: standard deviations from their mean. influence: weight of a
    spike in the window itself, 0 to 1. least_sd: minimum standard deviation of a window, in the values' unit.
    PRONTO's values are not published. These are this project's: three seconds at 10 Hz, threshold and influence from
    the rule's own example, and one hundredth of a full node.
    """

    window: int = 30
    threshold: float = 3.5
    influence: float = 0.5
    least_sd: float = 0.01

    def __post_init__(self) -> None:
        if self.window < 2 or not self.threshold > 0.0 or not 0.0 <= self.influence <= 1.0 or not self.least_sd > 0.0:
            raise ValueError(
                "spikes: expected window >= 2, threshold > 0, influence in [0, 1] and least_sd > 0, got "
                f"{self.window}, {self.threshold}, {self.influence}, {self.least_sd}"
            )


# Share of the model's strength above which spikes reject. PRONTO's is not published; this project's means: directions
# with more than half of the strength spike upwards.
_REJECT_FROM = 0.5


class SpikeDetector:
    """A smoothed z-score over the values of one stream."""

    __slots__ = ("_constants", "_window")

    def __init__(self, constants: SpikeConstants) -> None:
        self._constants = constants
        self._window: collections.deque[float] = collections.deque(maxlen=constants.window)

    def observe(self, value: float) -> int:
        """Return 1 for a spike upwards, -1 for one downwards, else 0; always 0 until the window is full.

        A value that is not finite is no spike and does not enter the window.
        """
        if not math.isfinite(value):
            return 0
        window, constants = self._window, self._constants
        if len(window) < constants.window:
            window.append(value)
            return 0
        mean = sum(window) / constants.window
        variance = sum((one - mean) * (one - mean) for one in window) / constants.window
        apart = value - mean
        # |x - mean| > threshold x sd
        if not abs(apart) > constants.threshold * max(math.sqrt(variance), constants.least_sd):
            window.append(value)
            return 0
        # x' = influence x + (1 - influence) x'_before
        window.append(constants.influence * value + (1.0 - constants.influence) * window[-1])
        return 1 if apart > 0.0 else -1


class Verdict(NamedTuple):
    """score: spikes weighted by strength, -1 to 1. rejected: accept no job now."""

    score: float
    rejected: bool


class RejectJob:
    """PRONTO's signal: usage is projected on U, the spikes of each projection count by its sigma, and too many reject.

    It shows whether a node is slowing down at the moment, never how many more Pods fit. Spikes downwards offset spikes
    upwards. Only u_1 is known to point to more usage, so the sign of spikes in other directions has little meaning; and
    when two directions change places, both projections jump.
    """

    __slots__ = ("_detectors",)

    def __init__(self, rank: int) -> None:
        if rank < 1:
            raise ValueError(f"reject-job: expected rank >= 1, got {rank}")
        self._detectors = [SpikeDetector(SpikeConstants()) for _ in range(rank)]

    def observe(self, y: arrays.Array, held: fpca.Centred) -> Verdict:
        """Return the verdict on one more usage (d,), clipped to [0, 1], with the latest model (local or merged).

        A reading that is not finite rejects and changes no state: it must never look like free room.
        """
        if held.model.rank != len(self._detectors):
            raise ValueError(f"reject-job: expected a model of rank {len(self._detectors)}, got {held.model.rank}")
        sample = arrays.vector(y, name="reject-job usage", size=held.model.dimensions)
        if not np.isfinite(sample).all():
            return Verdict(score=0.0, rejected=True)
        # v = U^T (y - mean)
        projections: list[float] = held.project(np.clip(sample, 0.0, 1.0)).tolist()
        spikes = tuple(detector.observe(value) for detector, value in zip(self._detectors, projections, strict=True))
        score = _weighted(spikes, held.model.sigma.tolist())
        return Verdict(score=score, rejected=score > _REJECT_FROM)


def _weighted(spikes: tuple[int, ...], sigma: list[float]) -> float:
    strength = sum(sigma)
    if strength <= 0.0:
        return 0.0
    # R = sum_i s_i sigma_i / sum_i sigma_i: the share makes one threshold fit any amount of variation (ours)
    return sum(spike * part for spike, part in zip(spikes, sigma, strict=True)) / strength
