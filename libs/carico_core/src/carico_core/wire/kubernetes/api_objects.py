"""Objects of the Kubernetes API -> `carico_core.domain.cluster`.

Parsers raise only `ValueError`, with the path of the bad field.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any

from carico_core.domain import cluster, names
from carico_core.wire.kubernetes import instants, pod_groups, selectors
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.object_fields import Object
from carico_core.wire.kubernetes.pods import containers, images, ownership, pod_requests, shared_values
from carico_core.wire.kubernetes.pods import spec as specs
from carico_core.wire.kubernetes.pods import status as statuses

# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions
POD_SCHEDULED = "PodScheduled"


def parse_pod(obj: Object, before: cluster.Pod | None = None) -> cluster.Pod:
    """Return the Pod that an API object describes. Raises `ValueError` with the path of the bad field.

    `before`: the same Pod as it was last parsed. If only its node and its status have changed, what its spec states is
    taken from there, which takes a third of the time: each bind leads to such an event.
    """
    metadata, spec, status = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    found = _parse_progress(metadata, spec, status)
    labels = found["labels"]
    is_known = before is not None and _has_same_spec(before, labels, metadata, status)
    stated = {} if is_known else specs.parse_stated(obj, labels)
    # Whatever can be refused came first, since nothing of a refused object may stay among the shared values.
    _share_progress(found)
    if before is not None and is_known:
        return before._replace(**found)
    return cluster.Pod(**found, **stated)


def observed(pod: cluster.Pod) -> dict[str, int]:
    """Return of which generation a condition of a Pod speaks; nothing where the API counts none (before 1.33)."""
    return {"observedGeneration": pod.generation} if pod.generation else {}


def _parse_progress(metadata: Object, spec: Object, status: Object) -> dict[str, Any]:
    """Return the fields of a Pod that change while its spec stays, but for its node."""
    labels, node_name = fields.texts(metadata, "labels", "metadata."), fields.optional(spec, "nodeName", "spec.")
    unscheduled_reason, unscheduled_message = ("", "") if node_name else _unscheduled(status)
    deleting = metadata.get("deletionTimestamp") is not None
    return {
        "resource_version": fields.optional(metadata, "resourceVersion", "metadata."),
        "deleting": deleting,
        "ends_at_s": _ends_at_s(metadata) if deleting else math.inf,
        "labels": labels,
        "owner": ownership.owner_of(metadata, labels),
        "node_name": node_name,
        "bound_by": _bound_by(metadata) if node_name and metadata.get("annotations") else "",
        "phase": fields.optional(status, "phase", "status.") or "Pending",
        "has_failed": statuses.has_failed(status, is_leaving=deleting),
        "stuck": containers.stuck_of(status),
        "unscheduled_reason": unscheduled_reason,
        "unscheduled_message": unscheduled_message,
        "nominated_node": "" if node_name else fields.optional(status, "nominatedNodeName", "status."),
        "gang": pod_groups.membership_of(metadata, spec, lambda: _bound_at_s(status) if node_name else 0.0),
    }


def _share_progress(found: dict[str, Any]) -> None:
    """Put values that other Pods have, too, in place of equal ones."""
    found["node_name"] = sys.intern(found["node_name"]) or None
    found["phase"] = sys.intern(found["phase"])
    found["unscheduled_reason"] = sys.intern(found["unscheduled_reason"])
    found["labels"] = shared_values.mapping(found["labels"])
    found["owner"] = shared_values.owner(found["owner"])


def _has_same_spec(
    before: cluster.Pod, labels: Mapping[str, str], metadata: Object, status: Object
) -> bool:  # fmt: skip
    """Return whether all that was read of a Pod's spec holds still.

    The API increments a Pod's generation with each change of its spec but its node (KEP-5067; Pods have none before
    1.33). Constraints also depend on labels, to which a bind may add; requests and container ids on kubelets' reports.
    """
    return (
        before.uid == metadata.get("uid")
        and 0 < before.generation == metadata.get("generation")
        and before.node_name is None
        and (labels == before.labels or before.constraints is None)
        and (names.SURGE_LABEL in labels) is (names.SURGE_LABEL in before.labels)
        and not status.get("containerStatuses")
        and not status.get("initContainerStatuses")
        and ownership.MIRROR_ANNOTATION not in fields.mapping(metadata, "annotations", "metadata.")
    )


def _ends_at_s(metadata: Object) -> float:
    """Return when the grace period of a Pod that is being deleted ends."""
    ends_at = fields.required(metadata, "deletionTimestamp", "metadata.")
    return fields.parsed("metadata.deletionTimestamp", instants.parse_instant, ends_at)


def _unscheduled(status: Object) -> tuple[str, str]:
    """Return reason and message of the condition PodScheduled=False; empty without one."""
    scheduled = fields.condition(status, POD_SCHEDULED)
    if scheduled.get("status") != "False":
        return "", ""
    reason, message = (fields.optional(scheduled, key, "status.conditions[].") for key in ("reason", "message"))
    return reason, message


def _bound_by(metadata: Object) -> str:
    """Return which bind gave a Pod its node. Everyone who creates Pods can write it: longer ones than ours are none."""
    annotations = fields.mapping(metadata, "annotations", "metadata.")
    found = fields.optional(annotations, names.BOUND_BY, "metadata.annotations.")
    return found if len(found) <= names.BOUND_BY_MOST else ""


def _bound_at_s(status: Object) -> float:
    """Return when the Pod was bound; 0 if its status does not show it."""
    scheduled = fields.condition(status, POD_SCHEDULED)
    is_bound = scheduled.get("status") == "True"
    return (instants.find_instant(scheduled.get("lastTransitionTime")) or 0.0) if is_bound else 0.0


def parse_node(obj: Object) -> cluster.Node:
    """Return the Node that an API object describes. Raises `ValueError` with the path of the bad field."""
    metadata, spec, status = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    # A kubelet that has not reported yet leaves both empty: nothing fits, which is right at that moment.
    field = "allocatable" if status.get("allocatable") else "capacity"
    amounts = pod_requests.rounded(pod_requests.amounts(status, field, "status."))
    return cluster.Node(
        name=fields.required(metadata, "name", "metadata."),
        uid=fields.optional(metadata, "uid", "metadata."),
        labels=fields.texts(metadata, "labels", "metadata."),
        taints=_taints(spec),
        unschedulable=spec.get("unschedulable") is True,
        ready=fields.is_ready(status),
        deleting=metadata.get("deletionTimestamp") is not None,
        allocatable_cores=amounts.pop("cpu", 0.0),
        allocatable_bytes=amounts.pop("memory", 0.0),
        # Every kubelet reports it; without it, kube-scheduler places no Pod there either.
        pod_limit=int(amounts.pop("pods", 0.0)),
        allocatable_others=amounts,
        images=images.parse_node_images(status),
        declared_features=frozenset(fields.words(status, "declaredFeatures", "status.")),
    )


def parse_daemon_set(obj: Object) -> cluster.DaemonSet:
    """Return the DaemonSet that an API object describes. Raises `ValueError` with the path of the bad field."""
    metadata = fields.mapping(obj, "metadata")
    return cluster.DaemonSet(
        namespace=fields.required(metadata, "namespace", "metadata."), uid=fields.required(metadata, "uid", "metadata.")
    )


def parse_service(obj: Object) -> cluster.Service:
    """Return the Service that an API object describes. Raises `ValueError` with the path of the bad field."""
    metadata, spec = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec")
    return cluster.Service(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        labels=tuple(sorted(fields.texts(spec, "selector", "spec.").items())),
    )


def parse_disruption_budget(obj: Object) -> cluster.DisruptionBudget:
    """Return the PodDisruptionBudget of an API object. Raises `ValueError` with the path of the bad field."""
    metadata, spec, status = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    return cluster.DisruptionBudget(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        selector=selectors.label_selector(spec, "selector", "spec."),
        allowed=fields.integer(status, "disruptionsAllowed", "status."),
        disrupted=frozenset(fields.mapping(status, "disruptedPods")),
    )


def _taints(spec: Object) -> tuple[cluster.Taint, ...]:
    found = []
    for index, item in enumerate(fields.objects(spec, "taints", "spec.")):
        path = f"spec.taints[{index}]."
        found.append(
            cluster.Taint(
                key=fields.required(item, "key", path),
                value=fields.optional(item, "value", path),
                effect=fields.required(item, "effect", path),
            )
        )
    return tuple(found)
