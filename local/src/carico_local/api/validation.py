"""The rules that an object must keep, each breach a cause of a 422.

Sources: k8s.io/kubernetes/pkg/apis/core/validation/validation.go and k8s.io/apimachinery/pkg/util/validation. Only the
rules that protect the parts of a CARICO cluster from each other are here; what only a kubelet interprets passes.
"""

import re
from collections.abc import Iterator
from typing import Any

from carico_local.api import objects, resources, statuses

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character"
)
_ANNOTATIONS_BYTES = 262_144
_MAX_GRACE_S = 2**31

Causes = Iterator[statuses.Cause]


def check(resource: resources.Resource, data: objects.Object) -> None:
    """Nothing; raises RequestFailed (422) with every rule that a new or changed object breaks."""
    _refuse(resource, data, [*_metadata(resource, data["metadata"]), *_content(resource, data)])


def check_update(resource: resources.Resource, old: objects.Object, new: objects.Object) -> None:
    """Nothing; raises RequestFailed (422) for a change of what cannot be changed."""
    causes = list(_immutable_metadata(old["metadata"], new["metadata"]))
    if resource is resources.PODS:
        causes += _immutable_pod(old["spec"], new["spec"])
    _refuse(resource, new, causes)


def _refuse(resource: resources.Resource, data: objects.Object, causes: list[statuses.Cause]) -> None:
    if causes:
        raise statuses.invalid(resource.kind, data["metadata"].get("name", ""), causes, group=resource.group)


def _required(field: str, detail: str = "") -> statuses.Cause:
    message = f"Required value: {detail}" if detail else "Required value"
    return statuses.Cause(reason="FieldValueRequired", message=message, field=field)


def _wrong(field: str, got: object, detail: str) -> statuses.Cause:
    shown = f'"{got}"' if isinstance(got, str) else str(got)
    return statuses.Cause(reason="FieldValueInvalid", message=f"Invalid value: {shown}: {detail}", field=field)


def _not_supported(field: str, got: object, allowed: tuple[str, ...]) -> statuses.Cause:
    listed = ", ".join(f'"{value}"' for value in allowed)
    message = f'Unsupported value: "{got}": supported values: {listed}'
    return statuses.Cause(reason="FieldValueNotSupported", message=message, field=field)


def _content(resource: resources.Resource, data: objects.Object) -> Causes:
    if resource is resources.PODS:
        yield from _pod(data["spec"])
    elif resource is resources.NODES:
        for index, taint in enumerate((data.get("spec") or {}).get("taints") or ()):
            yield from _taint(taint, f"spec.taints[{index}]")
    elif resource is resources.LEASES:
        yield from _lease(data.get("spec") or {})
    elif resource.storage == "events":
        yield from _event(data)


def _metadata(resource: resources.Resource, metadata: objects.Object) -> Causes:
    name = metadata.get("name", "")
    rule, pattern, limit = _SUBDOMAIN_RULE, _SUBDOMAIN, 253
    if resource is resources.NAMESPACES:
        rule, pattern, limit = _LABEL_RULE, _LABEL, 63
    if not name:
        yield _required("metadata.name", "name or generateName is required")
    elif len(name) > limit:
        yield _wrong("metadata.name", name, f"must be no more than {limit} characters")
    elif not pattern.fullmatch(name):
        yield _wrong("metadata.name", name, rule)
    for key, value in (metadata.get("labels") or {}).items():
        if not _qualified(key):
            yield _wrong("metadata.labels", key, "name part must consist of alphanumeric characters, '-', '_' or '.'")
        if len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            yield _wrong(
                "metadata.labels",
                value,
                "a valid label must be an empty string or at most 63 characters of alphanumerics, '-', '_' or '.'",
            )
    yield from _annotations(metadata.get("annotations") or {})


def _annotations(annotations: dict[str, str]) -> Causes:
    for key in annotations:
        if not _qualified(key.lower()):
            yield _wrong(
                "metadata.annotations", key, "name part must consist of alphanumeric characters, '-', '_' or '.'"
            )
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_BYTES:
        message = f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes"
        yield statuses.Cause(reason="FieldValueTooLong", message=message, field="metadata.annotations")


def _qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return (
        0 < len(name) <= 63
        and _QUALIFIED_NAME.fullmatch(name) is not None
        and (not slash or (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix) is not None))
    )


def _pod(spec: objects.Object) -> Causes:
    if not spec.get("containers"):
        yield _required("spec.containers")
    names: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _container(container, f"spec.{group}[{index}]", names)
    yield from _choice(spec, "spec.restartPolicy", ("Always", "OnFailure", "Never"))
    yield from _choice(spec, "spec.dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"))
    if spec.get("terminationGracePeriodSeconds", 0) < 0 or spec.get("terminationGracePeriodSeconds", 0) > _MAX_GRACE_S:
        yield _wrong(
            "spec.terminationGracePeriodSeconds",
            spec["terminationGracePeriodSeconds"],
            "must be greater than or equal to 0",
        )
    for field in ("nodeName", "schedulerName", "serviceAccountName"):
        if spec.get(field) and not _SUBDOMAIN.fullmatch(spec[field]):
            yield _wrong(f"spec.{field}", spec[field], _SUBDOMAIN_RULE)
    if spec.get("activeDeadlineSeconds", 1) < 1:
        yield _wrong(
            "spec.activeDeadlineSeconds", spec["activeDeadlineSeconds"], "must be between 1 and 2147483647, inclusive"
        )
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"spec.tolerations[{index}]")
    for key, value in (spec.get("nodeSelector") or {}).items():
        if not _qualified(key) or not _LABEL_VALUE.fullmatch(value):
            yield _wrong("spec.nodeSelector", f"{key}={value}", "must be a label key and a label value")


def _choice(spec: objects.Object, path: str, allowed: tuple[str, ...]) -> Causes:
    value = spec.get(path.rpartition(".")[2])
    if value is not None and value not in allowed:
        yield _not_supported(path, value, allowed)


def _container(container: objects.Object, path: str, names: set[str]) -> Causes:
    name = container.get("name", "")
    if not name:
        yield _required(f"{path}.name")
    elif len(name) > 63 or not _LABEL.fullmatch(name):
        yield _wrong(f"{path}.name", name, _LABEL_RULE)
    elif name in names:
        message = f'Duplicate value: "{name}"'
        yield statuses.Cause(reason="FieldValueDuplicate", message=message, field=f"{path}.name")
    names.add(name)
    if not container.get("image", "").strip():
        yield _required(f"{path}.image")
    yield from _choice(container, f"{path}.imagePullPolicy", ("Always", "IfNotPresent", "Never"))
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield _required(f"{path}.env[{index}].name")
    for index, port in enumerate(container.get("ports") or ()):
        if not 0 < port.get("containerPort", 0) < 65536:
            yield _wrong(
                f"{path}.ports[{index}].containerPort",
                port.get("containerPort", 0),
                "must be between 1 and 65535, inclusive",
            )
    yield from _amounts(container.get("resources") or {}, f"{path}.resources")


def _amounts(amounts: dict[str, Any], path: str) -> Causes:
    for side in ("requests", "limits"):
        for name, amount in (amounts.get(side) or {}).items():
            if amount.startswith("-"):
                yield _wrong(f"{path}.{side}[{name}]", amount, "must be greater than or equal to 0")


def _toleration(toleration: objects.Object, path: str) -> Causes:
    if toleration.get("operator", "Equal") not in ("Exists", "Equal", ""):
        yield _not_supported(f"{path}.operator", toleration["operator"], ("Equal", "Exists"))
    if toleration.get("operator") == "Exists" and toleration.get("value"):
        yield _wrong(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
    if not toleration.get("key") and toleration.get("operator") != "Exists":
        yield _wrong(f"{path}.operator", toleration.get("operator", ""), "operator must be Exists when `key` is empty")


def _taint(taint: objects.Object, path: str) -> Causes:
    if not taint.get("key") or not _qualified(taint["key"]):
        yield _wrong(f"{path}.key", taint.get("key", ""), "must be a label key")
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    if taint.get("effect") not in effects:
        yield _not_supported(f"{path}.effect", taint.get("effect", ""), effects)


def _lease(spec: objects.Object) -> Causes:
    for field in ("leaseDurationSeconds", "leaseTransitions"):
        least = 1 if field == "leaseDurationSeconds" else 0
        if spec.get(field, least) < least:
            yield _wrong(f"spec.{field}", spec[field], f"must be greater than or equal to {least}")


def _event(data: objects.Object) -> Causes:
    about = data.get("involvedObject") or {}
    namespace = data["metadata"].get("namespace")
    # An event about a cluster-wide object lives in the namespace default.
    if about.get("namespace", "") != namespace and (
        about.get("namespace") or namespace not in ("default", "kube-system")
    ):
        yield _wrong("involvedObject.namespace", about.get("namespace", ""), "does not match event.namespace")


def _immutable_metadata(old: objects.Object, new: objects.Object) -> Causes:
    for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if old.get(field) != new.get(field):
            yield _wrong(f"metadata.{field}", new.get(field, ""), "field is immutable")
    added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added and old.get("deletionTimestamp"):
        rule = "no new finalizers can be added if the object is being deleted"
        message = f"Forbidden: {rule}, found new finalizers {sorted(added)}"
        yield statuses.Cause(reason="FieldValueForbidden", message=message, field="metadata.finalizers")


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
    if _fixed_part(old) != _fixed_part(new):
        message = f"Forbidden: {_POD_RULE}"
        yield statuses.Cause(reason="FieldValueForbidden", message=message, field="spec")


def _fixed_part(spec: objects.Object) -> objects.Object:
    fixed = {name: value for name, value in spec.items() if name not in ("activeDeadlineSeconds", "tolerations")}
    for group in ("containers", "initContainers"):
        fixed[group] = [{**container, "image": ""} for container in spec.get(group) or ()]
    return fixed
