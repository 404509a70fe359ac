"""The rules of objects; each violation is a cause of a 422.

Sources: k8s.io/kubernetes/pkg/apis/core/validation/validation.go and k8s.io/apimachinery/pkg/util/validation. It has
only the rules that the parts of a CARICO cluster rely on; fields that only a kubelet interprets are not checked.
"""

from typing import Any

from carico_core.domain import amounts
from carico_local.api.model import objects, resources, statuses
from carico_local.api.rules import configuration, event_forms, fields, placement

_ANNOTATIONS_BYTES = 262_144
# pkg/apis/core/helper/helpers.go
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_MAX_GRACE_S = 2**31

Causes = fields.Causes


def check(resource: resources.Resource, data: objects.Object) -> None:
    """Raise `RequestFailed` (422) with every rule that a new or changed object violates."""
    _refuse(resource, data, [*_metadata(resource, data["metadata"]), *_content(resource, data)])


def check_update(resource: resources.Resource, old: objects.Object, new: objects.Object) -> None:
    """Raise `RequestFailed` (422) for a change of an immutable field."""
    broken = list(_immutable_metadata(old["metadata"], new["metadata"]))
    if resource is resources.PODS:
        broken += _immutable_pod(old["spec"], new["spec"])
    elif resource in (resources.CONFIG_MAPS, resources.SECRETS):
        broken += configuration.changed(old, new)
    _refuse(resource, new, broken)


def _refuse(resource: resources.Resource, data: objects.Object, broken: list[statuses.Cause]) -> None:
    if broken:
        raise statuses.invalid(resource.kind, data["metadata"].get("name", ""), broken, group=resource.group)


def _content(resource: resources.Resource, data: objects.Object) -> Causes:
    if resource is resources.PODS:
        yield from _pod(data["spec"])
    elif resource is resources.NODES:
        yield from placement.taints((data.get("spec") or {}).get("taints") or (), "metadata.taints")
    elif resource is resources.LEASES:
        yield from _lease(data.get("spec") or {})
    elif resource is resources.CONFIG_MAPS:
        yield from configuration.config_map(data)
    elif resource is resources.SECRETS:
        yield from configuration.secret(data)
    elif resource.storage == "events":
        yield from event_forms.every(data)


def _metadata(resource: resources.Resource, metadata: objects.Object) -> Causes:
    name = metadata.get("name", "")
    rule, pattern, limit = fields.SUBDOMAIN_RULE, fields.SUBDOMAIN, 253
    if resource is resources.NAMESPACES:
        rule, pattern, limit = fields.LABEL_RULE, fields.LABEL, 63
    if not name:
        yield fields.required("metadata.name", "name or generateName is required")
    elif len(name) > limit:
        yield fields.wrong("metadata.name", name, f"must be no more than {limit} characters")
    elif not pattern.fullmatch(name):
        yield fields.wrong("metadata.name", name, rule)
    for key, value in (metadata.get("labels") or {}).items():
        if not fields.is_qualified(key):
            yield fields.wrong(
                "metadata.labels", key, "name part must consist of alphanumeric characters, '-', '_' or '.'"
            )
        if len(value) > 63 or not fields.LABEL_VALUE.fullmatch(value):
            yield fields.wrong(
                "metadata.labels",
                value,
                "a valid label must be an empty string or at most 63 characters of alphanumerics, '-', '_' or '.'",
            )
    yield from _annotations(metadata.get("annotations") or {})
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            rule = "name is neither a standard finalizer name nor is it fully qualified"
            yield fields.wrong(f"metadata.finalizers[{index}]", finalizer, rule)


def _annotations(annotations: dict[str, str]) -> Causes:
    for key in annotations:
        if not fields.is_qualified(key.lower()):
            yield fields.wrong(
                "metadata.annotations", key, "name part must consist of alphanumeric characters, '-', '_' or '.'"
            )
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_BYTES:
        message = f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes"
        yield statuses.Cause(reason="FieldValueTooLong", message=message, field="metadata.annotations")


def _pod(spec: objects.Object) -> Causes:
    if not spec.get("containers"):
        yield fields.required("spec.containers")
    names: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _container(container, f"spec.{group}[{index}]", names)
    yield from _choice(spec, "spec.restartPolicy", ("Always", "OnFailure", "Never"))
    yield from _choice(spec, "spec.dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"))
    if spec.get("terminationGracePeriodSeconds", 0) < 0 or spec.get("terminationGracePeriodSeconds", 0) > _MAX_GRACE_S:
        yield fields.wrong(
            "spec.terminationGracePeriodSeconds",
            spec["terminationGracePeriodSeconds"],
            "must be greater than or equal to 0",
        )
    for field in ("nodeName", "schedulerName", "serviceAccountName"):
        if spec.get(field) and not fields.SUBDOMAIN.fullmatch(spec[field]):
            yield fields.wrong(f"spec.{field}", spec[field], fields.SUBDOMAIN_RULE)
    if spec.get("activeDeadlineSeconds", 1) < 1:
        yield fields.wrong(
            "spec.activeDeadlineSeconds", spec["activeDeadlineSeconds"], "must be between 1 and 2147483647, inclusive"
        )
    yield from placement.pod(spec)
    for key, value in (spec.get("nodeSelector") or {}).items():
        if not fields.is_qualified(key) or not fields.LABEL_VALUE.fullmatch(value):
            yield fields.wrong("spec.nodeSelector", f"{key}={value}", "must be a label key and a label value")


def _choice(spec: objects.Object, path: str, allowed: tuple[str, ...]) -> Causes:
    value = spec.get(path.rpartition(".")[2])
    if value is not None and value not in allowed:
        yield fields.not_supported(path, value, allowed)


def _container(container: objects.Object, path: str, names: set[str]) -> Causes:
    name = container.get("name", "")
    if not name:
        yield fields.required(f"{path}.name")
    elif len(name) > 63 or not fields.LABEL.fullmatch(name):
        yield fields.wrong(f"{path}.name", name, fields.LABEL_RULE)
    elif name in names:
        message = f'Duplicate value: "{name}"'
        yield statuses.Cause(reason="FieldValueDuplicate", message=message, field=f"{path}.name")
    names.add(name)
    if not container.get("image", "").strip():
        yield fields.required(f"{path}.image")
    yield from _choice(container, f"{path}.imagePullPolicy", ("Always", "IfNotPresent", "Never"))
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield fields.required(f"{path}.env[{index}].name")
        elif "=" in variable["name"]:
            rule = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield fields.wrong(f"{path}.env[{index}].name", variable["name"], rule)
    yield from configuration.references(container, path)
    for index, port in enumerate(container.get("ports") or ()):
        if not 0 < port.get("containerPort", 0) < 65536:
            yield fields.wrong(
                f"{path}.ports[{index}].containerPort",
                port.get("containerPort", 0),
                "must be between 1 and 65535, inclusive",
            )
    yield from _amounts(container.get("resources") or {}, f"{path}.resources")


def _amounts(stated: dict[str, Any], path: str) -> Causes:
    for side in ("requests", "limits"):
        for name, amount in (stated.get(side) or {}).items():
            if amount.startswith("-"):
                yield fields.wrong(f"{path}.{side}[{name}]", amount, "must be greater than or equal to 0")
    limits = stated.get("limits") or {}
    for name, amount in (stated.get("requests") or {}).items():
        if name in limits and amounts.parse_quantity(amount) > amounts.parse_quantity(limits[name]):
            rule = f"must be less than or equal to {name} limit of {limits[name]}"
            yield fields.wrong(f"{path}.requests", amount, rule)


def _lease(spec: objects.Object) -> Causes:
    for field in ("leaseDurationSeconds", "leaseTransitions"):
        least = 1 if field == "leaseDurationSeconds" else 0
        if spec.get(field, least) < least:
            yield fields.wrong(f"spec.{field}", spec[field], f"must be greater than or equal to {least}")


def _immutable_metadata(old: objects.Object, new: objects.Object) -> Causes:
    for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if old.get(field) != new.get(field):
            yield fields.wrong(f"metadata.{field}", new.get(field, ""), "field is immutable")
    added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added and old.get("deletionTimestamp"):
        rule = "no new finalizers can be added if the object is being deleted"
        message = f"Forbidden: {rule}, found new finalizers {sorted(added)}"
        yield statuses.Cause(reason="FieldValueForbidden", message=message, field="metadata.finalizers")


_MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_POD_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _immutable_pod(old: objects.Object, new: objects.Object) -> Causes:
    for toleration in old.get("tolerations") or ():
        if toleration not in (new.get("tolerations") or ()):
            message = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
            yield statuses.Cause(reason="FieldValueForbidden", message=message, field="spec.tolerations")
            break
    waiting = [gate["name"] for gate in old.get("schedulingGates") or ()]
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in waiting:
            rule = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield fields.forbidden(f"spec.schedulingGates[{index}]", rule)
    if _fixed_part(old) != _fixed_part(new):
        message = f"Forbidden: {_POD_RULE}"
        yield statuses.Cause(reason="FieldValueForbidden", message=message, field="spec")


def _fixed_part(spec: objects.Object) -> objects.Object:
    fixed = {name: value for name, value in spec.items() if name not in _MUTABLE}
    for group in ("containers", "initContainers"):
        fixed[group] = [{**container, "image": ""} for container in spec.get(group) or ()]
    return fixed
