"""How many more Pods a node takes: one rule for every mode of the agent.

An advertisement of our own modes states headroom H_i and the cautious cost c+_i of one more Pod per dimension;
an advertisement of the paper's modes states a capacity in Pods only, which is the same rule in a single dimension
with H = capacity and c+ = 1. So both are decided by

    free = min_i (H_i - reserved x c+_i) / c+_i

With the one class of Pods that the `vector` mode keeps, reserved Pods cost what the next one costs.
"""

import math
from collections.abc import Sequence

from carico_core.domain import messages

# Columns kept per node. Known dimensions are cpu, memory, disk, network and two of a GPU; one is the paper's "pods".
DIMENSIONS_MAX = 8
UNLIMITED = math.inf


def pods_left(headroom: Sequence[float], cost: Sequence[float], reserved: int) -> float:
    """The Pods that fit beside `reserved` ones, by the scarcest dimension; below zero where too many are reserved.

    >>> pods_left([4.0, 8e9], [1.0, 1e9], 2)
    2.0
    """
    least = UNLIMITED
    for h, c in zip(headroom, cost, strict=True):
        # Dimensions that limit nothing come last (`columns_of`). In the hot path of every decision.
        if h == UNLIMITED:
            break
        left = h / c
        if left < least:
            least = left
    return least - reserved


def believed(
    left: float, *, capacity: float, pods: int, reserved: int, pod_slots: float, core_slots: float, limit: float
) -> float:
    """`left` within the caps on what is believed of a node (spec 9), in Pods.

    `pod_slots` and `core_slots` are what the Pod limit and max_pods_per_core still allow, `limit` the advertised
    most Pods for now (spec 7, step 11). An empty node takes one, as far as its own capacity says so (step 12): a
    cautious cost above a whole node's headroom must not starve a Pod for ever.
    """
    if pods == 0 and reserved == 0:
        left = max(left, min(capacity, 1.0))
    return float(min(left, pod_slots, core_slots, limit - pods - reserved))


def columns_of(advertisement: messages.Advertisement) -> tuple[list[float], list[float]]:
    """(H, c+), scarcest first, padded with what limits nothing; `capacity` and 1 where no headroom is stated."""
    pairs = _pairs(advertisement)
    padding = DIMENSIONS_MAX - len(pairs)
    return (
        [h for h, _ in pairs] + [UNLIMITED] * padding,
        [c for _, c in pairs] + [1.0] * padding,
    )


def _pairs(advertisement: messages.Advertisement) -> list[tuple[float, float]]:
    """The scarcest DIMENSIONS_MAX pairs of headroom and positive cost."""
    cost = _cost_plus(advertisement)
    if advertisement.headroom is None or cost is None:
        return [(advertisement.capacity, 1.0)]
    pairs = [(h, cost[name]) for name, h in advertisement.headroom.items() if cost.get(name, 0.0) > 0.0]
    if not pairs:
        return [(advertisement.capacity, 1.0)]
    return sorted(pairs, key=lambda pair: pair[0] / pair[1])[:DIMENSIONS_MAX]


def _cost_plus(advertisement: messages.Advertisement) -> dict[str, float] | None:
    """c+ per dimension of any Pod: that of the one class, else the dearest of all classes."""
    classes = advertisement.classes
    if not classes:
        return None
    if messages.ANY_CLASS in classes:
        return dict(classes[messages.ANY_CLASS].cost_plus)
    dearest: dict[str, float] = {}
    for each in classes.values():
        for name, value in each.cost_plus.items():
            dearest[name] = max(value, dearest.get(name, 0.0))
    return dearest
