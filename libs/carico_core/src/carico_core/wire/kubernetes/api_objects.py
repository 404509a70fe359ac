"""Objects of the Kubernetes API <-> `carico_core.domain.cluster`, and the bodies of what CARICO writes.

Every parser raises `ValueError` alone, with the path of the bad field.
"""

import datetime
import functools
import sys
from collections.abc import Iterable, Mapping, Set
from typing import Any

from carico_core.domain import cluster
from carico_core.wire.kubernetes import constraints, pod_requests
from carico_core.wire.kubernetes import object_fields as fields

# The kubelet marks the API's copy of a static Pod so.
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-mirror
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DEFAULT_SCHEDULER = "default-scheduler"
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/: note is at most 1 kB.
NOTE_LIMIT_BYTES = 1024

Object = Mapping[str, Any]
_NO_TEXTS: Mapping[str, str] = {}


def parse_pod(obj: Object) -> cluster.Pod:
    """Return the Pod that an API object describes. Raises `ValueError` with the path of the bad field."""
    metadata, spec = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec")
    status = fields.mapping(obj, "status")
    containers = fields.objects(spec, "containers", "spec.")
    owner = _controller(metadata)
    requests = pod_requests.rounded(pod_requests.pod_requests(obj))
    namespace = fields.required(metadata, "namespace", "metadata.")
    name, uid = fields.required(metadata, "name", "metadata."), fields.required(metadata, "uid", "metadata.")
    labels = _shared_texts(fields.texts(metadata, "labels", "metadata."))
    return cluster.Pod(
        namespace=sys.intern(namespace),
        name=name,
        uid=uid,
        resource_version=fields.optional(metadata, "resourceVersion", "metadata."),
        scheduler_name=sys.intern(fields.optional(spec, "schedulerName", "spec.") or DEFAULT_SCHEDULER),
        node_name=sys.intern(fields.optional(spec, "nodeName", "spec.")) or None,
        phase=sys.intern(fields.optional(status, "phase", "status.") or "Pending"),
        priority=fields.integer(spec, "priority", "spec."),
        created_at_s=_instant_s(
            fields.required(metadata, "creationTimestamp", "metadata."), "metadata.creationTimestamp"
        ),
        deleting=metadata.get("deletionTimestamp") is not None,
        labels=labels,
        node_selector=_shared_texts(fields.texts(spec, "nodeSelector", "spec.")),
        tolerations=_tolerations(spec),
        owner=owner,
        image=sys.intern(fields.optional(containers[0], "image", "spec.containers[0].")) if containers else "",
        is_mirror=is_mirror(metadata, spec),
        request_cores=requests.pop("cpu", 0.0),
        request_bytes=requests.pop("memory", 0.0),
        request_others=_others(requests),
        unsupported=unsupported(spec),
        constraints=constraints.parse_constraints(spec, namespace=namespace, name=name, uid=uid, labels=labels),
        scheduling_gates=tuple(
            fields.optional(gate, "name") for gate in fields.objects(spec, "schedulingGates", "spec.")
        ),
    )


def parse_node(obj: Object) -> cluster.Node:
    """Return the Node that an API object describes. Raises `ValueError` with the path of the bad field."""
    metadata, spec, status = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    # A kubelet that has not reported yet leaves both empty: nothing fits, which is the truth of that moment.
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
        # Every kubelet states it; without, kube-scheduler puts no Pod there either.
        pod_limit=int(amounts.pop("pods", 0.0)),
        allocatable_others=amounts,
    )


def unsupported(spec: Object) -> tuple[str, ...]:
    """Return the names of hard constraints that a Pod states and the scheduler does not evaluate.

    Besides devices: features that a node must declare (status.declaredFeatures) for a Pod that needs them.
    """
    found = ["resourceClaims"] if spec.get("resourceClaims") else []
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        found.append("hostUsers with hostNetwork")
    containers = fields.objects(spec, "containers", "spec.") + fields.objects(spec, "initContainers", "spec.")
    rules = [rule for container in containers for rule in fields.objects(container, "restartPolicyRules")]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        found.append("restartPolicyRules.RestartAllContainers")
    return tuple(found)


def binding_body(*, namespace: str, name: str, uid: str, node: str) -> dict[str, Any]:
    """Return a v1 Binding with the Pod's UID as precondition."""
    metadata = {"namespace": namespace, "name": name, "uid": uid}
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


def format_instant(at_ns: int) -> str:
    """RFC 3339 with microseconds, as MicroTime fields are written.

    >>> format_instant(1_000)
    '1970-01-01T00:00:00.000001Z'
    """
    instant = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=at_ns // 1000)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_instant(text: str) -> float:
    """Unix seconds of an RFC 3339 time. Raises `ValueError`.

    >>> parse_instant("1970-01-01T00:00:01Z")
    1.0
    """
    instant = datetime.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"got {text!r}, expected a time zone")
    return instant.timestamp()


def parse_daemon_set(obj: Object) -> cluster.DaemonSet:
    """Return the DaemonSet that an API object describes. Raises `ValueError` with the path of the bad field."""
    metadata = fields.mapping(obj, "metadata")
    return cluster.DaemonSet(
        namespace=fields.required(metadata, "namespace", "metadata."), uid=fields.required(metadata, "uid", "metadata.")
    )


def is_mirror(metadata: Object, spec: Object) -> bool:
    """Return whether a Pod is the API's copy of a static Pod: marked so, and owned by the Node that it names.

    The API server takes the annotation only at creation and only on a Pod that names its node, so such a Pod was never
    to be scheduled. NodeRestriction has a kubelet create none but its own node's, and a kubelet deletes a mirror Pod of
    which it has no static Pod in place of running it.
    """
    if MIRROR_ANNOTATION not in fields.mapping(metadata, "annotations", "metadata."):
        return False
    owner, node = _controller(metadata), fields.optional(spec, "nodeName", "spec.")
    return bool(node) and owner is not None and (owner.kind, owner.name) == ("Node", node)


def belongs_to_node(obj: Object, baseline_namespaces: Set[str] = frozenset()) -> bool:
    """Return whether a Pod belongs to its node, and is not a workload, as far as the Pod's own object shows.

    That is a mirror Pod, one that names a DaemonSet as its controller, or one of a namespace that the operator names.
    Whether the DaemonSet exists is not asked, so nothing must be admitted by this answer.
    """
    metadata = fields.mapping(obj, "metadata")
    owner = _controller(metadata)
    return (
        fields.optional(metadata, "namespace", "metadata.") in baseline_namespaces
        or (owner is not None and owner.kind == "DaemonSet")
        or is_mirror(metadata, fields.mapping(obj, "spec"))
    )


def _controller(metadata: Object) -> cluster.Owner | None:
    for index, reference in enumerate(fields.objects(metadata, "ownerReferences", "metadata.")):
        if reference.get("controller") is True:
            path = f"metadata.ownerReferences[{index}]."
            kind, name = fields.required(reference, "kind", path), fields.required(reference, "name", path)
            return _owner(kind, name, fields.optional(reference, "uid", path))
    return None


def _tolerations(spec: Object) -> tuple[cluster.Toleration, ...]:
    items = fields.objects(spec, "tolerations", "spec.")
    return _shared_tolerations(tuple([_toleration_texts(index, item) for index, item in enumerate(items)]))


def _toleration_texts(index: int, item: Object) -> tuple[str, str, str, str]:
    """Key, operator, value and effect."""
    get = item.get
    found = (get("key"), get("operator"), get("value"), get("effect"))
    for name, text in zip(("key", "operator", "value", "effect"), found, strict=True):
        if text is not None and type(text) is not str:
            fields.optional(item, name, f"spec.tolerations[{index}].")
    return found[0] or "", found[1] or "Equal", found[2] or "", found[3] or ""


# Thousands of Pods come from one template: what is equal is one object, which is quicker and a fraction of the memory.
@functools.lru_cache(maxsize=4096)
def _shared_tolerations(found: tuple[tuple[str, str, str, str], ...]) -> tuple[cluster.Toleration, ...]:
    return tuple(
        cluster.Toleration(key=key, operator=operator, value=value, effect=effect)
        for key, operator, value, effect in found
    )


@functools.lru_cache(maxsize=4096)
def _owner(kind: str, name: str, uid: str) -> cluster.Owner:
    return cluster.Owner(kind=kind, name=name, uid=uid)


def _shared_texts(found: dict[str, str]) -> Mapping[str, str]:
    return _as_mapping(tuple(found.items())) if found else _NO_TEXTS


@functools.lru_cache(maxsize=4096)
def _as_mapping(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


def _others(requests: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Requests of other resources, sorted by name."""
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
