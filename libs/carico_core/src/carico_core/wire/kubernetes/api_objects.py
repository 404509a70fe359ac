"""Objects of the Kubernetes API <-> `carico_core.domain.cluster`, and the bodies of what CARICO writes.

Parsers raise only `ValueError`, with the path of the bad field.
"""

import datetime
import functools
import math
import sys
from collections.abc import Iterable, Mapping, Set
from typing import Any

from carico_core.domain import cluster, names
from carico_core.wire.kubernetes import (
    constraints,
    failures,
    images,
    pod_groups,
    pod_requests,
    selectors,
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
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/: note is at most 1 kB.
NOTE_LIMIT_BYTES = 1024
# Bounds of each cache of values that Pods share: 4096 templates, whose labels rarely exceed 1000 characters.
SHARED_MOST = 4096
SHARED_CHARS = 2048

Object = Mapping[str, Any]
_Texts = tuple[str, ...]
_NO_TEXTS: Mapping[str, str] = {}


def parse_pod(obj: Object, before: cluster.Pod | None = None) -> cluster.Pod:
    """Return the Pod that an API object describes. Raises `ValueError` with the path of the bad field.

    `before`: the same Pod as it was last parsed. If only its node and its status have changed, what its spec states is
    taken from there, which takes a third of the time: each bind leads to such an event.
    """
    metadata, spec, status = (fields.mapping(obj, key) for key in ("metadata", "spec", "status"))
    # Whatever can be refused comes first, since nothing of a refused object may stay in the caches of shared values.
    namespace, name, uid = (fields.required(metadata, key, "metadata.") for key in ("namespace", "name", "uid"))
    created_at = fields.required(metadata, "creationTimestamp", "metadata.")
    created_at_s = _instant_s(created_at, "metadata.creationTimestamp")
    deleting, ends_at_s = metadata.get("deletionTimestamp") is not None, math.inf
    if deleting:
        ends_at = fields.required(metadata, "deletionTimestamp", "metadata.")
        ends_at_s = _instant_s(ends_at, "metadata.deletionTimestamp")
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
            phase=sys.intern(phase or "Pending"), deleting=deleting, ends_at_s=ends_at_s, labels=_shared_texts(labels),
            owner=_shared_owner(owner), unscheduled_reason=sys.intern(unscheduled_reason), has_failed=has_failed,
            nominated_node=nominated_node, gang=gang,
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
    made_of = template.template_of(containers, requests)
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
        labels=_shared_texts(labels),
        node_selector=_shared_texts(node_selector),
        tolerations=_shared_tolerations(tolerations),
        owner=_shared_owner(owner),
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
            return find_instant(each.get("lastTransitionTime")) or 0.0
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


def binding_body(*, namespace: str, name: str, uid: str, node: str, resource_version: str = "") -> dict[str, Any]:
    """Return a v1 Binding with the Pod's UID, and its resourceVersion if given, as preconditions."""
    metadata = {"namespace": namespace, "name": name, "uid": uid}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def event_body(
    regarding: Mapping[str, str],
    *,
    name: str,
    reason: str,
    action: str,
    note: str,
    controller: str,
    instance: str,
    at_ns: int,
    warning: bool = False,
) -> dict[str, Any]:
    """Return an events.k8s.io/v1 Event about `regarding` (apiVersion, kind, namespace, name, uid)."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        # Events about objects without a namespace (Nodes) live in "default", as kubectl describe expects.
        "metadata": {"namespace": regarding.get("namespace") or "default", "name": name},
        "regarding": dict(regarding),
        "reason": reason,
        "action": action,
        "note": note.encode()[:NOTE_LIMIT_BYTES].decode(errors="ignore"),
        "type": "Warning" if warning else "Normal",
        "eventTime": format_instant(at_ns),
        "reportingController": controller,
        "reportingInstance": instance,
    }


def format_time(at_ns: int) -> str:
    """Return RFC 3339 with whole seconds, the format of Time fields.

    >>> format_time(1_999_999_999)
    '1970-01-01T00:00:01Z'
    """
    return f"{format_instant(at_ns)[:19]}Z"


def format_instant(at_ns: int) -> str:
    """Return RFC 3339 with microseconds, the format of MicroTime fields.

    >>> format_instant(1_000)
    '1970-01-01T00:00:00.000001Z'
    """
    instant = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=at_ns // 1000)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_instant(text: str) -> float:
    """Return the Unix seconds of an RFC 3339 time. Raises `ValueError`.

    >>> parse_instant("1970-01-01T00:00:01Z")
    1.0
    """
    instant = datetime.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"got {text!r}, expected a time zone")
    return instant.timestamp()


def find_instant(value: object) -> float | None:
    """Return the Unix seconds of a time in an object of the API; None where it is not one.

    >>> find_instant(None)
    """
    try:
        return parse_instant(value) if isinstance(value, str) else None
    except ValueError:
        return None


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


def _controller(metadata: Object) -> _Texts | None:
    """Return kind, name and UID of the controlling owner."""
    for index, reference in enumerate(fields.objects(metadata, "ownerReferences", "metadata.")):
        if reference.get("controller") is True:
            path = f"metadata.ownerReferences[{index}]."
            kind, name = fields.required(reference, "kind", path), fields.required(reference, "name", path)
            return kind, name, fields.optional(reference, "uid", path)
    return None


def _owner_of_surge(metadata: Object) -> _Texts | None:
    """Return kind, name and UID of the first owner of a surge Pod, which has no controller yet."""
    for index, reference in enumerate(fields.objects(metadata, "ownerReferences", "metadata.")):
        path = f"metadata.ownerReferences[{index}]."
        kind, name = fields.required(reference, "kind", path), fields.required(reference, "name", path)
        return kind, name, fields.optional(reference, "uid", path)
    return None


def _tolerations(spec: Object) -> tuple[_Texts, ...]:
    items = fields.objects(spec, "tolerations", "spec.")
    return tuple([_toleration(index, item) for index, item in enumerate(items)])


def _toleration(index: int, item: Object) -> _Texts:
    """Return key, operator, value and effect."""
    get = item.get
    found = (get("key"), get("operator"), get("value"), get("effect"))
    for name, text in zip(("key", "operator", "value", "effect"), found, strict=True):
        if text is not None and type(text) is not str:
            fields.optional(item, name, f"spec.tolerations[{index}].")
    return found[0] or "", found[1] or "Equal", found[2] or "", found[3] or ""


# Thousands of Pods come from one template. Equal values become one object, which is faster and takes much less memory.
# Each cache has at most SHARED_MOST entries of at most SHARED_CHARS characters; longer values are not shared.


def _shared_owner(found: _Texts | None) -> cluster.Owner | None:
    if found is None:
        return None
    return _owner(found) if sum(map(len, found)) <= SHARED_CHARS else _owner.__wrapped__(found)


def _shared_tolerations(found: tuple[_Texts, ...]) -> tuple[cluster.Toleration, ...]:
    if not found:
        return ()
    chars = sum([sum(map(len, texts)) for texts in found])
    return _toleration_records(found) if chars <= SHARED_CHARS else _toleration_records.__wrapped__(found)


def _shared_texts(found: dict[str, str]) -> Mapping[str, str]:
    if not found:
        return _NO_TEXTS
    chars = sum(map(len, found)) + sum(map(len, found.values()))
    return _as_mapping(tuple(found.items())) if chars <= SHARED_CHARS else found


@functools.lru_cache(maxsize=SHARED_MOST)
def _owner(found: _Texts) -> cluster.Owner:
    kind, name, uid = found
    return cluster.Owner(kind=kind, name=name, uid=uid)


@functools.lru_cache(maxsize=SHARED_MOST)
def _toleration_records(found: tuple[_Texts, ...]) -> tuple[cluster.Toleration, ...]:
    return tuple(
        cluster.Toleration(key=key, operator=operator, value=value, effect=effect)
        for key, operator, value, effect in found
    )


@functools.lru_cache(maxsize=SHARED_MOST)
def _as_mapping(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


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


def _instant_s(text: str, path: str) -> float:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _numbered(items: Iterable[Object], path: str) -> list[tuple[str, Object]]:
    return [(f"{path}[{index}].", item) for index, item in enumerate(items)]
