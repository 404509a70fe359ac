"""What a Pod's constraints ask about each placed Pod: does it count, and how much.

Inter-Pod affinity, topology spread, host ports and shared volumes ask such questions; `pod_counts` keeps the answers.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from carico_core.domain import cluster, constraints, selectors

Labels: TypeAlias = Mapping[str, str]
NO_LABELS: Labels = {}
# A namespace, the key of a label, and its value.
Label: TypeAlias = tuple[str, str, str]
# Labels in which groups of Pods of one namespace differ most, best first. No others: tenants name labels, and each
# placement looks at all that are in use.
_TELLING = ("pod-template-hash", "app.kubernetes.io/instance", "app.kubernetes.io/name", "app")
# What required affinity of a placed Pod counts as a preference: hardPodAffinityWeight, as by default in kube-scheduler.
# https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/#kubescheduler-config-k8s-io-v1-InterPodAffinityArgs
_REQUIRED_WEIGHT = 1


def telling_rank(key: str) -> int:
    """Return the place of a label among those in which groups of Pods differ most; the last for all others."""
    return _TELLING.index(key) if key in _TELLING else len(_TELLING)


def selects(term: constraints.PodTerm, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
    """Return True if a term of a Pod that is to be placed selects a Pod of this namespace and these labels.

    As in kube-scheduler 1.36: a namespace selector that matches a namespace without labels (DoesNotExist, NotIn)
    selects all namespaces, since kube-scheduler discards the copy in which it resolves the selector
    (mergeAffinityTermNamespacesIfNotEmpty in plugins/interpodaffinity). Terms of placed Pods are evaluated literally.
    """
    return term.matches(namespace, namespace_labels, labels) or term.matches(namespace, NO_LABELS, labels)


def concern(own: constraints.Constraints | None, pod: cluster.Pod, namespace_labels: Labels) -> bool:
    """Return whether constraints ask about the labels of a Pod that comes, goes or is changed."""
    if own is None:
        return False
    terms = (*own.affinity, *own.anti_affinity)
    return any(selects(term, pod.namespace, namespace_labels, pod.labels) for term in terms) or any(
        each.namespace == pod.namespace and selectors.matches(each.selector, pod.labels) for each in own.hard_spreads
    )


class TermSet(frozenset[constraints.PodTerm]):
    """Terms, and the labels of their domains; its hash is computed once, as that of each frozenset."""

    __slots__ = ("topology_keys",)
    topology_keys: frozenset[str]

    def __new__(cls, terms: Iterable[constraints.PodTerm] = ()) -> "TermSet":
        """Return a set of these terms."""
        made = super().__new__(cls, terms)
        made.topology_keys = frozenset(each.topology_key for each in made)
        return made


NO_TERMS = TermSet()


class Question(Protocol):
    """A condition by which Pods are counted; equal questions share one count."""

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> int:
        """Return how much this Pod counts: mostly once or not at all."""

    @property
    def label(self) -> Label | None:
        """A label that all counted Pods have; None if there is no such label."""

    @property
    def entries(self) -> int:
        """How many terms it holds, if they may be thousands."""

    def __hash__(self) -> int:
        """Return the same hash for equal questions."""


class _Small:
    """A question of few terms."""

    __slots__ = ()

    @property
    def entries(self) -> int:
        """See `Question`."""
        return 0


class _Unlabelled(_Small):
    """A question that no single label decides."""

    __slots__ = ()

    @property
    def label(self) -> Label | None:
        """See `Question`."""
        return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matching(_Unlabelled):
    """Pods that match all of these terms of a Pod that is to be placed."""

    terms: tuple[constraints.PodTerm, ...]

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """Return True if all terms match."""
        return all(selects(term, pod.namespace, namespace_labels, pod.labels) for term in self.terms)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Repelling(_Unlabelled):
    """Pods that have one of these required anti-affinity terms, with this label as its domain.

    One question for all of them: a tenant can have thousands of terms that select another's Pods.
    """

    topology_key: str
    terms: TermSet

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> int:
        """Return how many of the terms the Pod has."""
        own = () if pod.constraints is None else pod.constraints.anti_affinity
        return sum(term.topology_key == self.topology_key and term in self.terms for term in own)

    @property
    def entries(self) -> int:
        """See `Question`."""
        return len(self.terms)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preferring(_Unlabelled):
    """Pods that have this term, by its weight: as a preference, or as required affinity."""

    term: constraints.PodTerm

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> int:
        """Return the sum of the weights that the Pod gives the term; below zero for anti-affinity."""
        own = pod.constraints
        if own is None:
            return 0
        weight = _REQUIRED_WEIGHT * own.affinity.count(self.term)
        for each in own.pod_preferences:
            # Usually it is the same object, since equal constraints share theirs.
            if each.term is self.term or each.term == self.term:
                weight += each.weight
        return weight


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spreading(_Small):
    """Pods of a namespace that count for a spread constraint, without those being deleted."""

    namespace: str
    selector: selectors.Selector

    @property
    def label(self) -> Label | None:
        """See `Question`."""
        fixed = {
            each.key: each.values[0]
            for each in self.selector or ()
            if each.operator == selectors.IN and len(each.values) == 1
        }
        key = next((each for each in _TELLING if each in fixed), None)
        return None if key is None else (self.namespace, key, fixed[key])

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """Return True if the selector matches; an empty one counts no Pod, as in Kubernetes."""
        if not self.selector or pod.namespace != self.namespace or pod.deleting:
            return False
        return selectors.matches(self.selector, pod.labels)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occupying(_Unlabelled):
    """Pods that hold a host port or a disk that conflicts with one of these."""

    ports: tuple[constraints.HostPort, ...] = ()
    disks: tuple[constraints.ExclusiveDisk, ...] = ()
    _occupied: constraints.Occupied = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=constraints.Occupied
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_occupied", constraints.Occupied(self.ports, self.disks))

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """Return True if any conflicts."""
        held = pod.constraints
        return held is not None and self._occupied.conflicts(held.host_ports, held.disks)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Using(_Unlabelled):
    """Pods that use this claim by its name; a claim created for one Pod has no other user."""

    claim: constraints.VolumeClaimUse

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """Return True if the Pod uses the claim."""
        return pod.constraints is not None and self.claim in pod.constraints.volume_claims
