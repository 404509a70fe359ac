"""The rule of admission: whether a node admits a Pod of a class by what its agent advertises.

The four filters are the whole rule, for decisions, explanations, questions about capacity, and parked Pods (`admits`).
`Baseline` knows which Pods are exempt.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Iterable, Set

import numpy as np

from carico_core.domain import cluster, decision
from carico_core.wire import freshness
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol

_ANY = demands.Demand()


class Advertised:
    """The node has an advertisement younger than the lease."""

    reason = decision.Reason.NO_ADVERTISEMENT
    by_pods = False

    def passes(self, nodes: snapshot.Nodes, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.RoomFilter`."""
        since_s = nodes.now_s - nodes.policy.lease_s
        return nodes.first_sampled_s >= since_s or nodes.sampled_s >= since_s

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State for how long there has been none."""
        if not row.is_advertised:
            return "no advertisement seen: is its agent running?"
        return f"no advertisement for {row.now_s - row.sampled_s:.0f} s: is its agent running?"


class Fresh:
    """The advertisement is fresh or ageing, not stale."""

    reason = decision.Reason.STALE
    by_pods = False

    def passes(self, nodes: snapshot.Nodes, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.RoomFilter`."""
        since_s = nodes.now_s - freshness.AGEING_S
        return nodes.first_sampled_s >= since_s or nodes.sampled_s >= since_s

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State the age."""
        return f"advertisement {row.now_s - row.sampled_s:.1f} s old, used up to {freshness.AGEING_S:g} s"


class Trusted:
    """No reservation has stayed uncovered for longer than the policy allows."""

    reason = decision.Reason.SUSPECT
    by_pods = False

    def passes(self, nodes: snapshot.Nodes, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.RoomFilter`."""
        since_s = nodes.now_s - nodes.policy.suspect_after_s
        return nodes.first_uncovered_s >= since_s or nodes.uncovered_since_s >= since_s

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State for how long a Pod has been uncovered."""
        return f"a Pod placed {row.now_s - row.uncovered_since_s:.0f} s ago is still not in its advertisements"


class Capacity:
    """free >= threshold: advertised capacity less reservations, within the caps (`headroom.NodeRoom`)."""

    reason = decision.Reason.CAPACITY
    by_pods = True

    def passes(self, nodes: snapshot.Nodes, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.RoomFilter`."""
        return has_room(nodes, demand.pod_class, demand.ceiling_offset)

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State what is free, and the threshold."""
        free = row.free(demand.pod_class, demand.ceiling_offset)
        if free == -math.inf:
            return "nothing advertised"
        return f"{free:.2g} free of threshold {row.policy.threshold:g}, {row.reserved} reserved"


TRUSTED = Trusted()
BELIEVED: tuple[protocol.RoomFilter, ...] = (Advertised(), Fresh(), TRUSTED)
FILTERS: tuple[protocol.RoomFilter, ...] = (*BELIEVED, Capacity())


def has_room(nodes: snapshot.Nodes, pod_class: str, offset: float) -> protocol.Passes:
    """Return which nodes have room for a Pod of a class under an offset of the ceiling, or whether one node has."""
    return nodes.free(pod_class, offset) >= nodes.policy.threshold


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """Of which classes a node admits a Pod: of `classes` among the `named` ones, and of all others if `others`."""

    classes: Set[str] = frozenset()
    named: Set[str] = frozenset()
    others: bool = False

    def __bool__(self) -> bool:
        return self.others or bool(self.classes)

    def __contains__(self, pod_class: object) -> bool:
        return pod_class in self.classes if pod_class in self.named else self.others

    def has_gained(self, before: "Admitted") -> bool:
        """Return whether it admits more than before; only named classes are looked at one by one."""
        if self.others and not before.others:
            return True
        return any(each in self and each not in before for each in self.classes | before.named)


def are_believed(nodes: snapshot.Nodes) -> protocol.Passes:
    """Return of which nodes what they advertise counts now, or whether that of one node does."""
    return functools.reduce(operator.and_, [each.passes(nodes, _ANY) for each in BELIEVED])


def are_suspect(nodes: snapshot.Nodes) -> protocol.Passes:
    """Return which nodes are suspect, or whether one node is (`Trusted`)."""
    return np.logical_not(TRUSTED.passes(nodes, _ANY))


def admits(row: snapshot.NodeRow, pod_classes: Set[str], offset: float = 0.0) -> Admitted:
    """Return of which of the classes the node admits a Pod now, under an offset of the ceiling."""
    offer = row.room.offer
    if not pod_classes or offer is None or not are_believed(row):
        return Admitted()
    named = pod_classes & offer.costs.keys()
    # Classes that the node does not name have the same cost, so one answer holds for all of them: there may be one for
    # each of thousands of Pods, and nodes advertise each second.
    other = next((each for each in pod_classes if each not in named), None)
    return Admitted(
        classes={each for each in named if has_room(row, each, offset)}, named=named,
        others=other is not None and bool(has_room(row, other, offset)),
    )  # fmt: skip


class Baseline:
    """Which Pods belong to their node: they take room, and are neither refused nor reserved.

    It uses only what the API server guarantees, and nothing that the creator of a Pod can write on it (ADR 31): Pods
    whose controller is an existing DaemonSet, by its UID, in the Pod's namespace; the API's mirror Pods of static Pods
    (`ownership.is_mirror`); Pods in the namespaces that the operator names.
    """

    def __init__(self, namespaces: Set[str]) -> None:
        self._namespaces = namespaces
        self._daemon_sets: dict[str, str] = {}
        # Why DaemonSets are not known; None if they are. Nothing is evicted while they are not: their Pods would be
        # taken for workloads.
        self.lacking: str | None = "not listed yet"

    def lacks(self, why: str | None) -> None:
        """Note why DaemonSets are not known; None: they are."""
        self.lacking = why

    def includes(self, pod: cluster.Pod) -> bool:
        """Return True if a Pod belongs to its node."""
        if pod.is_mirror or pod.namespace in self._namespaces:
            return True
        owner = pod.owner
        return owner is not None and pod.claims_daemon_set and self._daemon_sets.get(owner.uid) == pod.namespace

    def put_all(self, found: Iterable[cluster.DaemonSet]) -> bool:
        """Take in the list of all DaemonSets; return True if it has changed."""
        listed = {each.uid: each.namespace for each in found}
        changed, self._daemon_sets = listed != self._daemon_sets, listed
        return changed

    def put(self, found: cluster.DaemonSet) -> bool:
        """Take in a DaemonSet; return True if it is new."""
        is_new = found.uid not in self._daemon_sets
        self._daemon_sets[found.uid] = found.namespace
        return is_new

    def remove(self, uid: str) -> bool:
        """Forget a DaemonSet; return True if it was known."""
        return self._daemon_sets.pop(uid, None) is not None
