"""What a Pod and its spec state, as far as CARICO uses it: what stays when the Pod is bound and runs."""

import functools
import json
import sys
from collections.abc import Mapping
from typing import Any

import orjson

from carico_core.domain import names
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.object_fields import Object
from carico_core.wire.kubernetes.pods import constraints, images, ownership, pod_requests, shared_values, template

# On a mirror Pod: the UID of the static Pod in the runtime.
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-hash
STATIC_UID_ANNOTATION = "kubernetes.io/config.hash"
DEFAULT_SCHEDULER = "default-scheduler"
# Of what a Pod asks for: it waits, and its Event says so.
EXCESSIVE = (
    f"more than {constraints.TERMS_MOST} terms about other Pods and volume claims, {constraints.TERMS_MOST} resources, "
    f"or {constraints.WORDS_MOST} words or {constraints.CHARS_MOST >> 10} KiB in affinity, spread, tolerations, node "
    "selector, ports and disks"
)


def parse_stated(obj: Object, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a Pod that stay as long as its spec does. Raises `ValueError`."""
    metadata, spec, status = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec"), fields.mapping(obj, "status")
    namespace = fields.required(metadata, "namespace", "metadata.")
    name = fields.required(metadata, "name", "metadata.")
    uid = fields.required(metadata, "uid", "metadata.")
    created_at = fields.required(metadata, "creationTimestamp", "metadata.")
    created_at_s = fields.parsed("metadata.creationTimestamp", instants.parse_instant, created_at)
    generation = fields.integer(metadata, "generation", "metadata.")
    # First, since it is refused most: caches keep nothing of what is refused there.
    template_fields = _of_template(spec, status)
    containers = fields.objects(spec, "containers", "spec.")
    mirror = ownership.is_mirror(metadata, spec)
    resources = template_fields["request_others"]
    is_excessive = constraints.is_excessive(spec) or len(resources) > constraints.TERMS_MOST
    asked = None
    if not is_excessive:
        asked = constraints.parse_constraints(spec, namespace=namespace, name=name, uid=uid, labels=labels)
    stated = {
        **template_fields,
        "name": name,
        "uid": uid,
        "created_at_s": created_at_s,
        "generation": generation,
        "is_mirror": mirror,
        "static_uid": fields.optional(metadata["annotations"], STATIC_UID_ANNOTATION) if mirror else "",
        "constraints": asked,
        "images": images.parse_images(spec, containers),
        "containers": template.container_ids(status) if len(containers) > 1 else (),
        "namespace": sys.intern(namespace),
    }
    if names.SURGE_LABEL in labels:
        # Room that a move would have to make is no gain.
        stated["preempts"] = False
    if is_excessive:
        # Some of its resources count where another put it on a node.
        stated |= {
            "unsupported": (*stated["unsupported"], EXCESSIVE), "tolerations": (), "node_selector": {},
            "request_others": resources[: constraints.TERMS_MOST],
        }  # fmt: skip
    return stated


# What is read of a spec and of each container, apart from what Pods of one template may differ in: volumes, whose names
# they take from the name of the Pod or of a token, are read by `constraints` and `images`.
_READ = (
    "schedulerName", "priority", "priorityClassName", "preemptionPolicy", "nodeSelector", "tolerations",
    "schedulingGates", "resourceClaims", "activeDeadlineSeconds", "resources", "overhead", "hostNetwork", "hostUsers",
    "affinity",
)  # fmt: skip
_READ_OF_CONTAINERS = ("name", "image", "resources", "restartPolicy", "restartPolicyRules")


def _of_template(spec: Object, status: Object) -> Mapping[str, Any]:
    """Return the fields of a Pod that all Pods of its template have.

    Thousands of Pods come from one template. What is read of them is the key of what was parsed: to parse it again
    takes six times as long.
    """
    initial, containers = fields.objects(spec, "initContainers", "spec."), fields.objects(spec, "containers", "spec.")
    if status.get("containerStatuses") or status.get("initContainerStatuses") or status.get("resources"):
        # Requests of a Pod that is resized depend on its status.
        return _parse_template(spec, status)
    values = [
        [*map(spec.get, _READ)],
        [[*map(each.get, _READ_OF_CONTAINERS)] for each in initial],
        [[*map(each.get, _READ_OF_CONTAINERS)] for each in containers],
    ]
    try:
        # A string: bytes of orjson occupy the whole buffer that it wrote to, and this is kept.
        read = orjson.dumps(values).decode()
    except orjson.JSONEncodeError:
        # A number that no field has: it is refused where it is read.
        return _parse_template(spec, status)
    return _parse_read(read) if len(read) <= shared_values.SHARED_CHARS else _parse_template(spec, status)


@functools.lru_cache(maxsize=shared_values.SHARED_MOST)
def _parse_read(read: str) -> Mapping[str, Any]:
    """Return the same of what was read."""
    # orjson would keep the names in it, of what is refused, too.
    values, initial, containers = json.loads(read)
    spec = dict(zip(_READ, values, strict=True))
    spec["initContainers"] = [dict(zip(_READ_OF_CONTAINERS, each, strict=True)) for each in initial]
    spec["containers"] = [dict(zip(_READ_OF_CONTAINERS, each, strict=True)) for each in containers]
    return _parse_template(spec, {})


def _parse_template(spec: Object, status: Object) -> Mapping[str, Any]:
    containers = fields.objects(spec, "containers", "spec.")
    requests = pod_requests.rounded(pod_requests.pod_requests({"spec": spec, "status": status}))
    gates = fields.objects(spec, "schedulingGates", "spec.")
    priority_class = fields.optional(spec, "priorityClassName", "spec.")
    image = fields.optional(containers[0], "image", "spec.containers[0].") if containers else ""
    scheduler = fields.optional(spec, "schedulerName", "spec.") or DEFAULT_SCHEDULER
    found: dict[str, Any] = {
        "priority": fields.integer(spec, "priority", "spec."),
        # The API refuses another policy than that of the PriorityClass.
        "preempts": fields.optional(spec, "preemptionPolicy", "spec.") != "Never",
        "node_selector": fields.texts(spec, "nodeSelector", "spec."),
        "tolerations": _tolerations(spec),
        "scheduling_gates": tuple([fields.optional(each, "name") for each in gates]),
        "unsupported": ("resourceClaims",) if spec.get("resourceClaims") else (),
        "required_features": required_features(spec),
        "template": template.template_of(
            containers,
            requests,
            priority_class=priority_class,
            has_deadline=spec.get("activeDeadlineSeconds") is not None,
            crosses_namespaces=constraints.crosses_namespaces(spec),
        ),
        "request_cores": requests.pop("cpu", 0.0),
        "request_bytes": requests.pop("memory", 0.0),
        "request_others": _others(requests),
    }
    # Values that other templates have, too.
    return found | {
        "scheduler_name": sys.intern(scheduler),
        "image": sys.intern(image),
        "priority_class": sys.intern(priority_class),
        "node_selector": shared_values.mapping(found["node_selector"]),
        "tolerations": shared_values.tolerations(found["tolerations"]),
    }


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
