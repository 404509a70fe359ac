"""How many more Pods a node takes: one rule for every mode of the agent.

An advertisement of our own modes states headroom H_i and, per class of Pods, the cautious cost c+_i of one more Pod
per dimension; an advertisement of the paper's modes states a capacity in Pods only, which is the same rule in a single
dimension with H = capacity and c+ = 1. So both are decided by

    free = min_i (H_i - sum of reserved c+_i) / c+_i
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from carico_core.domain import messages

# Dimensions looked at per node. Known ones are cpu, memory, disk, network and two of a GPU; one is the paper's "pods".
DIMENSIONS_MAX = 8
UNLIMITED = math.inf
# The one dimension of an advertisement that states a capacity alone.
PODS = "pods"
Vector: TypeAlias = tuple[float, ...]


class Offer(NamedTuple):
    """What a node has free per dimension, and what one more Pod of each class takes of it, cautiously."""

    headroom: Vector
    costs: Mapping[str, Vector]
    # The cost of a Pod of a class that `costs` does not name.
    other: Vector

    def cost(self, pod_class: str) -> Vector:
        """c+ of one more Pod of this class."""
        return self.costs.get(pod_class, self.other)

    def reserved(self, classes: Mapping[str, int]) -> Vector:
        """What reserved Pods, counted by class, will take."""
        if not classes:
            return (0.0,) * len(self.headroom)
        if len(classes) == 1:
            ((name, count),) = classes.items()
            return tuple(count * c for c in self.cost(name))
        costs = [(count, self.cost(name)) for name, count in classes.items()]
        return tuple(sum(count * cost[i] for count, cost in costs) for i in range(len(self.headroom)))


class Caps(NamedTuple):
    """What is believed of a node whatever its dimensions leave (spec 9), in Pods: from `least` to `most`, which wins.

    An empty node takes one, as far as its own capacity says so (step 12): a cautious cost above a whole node's headroom
    must not starve a Pod for ever.
    """

    least: float
    most: float

    def with_pod(self) -> "Caps":
        """The caps with one more reserved Pod: the node is empty no longer."""
        return Caps(least=-math.inf, most=self.most - 1.0)


def pods_left(headroom: Sequence[float], reserved: Sequence[float], cost: Sequence[float]) -> float:
    """The Pods that fit beside reserved ones, by the scarcest dimension; below zero where too much is reserved.

    >>> pods_left([4.0, 8e9], [2.0, 2e9], [1.0, 1e9])
    2.0
    """
    least = UNLIMITED
    # In the hot path of every decision.
    for h, r, c in zip(headroom, reserved, cost, strict=True):
        if c > 0.0:
            left = (h - r) / c
            if left < least:
                least = left
    return least


def believed(left: float, caps: Caps) -> float:
    """`left` within the caps, in Pods.

    >>> believed(0.6, Caps(least=1.0, most=9.0)), believed(30.0, Caps(least=-math.inf, most=9.0))
    (1.0, 9.0)
    """
    if left < caps.least:
        left = caps.least
    return left if left < caps.most else caps.most


def caps_of(*, capacity: float, pods: int, reserved: int, pod_slots: float, core_slots: float, limit: float) -> Caps:
    """The caps of a node that advertises this `capacity` for the typical Pod beside its `pods`.

    `pod_slots` and `core_slots` are what the Pod limit and max_pods_per_core still allow, `limit` the advertised
    most Pods for now (spec 7, step 11).
    """
    return Caps(
        least=min(capacity, 1.0) if pods == 0 and reserved == 0 else -math.inf,
        most=float(min(pod_slots, core_slots, limit - pods - reserved)),
    )


def offer_of(advertisement: messages.Advertisement) -> Offer:
    """What an advertisement offers; `capacity` at a cost of 1 a Pod where it states no headroom or no costs."""
    room, classes = advertisement.headroom, advertisement.classes or {}
    dearest = _dearest(classes)
    if room is None or not dearest:
        return Offer(headroom=(advertisement.capacity,), costs={}, other=(1.0,))
    names = _dimensions(room, dearest)
    costs = {key: tuple([each.cost_plus.get(name, 0.0) for name in names]) for key, each in classes.items()}
    other = costs.get(messages.ANY_CLASS, costs.get(messages.NEW_CLASS))
    if other is None:
        # Neither general: the dearest of all classes, dimension by dimension.
        other = tuple(map(max, *costs.values())) if len(costs) > 1 else next(iter(costs.values()))
    return Offer(headroom=tuple([room[name] for name in names]), costs=costs, other=other)


def dimensions_of(advertisement: messages.Advertisement) -> list[str]:
    """What the numbers of its offer are of, in their order: the name PODS alone where it states a capacity only."""
    dearest = _dearest(advertisement.classes or {})
    if advertisement.headroom is None or not dearest:
        return [PODS]
    return _dimensions(advertisement.headroom, dearest)


def _dearest(classes: Mapping[str, messages.ClassCapacity]) -> dict[str, float]:
    """The largest cost of any class, per dimension that costs some class something."""
    dearest: dict[str, float] = {}
    for each in classes.values():
        for name, cost in each.cost_plus.items():
            if cost > dearest.get(name, 0.0):
                dearest[name] = cost
    return dearest


def _dimensions(headroom: Mapping[str, float], dearest: Mapping[str, float]) -> list[str]:
    """The dimensions with a headroom and some cost; of too many, those where the dearest class has least room."""
    names = [name for name in headroom if name in dearest]
    if len(names) <= DIMENSIONS_MAX:
        return names
    return sorted(names, key=lambda name: headroom[name] / dearest[name])[:DIMENSIONS_MAX]
