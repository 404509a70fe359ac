"""Whether a Pod's containers run, or have failed, according to its status."""

import dataclasses
import enum
from collections.abc import Mapping, Set
from typing import Any

from carico_core.domain import cluster
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import ownership


class RunState(enum.StrEnum):
    """The state of a Pod's containers as a whole."""

    # None is running now, but one may later.
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodRun:
    """One Pod, reduced to what is needed to count it."""

    uid: str
    # True if it belongs to its node and is no workload.
    is_baseline: bool
    state: RunState


def parse_run(obj: Mapping[str, Any], baseline_namespaces: Set[str] = frozenset()) -> PodRun:
    """Return whether the Pod of an API object runs. Raises `ValueError` with the path of the bad field."""
    metadata = fields.mapping(obj, "metadata")
    return PodRun(
        uid=fields.required(metadata, "uid", "metadata."),
        is_baseline=ownership.belongs_to_node(obj, baseline_namespaces),
        state=_state(fields.mapping(obj, "status")),
    )


def has_failed(status: Mapping[str, Any]) -> bool:
    """Return whether a Pod has failed, or a container of it ran out of memory, now or before its last restart.

    Raises `ValueError` with the path of the bad field.
    """
    if fields.optional(status, "phase", "status.") == "Failed":
        return True
    if not status.get("containerStatuses") and not status.get("initContainerStatuses"):
        return False
    ends = [
        fields.mapping(fields.mapping(container, state, path), "terminated", path)
        for path, container in _container_statuses(status)
        for state in ("state", "lastState")
    ]
    return any(fields.optional(end, "reason") == "OOMKilled" for end in ends)


def _state(status: Mapping[str, Any]) -> RunState:
    phase = fields.optional(status, "phase", "status.")
    if phase in cluster.TERMINAL_PHASES:
        return RunState.ENDED
    # Init containers, among them sidecars, are load of the Pod as well.
    reported = [container for _, container in _container_statuses(status)]
    if any(fields.mapping(container, "state").get("running") for container in reported):
        return RunState.RUNNING
    if not reported and phase == "Running":
        return RunState.RUNNING
    return RunState.WAITING


def _container_statuses(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the path and status of each container, init containers included. Raises `ValueError`."""
    return [
        (f"status.{field}.", container)
        for field in ("initContainerStatuses", "containerStatuses")
        for container in fields.objects(status, field, "status.")
    ]
