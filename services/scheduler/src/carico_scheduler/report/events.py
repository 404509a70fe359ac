"""Kubernetes Events about Pods, written without delaying binds: queued up to a limit, paced, dropped beyond it."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Protocol

from carico_core.domain import cluster, errors
from carico_core.runtime.process import tasks
from carico_scheduler.report import namespace_queue

WAITING_MAX = 1024
SCHEDULED = "Scheduled"
FAILED = "FailedScheduling"
PREEMPTED = "Preempted"
GIVEN_BACK = "GangIncomplete"
_ACTIONS = {SCHEDULED: "Binding", FAILED: "Scheduling", PREEMPTED: "Preempting", GIVEN_BACK: "Evicting"}


class Recorder(Protocol):
    """The part of the Kubernetes API that writes Events."""

    async def record(self, pod: cluster.Pod, *, reason: str, action: str, note: str, warning: bool = False) -> None:
        """Write an Event. Raises `ApiError` or `ApiUnavailable`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One Event to write."""

    pod: cluster.Pod
    reason: str
    text: str
    is_warning: bool


class Writer:
    """Writes one Event at a time, at a limited rate at which namespaces take turns; what gives way is counted."""

    def __init__(self, recorder: Recorder, *, pace: tasks.Pace, on_drop: Callable[[str], None]) -> None:
        """`on_drop(why)` is called for each Event that is not written."""
        self._recorder = recorder
        self._pace = pace
        self._on_drop = on_drop
        self._notes = namespace_queue.NamespaceQueue[Note](WAITING_MAX)
        self._numbers = itertools.count()
        # Called with each Pod that is evicted for another.
        self.on_preempted: Callable[[cluster.Pod], None] = lambda pod: None

    def scheduled(self, pod: cluster.Pod, text: str) -> None:
        """Queue an Event that a Pod was bound."""
        self._put(Note(pod=pod, reason=SCHEDULED, text=text, is_warning=False))

    def failed(self, pod: cluster.Pod, text: str) -> None:
        """Queue an Event about why a Pod waits."""
        self._put(Note(pod=pod, reason=FAILED, text=text, is_warning=True))

    def preempted(self, pod: cluster.Pod, text: str) -> None:
        """Queue an Event that a Pod is evicted for another."""
        self.on_preempted(pod)
        self._put(Note(pod=pod, reason=PREEMPTED, text=text, is_warning=False))

    def given_back(self, pod: cluster.Pod, text: str) -> None:
        """Queue an Event that a Pod is evicted since its gang stayed incomplete."""
        self._put(Note(pod=pod, reason=GIVEN_BACK, text=text, is_warning=True))

    async def write_forever(self) -> None:
        """Write Events, those of a namespace in the order they were queued, until cancelled."""
        while True:
            await self._notes.until_some()
            await self._pace.wait()
            note = self._notes.take()
            try:
                await self._recorder.record(
                    note.pod, reason=note.reason, action=_ACTIONS[note.reason], note=note.text,
                    warning=note.is_warning,
                )  # fmt: skip
            except errors.CaricoError as error:
                self._on_drop(type(error).__name__)

    def _put(self, note: Note) -> None:
        # While thousands of Pods are bound most Events find no place: it must cost little.
        if self._notes.put(note.pod.namespace, str(next(self._numbers)), note) is not None:
            self._on_drop("queue_full")
