"""Whether a Pod's containers run, according to its status."""

import dataclasses
import enum
from collections.abc import Mapping, Set
from typing import Any

from carico_core.domain import cluster
from carico_core.wire.kubernetes import api_objects, failures
from carico_core.wire.kubernetes import object_fields as fields


class State(enum.StrEnum):
    """The state of a Pod's containers as a whole."""

    # None is running now, but one may later.
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One Pod, reduced to what is needed to count it."""

    uid: str
    # True if it belongs to its node and is no workload.
    is_baseline: bool
    state: State


def parse_run(obj: Mapping[str, Any], baseline_namespaces: Set[str] = frozenset()) -> Run:
    """Return whether the Pod of an API object runs. Raises `ValueError` with the path of the bad field."""
    metadata = fields.mapping(obj, "metadata")
    return Run(
        uid=fields.required(metadata, "uid", "metadata."),
        is_baseline=api_objects.belongs_to_node(obj, baseline_namespaces),
        state=_state(fields.mapping(obj, "status")),
    )


def _state(status: Mapping[str, Any]) -> State:
    phase = fields.optional(status, "phase", "status.")
    if phase in cluster.TERMINAL_PHASES:
        return State.ENDED
    # Init containers, among them sidecars, are load of the Pod as well.
    reported = [container for _, container in failures.container_statuses(status)]
    if any(fields.mapping(container, "state").get("running") for container in reported):
        return State.RUNNING
    if not reported and phase == "Running":
        return State.RUNNING
    return State.WAITING
