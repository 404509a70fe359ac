"""The Pods of a gang, placed in one step: all that must be placed together find room, or none of them is placed.

They are tried on a copy of the cycle's draft, those with the fewest nodes first. If the gang is to stay within one
value of a node label, the values are tried in the order of how many of the Pods they take at most, then of their room.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np

from carico_core.domain import gangs
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues

# Values of a label that are tried for one gang in one cycle.
DOMAINS_MOST = 16
P = TypeVar("P")


class Scored(Protocol):
    """The scores of all nodes for one demand."""

    @property
    def values(self) -> snapshot.Floats:
        """The score per slot, -inf for a refused node."""

    def best(self, uid: str) -> int:
        """Return the slot of the highest score, or NO_NODE."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Party:
    """The Pods of a gang that wait now, taken from the queue.

    `missing`: how many of them must be placed together; 0: each that fits. `topology_key`, `domain`: they go to nodes
    with one value of this label, and with which; None: any. `may_place`: False: none of them is placed.
    """

    gang: gangs.Key
    members: Sequence[queues.Waiting]
    missing: int
    topology_key: str = ""
    domain: str | None = None
    may_place: bool = True


class PartySource(Protocol):
    """Where a cycle takes the other Pods of a gang from."""

    def gather(self, first: queues.Waiting) -> Party:
        """Take the Pods that wait with `first`, which was taken from the queue."""

    def tried(self, party: Party, fitted: int | None) -> None:
        """Note for how many Pods of a gang there was room; None: that was not counted."""


def room_for(
    party: Party, scores_of: Callable[[demands.Demand], Scored], view: snapshot.Snapshot, *, by_capacity: bool
) -> float:  # fmt: skip
    """Return how many of the Pods the nodes take, by a count that no placement exceeds; +inf if that is not known."""
    room = 0.0
    for demand, count in collections.Counter(each.demand for each in party.members).items():
        if demand.follows_peers or not by_capacity or demand.is_baseline:
            # Placing one may open nodes to others; or room is not counted in Pods.
            return math.inf
        room += min(float(places(view, demand, scores_of(demand)).sum()), count)
    return room


def domains(
    party: Party, scores_of: Callable[[demands.Demand], Scored], view: snapshot.Snapshot
) -> Iterator[snapshot.Bools | None]:  # fmt: skip
    """Yield the nodes to which the gang may go, one set after another; None: to all."""
    if not party.topology_key:
        yield None
        return
    values = view.labels.domains(party.topology_key)
    if party.domain is not None:
        yield values.having([party.domain])
        return
    (commonest, _), *_ = wanted = collections.Counter(each.demand for each in party.members).most_common()
    room = {each: values.sums(places(view, each, scores_of(each)))[: values.count] for each, _ in wanted}
    takes = np.zeros(values.count)
    for each, count in wanted:
        takes += np.minimum(room[each], count)
    # The last key comes first.
    for number in np.lexsort((-room[commonest], -takes))[:DOMAINS_MOST].tolist():
        if takes[number] > 0:
            yield values.of == number


def places(view: snapshot.Snapshot, demand: demands.Demand, scores: Scored) -> snapshot.Floats:
    """Return per slot how many Pods of a demand the node takes at most; at least 1 where it takes any."""
    feasible = scores.values > scoring.REFUSED
    # Each Pod placed lowers what is free by 1.
    free = view.free(demand.pod_class, demand.ceiling_offset)
    left = np.floor(np.where(feasible, free, 0.0) - view.policy.threshold) + 1.0
    return np.where(feasible, np.maximum(left, 1.0), 0.0)


def placed(
    members: Sequence[queues.Waiting], scores_of: Callable[[demands.Demand], Scored],
    put: Callable[[queues.Waiting, int], P],
) -> list[P]:  # fmt: skip
    """Place as many of the Pods as fit, with `put`."""
    wanted = {each.demand for each in members}
    feasible = {each: int(np.isfinite(scores_of(each).values).sum()) for each in wanted}
    left = sorted(members, key=lambda each: (feasible[each.demand], each.key))
    made: list[P] = []
    while left:
        full: set[demands.Demand] = set()
        still = []
        for each in left:
            slot = snapshot.NO_NODE if each.demand in full else scores_of(each.demand).best(each.pod.uid)
            if slot == snapshot.NO_NODE:
                full.add(each.demand)
                still.append(each)
            else:
                made.append(put(each, slot))
        if len(still) == len(left) or not any(each.follows_peers for each in full):
            break
        # A Pod that must be near another may fit once that one is placed.
        left = still
    return made
