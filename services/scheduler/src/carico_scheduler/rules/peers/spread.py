"""Refuses nodes whose domain already has too many Pods of a group: topology spread with DoNotSchedule.

https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/
"""

import dataclasses

import numpy as np

from carico_core.domain import cluster, constraints, decision
from carico_scheduler.nodes import node_labels, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts, pod_questions
from carico_scheduler.rules import protocol
from carico_scheduler.rules.filters import node_affinity, node_selector


class TopologySpread:
    """The Pods in the node's domain, including this one, exceed those in the emptiest domain by at most max_skew."""

    reason = decision.Reason.TOPOLOGY_SPREAD

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Spread | None":
        """See `protocol.PeerFilter`."""
        limits = demand.constraints
        return _Spread(view, demand, limits.hard_spreads) if limits is not None and limits.hard_spreads else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """The Pods of one constraint per domain, on eligible nodes: `is_eligible` by slot, `is_domain` by domain."""

    spread: constraints.Spread
    question: pod_questions.Question
    domains: node_labels.Domains
    is_eligible: snapshot.Bools
    is_domain: snapshot.Bools
    pods: snapshot.Floats

    @property
    def emptiest(self) -> float:
        """Pods in the emptiest domain; 0 if there are fewer domains than the constraint's minimum."""
        domains = int(self.is_domain.sum())
        return 0.0 if domains < self.spread.min_domains or not domains else float(self.pods[self.is_domain].min())

    def add(self, pod: cluster.Pod, slot: int, known: pod_counts.PodCounts, change: int = 1) -> None:
        """Count the Pod if it belongs to the group; `change` -1: one fewer."""
        if self.is_eligible[slot]:
            self.pods[self.domains.of[slot]] += change * known.count_of(self.question, pod)


class _Spread:
    def __init__(
        self, view: snapshot.Snapshot, demand: demands.Demand, spreads: tuple[constraints.Spread, ...]
    ) -> None:
        self._pod_counts = view.pod_counts
        self._groups = groups_of(view, demand, spreads)
        # The same with the Pods for which room is held; empty without such Pods.
        self._if_they_come: list[Group] = []

    def conditions(self) -> list[protocol.Condition]:
        """See `protocol.Peers`."""
        found = [condition for group in self._groups for condition in (_has_label(group), _may_hold_more(group))]
        # They may fill the emptiest domain, or not come: as in kube-scheduler the Pod must fit in both cases.
        return [*found, *(_may_hold_more(group) for group in self._if_they_come)]

    def add(self, pod: cluster.Pod, slot: int, change: int = 1) -> None:
        """See `protocol.Peers`."""
        for group in (*self._groups, *self._if_they_come):
            group.add(pod, slot, self._pod_counts, change)

    def hold(self, pod: cluster.Pod, slot: int) -> None:
        """See `protocol.Peers`."""
        if not self._if_they_come:
            self._if_they_come = [dataclasses.replace(each, pods=each.pods.copy()) for each in self._groups]
        for group in self._if_they_come:
            group.add(pod, slot, self._pod_counts)


def _has_label(group: Group) -> protocol.Condition:
    why = f"no label {group.spread.topology_key}, which its topology spread needs"
    return protocol.Condition(group.domains.known, lambda slot: why)


def _may_hold_more(group: Group) -> protocol.Condition:
    pods, spread, emptiest = group.pods[group.domains.of], group.spread, group.emptiest
    most = emptiest + spread.max_skew - (1.0 if spread.is_self else 0.0)

    def why(slot: int) -> str:
        return (
            f"{pods[slot]:g} Pods of the group in its {spread.topology_key}, {emptiest:g} in the emptiest, "
            f"max skew {spread.max_skew}"
        )

    return protocol.Condition(pods <= most, why, yields=True)


def groups_of(
    view: snapshot.Snapshot, demand: demands.Demand, spreads: tuple[constraints.Spread, ...], *, needs_all: bool = True
) -> list[Group]:
    """Return the groups of these constraints; with `needs_all`, nodes without one of the labels count in none."""
    needed = tuple(spread.topology_key for spread in spreads) if needs_all else ()
    return [_group(view, demand, spread, needed or (spread.topology_key,)) for spread in spreads]


def _group(
    view: snapshot.Snapshot, demand: demands.Demand, spread: constraints.Spread, needed: tuple[str, ...]
) -> Group:
    domains = view.labels.domains(spread.topology_key)
    # Templates share it, and it is the same until a node changes, unless the domains are numbered again.
    of_demand = (
        (demand.node_selector, (demand.constraints or constraints.NONE).node_terms)
        if spread.honours_affinity
        else None,
        demand.tolerations if spread.honours_taints else None,
    )
    key = ("spread", id(domains.numbers), spread.topology_key, needed, of_demand)
    is_eligible, is_domain, _ = view.labels.derived(key, lambda: _eligible(view, demand, spread, domains, needed))
    question = pod_questions.Spreading(namespace=spread.namespace, selector=spread.selector)
    pods = domains.sums(view.pod_counts.per_slot(question, len(view.present)), is_eligible)
    return Group(
        spread=spread, question=question, domains=domains, is_eligible=is_eligible, is_domain=is_domain, pods=pods
    )


def _eligible(
    view: snapshot.Snapshot, demand: demands.Demand, spread: constraints.Spread, domains: node_labels.Domains,
    needed: tuple[str, ...],
) -> tuple[snapshot.Bools, snapshot.Bools, dict[str, int]]:  # fmt: skip
    """Return which nodes count for the constraint, and which domains have one, by the numbers of these."""
    nodes = view.present.copy()
    for key in needed:
        nodes &= view.labels.domains(key).known
    if spread.honours_affinity:
        nodes &= _matches_affinity(view, demand)
    if spread.honours_taints:
        nodes &= view.labels.tolerated(demand.tolerations)
    is_domain = np.zeros(domains.count + 1, dtype=np.bool_)
    is_domain[domains.of[nodes]] = True
    # As long as the numbers are referred to, no others have their identity.
    return nodes, is_domain, domains.numbers


def _matches_affinity(view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools:
    """Return the nodes that match the Pod's node selector and required node affinity."""
    filters = (node_selector.NodeSelector(), node_affinity.NodeAffinity())
    mask: snapshot.Bools = view.present & filters[0].passes(view, demand) & filters[1].passes(view, demand)
    return mask
