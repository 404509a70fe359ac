"""How far nodes meet a Pod's preferences, and how much that counts compared with room.

Preferences are preferred node affinity, preferred inter-Pod affinity and anti-affinity of the Pod and of placed ones,
PreferNoSchedule taints that are not tolerated, topology spread with ScheduleAnyway, or by default, and images that
nodes have already. docs/scheduling.md has the rule, and an example.
"""

import dataclasses
import math
from typing import Protocol

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


class Preference(Protocol):
    """One kind of preference of one demand, over all nodes."""

    @property
    def kind(self) -> str:
        """The kind of preference, in a word."""

    @property
    def weight(self) -> float:
        """Its weight relative to other kinds."""

    def met(self, feasible: snapshot.Bools) -> snapshot.Floats:
        """Return per slot, from 0 to 1 relative to the feasible nodes, how far the preference is met.

        A spread is BEYOND where other nodes come first, whatever their room.
        """

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        """Count a Pod that this cycle has placed; return True if that may change how far nodes meet the preference."""

    def lose(self, slot: int) -> bool:
        """Take a node out of the feasible ones; return True if others may meet the preference otherwise now."""


class Preferences:
    """All preferences of one demand."""

    def __init__(self, preferences: list[Preference], lean: float = LEAN) -> None:
        self._preferences = preferences
        self._lean = lean
        # The share by which scores are lowered, by slot, as of the last `lean`.
        self._unmet: snapshot.Floats = np.zeros(0)

    def lean(self, scores: snapshot.Floats, feasible: snapshot.Bools) -> snapshot.Floats:
        """Return the scores, lowered where preferences are not met."""
        own = sum(preference.weight for preference in self._preferences)
        total = max(own, _LEAST_TOTAL)
        # What is missing of the least total counts as met.
        begin = np.full(len(scores), total - own)
        met = sum((each.weight * each.met(feasible) for each in self._preferences), begin) / total
        self._unmet = self._lean * (1.0 - np.maximum(met, 0.0))
        if self._lean:
            self._unmet[met == BEYOND] = 1.0
        # score - unmet |score|: the negative score of an overdrawn node falls as well.
        leaned: snapshot.Floats = scores - self._unmet * np.abs(scores)
        return leaned

    def lean_one(self, score: float, slot: int) -> float:
        """Return the score of one node lowered in the same way, if none was lost or added that changes others'."""
        return score - self._unmet.item(slot) * abs(score)

    def parts(self, feasible: snapshot.Bools) -> dict[str, snapshot.Floats]:
        """Return by kind how far it is met per slot, from 0 to 1 relative to the feasible nodes."""
        return {each.kind: np.maximum(each.met(feasible), 0.0) for each in self._preferences}

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        """Count a Pod that this cycle has placed; return True if that may change other nodes' scores."""
        changes = [preference.add(pod, slot) for preference in self._preferences]
        return any(changes)

    def lose(self, slot: int) -> bool:
        """Take a node out of the feasible ones; return True if that may change other nodes' scores."""
        changes = [preference.lose(slot) for preference in self._preferences]
        return any(changes)


def preferences_of(view: snapshot.Snapshot, demand: demands.Demand) -> Preferences | None:
    """Return the preferences of a demand; None if it has none that could distinguish nodes."""
    preferences: list[Preference] = []
    if view.labels.disliking:
        preferences.append(_ByNode("taints", _TAINTS, -view.labels.disliked(demand.tolerations)))
    limits = demand.constraints
    if limits is not None and limits.node_preferences:
        preferences.append(_ByNode("nodes", _NODES, view.labels.preferred(limits.node_preferences)))
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
    """Scale the values so that feasible nodes have 0 (least) to 1 (most); return all 1 if they are equal."""
    least, most = _ends(values, feasible)
    if most <= least:
        return np.ones(len(values))
    return np.clip((values - least) / (most - least), 0.0, 1.0)


def _ends(values: snapshot.Floats, feasible: snapshot.Bools) -> tuple[float, float]:
    """Return the least and the highest value of feasible nodes; +inf and -inf if there are none."""
    # Selecting by a mask takes four times as long.
    least = np.where(feasible, values, np.inf).min(initial=np.inf)
    return float(least), float(np.where(feasible, values, -np.inf).max(initial=-np.inf))


class _ByNode:
    def __init__(self, kind: str, weight: float, values: snapshot.Floats) -> None:
        self.kind = kind
        self.weight = weight
        self._values = values
        self._feasible: snapshot.Bools = np.zeros(0, dtype=np.bool_)
        # How many feasible nodes have the least and the highest value, by which all are scaled; None: not counted.
        self._ends: dict[float, int] | None = None

    def met(self, feasible: snapshot.Bools) -> snapshot.Floats:
        self._feasible, self._ends = feasible, None
        return _scaled(self._values, feasible)

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        """Do nothing: it does not depend on other Pods."""
        return False

    def lose(self, slot: int) -> bool:
        if self._ends is None:
            ends = set(_ends(self._values, self._feasible))
            self._ends = {each: int(np.count_nonzero(self._feasible & (self._values == each))) for each in ends}
        value = self._values.item(slot)
        if value in self._ends:
            self._ends[value] -= 1
        return 0 in self._ends.values()


class _Images:
    kind = "images"
    weight = _IMAGES

    def __init__(self, present: snapshot.Floats) -> None:
        self._present = present

    def met(self, feasible: snapshot.Bools) -> snapshot.Floats:
        # Not relative to the best node, as in kube-scheduler: a small image stays of little weight.
        return self._present

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        """Do nothing: the image is not there yet."""
        return False

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

    def met(self, feasible: snapshot.Bools) -> snapshot.Floats:
        values = np.zeros(len(feasible))
        for term in self._terms:
            values += term.weight * term.sums[term.domains.of]
        return _scaled(values, feasible)

    def add(self, pod: cluster.Pod, slot: int) -> bool:
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
        self._needs_all = needs_all
        self._groups = spread.groups_of(view, demand, spreads, needs_all=needs_all)

    def met(self, feasible: snapshot.Bools) -> snapshot.Floats:
        crowd, has_all = np.zeros(len(feasible)), np.ones(len(feasible), dtype=np.bool_)
        one_pod = 0.0
        for group in self._groups:
            # The more domains a label has, the more significant one Pod more or less in a domain is.
            weight = math.log(int(group.is_domain.sum()) + 2)
            crowd += group.pods[group.domains.of] * weight
            one_pod += weight
            if self._needs_all:
                has_all &= group.domains.known
        met = _scaled(-crowd, feasible & has_all)
        # Whatever the room: a domain takes no more of the group while it has more than twice the Pods of the emptiest
        # one and one, or the node with most room would get all Pods of a small group.
        least, _ = _ends(crowd, feasible & has_all)
        met = np.where(crowd - least > least + one_pod, BEYOND, met)
        # A node without the labels meets nothing, as in kube-scheduler, unless the constraints are the default ones.
        return np.where(has_all, met, 0.0)

    def add(self, pod: cluster.Pod, slot: int) -> bool:
        for group in self._groups:
            group.add(pod, slot, self._pod_counts)
        return True

    def lose(self, slot: int) -> bool:
        return True
