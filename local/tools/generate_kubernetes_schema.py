"""Writes the embedded API's schema of Kubernetes types, taken from the installed `kubernetes` client.

    python local/tools/generate_kubernetes_schema.py > local/src/carico_local/api/model/kubernetes_schema.json

The client's models contain each type's fields, types and descriptions, but not how a strategic merge combines lists.
Those keys are below, as in the patchStrategy and patchMergeKey tags of k8s.io/api.
"""

import json
import re
import sys
from typing import Any

from kubernetes import client

ROOTS = (
    "V1Pod",
    "V1Node",
    "V1Namespace",
    "V1ServiceAccount",
    "V1ConfigMap",
    "V1Secret",
    "V1Binding",
    "CoreV1Event",
    "EventsV1Event",
    "V1Lease",
    "V1Eviction",
    "V1Status",
    "V1DeleteOptions",
)

KINDS = {
    "V1Pod": ("", "v1", "Pod"),
    "V1Node": ("", "v1", "Node"),
    "V1Namespace": ("", "v1", "Namespace"),
    "V1ServiceAccount": ("", "v1", "ServiceAccount"),
    "V1ConfigMap": ("", "v1", "ConfigMap"),
    "V1Secret": ("", "v1", "Secret"),
    "V1Binding": ("", "v1", "Binding"),
    "CoreV1Event": ("", "v1", "Event"),
    "EventsV1Event": ("events.k8s.io", "v1", "Event"),
    "V1Lease": ("coordination.k8s.io", "v1", "Lease"),
    "V1Eviction": ("policy", "v1", "Eviction"),
    "V1Status": ("", "v1", "Status"),
    "V1DeleteOptions": ("", "v1", "DeleteOptions"),
}

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_META_TYPES = {
    "V1ObjectMeta",
    "V1ListMeta",
    "V1DeleteOptions",
    "V1Status",
    "V1StatusDetails",
    "V1StatusCause",
    "V1Preconditions",
    "V1OwnerReference",
    "V1ManagedFieldsEntry",
    "V1LabelSelector",
    "V1LabelSelectorRequirement",
    "V1ShardInfo",
}
_PACKAGES = {
    "EventsV1Event": "io.k8s.api.events.v1",
    "EventsV1EventSeries": "io.k8s.api.events.v1",
    "V1Lease": "io.k8s.api.coordination.v1",
    "V1LeaseSpec": "io.k8s.api.coordination.v1",
    "V1Eviction": "io.k8s.api.policy.v1",
}

# type.field -> (strategy, merge key)
_MERGE = {
    "ObjectMeta.finalizers": ("merge", None),
    "ObjectMeta.ownerReferences": ("merge", "uid"),
    "PodSpec.volumes": ("merge,retainKeys", "name"),
    "PodSpec.initContainers": ("merge", "name"),
    "PodSpec.containers": ("merge", "name"),
    "PodSpec.ephemeralContainers": ("merge", "name"),
    "PodSpec.imagePullSecrets": ("merge", "name"),
    "PodSpec.hostAliases": ("merge", "ip"),
    "PodSpec.topologySpreadConstraints": ("merge", "topologyKey"),
    "PodSpec.schedulingGates": ("merge", "name"),
    "PodSpec.resourceClaims": ("merge,retainKeys", "name"),
    "Container.ports": ("merge", "containerPort"),
    "Container.env": ("merge", "name"),
    "Container.volumeMounts": ("merge", "mountPath"),
    "Container.volumeDevices": ("merge", "devicePath"),
    "EphemeralContainer.ports": ("merge", "containerPort"),
    "EphemeralContainer.env": ("merge", "name"),
    "EphemeralContainer.volumeMounts": ("merge", "mountPath"),
    "EphemeralContainer.volumeDevices": ("merge", "devicePath"),
    "PodStatus.conditions": ("merge", "type"),
    "PodStatus.hostIPs": ("merge", "ip"),
    "PodStatus.podIPs": ("merge", "ip"),
    "PodStatus.resourceClaimStatuses": ("merge,retainKeys", "name"),
    "NodeSpec.podCIDRs": ("merge", None),
    "NodeStatus.conditions": ("merge", "type"),
    "NodeStatus.addresses": ("merge", "type"),
    "NamespaceStatus.conditions": ("merge", "type"),
    "ServiceAccount.secrets": ("merge", "name"),
}

_MICRO_TIMES = {"acquireTime", "renewTime", "eventTime", "lastObservedTime"}
_QUANTITY_MAPS = {"limits", "requests", "capacity", "allocatable", "overhead", "allocatedResources"}
_QUANTITIES = {"sizeLimit", "divisor"}
_SCALARS: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "datetime": {"type": "string", "format": "date-time"},
}
_QUANTITY = {"x-carico-quantity": True, "oneOf": [{"type": "string"}, {"type": "number"}]}
_INT_OR_STRING = {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}


def short_name(model: str) -> str:
    """Return the type's own name: V1Pod and CoreV1Event without the client's prefixes."""
    return re.sub(r"^(Core|Events)?V1", "", model)


def full_name(model: str) -> str:
    """Return the definition's name as in kube-apiserver."""
    package = META if model in _META_TYPES else _PACKAGES.get(model, "io.k8s.api.core.v1")
    return f"{package}.{short_name(model)}"


def field_schema(model: str, name: str, kind: str) -> dict[str, Any]:
    """Return the OpenAPI v3 schema of one field, without its description."""
    if kind == "object":
        return {"type": "object"} if name == "fieldsV1" else dict(_INT_OR_STRING)
    if name in _QUANTITIES or (name in _QUANTITY_MAPS and kind.startswith("Dict")):
        return (
            {"type": "object", "additionalProperties": dict(_QUANTITY)} if kind.startswith("Dict") else dict(_QUANTITY)
        )
    if listed := re.fullmatch(r"List\[(\w+)\]", kind):
        return {"type": "array", "items": field_schema(model, "", listed[1]), **merge_extension(model, name)}
    if mapped := re.fullmatch(r"Dict\[str, (\w+)\]", kind):
        return {"type": "object", "additionalProperties": field_schema(model, "", mapped[1])}
    if kind in _SCALARS:
        schema = dict(_SCALARS[kind])
        return schema | {"x-carico-micro-time": True} if name in _MICRO_TIMES else schema
    return {"$ref": f"#/components/schemas/{full_name(kind)}"}


def merge_extension(model: str, name: str) -> dict[str, str]:
    """Return the strategic-merge extensions of a list field; none for an atomic list."""
    strategy, key = _MERGE.get(f"{short_name(model)}.{name}", (None, None))
    extension = {} if strategy is None else {"x-kubernetes-patch-strategy": strategy}
    return extension if key is None else extension | {"x-kubernetes-patch-merge-key": key}


def definition(model: str) -> dict[str, Any]:
    """Return the OpenAPI v3 schema of one type."""
    source = getattr(client, model)
    fields = {field.serialization_alias or name: field for name, field in source.model_fields.items()}
    properties = {}
    required = []
    for attribute, kind in sorted(source.openapi_types.items()):
        name = source.attribute_map[attribute]
        field = fields[name]
        schema = field_schema(model, name, kind)
        if field.description:
            schema["description"] = field.description
        properties[name] = schema
        if field.is_required():
            required.append(name)
    summary = re.sub(r"\s*Attributes:.*", "", source.__doc__ or "", flags=re.DOTALL).strip()
    schema = {"type": "object", "description": summary, "properties": properties}
    if required:
        schema["required"] = required
    if model in KINDS:
        group, version, kind = KINDS[model]
        schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
    return schema


def reachable() -> list[str]:
    """Return every model that a root refers to, including itself."""
    found: set[str] = set()
    waiting = list(ROOTS)
    while waiting:
        model = waiting.pop()
        if model in found:
            continue
        found.add(model)
        for kind in getattr(client, model).openapi_types.values():
            waiting.extend(word for word in re.findall(r"[A-Z]\w+", kind) if hasattr(client, word))
    return sorted(found)


def main() -> None:
    """Print the schema, one type per line, so that a diff shows the changed types."""
    lines = (f"{json.dumps(full_name(model))}: {json.dumps(definition(model))}" for model in reachable())
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
