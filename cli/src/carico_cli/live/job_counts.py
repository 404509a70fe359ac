"""Pods of the Kubernetes API, counted by job as they change: a picture of 10,000 Pods costs no more than one of ten."""

import collections
from collections.abc import Mapping, Set
from typing import Any, TypeAlias

from carico_cli.live import picture as pictures
from carico_core.runtime.kube import list_watch
from carico_local.jobs import job_labels

PODS_PATH = "/api/v1/pods"
# The schedulerName and the job of a Pod.
_Job: TypeAlias = tuple[str, str]
# Longer than a healthy API takes to list its Pods.
ANSWER_S = 2.0
# A watch in which nothing happens is renewed within 28 s (`list_watch.FRESH_OPTIONS`).
SILENT_S = 30.0


class JobCounts:
    """All Pods, counted by job and phase."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        # When the API was asked for its Pods; None once it has answered.
        self.asked_at_s: float | None = None
        # UID -> (job, phase).
        self._pods: dict[str, tuple[_Job, str]] = {}
        self._counts: dict[_Job, collections.Counter[str]] = {}
        self._created: dict[_Job, str] = {}

    def on_event(self, event: list_watch.MirrorEvent) -> None:
        """Take in one event of the mirror of all Pods."""
        self.asked_at_s = None
        if isinstance(event, list_watch.Away):
            self.trouble = f"away ({event.error}); jobs as last seen"
        elif isinstance(event, list_watch.Listed):
            self.trouble = None
            self._pods.clear()
            self._counts.clear()
            self._created.clear()
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
            return f"no answer for {silent_s:.0f} s; jobs are not shown"
        if age_s is not None and age_s > SILENT_S:
            return f"no answer for {age_s:.0f} s; jobs as last seen"
        return None

    def table(self, scheduler_names: Set[str]) -> tuple[pictures.Job, ...]:
        """Return the jobs that have Pods with one of these schedulerNames, newest first; Pods without a job last."""
        by_name: dict[str, collections.Counter[str]] = {}
        created: dict[str, str] = {}
        for job, counts in self._counts.items():
            scheduler, name = job
            if scheduler in scheduler_names:
                by_name.setdefault(name, collections.Counter()).update(counts)
                created[name] = min(created.get(name, self._created[job]), self._created[job])
        found = [
            pictures.Job(name=name, created=created[name], **{phase: counts[phase] for phase in _PHASES})
            for name, counts in by_name.items()
        ]
        found.sort(key=lambda job: (job.name != job_labels.OTHERS, job.created, job.name), reverse=True)
        return tuple(found)

    def _put(self, pod: Mapping[str, Any]) -> None:
        metadata, spec = pod["metadata"], pod.get("spec", {})
        uid, job = str(metadata["uid"]), (str(spec.get("schedulerName", "")), job_labels.job_of(metadata))
        self._remove(uid)
        phase = phase_of(spec, pod.get("status", {}))
        self._pods[uid] = (job, phase)
        self._counts.setdefault(job, collections.Counter())[phase] += 1
        created = str(metadata.get("creationTimestamp", ""))
        self._created[job] = min(self._created.get(job, created), created)

    def _remove(self, uid: str) -> None:
        job, phase = self._pods.pop(uid, (None, ""))
        if job is None:
            return
        self._counts[job][phase] -= 1
        if not self._counts[job].total():
            del self._counts[job], self._created[job]


# The phases of Kubernetes, and "starting": bound to a node and not running yet.
_PHASES = ("pending", "starting", "running", "succeeded", "failed")


def phase_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return the phase of a Pod; "starting" where it is bound to a node and not running yet."""
    phase = str(status.get("phase", "Pending"))
    if phase in ("Running", "Succeeded", "Failed"):
        return phase.lower()
    return "starting" if spec.get("nodeName") else "pending"
