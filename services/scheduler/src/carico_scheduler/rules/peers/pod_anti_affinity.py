"""Refuses nodes whose domain has Pods that must be apart from the Pod: required anti-affinity, of either side."""

import dataclasses

from carico_core.domain import cluster, constraints, decision
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_questions
from carico_scheduler.rules import protocol
from carico_scheduler.rules.peers import pod_affinity


class PodAntiAffinity:
    """No Pod in the node's domain matches a required term of this Pod, or has a required term that matches it."""

    reason = decision.Reason.POD_ANTI_AFFINITY

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Apart | None":
        """See `protocol.PeerFilter`."""
        own = (demand.constraints or constraints.NONE).anti_affinity
        return _Apart(view, own, demand.repelled_by) if own or demand.repelled_by else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rule:
    """The Pods per domain of the term's label that exclude the Pod from the domain."""

    question: pod_questions.Question
    domains: node_labels.Domains
    pods: snapshot.Floats
    why: str

    def condition(self) -> protocol.Condition:
        # The last entry is for nodes without the label, where no Pod counts.
        return protocol.Condition(self.pods[self.domains.of] <= 0, lambda slot: self.why, yields=True)


class _Apart:
    def __init__(
        self,
        view: snapshot.Snapshot,
        own: tuple[constraints.PodTerm, ...],
        repelled_by: pod_questions.TermSet,
    ) -> None:
        self._view = view
        self._own = own
        # Of thousands of terms, those of labels that no node has refuse none.
        keys = sorted(view.labels.having_any(repelled_by.topology_keys))
        self._rules = [
            *(
                self._rule(each.topology_key, pod_questions.Matching(terms=(each,)), "a Pod that it must not be near")
                for each in own
            ),
            *(
                self._rule(
                    key, pod_questions.Repelling(topology_key=key, terms=repelled_by), "a Pod that keeps it away"
                )
                for key in keys
            ),
        ]

    def conditions(self) -> list[protocol.Condition]:
        """See `protocol.Peers`."""
        if self._view.pod_counts.is_unsure_of(self._own):
            return [pod_affinity.namespaces_unknown(self._view)]
        return [rule.condition() for rule in self._rules]

    def add(self, pod: cluster.Pod, slot: int, change: int = 1) -> None:
        """See `protocol.Peers`."""
        for rule in self._rules:
            domain = rule.domains.of[slot]
            if domain != node_labels.NO_DOMAIN:
                rule.pods[domain] += change * self._view.pod_counts.count_of(rule.question, pod)

    def hold(self, pod: cluster.Pod, slot: int) -> None:
        """See `protocol.Peers`."""
        self.add(pod, slot)

    def _rule(self, key: str, question: pod_questions.Question, who: str) -> _Rule:
        domains = self._view.labels.domains(key)
        pods = domains.sums(self._view.pod_counts.per_slot(question, len(self._view.present)))
        return _Rule(question=question, domains=domains, pods=pods, why=f"{who} is in the same {key}")
