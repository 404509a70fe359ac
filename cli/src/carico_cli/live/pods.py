"""The Pods of the Kubernetes API in the order in which they are shown: those that wait first, as they are queued.

Each event of a Pod makes one record and its sort key; the order is computed at most once for each picture.
"""

import contextlib
import math
from collections.abc import Iterable, Mapping, Set
from typing import Any

from carico_cli.live import job_counts
from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_core.runtime.kube import list_watch
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import pod_class as pod_classes
from carico_local.jobs import job_labels

_Key = tuple[int, int, float, str]


class PodTable:
    """All Pods, by UID."""

    def __init__(self) -> None:
        # UID -> (sort key, Pod).
        self._pods: dict[str, tuple[_Key, pictures.Pod]] = {}
        self._rows: tuple[pictures.Pod, ...] = ()
        # For which schedulerNames `_rows` is up to date; None after a change.
        self._rows_of: frozenset[str] | None = None

    def on_event(self, event: list_watch.MirrorEvent) -> None:
        """Take in one event of the mirror of all Pods."""
        if isinstance(event, list_watch.Away):
            return
        self._rows_of = None
        if isinstance(event, list_watch.Listed):
            self._pods.clear()
            for pod in event.objects:
                self._put(pod)
        elif event.type == "DELETED":
            self._pods.pop(str(event.object["metadata"]["uid"]), None)
        else:
            self._put(event.object)

    def rows(self, scheduler_names: Set[str]) -> tuple[pictures.Pod, ...]:
        """Return the Pods with one of these schedulerNames, in order."""
        wanted = frozenset(scheduler_names)
        if self._rows_of != wanted:
            found = [each for each in self._pods.values() if each[1].scheduler in wanted]
            found.sort(key=lambda each: each[0])
            self._rows = tuple([pod for _, pod in found])
            self._rows_of = wanted
        return self._rows

    def _put(self, pod: Mapping[str, Any]) -> None:
        found = record_of(pod)
        self._pods[found.uid] = (_key(found), found)


def record_of(pod: Mapping[str, Any]) -> pictures.Pod:
    """Return an API object's record. A field that is missing or malformed is unknown; the Pod is shown all the same."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    state = _state(metadata, spec, status)
    created_s = _first(-math.inf, (metadata.get("creationTimestamp"),))
    pod_class = ""
    with contextlib.suppress(ValueError):
        pod_class = pod_classes.parse_class(pod)
    priority = spec.get("priority")
    return pictures.Pod(
        uid=str(metadata["uid"]),
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata["name"]),
        scheduler=str(spec.get("schedulerName") or ""),
        job=job_labels.job_of(metadata),
        state=state,
        node=str(spec["nodeName"]) if spec.get("nodeName") else None,
        created_s=created_s,
        since_s=_since_s(state, status, created_s),
        priority=priority if isinstance(priority, int) else 0,
        pod_class=pod_class,
        why=_why(state, status),
    )


def _state(metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> pictures.PodState:
    phase = job_counts.phase_of(spec, status)
    if phase in ("succeeded", "failed"):
        return pictures.PodState(phase)
    if metadata.get("deletionTimestamp"):
        return pictures.PodState.ENDING
    if phase == "pending":
        return pictures.PodState.GATED if spec.get("schedulingGates") else pictures.PodState.WAITING
    return pictures.PodState(phase)


def _key(pod: pictures.Pod) -> _Key:
    """Return the sort key: by state, then as the scheduler's queue has it: highest priority first, then oldest."""
    is_queued = pod.state is pictures.PodState.WAITING
    return (_ORDER[pod.state], -pod.priority if is_queued else 0, pod.created_s, pod.uid)


_ORDER = {state: place for place, state in enumerate(pictures.PodState)}


def _since_s(state: pictures.PodState, status: Mapping[str, Any], created_s: float) -> float:
    """Return since when it is in its state, as far as the API shows that; otherwise when it was created."""
    if state is pictures.PodState.STARTING:
        return _first(created_s, [fields.condition(status, "PodScheduled").get("lastTransitionTime")])
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    if state is pictures.PodState.RUNNING:
        return _first(
            created_s, [*((each.get("running") or {}).get("startedAt") for each in states), status.get("startTime")]
        )
    if state in (pictures.PodState.SUCCEEDED, pictures.PodState.FAILED):
        return _first(created_s, ((each.get("terminated") or {}).get("finishedAt") for each in states))
    return created_s


def _first(otherwise: float, times: Iterable[object]) -> float:
    found = (instants.find_instant(each) for each in times)
    return next((at_s for at_s in found if at_s is not None), otherwise)


def _why(state: pictures.PodState, status: Mapping[str, Any]) -> str:
    """Return what the Pod's status says about why it does not run, in one line."""
    if state is pictures.PodState.WAITING:
        scheduled = fields.condition(status, "PodScheduled")
        if scheduled.get("status") == "False":
            return formats.one_line(scheduled.get("message") or scheduled.get("reason"))
    if state is pictures.PodState.FAILED and status.get("reason"):
        return formats.one_line(f"{status['reason']}: {status.get('message') or ''}".removesuffix(": "))
    # A container of a running Pod waits where it has ended and is to start again.
    waiting = (pictures.PodState.STARTING, pictures.PodState.RUNNING)
    kind = "terminated" if state is pictures.PodState.FAILED else "waiting" if state in waiting else None
    if kind is None:
        return ""
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        said = (each.get("state") or {}).get(kind) or {}
        if said.get("exitCode") == 0:
            continue
        if said.get("reason"):
            return formats.one_line(f"{said['reason']}: {said.get('message') or ''}".removesuffix(": "))
    return ""
