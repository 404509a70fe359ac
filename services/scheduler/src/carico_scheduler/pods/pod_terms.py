"""Which terms of known Pods select a given Pod: the reverse of the questions in `pod_questions`.

A Pod's labels matter only to the terms of other Pods. So a demand holds the terms that select the Pod, not its labels:
Pods whose labels differ only where no term asks are decided on together.
"""

import collections
import dataclasses
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.nodes import lru
from carico_scheduler.pods import pod_counts, pod_questions

Found = TypeVar("Found")

# Of more preferred terms of others that select a Pod the oldest count: each is a count over all placed Pods, and a
# single Pod may have thousands that select every Pod of the cluster.
PREFERENCES_MOST = 64
# A namespace and a label, of which a Pod that a term selects must have both; None: it may have any.
_Mark: TypeAlias = tuple[str | None, tuple[str, str] | None]


def anti_affinity_of(own: constraints.Constraints) -> Iterable[constraints.PodTerm]:
    """Return the terms by which a Pod keeps others away."""
    return own.anti_affinity


def preferences_of(own: constraints.Constraints) -> Iterable[constraints.PodTerm]:
    """Return the terms by which a Pod raises or lowers the score of its domain for others."""
    return (*own.affinity, *(each.term for each in own.pod_preferences))


def oldest(found: tuple[constraints.PodTerm, ...]) -> tuple[constraints.PodTerm, ...]:
    """Return the oldest of preferred terms, which alone count."""
    return found[:PREFERENCES_MOST]


class Shared:
    """Sets of terms, of which equal ones are one object: thousands of Pods may be selected by thousands of terms."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[pod_questions.TermSet, pod_questions.TermSet] = (
            weakref.WeakValueDictionary()
        )

    def __call__(self, found: tuple[constraints.PodTerm, ...]) -> pod_questions.TermSet:
        """Return the set of these terms."""
        made = pod_questions.TermSet(found)
        return self._known.setdefault(made, made)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Entry:
    number: int
    holders: int = 0


class TermIndex(Generic[Found]):
    """Terms of all known Pods, kept by what a Pod must have to be selected; `terms_of` returns those of one Pod.

    A Pod is compared only with terms that name its namespace and one of its labels, and with those that name neither;
    and only once as long as no term comes or ends, together with all Pods of the same labels that terms ask about.
    """

    def __init__(
        self, known: pod_counts.PodCounts, terms_of: Callable[[constraints.Constraints], Iterable[constraints.PodTerm]],
        made: Callable[[tuple[constraints.PodTerm, ...]], Found],
    ) -> None:  # fmt: skip
        """`made` returns what `of` returns, from the terms in the order in which they were added."""
        self._pod_counts = known
        self._terms_of = terms_of
        self._made = made
        self._none = made(())
        self._found: lru.Lru[tuple[str, frozenset[tuple[str, str]]], Found] = lru.Lru()
        # How many terms ask about each key of a label.
        self._keys: collections.Counter[str] = collections.Counter()
        # Of which namespaces' labels the answers are.
        self._namespaces: object = None
        self._lacking: str | None = None
        self._entries: dict[constraints.PodTerm, _Entry] = {}
        self._by_mark: dict[_Mark, dict[constraints.PodTerm, None]] = {}
        self._numbers = itertools.count()

    def add(self, pod: cluster.Pod) -> list[constraints.PodTerm]:
        """Add a Pod; return its terms that no other Pod has."""
        found = []
        for term in () if pod.constraints is None else self._terms_of(pod.constraints):
            entry = self._entries.get(term)
            if entry is None:
                found.append(term)
                entry = self._entries[term] = _Entry(number=next(self._numbers))
                self._found.clear()
                self._keys.update(_keys(term))
                for mark in _marks(term):
                    self._by_mark.setdefault(mark, {})[term] = None
            entry.holders += 1
        return found

    def remove(self, pod: cluster.Pod) -> bool:
        """Remove a Pod; return True if it was the last with a term. Demands with that term stay correct."""
        ends_one = False
        for term in () if pod.constraints is None else self._terms_of(pod.constraints):
            entry = self._entries[term]
            entry.holders -= 1
            if not entry.holders:
                ends_one = True
                self._drop(term)
        return ends_one

    def of(self, pod: cluster.Pod) -> Found:
        """Return what is made of the terms that select this Pod."""
        if not self._entries:
            return self._none
        if self._namespaces is not self._pod_counts.namespaces or self._lacking != self._pod_counts.lacking:
            self._namespaces, self._lacking = self._pod_counts.namespaces, self._pod_counts.lacking
            self._found.clear()
        key = (pod.namespace, frozenset(label for label in pod.labels.items() if label[0] in self._keys))
        found = self._found.get(key)
        if found is None:
            terms = self._selecting(pod)
            found = self._found.put(key, self._made(terms), most=lru.room_for(0, entries=len(terms)))
        return found

    def _selecting(self, pod: cluster.Pod) -> tuple[constraints.PodTerm, ...]:
        found = [
            term for mark in _marks_of(pod) for term in self._by_mark.get(mark, ()) if self.selects((term,), pod)
        ]  # fmt: skip
        return tuple(sorted(found, key=lambda term: self._entries[term].number))

    def selects(self, terms: Sequence[constraints.PodTerm], pod: cluster.Pod) -> bool:
        """Return True if any of the terms selects the Pod."""
        if self._pod_counts.is_unsure_of(terms):
            # Rather keep two Pods apart without need than place them together in error.
            return any(selectors.matches(term.selector, pod.labels) for term in terms)
        namespace_labels = self._pod_counts.namespace_labels(pod.namespace)
        return any(term.matches(pod.namespace, namespace_labels, pod.labels) for term in terms)

    def _drop(self, term: constraints.PodTerm) -> None:
        del self._entries[term]
        self._found.clear()
        self._keys.subtract(_keys(term))
        for key in _keys(term):
            if not self._keys[key]:
                del self._keys[key]
        for mark in _marks(term):
            terms = self._by_mark[mark]
            del terms[term]
            if not terms:
                del self._by_mark[mark]


def labels_of(term: constraints.PodTerm) -> Sequence[tuple[str, str]] | None:
    """Return labels of which each Pod that the term selects has exactly one; None if there are no such labels."""
    named = [each for each in term.selector or () if each.operator == selectors.IN]
    if not named:
        return None
    # Of several labels, that which differs most.
    first = min(named, key=lambda each: pod_questions.telling_rank(each.key))
    return [(first.key, value) for value in first.values]


def _keys(term: constraints.PodTerm) -> set[str]:
    """Return the keys of the labels that the term asks about."""
    return {each.key for each in term.selector or ()}


def _marks(term: constraints.PodTerm) -> Iterable[_Mark]:
    """Return the marks of which each Pod that the term selects has exactly one."""
    namespaces: Sequence[str | None] = term.namespaces if term.namespace_selector is None else (None,)
    found = labels_of(term)
    labels: Sequence[tuple[str, str] | None] = (None,) if found is None else found
    if len(labels) > 1 and len(namespaces) > 1:
        # A mark for each pair would take gigabytes for a Pod of some kilobytes.
        namespaces = (None,)
    return set(itertools.product(namespaces, labels))


def _marks_of(pod: cluster.Pod) -> Iterator[_Mark]:
    for namespace in (pod.namespace, None):
        yield namespace, None
        for label in pod.labels.items():
            yield namespace, label
