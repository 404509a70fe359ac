"""Kubernetes' default spreading: Pods of one ReplicaSet, StatefulSet or Service prefer different nodes and zones.

https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/#internal-default-constraints

kube-scheduler selects the Pods by the selectors of the owner and of all Services that select the Pod. For a Pod with an
owner, the labels that all its Pods have select the same Pods, without a watch on any of these kinds.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.pods import pod_questions

_KINDS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
# Labels in which Pods of one StatefulSet differ:
# https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-name-label
_OWN = frozenset(
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
)  # fmt: skip
# A tenant may give a Pod 100,000 labels, and have 10,000 Services that may all select it; a preference is worth less.
_LABELS_MOST = 64
_SERVICES_MOST = 64
_Labels: TypeAlias = tuple[tuple[str, str], ...]
# The maximum skew only bounds how much a difference counts in kube-scheduler; here all differences count.
_TOPOLOGIES = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))


class DefaultSpread:
    """Knows all Services, and which constraints a Pod gets. Without `is_on` no Pod gets any."""

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        # By namespace and name.
        self._services: dict[str, dict[str, cluster.Service]] = {}
        # How many Services have a selector, by namespace and one of its labels.
        self._by_mark: dict[tuple[str, tuple[str, str]], collections.Counter[_Labels]] = {}

    def put_all(self, found: Iterable[cluster.Service]) -> bool:
        """Take in the list of all Services; return True if Pods may have other constraints now."""
        before, self._services = self._services, {}
        self._by_mark.clear()
        for each in found:
            self.put(each)
        return self.is_on and before != self._services

    def put(self, found: cluster.Service) -> bool:
        """Take in one Service; return True if Pods may have other constraints now."""
        here = self._services.setdefault(found.namespace, {})
        before, here[found.name] = here.get(found.name), found
        if before == found:
            return False
        self._count(before, -1)
        self._count(found, 1)
        return self.is_on

    def remove(self, namespace: str, name: str) -> bool:
        """Forget a Service; return True if Pods may have other constraints now."""
        here = self._services.get(namespace, {})
        before = here.pop(name, None)
        if not here:
            self._services.pop(namespace, None)
        self._count(before, -1)
        return self.is_on and before is not None

    def constraints_of(self, pod: cluster.Pod) -> constraints.Constraints | None:
        """Return the constraints of a Pod, with the default ones if it has none of its own."""
        own = pod.constraints or constraints.NONE
        if not self.is_on or own.spreads:
            return pod.constraints
        labels = self._group_of(pod)
        if not 0 < len(labels) <= _LABELS_MOST:
            return pod.constraints
        selector = tuple(
            selectors.Requirement(key=key, operator=selectors.IN, values=(value,))
            for key, value in sorted(labels.items())
        )
        spreads = tuple(
            constraints.Spread(
                namespace=pod.namespace, topology_key=key, selector=selector, max_skew=max_skew, is_soft=True
            )
            for key, max_skew in _TOPOLOGIES
        )
        return dataclasses.replace(own, default_spreads=spreads)

    def _group_of(self, pod: cluster.Pod) -> Mapping[str, str]:
        """Return the labels of the Pods that the Pod is spread with; none if it is spread with no others."""
        if pod.owner is not None and pod.owner.kind in _KINDS:
            return {key: value for key, value in pod.labels.items() if key not in _OWN}
        found: dict[str, str] = {}
        for mark in pod.labels.items() if pod.namespace in self._services else ():
            for labels in itertools.islice(self._by_mark.get((pod.namespace, mark), ()), _SERVICES_MOST):
                if all(pod.labels.get(key) == value for key, value in labels):
                    found.update(labels)
        return found

    def _count(self, service: cluster.Service | None, change: int) -> None:
        if service is None or not service.labels:
            return
        key = (service.namespace, min(service.labels, key=lambda label: pod_questions.telling_rank(label[0])))
        counted = self._by_mark.setdefault(key, collections.Counter())
        counted[service.labels] += change
        if not counted[service.labels]:
            del counted[service.labels]
        if not counted:
            del self._by_mark[key]
