"""Which Pods are on which node, and counts per node of the Pods that a Pod's constraints ask about.

Demands with inter-Pod affinity, topology spread, host ports or shared volumes ask such questions. The first time a
question is asked, every Pod is counted; from then on the count is updated with each Pod that is placed, changed or
gone. Without questions a Pod costs an entry in two tables.

Each ReplicaSet asks a question of its own, since its Pods are spread by default. So a question that a label decides
is kept under that label's value, as are the Pods: neither has to be compared with all of the other.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.nodes import lru

Labels: TypeAlias = Mapping[str, str]
_NO_LABELS: Labels = {}
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
    return term.matches(namespace, namespace_labels, labels) or term.matches(namespace, _NO_LABELS, labels)


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


class PodCounts:
    """The placed Pods by node, including assumed ones. `slot_of` returns a node's slot, or None if it is not known."""

    def __init__(self, slot_of: Callable[[str], int | None]) -> None:
        self._slot_of = slot_of
        self._placed: dict[str, tuple[cluster.Pod, str]] = {}
        self._by_node: dict[str, dict[str, cluster.Pod]] = {}
        self._answers: lru.Lru[Question, npt.NDArray[np.int64]] = lru.Lru(self._drop)
        # The questions that have an answer, by the label that decides them.
        self._asked: dict[Label | None, dict[Question, None]] = {}
        # The placed Pods, by UID, that have a label of a key that decides questions; by key, and by label.
        self._labelled: dict[str, dict[Label, dict[str, tuple[cluster.Pod, str]]]] = {}
        self._namespaces: dict[str, Labels] = {}
        # Why the labels of namespaces are not known; None if they are.
        self.lacking: str | None = None

    @property
    def is_asked(self) -> bool:
        """True if any count is kept, which a Pod that moves may change."""
        return len(self._answers) > 0

    def put(self, pod: cluster.Pod, node: str) -> bool:
        """Place a Pod; return True if it is new, moved, or changed in what constraints ask about."""
        old = self._placed.get(pod.uid)
        if old is not None:
            if old[1] == node and _looks_alike(old[0], pod):
                return False
            self._count(*old, -1)
            self._leave(*old)
        self._placed[pod.uid] = (pod, node)
        self._by_node.setdefault(node, {})[pod.uid] = pod
        for key, label in self._labels_of(pod):
            self._labelled[key].setdefault(label, {})[pod.uid] = (pod, node)
        self._count(pod, node, 1)
        return True

    def remove(self, uid: str) -> bool:
        """Remove a Pod; return True if it was placed."""
        old = self._placed.pop(uid, None)
        if old is None:
            return False
        self._count(*old, -1)
        self._leave(*old)
        return True

    def on(self, node: str) -> Collection[cluster.Pod]:
        """Return the Pods on a node."""
        found = self._by_node.get(node)
        return found.values() if found is not None else ()

    def per_slot(self, question: Question, slots: int) -> npt.NDArray[np.int64]:
        """Return per slot how many Pods the question counts; read-only."""
        answer = self._answers.get(question)
        if answer is None or len(answer) < slots:
            self._asked.setdefault(question.label, {})[question] = None
            # There may have been Pods on a node before the API showed the node.
            most = lru.room_for(slots, entries=question.entries)
            answer = self._answers.put(question, self._whole(question, slots), most=most)
        return answer[:slots]

    def count_of(self, question: Question, pod: cluster.Pod) -> int:
        """Return how much the question counts this Pod, on any node."""
        return question.counts(pod, self.namespace_labels(pod.namespace))

    def namespace_labels(self, namespace: str) -> Labels:
        """Return the labels of a namespace; none if it is not known."""
        return self._namespaces.get(namespace, _NO_LABELS)

    @property
    def namespaces(self) -> Mapping[str, Labels]:
        """The labels of all namespaces."""
        return self._namespaces

    def put_namespaces(self, labels: Mapping[str, Labels]) -> Set[str]:
        """Take in the labels of all namespaces; return the namespaces of which they have changed.

        All counts are dropped if Pods are placed in one of them: a namespace that is new has none.
        """
        before = self._namespaces
        names = before.keys() | labels.keys()
        changed = {each for each in names if before.get(each, _NO_LABELS) != labels.get(each, _NO_LABELS)}
        if changed:
            self._namespaces = dict(labels)
        if self.are_placed_in(changed):
            self._answers = lru.Lru(self._drop)
            self._asked.clear()
        return changed

    def are_placed_in(self, namespaces: Set[str]) -> bool:
        """Return whether Pods of any of these namespaces are placed."""
        return bool(namespaces) and any(pod.namespace in namespaces for pod, _ in self._placed.values())

    def is_unsure_of(self, terms: Iterable[constraints.PodTerm]) -> bool:
        """Return True if one of the terms selects namespaces by labels that are not known."""
        return self.lacking is not None and any(term.namespace_selector for term in terms)

    def recount(self, node: str, slot: int) -> None:
        """Count a slot again: its node was added or removed."""
        for answer in self._answers.values():
            if slot < len(answer):
                answer[slot] = 0
        if self._slot_of(node) == slot:
            for pod in self.on(node):
                self._count(pod, node, 1)

    def _whole(self, question: Question, slots: int) -> npt.NDArray[np.int64]:
        answer = np.zeros(slots, dtype=np.int64)
        for pod, node in self._candidates(question.label):
            count = self.count_of(question, pod)
            slot = self._slot_of(node) if count else None
            if slot is not None:
                answer[slot] += count
        return answer

    def _candidates(self, label: Label | None) -> Collection[tuple[cluster.Pod, str]]:
        """Return the placed Pods with this label; all for None."""
        if label is None:
            return self._placed.values()
        key = label[1]
        if key not in self._labelled:
            found = self._labelled[key] = {}
            for uid, (pod, node) in self._placed.items():
                if key in pod.labels:
                    found.setdefault((pod.namespace, key, pod.labels[key]), {})[uid] = (pod, node)
        return self._labelled[key].get(label, {}).values()

    def _labels_of(self, pod: cluster.Pod) -> Iterator[tuple[str, Label]]:
        """Yield the Pod's labels by which Pods are kept, each with its key."""
        for key in self._labelled:
            value = pod.labels.get(key)
            if value is not None:
                yield key, (pod.namespace, key, value)

    def _count(self, pod: cluster.Pod, node: str, sign: int) -> None:
        if not len(self._answers):
            return
        slot = self._slot_of(node)
        if slot is None:
            return
        for label in (None, *(each for _, each in self._labels_of(pod))):
            for question in self._asked.get(label, ()):
                answer = self._answers.peek(question)
                # A slot past the end is counted when the question is next asked.
                if slot < len(answer):
                    answer[slot] += sign * self.count_of(question, pod)

    def _drop(self, question: Question) -> None:
        asked = self._asked[question.label]
        del asked[question]
        if not asked:
            del self._asked[question.label]

    def _leave(self, pod: cluster.Pod, node: str) -> None:
        pods = self._by_node[node]
        del pods[pod.uid]
        if not pods:
            del self._by_node[node]
        for key, label in self._labels_of(pod):
            del self._labelled[key][label][pod.uid]
            if not self._labelled[key][label]:
                del self._labelled[key][label]


def _looks_alike(old: cluster.Pod, new: cluster.Pod) -> bool:
    """Return True if every question counts both or neither; the rest of a placed Pod's fields cannot change."""
    return old.labels == new.labels and old.deleting == new.deleting
