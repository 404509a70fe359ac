"""Kubernetes' default spreading: Pods of one ReplicaSet or StatefulSet prefer different nodes and zones.

https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/#internal-default-constraints

kube-scheduler selects the Pods by the selectors of the owner and of Services. The labels that all Pods of one owner
have select the same Pods, without a watch on any of these kinds.
"""

import dataclasses

from carico_core.domain import cluster, constraints, selectors

_KINDS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
# Labels in which Pods of one StatefulSet differ:
# https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-name-label
_OWN = frozenset(
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
)  # fmt: skip
# The maximum skew only bounds how much a difference counts in kube-scheduler; here all differences count.
_TOPOLOGIES = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))


def constraints_of(pod: cluster.Pod) -> constraints.Constraints | None:
    """Return the constraints of a Pod, with the default ones if it has an owner that spreads, and none of its own."""
    own = pod.constraints or constraints.NONE
    if pod.owner is None or pod.owner.kind not in _KINDS or own.spreads:
        return pod.constraints
    selector = tuple(
        selectors.Requirement(key=key, operator=selectors.IN, values=(value,))
        for key, value in sorted(pod.labels.items())
        if key not in _OWN
    )
    if not selector:
        return pod.constraints
    spreads = tuple(
        constraints.Spread(
            namespace=pod.namespace, topology_key=key, selector=selector, max_skew=max_skew, is_soft=True
        )
        for key, max_skew in _TOPOLOGIES
    )
    return dataclasses.replace(own, default_spreads=spreads)
