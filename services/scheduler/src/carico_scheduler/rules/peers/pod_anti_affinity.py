"""Refuses nodes near Pods that a Pod must not be near, or that must not have it near: required anti-affinity."""

import dataclasses

import numpy as np

from carico_core.domain import cluster, constraints, decision
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts


class PodAntiAffinity:
    """For each required term no Pod that it means is in the node's domain; nor one with a term that means this Pod."""

    reason = decision.Reason.POD_ANTI_AFFINITY

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Apart | None":
        """None where neither the Pod nor another has a word in it."""
        own = (demand.constraints or constraints.NONE).anti_affinity
        return _Apart(view, own, demand.repelled_by) if own or demand.repelled_by else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rule:
    """Pods per domain of the term's label, each of which keeps the Pod out of the domain."""

    term: constraints.PodTerm
    question: pod_counts.Question
    domains: node_labels.Domains
    pods: snapshot.Floats
    is_own: bool


class _Apart:
    def __init__(
        self,
        view: snapshot.Snapshot,
        own: tuple[constraints.PodTerm, ...],
        repelled_by: tuple[constraints.PodTerm, ...],
    ) -> None:
        self._view = view
        asked: list[tuple[constraints.PodTerm, pod_counts.Question, bool]] = [
            *((term, pod_counts.Matching(terms=(term,)), True) for term in own),
            *((term, pod_counts.Repelling(term=term), False) for term in repelled_by),
        ]
        self._rules = [self._rule(*each) for each in asked]
        self._is_unsure = view.census.is_unsure_of(own)

    def mask(self) -> snapshot.Bools:
        """Domains without such a Pod, and nodes without the label."""
        mask: snapshot.Bools = np.full(len(self._view.present), not self._is_unsure)
        for rule in self._rules:
            # The last entry is that of nodes without the label: no Pod counts there.
            mask &= rule.pods[rule.domains.of] <= 0
        return mask

    def add(self, pod: cluster.Pod, slot: int) -> None:
        """Counts the Pod where a rule means it."""
        for rule in self._rules:
            domain = rule.domains.of[slot]
            if domain != node_labels.NO_DOMAIN and self._view.census.is_counted(rule.question, pod):
                rule.pods[domain] += 1

    def refuse(self, slot: int) -> str | None:
        """Says whose rule it is, and by which label."""
        if self._is_unsure:
            return f"namespaces not known: {self._view.census.lacking}"
        for rule in self._rules:
            if rule.pods[rule.domains.of[slot]] > 0:
                key = rule.term.topology_key
                if rule.is_own:
                    return f"a Pod that it must not be near is in the same {key}"
                return f"a Pod that must not have it near is in the same {key}"
        return None

    def _rule(self, term: constraints.PodTerm, question: pod_counts.Question, is_own: bool) -> _Rule:
        domains = self._view.facts.domains(term.topology_key)
        pods = domains.sums(self._view.census.per_slot(question, len(self._view.present)))
        return _Rule(term=term, question=question, domains=domains, pods=pods, is_own=is_own)
