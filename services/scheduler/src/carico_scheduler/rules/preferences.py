"""How far nodes meet a Pod's preferences, and how much that counts compared with room.

Preferences are preferred node affinity, preferred inter-Pod affinity and anti-affinity of the Pod and of placed ones,
PreferNoSchedule taints that are not tolerated, topology spread with ScheduleAnyway, or by default, and images that
nodes have already. docs/scheduling.md has the rule, and an example.
"""

import dataclasses
import functools
import math
from typing import Protocol, TypeAlias

import numpy as np

from carico_core.domain import cluster, constraints
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_questions
from carico_scheduler.rules.peers import spread

# The largest share by which preferences lower a node's score: a node that meets none must have twice the room of one
# that meets all to be chosen instead.
LEAN = 0.5
# The relative weights of the kinds of preferences, as in kube-scheduler's default profile:
# https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/scheduler/apis/config/v1/default_plugins.go
_TAINTS, _NODES, _PODS, _SPREAD, _IMAGES = 3.0, 2.0, 2.0, 2.0, 1.0
# What the weights are divided by at least, so that images alone count less than what the Pod's author has written.
_LEAST_TOTAL = 2.0
# How far a spread is met by a domain that has had its share: no other kind makes up for it.
BEYOND = -math.inf
# Of sums of a few weights; one Pod more counts a million times as much.
_ROUNDING = 1e-6
# The slots of some nodes, or all.
Where: TypeAlias = snapshot.Ints | slice
_ALL = slice(None)


class Preference(Protocol):
    """One kind of preference of one demand, over all nodes."""

    @property
    def kind(self) -> str:
        """The kind of preference, in a word."""

    @property
    def weight(self) -> float:
        """Its weight relative to other kinds."""

    def met(self, feasible: snapshot.Bools) -> tuple[Where, snapshot.Floats]:
        """Return how far these slots meet the preference, from 0 to 1 relative to feasible nodes; all others do.

        A spread is BEYOND where other nodes come first, whatever their room.
        """

    def lose(self, slot: int) -> bool:
        """Take a node out of the feasible ones; return True if others may meet the preference otherwise now."""


class Preferences:
    """All preferences of one demand."""

    def __init__(self, preferences: list[Preference], lean: float) -> None:
        self._preferences = preferences
        # Those that a placement may change.
        self._by_pods = [each for each in preferences if isinstance(each, (_NearOrApart, _SoftSpread))]
        # What is lacking of the least total counts as met.
        self._total = max(sum(preference.weight for preference in preferences), _LEAST_TOTAL)
        self._lean = lean
        # The share by which scores are lowered, by slot, as of the last `lean`.
        self._shares: snapshot.Floats = np.zeros(0)

    @property
    def by_pods(self) -> bool:
        """Whether a placement may change how far nodes meet them."""
        return bool(self._by_pods)

    def lean(self, scores: snapshot.Floats) -> snapshot.Floats:
        """Return the scores (-inf: infeasible), lowered where preferences are missed."""
        shares = self._shares = np.zeros(len(scores))
        if not self._lean:
            return scores
        feasible = scores > -math.inf
        where: Where = _ALL
        for each in self._preferences:
            at, met = each.met(feasible)
            shares[at] += (self._lean * each.weight / self._total) * (1.0 - met)
            where = at if len(self._preferences) == 1 else _ALL
        # A few nodes with a taint cost nothing elsewhere.
        lowered = np.minimum(shares[where], 1.0)
        shares[where] = lowered
        leaned = scores.copy()
        # score - share |score|: the negative score of an overdrawn node falls as well, and -inf stays.
        leaned[where] *= 1.0 - np.copysign(lowered, scores[where])
        return leaned

    def lean_one(self, score: float, slot: int) -> float:
        """Return the score of one node lowered in the same way, if none was lost or added that changes others'."""
        return score * (1.0 - math.copysign(self._shares.item(slot), score))

    def parts(self, feasible: snapshot.Bools) -> dict[str, snapshot.Floats]:
        """Return by kind how far it is met per slot, from 0 to 1 relative to the feasible nodes."""
        parts = {}
        for each in self._preferences:
            where, met = each.met(feasible)
            parts[each.kind] = np.ones(len(feasible))
            parts[each.kind][where] = np.clip(met, 0.0, 1.0)
        return parts

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        """Count a Pod that this cycle has placed; return True if that may change other nodes' scores."""
        changes = [preference.add(pod, slot) for preference in self._by_pods]
        return any(changes)

    def lose(self, slot: int) -> bool:
        """Take a node out of the feasible ones; return True if that may change other nodes' scores."""
        changes = [preference.lose(slot) for preference in self._preferences]
        return any(changes)


def preferences_of(view: snapshot.Snapshot, demand: demands.Demand) -> Preferences | None:
    """Return the preferences of a demand; None if it has none that could distinguish nodes."""
    preferences: list[Preference] = []
    if view.labels.disliking:
        preferences.append(_Taints(view.labels.disliked(demand.tolerations)))
    limits = demand.constraints
    if limits is not None and limits.node_preferences:
        preferences.append(_Nodes(view.labels.preferred(limits.node_preferences)))
    own = () if limits is None else limits.pod_preferences
    if own or demand.preferred_by:
        preferences.append(_NearOrApart(view, own, demand.preferred_by))
    if limits is not None and limits.soft_spreads:
        preferences.append(_SoftSpread(view, demand, limits.soft_spreads))
    if limits is not None and limits.default_spreads:
        # A label that no node has does not count.
        known = [each for each in limits.default_spreads if view.labels.domains(each.topology_key).known.any()]
        if known:
            preferences.append(_SoftSpread(view, demand, tuple(known), needs_all=False))
    if view.policy.image_locality and demand.images is not None:
        present = view.images.present(demand.images, view.present)
        if present is not None:
            preferences.append(_Images(present))
    lean = None if demand.profile is None else demand.profile.lean
    return Preferences(preferences, LEAN if lean is None else lean) if preferences else None


def _scaled(values: snapshot.Floats, feasible: snapshot.Bools) -> snapshot.Floats:
    """Scale the values so that feasible nodes have 0 (least) to 1 (most), others any; all 1 if they are equal."""
    return _between(values, *_ends(values, feasible))


def _between(values: snapshot.Floats, worst: float, best: float) -> snapshot.Floats:
    """Return where the values are from 0 (the worst one) to 1 (the best one); 1 if these are equal or infinite."""
    if best == worst or math.isinf(best):
        return np.ones(len(values))
    return (values - worst) / (best - worst)


def _ends(values: snapshot.Floats, feasible: snapshot.Bools) -> tuple[float, float]:
    """Return the least and the highest value of feasible nodes; +inf and -inf if there are none."""
    # By their slots: selecting by a mask takes four times as long.
    found = values.take(feasible.nonzero()[0])
    return float(found.min(initial=np.inf)), float(found.max(initial=-np.inf))


class _Taints:
    """PreferNoSchedule taints that are not tolerated. Most nodes have none: only the others are looked at."""

    kind = "taints"
    weight = _TAINTS

    def __init__(self, counts: snapshot.Floats) -> None:
        self._counts = counts
        # How many feasible nodes have the least and the highest count, by which all are scaled.
        self._ends: dict[float, int] = {}

    def met(self, feasible: snapshot.Bools) -> tuple[Where, snapshot.Floats]:
        # Of floats `nonzero` takes twenty times as long.
        slots = (self._counts > 0.0).nonzero()[0]
        slots = slots[feasible[slots]]
        counts, without = self._counts[slots], int(np.count_nonzero(feasible)) - len(slots)
        least = 0.0 if without else float(counts.min(initial=np.inf))
        most = float(counts.max(initial=0.0))
        self._ends = {each: int(np.count_nonzero(counts == each)) for each in (least, most)}
        if without:
            self._ends[0.0] = without
        return slots, (most - counts) / (most - least) if most > least else np.ones(len(slots))

    def lose(self, slot: int) -> bool:
        return _is_last(self._ends, self._counts.item(slot))


class _Nodes:
    """Preferred node affinity."""

    kind = "nodes"
    weight = _NODES

    def __init__(self, values: snapshot.Floats) -> None:
        self._values = values
        self._feasible: snapshot.Bools = np.zeros(0, dtype=np.bool_)
        # As in `_Taints`; empty: not counted.
        self._ends: dict[float, int] = {}

    def met(self, feasible: snapshot.Bools) -> tuple[Where, snapshot.Floats]:
        self._feasible, self._ends = feasible, {}
        return _ALL, _scaled(self._values, feasible)

    def lose(self, slot: int) -> bool:
        if not self._ends:
            ends = set(_ends(self._values, self._feasible))
            self._ends = {each: int(np.count_nonzero(self._feasible & (self._values == each))) for each in ends}
        return _is_last(self._ends, self._values.item(slot))


def _is_last(ends: dict[float, int], value: float) -> bool:
    """Take one feasible node out of the number of those with this value; return True if others are scaled otherwise."""
    if value in ends:
        ends[value] -= 1
    return 0 in ends.values()


class _Images:
    kind = "images"
    weight = _IMAGES

    def __init__(self, present: snapshot.Floats) -> None:
        self._present = present

    def met(self, feasible: snapshot.Bools) -> tuple[Where, snapshot.Floats]:
        # Not relative to the best node, as in kube-scheduler: a small image stays of little weight.
        return _ALL, self._present

    def lose(self, slot: int) -> bool:
        return False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Term:
    """A term of the Pod or of others: what it counts per domain of its label."""

    weight: int
    question: pod_questions.Question
    domains: node_labels.Domains
    sums: snapshot.Floats


class _NearOrApart:
    """Preferred terms of the Pod over placed Pods, and of placed Pods over the Pod."""

    kind = "pods"
    weight = _PODS

    def __init__(
        self,
        view: snapshot.Snapshot,
        own: tuple[constraints.PodPreference, ...],
        preferred_by: tuple[constraints.PodTerm, ...],
    ) -> None:
        self._view = view
        self._terms = [
            *(self._term(each.term, pod_questions.Matching(terms=(each.term,)), each.weight) for each in own),
            # The question has the weights: the same term can have others in other Pods.
            *(self._term(each, pod_questions.Preferring(term=each), 1) for each in preferred_by),
        ]

    def met(self, feasible: snapshot.Bools) -> tuple[Where, snapshot.Floats]:
        values = np.zeros(len(feasible))
        for term in self._terms:
            values += term.weight * term.sums[term.domains.of]
        return _ALL, _scaled(values, feasible)

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        """Count a Pod that this cycle has placed; return True if that may change how far nodes meet the preference."""
        is_changed = False
        for term in self._terms:
            domain = term.domains.of[slot]
            count = 0 if domain == node_labels.NO_DOMAIN else self._view.pod_counts.count_of(term.question, pod)
            if count:
                term.sums[domain] += count
                is_changed = True
        return is_changed

    def lose(self, slot: int) -> bool:
        return True

    def _term(self, term: constraints.PodTerm, question: pod_questions.Question, weight: int) -> _Term:
        domains = self._view.labels.domains(term.topology_key)
        sums = domains.sums(self._view.pod_counts.per_slot(question, len(self._view.present)))
        return _Term(weight=weight, question=question, domains=domains, sums=sums)


class _SoftSpread:
    kind = "spread"
    weight = _SPREAD

    def __init__(
        self,
        view: snapshot.Snapshot,
        demand: demands.Demand,
        spreads: tuple[constraints.Spread, ...],
        *,
        needs_all: bool = True,
    ) -> None:
        self._pod_counts = view.pod_counts
        self._groups = spread.groups_of(view, demand, spreads, needs_all=needs_all)
        # The more domains a label has, the more significant one Pod more or less in a domain is.
        self._weights = [math.log(int(np.count_nonzero(group.is_domain)) + 2) for group in self._groups]
        # A node without the labels meets nothing, as in kube-scheduler, unless the constraints are the default ones.
        self._lacking: snapshot.Bools | None = None
        if needs_all:
            lacking = functools.reduce(np.logical_or, [~group.domains.known for group in self._groups])
            self._lacking = lacking if lacking.any() else None

    def met(self, feasible: snapshot.Bools) -> tuple[Where, snapshot.Floats]:
        crowd = self._crowd()
        known = feasible if self._lacking is None else feasible & ~self._lacking
        least, most = _ends(crowd, known)
        met = _between(crowd, most, least)
        # Whatever the room: a domain takes no more of the group while it has more than twice the Pods of the emptiest
        # one and one, or the node with most room would get all Pods of a small group.
        is_beyond = crowd > 2.0 * least + sum(self._weights) + _ROUNDING
        if is_beyond.any():
            met[is_beyond] = BEYOND
        if self._lacking is not None:
            met[self._lacking] = 0.0
        return _ALL, met

    def _crowd(self) -> snapshot.Floats:
        """Return by slot how many Pods are in its domains, by the weights of these."""
        first, *others = [
            (weight * group.pods)[group.domains.of] for group, weight in zip(self._groups, self._weights, strict=True)
        ]
        return sum(others, first)

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        """As in `_NearOrApart`."""
        for group in self._groups:
            group.add(pod, slot, self._pod_counts)
        return True

    def lose(self, slot: int) -> bool:
        return True
