"""The required anti-affinity terms of all known Pods: by whom a Pod that is still to be placed may be repelled.

A Pod's labels matter to others' terms alone. So a demand names the terms that mean the Pod, and not its labels: Pods
that differ in labels no term asks about are decided on together.
"""

import collections

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.pods import pod_counts


class AntiAffinityIndex:
    """Terms by how many known Pods have them."""

    def __init__(self, known: pod_counts.PodCounts) -> None:
        self._pod_counts = known
        self._terms: collections.Counter[constraints.PodTerm] = collections.Counter()

    def add(self, pod: cluster.Pod) -> bool:
        """True where the Pod brings a term that no other has: demands may change by it."""
        brings_new = False
        for term in (pod.constraints or constraints.NONE).anti_affinity:
            brings_new = brings_new or term not in self._terms
            self._terms[term] += 1
        return brings_new

    def remove(self, pod: cluster.Pod) -> None:
        """Forget a Pod; demands that name a term which no Pod has any more stay correct."""
        for term in (pod.constraints or constraints.NONE).anti_affinity:
            self._terms[term] -= 1
            if self._terms[term] <= 0:
                del self._terms[term]

    def of(self, pod: cluster.Pod) -> tuple[constraints.PodTerm, ...]:
        """The terms that mean this Pod, in the order in which they came."""
        if not self._terms:
            return ()
        labels = self._pod_counts.namespace_labels(pod.namespace)
        return tuple(term for term in self._terms if self._means(term, pod, labels))

    def _means(self, term: constraints.PodTerm, pod: cluster.Pod, labels: pod_counts.Labels) -> bool:
        if self._pod_counts.is_unsure_of((term,)):
            # Better too far apart than too near.
            return selectors.matches(term.selector, pod.labels)
        return term.matches(pod.namespace, labels, pod.labels)
