"""What the API's object of a Pod says that a node process before this one had written there."""

from collections.abc import Mapping
from typing import Any

from carico_core.wire.kubernetes import api_objects

Object = Mapping[str, Any]


def was_running(pod: Object, container: str) -> int | None:
    """How often a container had been restarted that the API has as running; None where it has not."""
    told = pod.get("status") or {}
    for entry in (*(told.get("containerStatuses") or ()), *(told.get("initContainerStatuses") or ())):
        if entry.get("name") == container and (entry.get("state") or {}).get("running"):
            return int(entry.get("restartCount") or 0)
    return None


def start_ns(pod: Object) -> int | None:
    """When the Pod was taken."""
    text = (pod.get("status") or {}).get("startTime")
    return None if text is None else round(api_objects.parse_instant(text) * 1e9)


def conditions(pod: Object) -> list[Any]:
    """The Pod's conditions, whoever wrote them."""
    return list((pod.get("status") or {}).get("conditions") or ())
