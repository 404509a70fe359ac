"""Events in two forms, core v1 and events.k8s.io/v1, and their rules: few for the core form, more for the other.

Source: k8s.io/kubernetes/pkg/apis/events/v1/conversion.go, pkg/apis/core/validation/events.go.
"""

from typing import Any

import orjson

from carico_local.api.model import objects, resources, statuses
from carico_local.api.rules import fields

_NOTE_MOST = 1024
_NAME_MOST = 128
# grouped name -> core name, where the two differ.
_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES = {core: grouped for grouped, core in _NAMES.items()}


def every(data: objects.Object) -> fields.Causes:
    """Yield the rules that an Event in its core form violates."""
    about = data.get("involvedObject") or {}
    namespace = data["metadata"].get("namespace")
    # An Event about a cluster-wide object is in the namespace default.
    if about.get("namespace", "") != namespace and (
        about.get("namespace") or namespace not in ("default", "kube-system")
    ):
        yield fields.wrong("involvedObject.namespace", about.get("namespace", ""), "does not match event.namespace")


def grouped(data: objects.Object) -> fields.Causes:
    """Yield the further rules that an Event of events.k8s.io violates, given in its core form."""
    if not data.get("eventTime"):
        yield fields.required("eventTime")
    for field, name in (
        ("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance"),
        ("action", "action"), ("reason", "reason"),
    ):  # fmt: skip
        if not data.get(field):
            yield fields.required(name)
        elif len(data[field]) > _NAME_MOST and field != "reportingComponent":
            yield fields.wrong(name, "", f"can have at most {_NAME_MOST} characters")
    if len(data.get("message") or "") > _NOTE_MOST:
        yield fields.wrong("message", "", f"can have at most {_NOTE_MOST} characters")
    if data.get("type") not in ("Normal", "Warning"):
        yield fields.wrong("type", "", f"has invalid value: {data.get('type', '')}")


def to_core(data: objects.Object) -> objects.Object:
    """Convert a grouped Event to core; raise `RequestFailed` (422) for a new one with required fields missing."""
    core: dict[str, Any] = {_NAMES.get(name, name): value for name, value in data.items()}
    if "apiVersion" in core:
        core["apiVersion"] = "v1"
    metadata = core.get("metadata") or {}
    # Only stored Events have a UID: these rules do not apply to changes of a core Event through this group.
    broken = [] if metadata.get("uid") else list(grouped(core))
    if broken:
        raise statuses.invalid("Event", metadata.get("name", ""), broken)
    return core


def from_core(data: objects.Object) -> objects.Object:
    """Convert a core Event to events.k8s.io."""
    return {_CORE_NAMES.get(name, name): value for name, value in data.items()}


def encode(resource: resources.Resource, stored: objects.Stored) -> bytes:
    """Encode a single grouped Event, with its kind."""
    return orjson.dumps({"kind": resource.kind, "apiVersion": resource.api_version, **from_core(stored.data)})
