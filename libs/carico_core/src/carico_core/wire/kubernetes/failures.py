"""Whether a Pod has failed, according to its status."""

from collections.abc import Mapping
from typing import Any

from carico_core.wire.kubernetes import object_fields as fields


def has_failed(status: Mapping[str, Any]) -> bool:
    """Return whether a Pod has failed, or a container of it ran out of memory, now or before its last restart.

    Raises `ValueError` with the path of the bad field.
    """
    if fields.optional(status, "phase", "status.") == "Failed":
        return True
    ends = [
        fields.mapping(fields.mapping(container, state, path), "terminated", path)
        for path, container in container_statuses(status)
        for state in ("state", "lastState")
    ]
    return any(fields.optional(end, "reason") == "OOMKilled" for end in ends)


def container_statuses(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the path and status of each container, init containers included. Raises `ValueError`."""
    return [
        (f"status.{field}.", container)
        for field in ("initContainerStatuses", "containerStatuses")
        for container in fields.objects(status, field, "status.")
    ]
