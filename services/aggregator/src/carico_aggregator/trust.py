"""How far one node is believed: a broken sensor or agent must not break the model that all nodes go by.

What no node can measure is refused, whoever says it (`impossible`). What one could, but stands alone with, counts as
far as the others bear it out: costs far from the median not at all (`among`), load and Pods to half as much again as
the next largest (`borne_out`), cores to those of all the others together (`weights`). So one node bends the model
within stated bounds, and nodes that agree have the model they would have without any of this, to the bit (ADR 46).
"""

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from carico_core.domain import errors, messages
from carico_core.numerics import subspace

# An agent holds 16 classes (`population.CLASSES_HELD`): room for others' agents.
CLASSES_MOST = 64
# The largest Pod limit that an agent takes.
PODS_MOST = 1000
# A cost this many times the median, or this part of it, stands alone. Over all scenarios of the twin honest nodes lie
# within 4; at 3, two that were learning two kinds of Pods at once did not.
FAR = 4.0
# Pods a core that one node may say it has carried before any other has: about what an empty node takes of unknown ones.
PEAK_ALONE = 1.0
# Pods that one node may say it runs, whatever others run: the kubelet's default Pod limit.
PODS_ALONE = 110
# The largest counts up to this many times the next: past PEAK_ALONE it was 1.34 times at most on honest nodes.
STEP = 1.5
# Fewer nodes may differ in size as they like.
WEIGHED = 3
# Shares of full scale round.
_ROUNDING = 1e-6


def impossible(found: messages.LocalSubspace | messages.Entry, largest: float) -> errors.MessageError | None:
    """What of it no node can have measured, or None. `largest`: the largest element of its Gram matrix."""
    if largest > subspace.GRAM_MOST:
        return _out_of_range("u, sigma", f"got a Gram matrix with {largest:.4g}, expected shares: at most 1")
    if not found.evidence:
        return None
    if len(found.evidence) > CLASSES_MOST:
        return _out_of_range("evidence", f"got {len(found.evidence)} classes, expected at most {CLASSES_MOST}")
    pods, dims = 0, found.dims
    full: list[float] = found.scale.tolist()
    for name, each in found.evidence.items():
        pods += each.pods
        for dim, cost in each.cost.items():
            # A Pod is not given more than the whole node, and gives nothing back.
            if dim in dims and not 0.0 <= cost.mean <= full[dims.index(dim)] * (1.0 + _ROUNDING):
                expected = f"expected 0 to {full[dims.index(dim)]:.4g}"
                return _out_of_range(f"evidence.{name}.cost.{dim}", f"got {cost.mean:.4g}, {expected}")
    if pods > PODS_MOST:
        return _out_of_range("evidence", f"got {pods} Pods, expected at most {PODS_MOST} on a node")
    return None


def among(means: messages.Array) -> npt.NDArray[np.bool_] | None:
    """Which of these means, one a node, are not far from their median; None where all are, or there is but one.

    Of two that are far apart the larger one counts, as it does less harm: nodes then take fewer Pods.
    """
    if means.size < 2:
        return None
    median = float(np.median(means))
    nearest, farthest = sorted((median / FAR, median * FAR))
    if float(means.min()) >= nearest and float(means.max()) <= farthest:
        return None
    kept: npt.NDArray[np.bool_] = (means >= nearest) & (means <= farthest)
    return kept if kept.any() else None


def borne_out(found: Sequence[float], *, alone: float) -> float:
    """The largest of these numbers, one a node, as far as it counts: up to `alone` it needs nobody to bear it out.

    >>> borne_out([1.5, 2.0], alone=1.0), borne_out([100.0, 1.5], alone=1.0), borne_out([100.0, 0.0], alone=1.0)
    (2.0, 2.25, 1.0)
    """
    largest = heapq.nlargest(2, found)
    if len(largest) < 2:
        return max(largest, default=alone)
    return min(largest[0], max(alone, STEP * largest[1]))


def weights(cores: messages.Array) -> messages.Array:
    """The nodes' weights: their cores, of one of several at most as many as all the others have together.

    >>> weights(np.array([4.0, 1e6, 8.0])).tolist()
    [4.0, 12.0, 8.0]
    """
    if cores.size < WEIGHED:
        return cores
    first = int(cores.argmax())
    others = float(np.delete(cores, first).sum())
    if cores[first] <= others:
        return cores
    bounded = cores.copy()
    bounded[first] = others
    return bounded


def _out_of_range(path: str, detail: str) -> errors.MessageError:
    return errors.MessageError(errors.Drop.OUT_OF_RANGE, path, detail)
