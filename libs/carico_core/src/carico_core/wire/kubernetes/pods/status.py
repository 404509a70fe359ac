"""Whether a Pod's containers run, or have failed, according to its status."""

import dataclasses
import enum
from collections.abc import Mapping, Set
from typing import Any

from carico_core.domain import amounts, cluster
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import ownership

# So much is kept of why a container waits: runtimes quote whole commands, and who may write a status, anything.
STUCK_CHARS = 300
_STATUSES = ("initContainerStatuses", "containerStatuses")


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


def has_failed(status: Mapping[str, Any], *, is_leaving: bool) -> bool:
    """Return whether a Pod has failed, or a container of it ran out of memory, now or before its last restart.

    is_leaving: whether it is being deleted: a program that is told to end has failed for Kubernetes where it does not
    end with 0. Raises `ValueError` with the path of the bad field.
    """
    if not is_leaving and fields.optional(status, "phase", "status.") == "Failed":
        return True
    if not status.get("containerStatuses") and not status.get("initContainerStatuses"):
        return False
    ends = [
        fields.mapping(fields.mapping(container, state, path), "terminated", path)
        for path, container in _container_statuses(status)
        for state in ("state", "lastState")
    ]
    return any(fields.optional(end, "reason") == "OOMKilled" for end in ends)


def stuck_of(status: Mapping[str, Any]) -> str:
    """Return why the first container that waits does not run, in one line; empty if none waits.

    Raises `ValueError` with the path of the bad field.

    >>> waits = {"reason": "CreateContainerConfigError", "message": 'configmap "nope" not found'}
    >>> stuck_of({"containerStatuses": [{"name": "web", "state": {"waiting": waits}}]})
    'container web waits: CreateContainerConfigError: configmap "nope" not found'
    """
    for field in _STATUSES if status.get("containerStatuses") or status.get("initContainerStatuses") else ():
        for container in fields.objects(status, field, "status."):
            # Most are ready: they cost no more than this.
            waits = None if container.get("ready") is True else _mapping(container, "state", "waiting")
            if waits:
                return " ".join(_stuck(container, waits).split())[:STUCK_CHARS]
    return ""


def _stuck(container: Mapping[str, Any], waits: Mapping[str, Any]) -> str:
    because = ": ".join(filter(None, (fields.optional(waits, key) for key in ("reason", "message"))))
    who, restarts = f"container {fields.optional(container, 'name')}", fields.integer(container, "restartCount", "")
    ended = _mapping(container, "lastState", "terminated")
    if not restarts or not ended:
        return f"{who} waits: {because}" if because else f"{who} waits"
    how = f"ended with exit code {fields.integer(ended, 'exitCode', '')}, and was started again"
    return f"{who} {how} {amounts.plural(restarts, 'time')}" + (f"; {because}" if because else "")


def _mapping(container: Mapping[str, Any], state: str, kind: str) -> Mapping[str, Any]:
    return fields.mapping(fields.mapping(container, state), kind, f"{state}.")


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
        (f"status.{field}.", container) for field in _STATUSES for container in fields.objects(status, field, "status.")
    ]
