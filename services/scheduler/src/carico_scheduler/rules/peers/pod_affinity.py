"""Refuses nodes that are not near the Pods that a Pod must be near: required inter-Pod affinity.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

import numpy as np

from carico_core.domain import cluster, constraints, decision, selectors
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts


class PodAffinity:
    """For each required term, the node's domain holds a Pod that all terms mean.

    The first Pod of a group finds none: where nowhere is any, and the Pod itself is one, any node with the labels does.
    """

    reason = decision.Reason.POD_AFFINITY

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Near | None":
        """None where the Pod has no such terms."""
        limits = demand.constraints
        return _Near(view, limits) if limits is not None and limits.affinity else None


class _Near:
    def __init__(self, view: snapshot.Snapshot, limits: constraints.Constraints) -> None:
        self._census = view.census
        self._terms = limits.affinity
        self._question = pod_counts.Matching(terms=limits.affinity)
        per_slot = view.census.per_slot(self._question, len(view.present))
        self._domains = [view.facts.domains(term.topology_key) for term in limits.affinity]
        self._peers = [domains.sums(per_slot) for domains in self._domains]
        self._is_unsure = view.census.is_unsure_of(limits.affinity)
        self._may_be_first = limits.is_own_peer and all(
            _means_namespace(term, limits.namespace, view.census) for term in limits.affinity
        )

    def mask(self) -> snapshot.Bools:
        """All labels on the node, and a peer in each domain unless this Pod is the first."""
        mask = self._has_labels()
        if self._is_unsure:
            return np.zeros_like(mask)
        if self._may_be_first and not any(peers.any() for peers in self._peers):
            return mask
        for domains, peers in zip(self._domains, self._peers, strict=True):
            mask &= peers[domains.of] > 0
        return mask

    def add(self, pod: cluster.Pod, slot: int) -> None:
        """Counts a Pod that all terms mean."""
        if self._census.is_counted(self._question, pod):
            _count(self._domains, self._peers, slot)

    def refuse(self, slot: int) -> str | None:
        """Names the first term that is not met."""
        if self._is_unsure:
            return f"namespaces not known: {self._census.lacking}"
        if self.mask()[slot]:
            return None
        for term, domains, peers in zip(self._terms, self._domains, self._peers, strict=True):
            if domains.of[slot] == node_labels.NO_DOMAIN:
                return f"no label {term.topology_key}, which Pod affinity goes by"
            if not peers[domains.of[slot]] > 0:
                return f"no Pod that its affinity asks for in the same {term.topology_key}"
        return "no Pod that its affinity asks for"

    def _has_labels(self) -> snapshot.Bools:
        mask: snapshot.Bools = np.ones(len(self._domains[0].of), dtype=np.bool_)
        for domains in self._domains:
            mask &= domains.known
        return mask


def _means_namespace(term: constraints.PodTerm, namespace: str, known: pod_counts.PodCounts) -> bool:
    labels = known.namespace_labels(namespace)
    return namespace in term.namespaces or any(
        selectors.matches(term.namespace_selector, each) for each in (labels, {})
    )


def _count(domains: list[node_labels.Domains], sums: list[snapshot.Floats], slot: int) -> None:
    for each, totals in zip(domains, sums, strict=True):
        if each.of[slot] != node_labels.NO_DOMAIN:
            totals[each.of[slot]] += 1
