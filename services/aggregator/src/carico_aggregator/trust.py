"""Bound the influence of one node: a broken sensor or agent must not break the model that all nodes use.

A report that no node can have measured is refused (`impossible`). A possible one that no other node supports counts in
part: costs far from the median not at all (`among`), load and Pods up to 1.5 times the next largest (`borne_out`),
cores up to those of all the others together (`weights`). So one node changes the model within stated bounds, and nodes
that agree get the same model as without any of this, to the bit (ADR 46).
"""

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from carico_core.domain import errors, messages
from carico_core.numerics import subspace

# The largest Pod limit that an agent takes.
PODS_MOST = 1000
# A cost further from the median than this factor is left out. In all scenarios of the twin honest nodes are within 4;
# at 3, two that were learning two kinds of Pods at once were not.
FAR = 4.0
# Pods per core that one node may report before any other does: about what an empty node takes of unknown Pods.
PEAK_ALONE = 1.0
# Pods that one node may report, whatever others run: the kubelet's default Pod limit.
PODS_ALONE = 110
# The largest counts up to this many times the next: past PEAK_ALONE it was 1.34 times at most on honest nodes.
STEP = 1.5
# With fewer nodes, sizes may differ without limit.
WEIGHED = 3
# Rounding of shares of the full scale.
_ROUNDING = 1e-6


def impossible(found: messages.LocalSubspace | messages.Entry, largest: float) -> errors.MessageError | None:
    """Return what in a report no node can have measured, or None. `largest`: the largest element of its Gram matrix."""
    if largest > subspace.GRAM_MOST:
        return _out_of_range("u, sigma", f"got a Gram matrix with {largest:.4g}, expected shares: at most 1")
    if not found.evidence:
        return None
    if len(found.evidence) > messages.REPORTED_MOST:
        detail = f"got {len(found.evidence)} classes, expected at most {messages.REPORTED_MOST}"
        return _out_of_range("evidence", detail)
    pods, dims = 0, found.dims
    full: list[float] = found.scale.tolist()
    for name, each in found.evidence.items():
        pods += each.pods
        for dim, cost in each.cost.items():
            # A Pod costs between nothing and the whole node.
            if dim in dims and not 0.0 <= cost.mean <= full[dims.index(dim)] * (1.0 + _ROUNDING):
                expected = f"expected 0 to {full[dims.index(dim)]:.4g}"
                return _out_of_range(f"evidence.{name}.cost.{dim}", f"got {cost.mean:.4g}, {expected}")
    if pods > PODS_MOST:
        return _out_of_range("evidence", f"got {pods} Pods, expected at most {PODS_MOST} on a node")
    return None


def among(means: messages.Array) -> npt.NDArray[np.bool_] | None:
    """Return which of these means, one per node, are near their median; None if all are, or if there is only one.

    Of two that are far apart the larger one counts, as it does less harm: nodes then take fewer Pods.
    """
    if means.size < 2:
        return None
    median = _median(means)
    nearest, farthest = sorted((median / FAR, median * FAR))
    if float(means.min()) >= nearest and float(means.max()) <= farthest:
        return None
    kept: npt.NDArray[np.bool_] = (means >= nearest) & (means <= farthest)
    return kept if kept.any() else None


def _median(values: messages.Array) -> float:
    """Return what np.median does, of which most of the time goes into what numbers without NaN do not need."""
    half = values.size // 2
    ordered = np.partition(values, (half - 1, half))
    return ordered.item(half) if values.size % 2 else 0.5 * (ordered.item(half - 1) + ordered.item(half))


def borne_out(found: Sequence[float], *, alone: float) -> float:
    """Return the largest of these numbers, one per node, as far as it counts: above `alone` others must support it.

    >>> borne_out([1.5, 2.0], alone=1.0), borne_out([100.0, 1.5], alone=1.0), borne_out([100.0, 0.0], alone=1.0)
    (2.0, 2.25, 1.0)
    """
    largest = heapq.nlargest(2, found)
    if len(largest) < 2:
        return max(largest, default=alone)
    return min(largest[0], max(alone, STEP * largest[1]))


def weights(cores: messages.Array) -> messages.Array:
    """Return the nodes' weights: their cores, but for one node at most those of all the others together.

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
