"""Pods and their workloads, reduced to what the rescheduler needs; what marks a move on them.

A surge Pod is the new replica of a move before its ReplicaSet has it. It has the template's labels except
`pod-template-hash`: Services find it, its ReplicaSet does not. ADR 62 gives the reasons.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_core.domain import cluster, names
from carico_core.wire.kubernetes import api_objects, instants
from carico_core.wire.kubernetes import object_fields as fields

Object = Mapping[str, Any]

# In a Pod template: "false" keeps its Pods where they are, "true" allows to move them despite local volumes.
CHOICE = "carico.dev/reschedule"
# On a surge Pod, and on the Pod that has taken its place: UID and node of the Pod that it replaces, when and why.
REPLACES, CAME_FROM, MOVED_AT, REASON = (
    f"carico.dev/{name}" for name in ("replaces", "moved-from", "moved-at", "move-reason")
)
# On the Pod that is to be replaced: the name of the surge Pod, and its own deletion cost before, if any.
LEAVES_FOR, COST_BEFORE = "carico.dev/leaves-for", "carico.dev/deletion-cost-before"
# https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
# The lowest that Kubernetes accepts.
COST_LOWEST = str(-(2**31))
# On a Deployment whose template is being pinned: the node, and the nodeSelector before, as JSON.
PINNED = "carico.dev/pinned"
_READ = (CHOICE, REPLACES, CAME_FROM, MOVED_AT, REASON, LEAVES_FOR, COST_BEFORE, DELETION_COST, PINNED)
# A mark of a node and a nodeSelector as JSON is longest; what is longer than `mark` allows is still known to be so.
_KEPT_MOST = 1024
# Marks are annotations, which everyone who creates Pods can write, of any length. Names are the longest that is ours.
_MARK_MOST = names.SUBDOMAIN_MAX


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnownPod:
    """A Pod, and what `cluster.Pod` leaves out. Times are Unix seconds."""

    pod: cluster.Pod
    # Those that mean something here.
    annotations: Mapping[str, str]
    # Since when it is Ready; None while it is not.
    ready_at_s: float | None
    # When its node took it on; None if that is not known.
    started_at_s: float | None
    # Those that it has for itself: none in the network of its node.
    addresses: tuple[str, ...]
    # The first volume whose content is on the node; empty if there is none.
    local_volume: str

    @property
    def uid(self) -> str:
        """The Pod's UID."""
        return self.pod.uid

    @property
    def controller(self) -> str:
        """Which controller's it is; empty without one. An owner reference may name the UID of another namespace's."""
        owner = self.pod.owner
        return "" if owner is None else f"{self.pod.namespace}/{owner.uid}"

    @property
    def is_surge(self) -> bool:
        """Whether it is the new replica of a move that its ReplicaSet does not have yet."""
        return names.SURGE_LABEL in self.pod.labels

    @property
    def replaces(self) -> str:
        """The UID of the Pod that it replaces, or has replaced; empty for a Pod that no move created."""
        return self.mark(REPLACES)

    def mark(self, name: str) -> str:
        """Return what a mark says; empty without it, or if no rescheduler has written it."""
        found = self.annotations.get(name, "")
        return found if len(found) <= _MARK_MOST and found.isprintable() else ""

    @property
    def leaves_for(self) -> str:
        """The name of the surge Pod that replaces it; empty if it stays."""
        return self.mark(LEAVES_FOR)

    @property
    def moved_at_s(self) -> float | None:
        """When it was moved here; None for a Pod that no move created."""
        return instants.find_instant(self.annotations.get(MOVED_AT))

    @property
    def is_active(self) -> bool:
        """Whether its controller counts it: it has not ended, and is not being deleted."""
        return not self.pod.is_terminal and not self.pod.deleting


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    """A ReplicaSet. `owner`: the kind of its controller; `deployment`: its name, if it is a Deployment.

    `least_ready_s`: how long a Pod must be ready before it counts as available.
    """

    namespace: str
    name: str
    uid: str
    deployment: str
    deployment_uid: str
    owner: str
    replicas: int
    least_ready_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A Deployment. `unsettled`: why it is not at rest; empty if it is. `pinned`: see `PINNED`.

    `recreates`: its strategy is Recreate, so that no new Pod of it may run before the old one has ended.
    """

    namespace: str
    name: str
    uid: str
    replicas: int
    unsettled: str
    pinned: str
    recreates: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """A HorizontalPodAutoscaler. `deployment`: the one whose replicas it owns; empty if these are of another kind."""

    namespace: str
    name: str
    deployment: str


def parse_pod(obj: Object) -> KnownPod:
    """Return the Pod of an API object. Raises `ValueError` with the path of the bad field."""
    metadata, spec, status = (fields.mapping(obj, key) for key in ("metadata", "spec", "status"))
    return KnownPod(
        pod=api_objects.parse_pod(obj),
        annotations=_marks(metadata),
        ready_at_s=_ready_at_s(status),
        started_at_s=instants.find_instant(status.get("startTime")),
        addresses=() if spec.get("hostNetwork") is True else _addresses(status),
        local_volume=_local_volume(spec),
    )


def _marks(metadata: Object) -> dict[str, str]:
    """Return the annotations that are read here: a Pod may have 256 KiB of others."""
    found = fields.texts(metadata, "annotations", "metadata.")
    return {name: found[name][:_KEPT_MOST] for name in _READ if name in found}


def _addresses(status: Object) -> tuple[str, ...]:
    return tuple(fields.optional(each, "ip", "status.podIPs.") for each in fields.objects(status, "podIPs", "status."))


def _ready_at_s(status: Object) -> float | None:
    ready = fields.condition(status, "Ready")
    return (instants.find_instant(ready.get("lastTransitionTime")) or 0.0) if ready.get("status") == "True" else None


def _local_volume(spec: Object) -> str:
    """Return the name of the first volume whose content a move would lose; memory and projections have none."""
    for each in fields.objects(spec, "volumes", "spec."):
        is_kept_here = "hostPath" in each or ("emptyDir" in each and (each["emptyDir"] or {}).get("medium") != "Memory")
        if is_kept_here:
            return fields.optional(each, "name", "spec.volumes.")
    return ""


def parse_replica_set(obj: Object) -> ReplicaSet:
    """Return the ReplicaSet of an API object. Raises `ValueError` with the path of the bad field."""
    metadata, spec = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec")
    kind, name, uid = _controller(metadata)
    is_deployed = kind == "Deployment"
    return ReplicaSet(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        uid=fields.required(metadata, "uid", "metadata."),
        deployment=name if is_deployed else "",
        deployment_uid=uid if is_deployed else "",
        owner=kind,
        replicas=_replicas(spec),
        least_ready_s=float(fields.integer(spec, "minReadySeconds", "spec.")),
    )


def parse_deployment(obj: Object) -> Deployment:
    """Return the Deployment of an API object. Raises `ValueError` with the path of the bad field."""
    metadata, spec, status = (fields.mapping(obj, key) for key in ("metadata", "spec", "status"))
    return Deployment(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        uid=fields.required(metadata, "uid", "metadata."),
        replicas=_replicas(spec),
        unsettled=_unsettled(metadata, spec, status),
        pinned=_marks(metadata).get(PINNED, ""),
        recreates=fields.optional(fields.mapping(spec, "strategy"), "type", "spec.strategy.") == "Recreate",
    )


def parse_autoscaler(obj: Object) -> Autoscaler:
    """Return the autoscaler of an API object. Raises `ValueError` with the path of the bad field."""
    metadata, target = fields.mapping(obj, "metadata"), fields.mapping(fields.mapping(obj, "spec"), "scaleTargetRef")
    is_deployment = fields.optional(target, "kind", "spec.scaleTargetRef.") == "Deployment"
    return Autoscaler(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        deployment=fields.required(target, "name", "spec.scaleTargetRef.") if is_deployment else "",
    )


def _unsettled(metadata: Object, spec: Object, status: Object) -> str:
    """Return why a Deployment is not at rest, as `kubectl rollout status` judges it."""
    wanted = _replicas(spec)
    updated, available = (fields.integer(status, f"{name}Replicas", "status.") for name in ("updated", "available"))
    every = fields.integer(status, "replicas", "status.")
    if fields.integer(status, "observedGeneration", "status.") < fields.integer(metadata, "generation", "metadata."):
        return "its change is not observed yet"
    if updated < wanted or every > updated:
        return f"it is being rolled out: {updated} of {wanted} replicas are updated"
    if available < wanted:
        return f"{available} of {wanted} replicas are available"
    return ""


def _replicas(spec: Object) -> int:
    # The API fills it in; 1 is its default.
    return fields.integer(spec, "replicas", "spec.") if spec.get("replicas") is not None else 1


def _controller(metadata: Object) -> tuple[str, str, str]:
    """Return kind, name and UID of the controlling owner; empty texts without one."""
    for each in fields.objects(metadata, "ownerReferences", "metadata."):
        if each.get("controller") is True:
            kind, name, uid = (fields.optional(each, key) for key in ("kind", "name", "uid"))
            return kind, name, uid
    return "", "", ""
