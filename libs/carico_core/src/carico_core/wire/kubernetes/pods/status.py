"""Whether a Pod's containers run, or have failed, according to its status."""

import dataclasses
import enum
from collections.abc import Mapping, Set
from typing import Any

from carico_core.domain import cluster
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import containers, ownership


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
    """Return whether a Pod has failed.

    It has, too, while a container that fails again and again waits for its next start, and if one has run out of
    memory, now or before its last restart.

    is_leaving: whether it is being deleted: a program that is told to end has failed for Kubernetes where it does not
    end with 0. Raises `ValueError` with the path of the bad field.
    """
    if not is_leaving and fields.optional(status, "phase", "status.") == "Failed":
        return True
    return any(_fails(container) for container in containers.reported(status))


def _fails(container: Mapping[str, Any]) -> bool:
    ended, before = (containers.state_of(container, state, "terminated") for state in ("state", "lastState"))
    if any(fields.optional(end, "reason") == "OOMKilled" for end in (ended, before)):
        return True
    # A program that ended well is started again and again, too, where the Pod says so.
    waits = fields.optional(containers.state_of(container, "state", "waiting"), "reason")
    return waits == containers.CRASHING and bool(before.get("exitCode"))


def _state(status: Mapping[str, Any]) -> RunState:
    phase = fields.optional(status, "phase", "status.")
    if phase in cluster.TERMINAL_PHASES:
        return RunState.ENDED
    # Init containers, among them sidecars, are load of the Pod as well.
    reported = list(containers.reported(status))
    if any(containers.state_of(container, "state", "running") for container in reported):
        return RunState.RUNNING
    if not reported and phase == "Running":
        return RunState.RUNNING
    return RunState.WAITING
