"""Refuses nodes whose domain lacks the Pods that a Pod must be near: required inter-Pod affinity.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

import numpy as np

from carico_core.domain import cluster, constraints, decision, selectors
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts as counting
from carico_scheduler.pods import pod_questions
from carico_scheduler.rules import protocol


class PodAffinity:
    """For each required term, the node's domain holds a Pod that matches all terms.

    For the first Pod of a group there is none: if no Pod matches anywhere, and the Pod itself does, any node with the
    labels passes.
    """

    reason = decision.Reason.POD_AFFINITY

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Near | None":
        """See `protocol.PeerFilter`."""
        limits = demand.constraints
        return _Near(view, limits) if limits is not None and limits.affinity else None


class _Near:
    def __init__(self, view: snapshot.Snapshot, limits: constraints.Constraints) -> None:
        self._view = view
        self._terms = limits.affinity
        self._question = pod_questions.Matching(terms=limits.affinity)
        per_slot = view.pod_counts.per_slot(self._question, len(view.present))
        self._domains = [view.labels.domains(term.topology_key) for term in limits.affinity]
        self._sums = [domains.sums(per_slot) for domains in self._domains]
        self._may_be_first = limits.is_own_peer and all(
            _selects_namespace(term, limits.namespace, view.pod_counts) for term in limits.affinity
        )

    def conditions(self) -> list[protocol.Condition]:
        """See `protocol.Peers`."""
        if self._view.pod_counts.is_unsure_of(self._terms):
            return [namespaces_unknown(self._view)]
        found = [_has_label(term, domains) for term, domains in zip(self._terms, self._domains, strict=True)]
        if self._may_be_first and not any(sums.any() for sums in self._sums):
            return found
        parts = zip(self._terms, self._domains, self._sums, strict=True)
        return [*found, *(_has_peer(term, domains, sums) for term, domains, sums in parts)]

    def add(self, pod: cluster.Pod, slot: int, change: int = 1) -> None:
        """See `protocol.Peers`."""
        if self._view.pod_counts.count_of(self._question, pod):
            for domains, sums in zip(self._domains, self._sums, strict=True):
                if domains.of[slot] != node_labels.NO_DOMAIN:
                    sums[domains.of[slot]] += change

    def hold(self, pod: cluster.Pod, slot: int) -> None:
        """Do nothing: a Pod more rules no node out."""


def namespaces_unknown(view: snapshot.Snapshot) -> protocol.Condition:
    """Return a condition that no node meets, for terms that select namespaces while their labels are unknown."""
    why = f"namespaces not known: {view.pod_counts.lacking}"
    return protocol.Condition(np.zeros(len(view.present), dtype=np.bool_), lambda slot: why)


def _has_label(term: constraints.PodTerm, domains: node_labels.Domains) -> protocol.Condition:
    return protocol.Condition(domains.known, lambda slot: f"no label {term.topology_key}, which Pod affinity needs")


def _has_peer(
    term: constraints.PodTerm, domains: node_labels.Domains, sums: snapshot.Floats
) -> protocol.Condition:  # fmt: skip
    why = f"no Pod that its affinity requires in the same {term.topology_key}"
    # The last entry is for nodes without the label, where no Pod counts.
    return protocol.Condition(sums[domains.of] > 0, lambda slot: why)


def _selects_namespace(term: constraints.PodTerm, namespace: str, known: counting.PodCounts) -> bool:
    labels = known.namespace_labels(namespace)
    return namespace in term.namespaces or any(
        selectors.matches(term.namespace_selector, each) for each in (labels, {})
    )
