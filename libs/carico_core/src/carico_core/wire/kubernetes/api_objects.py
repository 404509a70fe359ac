"""Objects of the Kubernetes API -> `carico_core.domain.cluster`.

Parsers raise only `ValueError`, with the path of the bad field.
"""

import math
import sys
from collections.abc import Iterable, Mapping, Set
from typing import Any

from carico_core.domain import cluster, names
from carico_core.wire.kubernetes import (
    constraints,
    failures,
    images,
    instants,
    pod_groups,
    pod_requests,
    selectors,
    shared_values,
    template,
)
from carico_core.wire.kubernetes import object_fields as fields

# The kubelet's annotation of a mirror Pod.
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-mirror
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
# On a mirror Pod: the UID of the static Pod in the runtime.
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-hash
STATIC_UID_ANNOTATION = "kubernetes.io/config.hash"
DEFAULT_SCHEDULER = "default-scheduler"
# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions
POD_SCHEDULED = "PodScheduled"

Object = Mapping[str, Any]


def parse_pod(obj: Object, before: cluster.Pod | None = None) -> cluster.Pod:
    """Return the Pod that an API object describes. Raises `ValueError` with the path of the bad field.

    `before`: the same Pod as it was last parsed. If only its node and its status have changed, what its spec states is
    taken from there, which takes a third of the time: each bind leads to such an event.
    """
    metadata, spec, status = (fields.mapping(obj, key) for key in ("metadata", "spec", "status"))
    # Whatever can be refused comes first, since nothing of a refused object may stay in the caches of shared values.
    namespace, name, uid = (fields.required(metadata, key, "metadata.") for key in ("namespace", "name", "uid"))
    created_at = fields.required(metadata, "creationTimestamp", "metadata.")
    created_at_s = instants.parse_at(created_at, "metadata.creationTimestamp")
    deleting, ends_at_s = metadata.get("deletionTimestamp") is not None, math.inf
    if deleting:
        ends_at = fields.required(metadata, "deletionTimestamp", "metadata.")
        ends_at_s = instants.parse_at(ends_at, "metadata.deletionTimestamp")
    resource_version = fields.optional(metadata, "resourceVersion", "metadata.")
    generation = fields.integer(metadata, "generation", "metadata.")
    labels, owner = fields.texts(metadata, "labels", "metadata."), _controller(metadata)
    is_surge = names.SURGE_LABEL in labels
    if owner is None and (is_surge or names.TEMPLATE_HASH in labels):
        # Its ReplicaSet owns it, and will control it: it is of the same class of Pods as the others. The label is there
        # some milliseconds before the ReplicaSet's controller has seen it.
        owner = _owner_of_surge(metadata)
    node_name = fields.optional(spec, "nodeName", "spec.")
    phase, has_failed = fields.optional(status, "phase", "status."), failures.has_failed(status)
    unscheduled_reason = "" if node_name else _unscheduled_reason(status)
    nominated_node = "" if node_name else fields.optional(status, "nominatedNodeName", "status.")
    gang = pod_groups.membership_of(metadata, spec, lambda: _bound_at_s(status) if node_name else 0.0)
    if before is not None and before.uid == uid and _has_same_spec(before, generation, labels, metadata, status):
        return before._replace(
            resource_version=resource_version, node_name=sys.intern(node_name) or None,
            phase=sys.intern(phase or "Pending"), deleting=deleting, ends_at_s=ends_at_s,
            labels=shared_values.mapping(labels), owner=shared_values.owner(owner),
            unscheduled_reason=sys.intern(unscheduled_reason), has_failed=has_failed, nominated_node=nominated_node,
            gang=gang,
        )  # fmt: skip
    scheduler_name = fields.optional(spec, "schedulerName", "spec.") or DEFAULT_SCHEDULER
    node_selector = fields.texts(spec, "nodeSelector", "spec.")
    priority_class = fields.optional(spec, "priorityClassName", "spec.")
    priority = fields.integer(spec, "priority", "spec.")
    tolerations, gates = _tolerations(spec), fields.objects(spec, "schedulingGates", "spec.")
    scheduling_gates = tuple([fields.optional(gate, "name") for gate in gates])
    containers = fields.objects(spec, "containers", "spec.")
    image = fields.optional(containers[0], "image", "spec.containers[0].") if containers else ""
    requests = pod_requests.rounded(pod_requests.pod_requests(obj))
    mirror, not_evaluated = is_mirror(metadata, spec), unsupported(spec)
    static_uid = fields.optional(metadata["annotations"], STATIC_UID_ANNOTATION) if mirror else ""
    found = constraints.parse_constraints(spec, namespace=namespace, name=name, uid=uid, labels=labels)
    # Room that a move would have to make is no gain; the API refuses another policy than that of the PriorityClass.
    preempts = fields.optional(spec, "preemptionPolicy", "spec.") != "Never" and not is_surge
    has_deadline = spec.get("activeDeadlineSeconds") is not None
    made_of = template.template_of(containers, requests, priority_class=priority_class, has_deadline=has_deadline)
    found_images = images.parse_images(spec, containers)
    return cluster.Pod(
        namespace=sys.intern(namespace),
        name=name,
        uid=uid,
        resource_version=resource_version,
        scheduler_name=sys.intern(scheduler_name),
        node_name=sys.intern(node_name) or None,
        phase=sys.intern(phase or "Pending"),
        priority=priority,
        created_at_s=created_at_s,
        deleting=deleting,
        labels=shared_values.mapping(labels),
        node_selector=shared_values.mapping(node_selector),
        tolerations=shared_values.tolerations(tolerations),
        owner=shared_values.owner(owner),
        image=sys.intern(image),
        is_mirror=mirror,
        request_cores=requests.pop("cpu", 0.0),
        request_bytes=requests.pop("memory", 0.0),
        request_others=_others(requests),
        unsupported=not_evaluated,
        constraints=found,
        scheduling_gates=scheduling_gates,
        unscheduled_reason=sys.intern(unscheduled_reason),
        static_uid=static_uid,
        template=made_of,
        has_failed=has_failed,
        preempts=preempts,
        ends_at_s=ends_at_s,
        nominated_node=nominated_node,
        gang=gang,
        images=found_images,
        containers=template.container_ids(status) if len(containers) > 1 else (),
        priority_class=sys.intern(priority_class),
        generation=generation,
    )


def _has_same_spec(
    before: cluster.Pod, generation: int, labels: Mapping[str, str], metadata: Object, status: Object
) -> bool:  # fmt: skip
    """Return whether all that was read of a Pod's spec holds still.

    The API increments a Pod's generation with each change of its spec but its node (KEP-5067; Pods have none before
    1.33). Constraints also depend on labels, to which a bind may add; requests and container ids on kubelets' reports.
    """
    return (
        0 < generation == before.generation
        and before.node_name is None
        and (labels == before.labels or before.constraints is None)
        and (names.SURGE_LABEL in labels) is (names.SURGE_LABEL in before.labels)
        and not status.get("containerStatuses")
        and not status.get("initContainerStatuses")
        and MIRROR_ANNOTATION not in fields.mapping(metadata, "annotations", "metadata.")
    )


def _unscheduled_reason(status: Object) -> str:
    """Return the reason of the condition PodScheduled=False; empty without one."""
    for each in fields.objects(status, "conditions", "status."):
        if each.get("type") == POD_SCHEDULED and each.get("status") == "False":
            return fields.optional(each, "reason", "status.conditions[].")
    return ""


def _bound_at_s(status: Object) -> float:
    """Return when the Pod was bound; 0 if its status does not show it."""
    for each in fields.objects(status, "conditions", "status."):
        if each.get("type") == POD_SCHEDULED and each.get("status") == "True":
            return instants.find_instant(each.get("lastTransitionTime")) or 0.0
    return 0.0


def parse_node(obj: Object) -> cluster.Node:
    """Return the Node that an API object describes. Raises `ValueError` with the path of the bad field."""
    metadata, spec, status = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    # A kubelet that has not reported yet leaves both empty: nothing fits, which is right at that moment.
    field = "allocatable" if status.get("allocatable") else "capacity"
    amounts = pod_requests.rounded(pod_requests.amounts(status, field, "status."))
    conditions = fields.objects(status, "conditions", "status.")
    return cluster.Node(
        name=fields.required(metadata, "name", "metadata."),
        uid=fields.optional(metadata, "uid", "metadata."),
        resource_version=fields.optional(metadata, "resourceVersion", "metadata."),
        labels=fields.texts(metadata, "labels", "metadata."),
        taints=_taints(spec),
        unschedulable=spec.get("unschedulable") is True,
        ready=any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions),
        deleting=metadata.get("deletionTimestamp") is not None,
        allocatable_cores=amounts.pop("cpu", 0.0),
        allocatable_bytes=amounts.pop("memory", 0.0),
        # Every kubelet reports it; without it, kube-scheduler places no Pod there either.
        pod_limit=int(amounts.pop("pods", 0.0)),
        allocatable_others=amounts,
        images=images.parse_node_images(status),
    )


def unsupported(spec: Object) -> tuple[str, ...]:
    """Return the names of hard constraints of a Pod that the scheduler does not evaluate.

    Besides device claims, these are features that a node must declare (status.declaredFeatures) for such a Pod.
    """
    found = ["resourceClaims"] if spec.get("resourceClaims") else []
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        found.append("hostUsers with hostNetwork")
    containers = fields.objects(spec, "containers", "spec.") + fields.objects(spec, "initContainers", "spec.")
    rules = [rule for container in containers for rule in fields.objects(container, "restartPolicyRules")]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        found.append("restartPolicyRules.RestartAllContainers")
    return tuple(found)


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


def is_mirror(metadata: Object, spec: Object) -> bool:
    """Return whether it is a mirror Pod (the API's copy of a static Pod): annotated, and owned by the Node it names.

    The API server accepts the annotation only at creation, and only on a Pod that names its node, so such a Pod was
    never to be scheduled. With NodeRestriction a kubelet can create mirror Pods of its own node only, and a kubelet
    deletes a mirror Pod without static Pod instead of running it.
    """
    if MIRROR_ANNOTATION not in fields.mapping(metadata, "annotations", "metadata."):
        return False
    owner, node = _controller(metadata), fields.optional(spec, "nodeName", "spec.")
    return bool(node) and owner is not None and owner[:2] == ("Node", node)


def belongs_to_node(obj: Object, baseline_namespaces: Set[str] = frozenset()) -> bool:
    """Return whether a Pod belongs to its node and is no workload, as far as the Pod's own object shows.

    Such are mirror Pods, Pods that name a DaemonSet as their controller, and Pods of `baseline_namespaces`. Whether the
    DaemonSet exists is not checked, so no Pod may be admitted because of this.
    """
    metadata = fields.mapping(obj, "metadata")
    owner = _controller(metadata)
    return (
        fields.optional(metadata, "namespace", "metadata.") in baseline_namespaces
        or (owner is not None and owner[0] == "DaemonSet")
        or is_mirror(metadata, fields.mapping(obj, "spec"))
    )


def _controller(metadata: Object) -> shared_values.Texts | None:
    """Return kind, name and UID of the controlling owner."""
    for index, reference in enumerate(fields.objects(metadata, "ownerReferences", "metadata.")):
        if reference.get("controller") is True:
            path = f"metadata.ownerReferences[{index}]."
            kind, name = fields.required(reference, "kind", path), fields.required(reference, "name", path)
            return kind, name, fields.optional(reference, "uid", path)
    return None


def _owner_of_surge(metadata: Object) -> shared_values.Texts | None:
    """Return kind, name and UID of the first owner of a surge Pod, which has no controller yet."""
    for index, reference in enumerate(fields.objects(metadata, "ownerReferences", "metadata.")):
        path = f"metadata.ownerReferences[{index}]."
        kind, name = fields.required(reference, "kind", path), fields.required(reference, "name", path)
        return kind, name, fields.optional(reference, "uid", path)
    return None


def _tolerations(spec: Object) -> tuple[shared_values.Texts, ...]:
    items = fields.objects(spec, "tolerations", "spec.")
    return tuple([_toleration(index, item) for index, item in enumerate(items)])


def _toleration(index: int, item: Object) -> shared_values.Texts:
    """Return key, operator, value and effect."""
    get = item.get
    found = (get("key"), get("operator"), get("value"), get("effect"))
    for name, text in zip(("key", "operator", "value", "effect"), found, strict=True):
        if text is not None and type(text) is not str:
            fields.optional(item, name, f"spec.tolerations[{index}].")
    return found[0] or "", found[1] or "Equal", found[2] or "", found[3] or ""


def _others(requests: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the requests of other resources, sorted by name."""
    return tuple(sorted((name, amount) for name, amount in requests.items() if amount > 0.0)) if requests else ()


def _taints(spec: Object) -> tuple[cluster.Taint, ...]:
    return tuple(
        cluster.Taint(
            key=fields.required(item, "key", path),
            value=fields.optional(item, "value", path),
            effect=fields.required(item, "effect", path),
        )
        for path, item in _numbered(fields.objects(spec, "taints", "spec."), "spec.taints")
    )


def _numbered(items: Iterable[Object], path: str) -> list[tuple[str, Object]]:
    return [(f"{path}[{index}].", item) for index, item in enumerate(items)]
