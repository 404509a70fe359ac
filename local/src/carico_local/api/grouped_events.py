"""Events of events.k8s.io/v1, which are the core Events under other field names.

Source: k8s.io/kubernetes/pkg/apis/events/v1/conversion.go.
"""

from typing import Any

import orjson

from carico_local.api import event_rules, objects, resources, statuses

# grouped name -> core name; what is called the same in both is not listed.
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


def to_core(data: objects.Object) -> objects.Object:
    """The core Event of a grouped one; raises RequestFailed (422) for a new one that does not say all it must."""
    core: dict[str, Any] = {_NAMES.get(name, name): value for name, value in data.items()}
    if "apiVersion" in core:
        core["apiVersion"] = "v1"
    metadata = core.get("metadata") or {}
    # Only what is stored has a UID; changes of a core Event by this name are not held to these rules.
    broken = [] if metadata.get("uid") else list(event_rules.grouped(core))
    if broken:
        raise statuses.invalid("Event", metadata.get("name", ""), broken)
    return core


def from_core(data: objects.Object) -> objects.Object:
    """The grouped Event of a core one."""
    return {_CORE_NAMES.get(name, name): value for name, value in data.items()}


def encode(resource: resources.Resource, stored: objects.Stored) -> bytes:
    """The bytes of a single grouped Event, with its kind."""
    return orjson.dumps({"kind": resource.kind, "apiVersion": resource.api_version, **from_core(stored.data)})
