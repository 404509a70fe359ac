"""Which Pods are on which node, and counts of those that a Pod's constraints ask about, kept per node as Pods move.

A question is asked by a demand with inter-Pod affinity, topology spread, host ports or shared volumes. The first time,
every Pod is looked at; from then on the count follows each Pod that is placed, changed or gone. Without questions a
Pod costs an entry in two tables.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.nodes import lru

Labels: TypeAlias = Mapping[str, str]
_NO_LABELS: Labels = {}


def means(term: constraints.PodTerm, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
    """True where a term of a Pod that is to be placed means a Pod of this namespace and these labels.

    As kube-scheduler 1.36 reads it: a namespace selector that is met without any label (DoesNotExist, NotIn) means all
    namespaces, as the copy in which it writes the selector out is lost
    (mergeAffinityTermNamespacesIfNotEmpty in plugins/interpodaffinity). Terms of placed Pods are read to the letter.
    """
    return term.matches(namespace, namespace_labels, labels) or term.matches(namespace, _NO_LABELS, labels)


class Question(Protocol):
    """What is asked of each Pod; equal questions are asked once."""

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """True where this Pod is to be counted."""

    def __hash__(self) -> int:
        """As equality."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Pods that every one of these terms, of a Pod that is to be placed, means."""

    terms: tuple[constraints.PodTerm, ...]

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """True where all terms match."""
        return all(means(term, pod.namespace, namespace_labels, pod.labels) for term in self.terms)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Repelling:
    """Pods that require not to be near Pods of this term."""

    term: constraints.PodTerm

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """True where the Pod has the term."""
        return pod.constraints is not None and self.term in pod.constraints.anti_affinity


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spreading:
    """Pods of a namespace that count for a spread constraint; one that is being deleted no longer does."""

    namespace: str
    selector: selectors.Selector

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """True where the selector matches; an empty one counts nothing, as in Kubernetes."""
        if not self.selector or pod.namespace != self.namespace or pod.deleting:
            return False
        return selectors.matches(self.selector, pod.labels)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occupying:
    """Pods that hold a host port, or a disk, which conflicts with one of these."""

    ports: tuple[constraints.HostPort, ...] = ()
    disks: tuple[constraints.Disk, ...] = ()

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """True where any conflicts."""
        held = pod.constraints
        if held is None:
            return False
        return any(one.conflicts(other) for one in held.host_ports for other in self.ports) or any(
            one.conflicts(other) for one in held.disks for other in self.disks
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Using:
    """Pods that use this claim by name; a volume made for one Pod has no other user."""

    claim: constraints.VolumeClaimUse

    def counts(self, pod: cluster.Pod, namespace_labels: Labels) -> bool:
        """True where the claim is among the Pod's."""
        return pod.constraints is not None and self.claim in pod.constraints.volume_claims


class PodCounts:
    """The placed Pods by node, assumed ones included. `slot_of` returns a node's slot, None where it is not known."""

    def __init__(self, slot_of: Callable[[str], int | None]) -> None:
        self._slot_of = slot_of
        self._placed: dict[str, tuple[cluster.Pod, str]] = {}
        self._by_node: dict[str, dict[str, cluster.Pod]] = {}
        self._answers: lru.Lru[Question, npt.NDArray[np.int64]] = lru.Lru()
        self._namespaces: dict[str, Labels] = {}
        # Why the labels of namespaces are not known; None: they are.
        self.lacking: str | None = None

    @property
    def is_asked(self) -> bool:
        """True where any count is kept: a Pod that moves may change an answer."""
        return len(self._answers) > 0

    def put(self, pod: cluster.Pod, node: str) -> bool:
        """True where a Pod came, moved or changed in what constraints ask about."""
        old = self._placed.get(pod.uid)
        if old is not None:
            if old[1] == node and _looks_alike(old[0], pod):
                return False
            self._count(*old, -1)
            self._leave(pod.uid, old[1])
        self._placed[pod.uid] = (pod, node)
        self._by_node.setdefault(node, {})[pod.uid] = pod
        self._count(pod, node, 1)
        return True

    def remove(self, uid: str) -> bool:
        """True where the Pod was placed; it is no longer."""
        old = self._placed.pop(uid, None)
        if old is None:
            return False
        self._count(*old, -1)
        self._leave(uid, old[1])
        return True

    def on(self, node: str) -> Collection[cluster.Pod]:
        """The Pods on a node."""
        found = self._by_node.get(node)
        return found.values() if found is not None else ()

    def per_slot(self, question: Question, slots: int) -> npt.NDArray[np.int64]:
        """How many Pods of each slot the question counts; not to be written to."""
        answer = self._answers.get(question)
        if answer is None or len(answer) < slots:
            # Pods may have been on a new slot's node before the API showed the node.
            answer = self._answers.put(question, self._whole(question, slots), most=lru.room_for(slots))
        return answer[:slots]

    def is_counted(self, question: Question, pod: cluster.Pod) -> bool:
        """True where the question counts this Pod, wherever it is."""
        return question.counts(pod, self.namespace_labels(pod.namespace))

    def namespace_labels(self, namespace: str) -> Labels:
        """The labels of a namespace; none where it is not known."""
        return self._namespaces.get(namespace, _NO_LABELS)

    @property
    def namespaces(self) -> Mapping[str, Labels]:
        """The labels of all namespaces."""
        return self._namespaces

    def put_namespaces(self, labels: Mapping[str, Labels]) -> bool:
        """True where the labels of some namespace changed; counts that may rest on them start over."""
        if labels == self._namespaces:
            return False
        self._namespaces = dict(labels)
        self._answers = lru.Lru()
        return True

    def is_unsure_of(self, terms: Iterable[constraints.PodTerm]) -> bool:
        """True where one of the terms selects namespaces by labels that are not known."""
        return self.lacking is not None and any(term.namespace_selector for term in terms)

    def recount(self, node: str, slot: int) -> None:
        """Recount a slot: its node came or went."""
        is_there = self._slot_of(node) == slot
        for question in self._answers:
            answer = self._answers.peek(question)
            if slot < len(answer):
                answer[slot] = self._sum(question, self.on(node)) if is_there else 0

    def _whole(self, question: Question, slots: int) -> npt.NDArray[np.int64]:
        answer = np.zeros(slots, dtype=np.int64)
        for node, pods in self._by_node.items():
            slot = self._slot_of(node)
            if slot is not None:
                answer[slot] = self._sum(question, pods.values())
        return answer

    def _sum(self, question: Question, pods: Iterable[cluster.Pod]) -> int:
        return sum(self.is_counted(question, pod) for pod in pods)

    def _count(self, pod: cluster.Pod, node: str, sign: int) -> None:
        if not len(self._answers):
            return
        slot = self._slot_of(node)
        if slot is None:
            return
        for question in self._answers:
            answer = self._answers.peek(question)
            # A slot past the end is counted when the answer is next asked for.
            if slot < len(answer) and self.is_counted(question, pod):
                answer[slot] += sign

    def _leave(self, uid: str, node: str) -> None:
        pods = self._by_node[node]
        del pods[uid]
        if not pods:
            del self._by_node[node]


def _looks_alike(old: cluster.Pod, new: cluster.Pod) -> bool:
    """True where no question separates them; what else a Pod states of itself cannot change once it is placed."""
    return old.labels == new.labels and old.deleting == new.deleting
