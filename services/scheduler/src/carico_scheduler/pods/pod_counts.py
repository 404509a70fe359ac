"""Which Pods are on which node, and counts per node of the Pods that a Pod's constraints ask about.

The first time a question is asked (`pod_questions`), every Pod is counted; from then on the count is updated with each
Pod that is placed, changed or gone. Without questions a Pod costs an entry in two tables.

Each ReplicaSet asks a question of its own, since its Pods are spread by default. So a question that a label decides
is kept under that label's value, as are the Pods: neither has to be compared with all of the other.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster, constraints
from carico_scheduler.nodes import lru
from carico_scheduler.pods import pod_questions


class PodCounts:
    """The placed Pods by node, including assumed ones. `slot_of` returns a node's slot, or None if it is not known."""

    def __init__(self, slot_of: Callable[[str], int | None]) -> None:
        self._slot_of = slot_of
        self._placed: dict[str, tuple[cluster.Pod, str]] = {}
        self._by_node: dict[str, dict[str, cluster.Pod]] = {}
        self._answers: lru.Lru[pod_questions.Question, npt.NDArray[np.int64]] = lru.Lru(self._drop)
        # The questions that have an answer, by the label that decides them.
        self._asked: dict[pod_questions.Label | None, dict[pod_questions.Question, None]] = {}
        # The placed Pods, by UID, that have a label of a key that decides questions; by key, and by label.
        self._labelled: dict[str, dict[pod_questions.Label, dict[str, tuple[cluster.Pod, str]]]] = {}
        self._namespaces: dict[str, pod_questions.Labels] = {}
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

    def find(self, uid: str) -> tuple[cluster.Pod, str] | None:
        """Return a placed Pod as it counts, and its node; None if it is not placed."""
        return self._placed.get(uid)

    def on(self, node: str) -> Collection[cluster.Pod]:
        """Return the Pods on a node."""
        found = self._by_node.get(node)
        return found.values() if found is not None else ()

    def per_slot(self, question: pod_questions.Question, slots: int) -> npt.NDArray[np.int64]:
        """Return per slot how many Pods the question counts; read-only."""
        answer = self._answers.get(question)
        if answer is None or len(answer) < slots:
            self._asked.setdefault(question.label, {})[question] = None
            # There may have been Pods on a node before the API showed the node.
            most = lru.room_for(slots, entries=question.entries)
            answer = self._answers.put(question, self._whole(question, slots), most=most)
        return answer[:slots]

    def count_of(self, question: pod_questions.Question, pod: cluster.Pod) -> int:
        """Return how much the question counts this Pod, on any node."""
        return question.counts(pod, self.namespace_labels(pod.namespace))

    def namespace_labels(self, namespace: str) -> pod_questions.Labels:
        """Return the labels of a namespace; none if it is not known."""
        return self._namespaces.get(namespace, pod_questions.NO_LABELS)

    @property
    def namespaces(self) -> Mapping[str, pod_questions.Labels]:
        """The labels of all namespaces."""
        return self._namespaces

    def put_namespaces(self, labels: Mapping[str, pod_questions.Labels]) -> tuple[Set[str], bool]:
        """Take in the labels of all namespaces; return those of which they have changed, and whether Pods are there.

        If Pods are placed in one of them, all counts are dropped: a namespace that is new has none.
        """
        before = self._namespaces
        names = before.keys() | labels.keys()
        none = pod_questions.NO_LABELS
        changed = {each for each in names if before.get(each, none) != labels.get(each, none)}
        if not changed:
            return changed, False
        self._namespaces = dict(labels)
        has_pods = any(pod.namespace in changed for pod, _ in self._placed.values())
        if has_pods:
            self._answers = lru.Lru(self._drop)
            self._asked.clear()
        return changed, has_pods

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

    def _whole(self, question: pod_questions.Question, slots: int) -> npt.NDArray[np.int64]:
        answer = np.zeros(slots, dtype=np.int64)
        for pod, node in self._candidates(question.label):
            count = self.count_of(question, pod)
            slot = self._slot_of(node) if count else None
            if slot is not None:
                answer[slot] += count
        return answer

    def _candidates(self, label: pod_questions.Label | None) -> Collection[tuple[cluster.Pod, str]]:
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

    def _labels_of(self, pod: cluster.Pod) -> Iterator[tuple[str, pod_questions.Label]]:
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

    def _drop(self, question: pod_questions.Question) -> None:
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
