"""What a Pod and its spec state, as far as CARICO uses it: what stays when the Pod is bound and runs."""

import sys
from collections.abc import Mapping
from typing import Any

from carico_core.domain import names
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.object_fields import Object
from carico_core.wire.kubernetes.pods import constraints, images, ownership, pod_requests, shared_values, template

# On a mirror Pod: the UID of the static Pod in the runtime.
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-hash
STATIC_UID_ANNOTATION = "kubernetes.io/config.hash"
DEFAULT_SCHEDULER = "default-scheduler"


def parse_stated(obj: Object, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a Pod that stay as long as its spec does. Raises `ValueError`."""
    metadata, spec, status = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    namespace, name = (
        fields.required(metadata, "namespace", "metadata."),
        fields.required(metadata, "name", "metadata."),
    )
    uid = fields.required(metadata, "uid", "metadata.")
    created_at = fields.required(metadata, "creationTimestamp", "metadata.")
    containers = fields.objects(spec, "containers", "spec.")
    requests = pod_requests.rounded(pod_requests.pod_requests(obj))
    gates, mirror = fields.objects(spec, "schedulingGates", "spec."), ownership.is_mirror(metadata, spec)
    priority_class = fields.optional(spec, "priorityClassName", "spec.")
    has_deadline = spec.get("activeDeadlineSeconds") is not None
    # Room that a move would have to make is no gain; the API refuses another policy than that of the PriorityClass.
    preempts = fields.optional(spec, "preemptionPolicy", "spec.") != "Never" and names.SURGE_LABEL not in labels
    return {
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "created_at_s": instants.parse_at(created_at, "metadata.creationTimestamp"),
        "generation": fields.integer(metadata, "generation", "metadata."),
        "scheduler_name": fields.optional(spec, "schedulerName", "spec.") or DEFAULT_SCHEDULER,
        "priority": fields.integer(spec, "priority", "spec."),
        "priority_class": priority_class,
        "preempts": preempts,
        "node_selector": fields.texts(spec, "nodeSelector", "spec."),
        "tolerations": _tolerations(spec),
        "scheduling_gates": tuple([fields.optional(each, "name") for each in gates]),
        "unsupported": ("resourceClaims",) if spec.get("resourceClaims") else (),
        "required_features": required_features(spec),
        "image": fields.optional(containers[0], "image", "spec.containers[0].") if containers else "",
        "is_mirror": mirror,
        "static_uid": fields.optional(metadata["annotations"], STATIC_UID_ANNOTATION) if mirror else "",
        "template": template.template_of(
            containers,
            requests,
            priority_class=priority_class,
            has_deadline=has_deadline,
            crosses_namespaces=constraints.crosses_namespaces(spec),
        ),
        "request_cores": requests.pop("cpu", 0.0),
        "request_bytes": requests.pop("memory", 0.0),
        "request_others": _others(requests),
        "constraints": constraints.parse_constraints(spec, namespace=namespace, name=name, uid=uid, labels=labels),
        "images": images.parse_images(spec, containers),
        "containers": template.container_ids(status) if len(containers) > 1 else (),
    }


def share_stated(stated: dict[str, Any]) -> None:
    """Put values that other Pods have, too, in place of equal ones."""
    for name in ("namespace", "scheduler_name", "image", "priority_class"):
        stated[name] = sys.intern(stated[name])
    stated["node_selector"] = shared_values.mapping(stated["node_selector"])
    stated["tolerations"] = shared_values.tolerations(stated["tolerations"])


def required_features(spec: Object) -> tuple[str, ...]:
    """Return the features that a node must declare for the Pod.

    Source: InferForScheduling in k8s.io/component-helpers/nodedeclaredfeatures/features.
    """
    found = []
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        found.append("UserNamespacesHostNetworkSupport")
    containers = fields.objects(spec, "containers", "spec.") + fields.objects(spec, "initContainers", "spec.")
    rules = [rule for container in containers for rule in fields.objects(container, "restartPolicyRules")]
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        found.append("RestartAllContainersOnContainerExits")
    return tuple(found)


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
