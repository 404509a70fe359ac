"""The Pods of the Kubernetes API in the order in which they are shown: those that wait first, as they are queued.

Each event of a Pod makes one record and its sort key; the order is computed at most once for each picture. Jobs are
counted as Pods change: a picture of 10,000 Pods costs no more than one of ten.
"""

import collections
import contextlib
import math
from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeAlias

from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_core.runtime.kube import list_watch
from carico_core.wire.kubernetes import instants
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import pod_class as pod_classes
from carico_local.jobs import job_labels

PATH = "/api/v1/pods"
# Longer than a healthy API takes to list its Pods.
ANSWER_S = 2.0
# A watch in which nothing happens is renewed within 28 s (`list_watch.FRESH_OPTIONS`).
SILENT_S = 30.0
_Key: TypeAlias = tuple[int, int, float, str]
# The schedulerName and the job of a Pod.
_Job: TypeAlias = tuple[str, str]


class Pods:
    """All Pods, by UID and by job."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        # Whether Pods have been listed; they are shown as last seen while the API is away.
        self.is_listed = False
        # When the API was asked for its Pods; None once it has answered.
        self.asked_at_s: float | None = None
        # UID -> (sort key, Pod).
        self._pods: dict[str, tuple[_Key, pictures.Pod]] = {}
        self._counts: dict[_Job, collections.Counter[pictures.PodState]] = {}
        # When the first Pod of each job was created.
        self._created_s: dict[_Job, float] = {}
        self._rows: tuple[pictures.Pod, ...] = ()
        # For which schedulerNames `_rows` is up to date; None after a change.
        self._rows_of: frozenset[str] | None = None

    def on_event(self, event: list_watch.MirrorEvent) -> None:
        """Take in one event of the mirror of all Pods."""
        self.asked_at_s = None
        if isinstance(event, list_watch.Away):
            self.trouble = f"away ({event.error})"
            return
        self._rows_of = None
        if isinstance(event, list_watch.Listed):
            self.trouble, self.is_listed = None, True
            for held in (self._pods, self._counts, self._created_s):
                held.clear()
            for pod in event.objects:
                self._put(pod)
        elif event.type == "DELETED":
            self._remove(str(event.object["metadata"]["uid"]))
        else:
            self._put(event.object)

    def why_not(self, now_s: float, age_s: float | None) -> str | None:
        """Return what is wrong with the API; one that takes the request and does not answer is frozen, or lacks CPU.

        `age_s`: since the API last sent anything of its Pods; None if it has not yet.
        """
        silent_s = 0.0 if self.asked_at_s is None else now_s - self.asked_at_s
        if self.trouble is not None:
            return self.trouble
        if silent_s >= ANSWER_S:
            return f"no answer for {silent_s:.0f} s"
        if age_s is not None and age_s > SILENT_S:
            return f"no answer for {age_s:.0f} s"
        return None

    def rows(self, scheduler_names: Set[str]) -> tuple[pictures.Pod, ...]:
        """Return the Pods with one of these schedulerNames, in order."""
        wanted = frozenset(scheduler_names)
        if self._rows_of != wanted:
            found = [each for each in self._pods.values() if each[1].scheduler in wanted]
            found.sort(key=lambda each: each[0])
            self._rows = tuple([pod for _, pod in found])
            self._rows_of = wanted
        return self._rows

    def jobs(self, scheduler_names: Set[str]) -> tuple[pictures.Job, ...]:
        """Return the jobs that have Pods with one of these schedulerNames, newest first; Pods without a job last."""
        by_name: dict[str, collections.Counter[pictures.PodState]] = {}
        created_s: dict[str, float] = {}
        for job, counts in self._counts.items():
            scheduler, name = job
            if scheduler in scheduler_names:
                by_name.setdefault(name, collections.Counter()).update(counts)
                created_s[name] = min(created_s.get(name, math.inf), self._created_s[job])
        found = [
            pictures.Job(
                name=name, created_s=created_s[name],
                **{phase: sum(counts[state] for state in states) for phase, states in _PHASES.items()},
            )
            for name, counts in by_name.items()
        ]  # fmt: skip
        found.sort(key=lambda job: (job.name != job_labels.OTHERS, job.created_s, job.name), reverse=True)
        return tuple(found)

    def _put(self, pod: Mapping[str, Any]) -> None:
        found = record_of(pod)
        self._remove(found.uid)
        self._pods[found.uid] = (_key(found), found)
        job = (found.scheduler, found.job)
        self._counts.setdefault(job, collections.Counter())[found.state] += 1
        self._created_s[job] = min(self._created_s.get(job, math.inf), found.created_s)

    def _remove(self, uid: str) -> None:
        held = self._pods.pop(uid, None)
        if held is None:
            return
        pod = held[1]
        job = (pod.scheduler, pod.job)
        self._counts[job][pod.state] -= 1
        if not self._counts[job].total():
            del self._counts[job], self._created_s[job]


# A Pod that is to end runs until it has: one without a node is gone at once.
_PHASES: Mapping[str, tuple[pictures.PodState, ...]] = {
    "pending": (pictures.PodState.WAITING, pictures.PodState.GATED), "starting": (pictures.PodState.STARTING,),
    "running": (pictures.PodState.RUNNING, pictures.PodState.ENDING), "succeeded": (pictures.PodState.SUCCEEDED,),
    "failed": (pictures.PodState.FAILED,),
}  # fmt: skip


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
    phase = status.get("phase")
    if phase in ("Succeeded", "Failed"):
        return pictures.PodState(phase.lower())
    if metadata.get("deletionTimestamp"):
        return pictures.PodState.ENDING
    if phase == "Running":
        return pictures.PodState.RUNNING
    if spec.get("nodeName"):
        return pictures.PodState.STARTING
    return pictures.PodState.GATED if spec.get("schedulingGates") else pictures.PodState.WAITING


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
