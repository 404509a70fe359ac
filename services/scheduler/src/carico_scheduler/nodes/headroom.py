"""How many more Pods a node takes: one rule for all estimators of the agent.

CARICO's own estimators advertise headroom H_i per dimension and, per class of Pods, the cautious cost c+_i of one more
Pod. The paper's estimators advertise only a capacity in Pods, which is the same rule in a single dimension with
H = capacity and c+ = 1. Both are decided by

    free = min_i (H_i - sum of reserved c+_i) / c+_i
"""

import math
import operator
from collections.abc import Mapping, Set
from typing import NamedTuple, TypeAlias

from carico_core.domain import messages

# Maximum dimensions per node. Known are cpu, memory, disk, network, two for a GPU, and the paper's "pods".
DIMENSIONS_MAX = 8
UNLIMITED = math.inf
# Classes that stand for others.
GENERAL = frozenset({messages.ANY_CLASS, messages.NEW_CLASS})
# Stands for all classes that no node names: each of thousands of waiting Jobs may be one, and each row of each would
# take microseconds. A class on the bus is never empty.
UNNAMED = ""
# The only dimension of an advertisement that states just a capacity.
PODS = "pods"
Vector: TypeAlias = tuple[float, ...]


class Offer(NamedTuple):
    """What a node has free per dimension, and the cautious cost of one more Pod of each class."""

    # The names of the dimensions, in the order of every vector.
    dimensions: tuple[str, ...]
    headroom: Vector
    costs: Mapping[str, Vector]
    # The cost of a Pod of a class that `costs` does not name.
    other: Vector
    # Classes that run there unmeasured: their costs are guesses.
    guessed: frozenset[str] = frozenset()

    def cost(self, pod_class: str) -> Vector:
        """Return c+, the cautious cost of one more Pod of this class."""
        return self.costs.get(pod_class, self.other)

    def held(self, pod_class: str) -> Vector:
        """Return what a Pod of this class is measured to hold: nothing if the node has not measured the class.

        >>> Offer(("cpu",), (0.0,), {"a": (2.0,), "?": (5.0,)}, (5.0,)).held("b")
        (0.0,)
        """
        if not self.costs:
            return self.other
        found = self.costs.get(pod_class, self.costs.get(messages.ANY_CLASS))
        return (0.0,) * len(self.headroom) if found is None else found

    def reserved(self, classes: Mapping[str, int]) -> Vector:
        """Return what reserved Pods, counted by class, will take."""
        if not classes:
            return (0.0,) * len(self.headroom)
        if len(classes) == 1:
            ((name, count),) = classes.items()
            return tuple(count * c for c in self.cost(name))
        costs = [(count, self.cost(name)) for name, count in classes.items()]
        return tuple(sum(count * cost[i] for count, cost in costs) for i in range(len(self.headroom)))


class NodeRoom(NamedTuple):
    """The room of a node for more Pods by its newest advertisement. `free` is the only rule of admission by capacity.

    In addition to the dimensions, three caps apply, in Pods: what the kubelet's Pod limit and max_pods_per_core
    leave, and the maximum that the node allows for now.

    A named tuple, since one is created for each advertisement: a frozen dataclass takes several times as long.
    """

    offer: Offer | None
    # What the reserved Pods will take of the offer.
    taken: Vector
    # An empty node takes one Pod if its own capacity allows it: a cautious cost above a whole node's headroom
    # must not starve a Pod forever.
    least: float
    pod_limit: float
    pods_per_core: float
    limit: float

    def free(self, pod_class: str) -> float:
        """Return how many more Pods of a class the node takes: below zero if overdrawn, -inf if nothing is advertised.

        >>> offer = Offer(dimensions=("cpu", "memory"), headroom=(4.0, 8e9), costs={}, other=(1.0, 1e9))
        >>> room = NodeRoom(offer, taken=(2.0, 2e9), least=-math.inf, pod_limit=9.0, pods_per_core=64.0, limit=math.inf)
        >>> room.free("Job/default/pi"), room._replace(limit=1.0).free("Job/default/pi")
        (2.0, 1.0)
        """
        if self.offer is None:
            return -math.inf
        return self.capped(min(self.by_dimension(self.offer.cost(pod_class))))

    def shifted(self, offset: float, *, cores: float, size_bytes: float) -> "NodeRoom":
        """Return the room under a ceiling that is higher by `offset` of the node's cores and memory.

        >>> offer = Offer(dimensions=("cpu", "disk"), headroom=(1.0, 0.5), costs={}, other=(1.0, 0.1))
        >>> room = NodeRoom(offer, taken=(0.0, 0.0), least=-math.inf, pod_limit=9.0, pods_per_core=64.0, limit=math.inf)
        >>> room.free(""), room.shifted(-0.1, cores=4.0, size_bytes=8e9).free("")
        (1.0, 0.6)
        """
        if self.offer is None:
            return self
        whole = {"cpu": cores, "memory": size_bytes}
        parts = zip(self.offer.dimensions, self.offer.headroom, strict=True)
        headroom = tuple([h + offset * whole.get(name, 0.0) for name, h in parts])
        return self._replace(offer=self.offer._replace(headroom=headroom))

    def by_dimension(self, cost: Vector) -> list[float]:
        """Return how many Pods of this cost each dimension has room for, in the order of the offer's dimensions."""
        if self.offer is None:
            return []
        # (H_i - sum of reserved c+_i) / c+_i
        parts = zip(self.offer.headroom, self.taken, cost, strict=True)
        return [(h - r) / c if c > 0.0 else UNLIMITED for h, r, c in parts]

    def capped(self, left: float) -> float:
        """Return `left` within the caps."""
        # Comparisons instead of min() and max(), which take twice as long: every decision runs this.
        _, _, least, pod_limit, pods_per_core, limit = self
        if left < least:
            left = least
        if left > pod_limit:
            left = pod_limit
        if left > pods_per_core:
            left = pods_per_core
        return left if left < limit else limit

    def with_pod(self, pod_class: str) -> "NodeRoom":
        """Return the room that remains with one more reserved Pod of a class."""
        taken = self.taken if self.offer is None else tuple(map(operator.add, self.taken, self.offer.cost(pod_class)))
        return NodeRoom(
            self.offer, taken, -math.inf, self.pod_limit - 1.0, self.pods_per_core - 1.0, self.limit - 1.0
        )  # fmt: skip

    def counting(self, pod_class: str, pods: int, *, is_reserved: bool, is_baseline: bool) -> "NodeRoom":
        """Return the room if `pods` more Pods of a class counted here; below zero: fewer.

        Each holds what its class is measured to hold here, or what is reserved for it; baseline Pods hold nothing that
        is advertised. The exception for an empty node stays as it is.
        """
        taken, offer = self.taken, self.offer
        if offer is not None and not is_baseline:
            each = offer.cost(pod_class) if is_reserved else offer.held(pod_class)
            taken = tuple([t + pods * c for t, c in zip(taken, each, strict=True)])
        workloads = 0 if is_baseline else pods
        return NodeRoom(
            offer, taken, self.least, self.pod_limit - pods, self.pods_per_core - workloads, self.limit - pods
        )  # fmt: skip


def offer_of(advertisement: messages.Advertisement) -> Offer:
    """Return what is offered: `capacity` at a cost of 1 per Pod if no dimension has both headroom and a cost."""
    room, classes = advertisement.headroom or {}, advertisement.classes or {}
    names = _dimensions(room, _largest(classes))
    if not names:
        return Offer(dimensions=(PODS,), headroom=(advertisement.capacity,), costs={}, other=(1.0,))
    costs = {key: tuple([each.cost_plus.get(name, 0.0) for name in names]) for key, each in classes.items()}
    other = costs.get(general_of(costs.keys()))
    if other is None:
        # Without a general class: the largest cost of all classes, dimension by dimension.
        other = tuple(map(max, *costs.values())) if len(costs) > 1 else next(iter(costs.values()))
    return Offer(
        dimensions=tuple(names), headroom=tuple([room[name] for name in names]), costs=costs, other=other,
        guessed=frozenset([key for key, each in classes.items() if not each.measured]),
    )  # fmt: skip


def general_of(classes: Set[str]) -> str:
    """Return the one of these classes that stands for all others: `*` if classes are not distinguished, else `?`.

    Next to other classes, `*` has the Pods whose class the agent does not know yet: that says nothing of a new class.

    >>> general_of({"*", "?"}), general_of({"*", "?", "Job/default/pi"}), general_of({"*", "Job/default/pi"})
    ('*', '?', '*')
    """
    is_one_for_all = messages.ANY_CLASS in classes and (messages.NEW_CLASS not in classes or classes <= GENERAL)
    return messages.ANY_CLASS if is_one_for_all else messages.NEW_CLASS


def named(offer: Offer | None) -> Set[str]:
    """Return the classes whose costs an offer states; all others have the same cost there."""
    return frozenset() if offer is None else offer.costs.keys()


def _largest(classes: Mapping[str, messages.ClassCapacity]) -> dict[str, float]:
    """Return the largest cost of any class, for each dimension in which some class has a cost."""
    largest: dict[str, float] = {}
    for each in classes.values():
        for name, cost in each.cost_plus.items():
            if cost > largest.get(name, 0.0):
                largest[name] = cost
    return largest


def _dimensions(headroom: Mapping[str, float], largest: Mapping[str, float]) -> list[str]:
    """Return the dimensions with a headroom and a cost; if too many, those with least room for the largest cost."""
    names = [name for name in headroom if name in largest]
    if len(names) <= DIMENSIONS_MAX:
        return names
    return sorted(names, key=lambda name: headroom[name] / largest[name])[:DIMENSIONS_MAX]
