"""Refuses nodes whose domain has too many Pods of a group already: topology spread with DoNotSchedule.

https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
"""

import dataclasses

import numpy as np

from carico_core.domain import cluster, constraints, decision
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts
from carico_scheduler.rules.filters import node_affinity, node_selector


class TopologySpread:
    """Pods in the node's domain, this one included, exceed those of the emptiest domain by max_skew at most."""

    reason = decision.Reason.TOPOLOGY_SPREAD

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Spread | None":
        """None where the Pod has no such constraint."""
        limits = demand.constraints
        return _Spread(view, demand, limits.hard_spreads) if limits is not None and limits.hard_spreads else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """The Pods of one constraint per domain, on nodes that count: `is_eligible` by slot, `is_domain` by domain."""

    spread: constraints.Spread
    question: pod_counts.Question
    domains: node_labels.Domains
    is_eligible: snapshot.Bools
    is_domain: snapshot.Bools
    pods: snapshot.Floats

    @property
    def emptiest(self) -> float:
        """Pods in the emptiest domain; 0 where there are fewer domains than the constraint asks for."""
        domains = int(self.is_domain.sum())
        return 0.0 if domains < self.spread.min_domains or not domains else float(self.pods[self.is_domain].min())

    @property
    def most(self) -> float:
        """The most Pods of the group that a domain may hold before this one comes."""
        return self.emptiest + self.spread.max_skew - (1.0 if self.spread.is_self else 0.0)

    def add(self, pod: cluster.Pod, slot: int, known: pod_counts.PodCounts) -> None:
        """Counts the Pod where it is of the group."""
        if self.is_eligible[slot] and known.is_counted(self.question, pod):
            self.pods[self.domains.of[slot]] += 1


class _Spread:
    def __init__(
        self, view: snapshot.Snapshot, demand: demands.Demand, spreads: tuple[constraints.Spread, ...]
    ) -> None:
        self._census = view.census
        self._groups = groups_of(view, demand, spreads)

    def mask(self) -> snapshot.Bools:
        """Nodes with every label whose domains may hold one more."""
        mask: snapshot.Bools = np.ones(len(self._groups[0].is_eligible), dtype=np.bool_)
        for group in self._groups:
            mask &= group.domains.known & (group.pods[group.domains.of] <= group.most)
        return mask

    def add(self, pod: cluster.Pod, slot: int) -> None:
        """Counts the Pod in each group that it is of."""
        for group in self._groups:
            group.add(pod, slot, self._census)

    def refuse(self, slot: int) -> str | None:
        """States the skew of the first constraint that is not met."""
        for group in self._groups:
            key, domain = group.spread.topology_key, group.domains.of[slot]
            if domain == node_labels.NO_DOMAIN:
                return f"no label {key}, which a topology spread goes by"
            if group.pods[domain] > group.most:
                return (
                    f"{group.pods[domain]:g} Pods of the group in its {key}, {group.emptiest:g} in the emptiest, "
                    f"max skew {group.spread.max_skew}"
                )
        return None


def groups_of(view: snapshot.Snapshot, demand: demands.Demand, spreads: tuple[constraints.Spread, ...]) -> list[Group]:
    """The groups of these constraints; nodes without the label of any of them count in none."""
    domains = [view.facts.domains(spread.topology_key) for spread in spreads]
    has_all = view.present.copy()
    for each in domains:
        has_all &= each.known
    return [_group(view, demand, spread, each, has_all) for spread, each in zip(spreads, domains, strict=True)]


def _group(
    view: snapshot.Snapshot,
    demand: demands.Demand,
    spread: constraints.Spread,
    domains: node_labels.Domains,
    has_all: snapshot.Bools,
) -> Group:
    is_eligible = has_all
    if spread.honours_affinity:
        is_eligible = is_eligible & _matches_affinity(view, demand)
    if spread.honours_taints:
        is_eligible = is_eligible & view.facts.tolerated(demand.tolerations)
    question = pod_counts.Spreading(namespace=spread.namespace, selector=spread.selector)
    per_slot = np.where(is_eligible, view.census.per_slot(question, len(view.present)), 0)
    is_domain = np.zeros(domains.count + 1, dtype=np.bool_)
    is_domain[domains.of[is_eligible]] = True
    return Group(
        spread=spread,
        question=question,
        domains=domains,
        is_eligible=is_eligible,
        is_domain=is_domain,
        pods=domains.sums(per_slot),
    )


def _matches_affinity(view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools:
    """True where the Pod's node selector and required node affinity match."""
    mask = view.present
    for each in (node_selector.NodeSelector(), node_affinity.NodeAffinity()):
        passes = each.feasible(view, demand)
        if passes is not None:
            mask = mask & passes
    return mask
