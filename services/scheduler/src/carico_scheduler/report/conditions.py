"""The condition PodScheduled=False of Pods that cannot be placed: what autoscalers and `kubectl wait` read.

           capacity or a rule is the cause          nothing is known of the nodes any more
    none ---------------------------------> Unschedulable <----------------> SchedulerError
                                                  |                               |
                                                  +--- bound: the API sets True --+

A condition is written again only when the set of reasons changes, one at a time, at a limited rate at which namespaces
take turns, and never about a Pod that is being bound: the patch carries the Pod's resourceVersion, so that the API
refuses it after a bind. As in kube-scheduler, it is a strategic merge patch of `status.conditions`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire.kubernetes import api_objects, instants
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import explain, namespace_queue, notices, verdicts

# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions, and the reasons of its constants
# PodReasonUnschedulable, which autoscalers look for, and PodReasonSchedulerError, which they ignore.
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
# As for Events: beyond this many, what gives way is due again later.
WAITING_MAX = 1024
# A Pod is reported after so long although some node is still being tried or not known: a load that grows in steps is at
# its size by then, and one node without an agent must not keep a cluster from growing.
OPEN_FOR_S = 60.0
# The reasons of a condition that could not be written: the next ones differ, so that it is due again after a while.
_FAILED = frozenset({"failed"})


class _Due(NamedTuple):
    """A condition to write."""

    reason: str
    text: str
    # As it was noted: the Pod may be taken for a bind before the condition is written.
    waiting: queues.Waiting


class Conditions:
    """Writes the conditions of waiting Pods, the newest text of each."""

    def __init__(
        self, api: api_actions.Api, *, clock: clocks.Clock, pace: tasks.Pace, after_s: float,
        find: Callable[[str], queues.Waiting | None], may_write: Callable[[], bool], on_outcome: Callable[[str], None],
    ) -> None:  # fmt: skip
        """Write about Pods that have waited for at least `after_s`.

        `find` returns a Pod that still waits, by UID; `may_write` is asked right before each patch; `on_outcome` is
        called with the outcome of each patch: "written", or the name of the error.
        """
        self._api = api
        self._clock = clock
        self._pace = pace
        self._after_s = after_s
        self._find = find
        self._may_write = may_write
        self._on_outcome = on_outcome
        self._due = namespace_queue.NamespaceQueue[_Due](WAITING_MAX)

    def note(self, waiting: queues.Waiting, verdict: verdicts.Verdict, text: str, reasons: frozenset[str]) -> bool:
        """Queue the condition of a Pod if a change of it is due; return True if it was."""
        now_s = self._clock.monotonic_s()
        reason = self._reason(waiting, verdict, now_s)
        if reason is None:
            return False
        # The condition states of which generation of the Pod it speaks.
        reasons = reasons | {reason, f"generation {waiting.pod.generation}"}
        said = explain.reasons_in(waiting.pod.unscheduled_message)
        if waiting.pod.unscheduled_reason == reason and said == explain.reasons_in(text):
            notices.inherit(waiting, "condition", now_s, reasons)
        if not notices.is_due(waiting, "condition", now_s, reasons=reasons, again_s=math.inf):
            return False
        lost = self._due.put(waiting.pod.namespace, waiting.pod.uid, _Due(reason, text, waiting))
        if lost is not None:
            self._put_off(lost.waiting)
        return lost is None or lost.waiting is not waiting

    async def write_forever(self) -> None:
        """Write conditions until cancelled."""
        while True:
            await self._due.until_some()
            await self._pace.wait()
            due = self._due.take()
            waiting = self._find(due.waiting.pod.uid)
            if waiting is not None:
                await self._write(waiting, due)
            else:
                # If its bind fails, it waits again.
                self._put_off(due.waiting)

    def _reason(self, waiting: queues.Waiting, verdict: verdicts.Verdict, now_s: float) -> str | None:
        """Return the reason of the condition that the Pod should have; None: leave it as it is."""
        if verdict is verdicts.Verdict.UNKNOWN:
            return SCHEDULER_ERROR if waiting.pod.unscheduled_reason == UNSCHEDULABLE else None
        after_s = self._after_s
        if verdict is verdicts.Verdict.OPEN and waiting.pod.unscheduled_reason != UNSCHEDULABLE:
            after_s = max(after_s, OPEN_FOR_S)
        return UNSCHEDULABLE if now_s - waiting.since_s >= after_s else None

    async def _write(self, waiting: queues.Waiting, due: _Due) -> None:
        pod = waiting.pod
        if not self._may_write():
            self._put_off(waiting)
            return
        condition = {
            "type": api_objects.POD_SCHEDULED, "status": "False", "reason": due.reason, "message": due.text,
            **api_objects.observed(pod),
        }  # fmt: skip
        if not pod.unscheduled_reason:
            # The time of the last change of `status`, not of the reason.
            condition["lastTransitionTime"] = instants.format_time(self._clock.wall_ns())
        try:
            await api_actions.patch_pod_status(
                self._api, namespace=pod.namespace, name=pod.name, uid=pod.uid, resource_version=pod.resource_version,
                status={"conditions": [condition]},
            )  # fmt: skip
        except errors.CaricoError as error:
            self._put_off(waiting)
            self._on_outcome(type(error).__name__)
        else:
            self._on_outcome("written")

    def _put_off(self, waiting: queues.Waiting) -> None:
        """Make a condition that was not written due again after a while."""
        waiting.reported["condition"] = (_FAILED, self._clock.monotonic_s())
