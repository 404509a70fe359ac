"""When a waiting Pod is reported: no more often than needed.

A change is reported sooner than a repetition. Events are repeated because the API deletes old ones. No Event is written
about a new Pod: a short wait for room is normal, and a failed bind is soon tried again.
"""

import math
from typing import Literal, Protocol, TypeAlias

from carico_core.domain import cluster
from carico_scheduler.pods import queue as queues

# A Pod whose reasons alternate is reported at most this often.
CHANGE_EVERY_S = 10.0
EVENT_EVERY_S = 60.0
# Why the Pod fits nowhere: as a decision record, an Event, and a condition of the Pod; failed binds, as an Event.
Subject: TypeAlias = Literal["record", "room", "condition", "bind"]
# The reason of a Pod for which others were evicted in vain: the holder of the Lease alone evicts.
PREEMPTION = "preemption"
_NEVER: tuple[frozenset[str], float] = (frozenset(), -math.inf)


class Sink(Protocol):
    """Where Events go."""

    def failed(self, pod: cluster.Pod, text: str) -> None:
        """Write an Event about why a Pod waits."""


class Notices:
    """Events about waiting Pods."""

    def __init__(self, events: Sink, *, after_s: float) -> None:
        """No Event is written about a Pod that has waited for less than `after_s`."""
        self._events = events
        self._after_s = after_s

    def notify(
        self, waiting: queues.Waiting, subject: Subject, text: str, now_s: float, reasons: frozenset[str] = frozenset()
    ) -> bool:
        """Write an Event if one is due; return True if it was."""
        is_young, late_s = now_s - waiting.since_s < self._after_s, waiting.late_s
        if subject == "room" and subject not in waiting.reported and late_s is not None and late_s >= self._after_s:
            # Who decided on it until then has written the Event of that minute; the first one began when it was due.
            minutes = (late_s - self._after_s) // EVENT_EVERY_S
            waiting.reported[subject] = (reasons, waiting.since_s + self._after_s + minutes * EVENT_EVERY_S)
        if is_young or not is_due(waiting, subject, now_s, reasons=reasons, again_s=EVENT_EVERY_S):
            return False
        self._events.failed(waiting.pod, text)
        return True


def is_due(waiting: queues.Waiting, subject: Subject, now_s: float, *, reasons: frozenset[str], again_s: float) -> bool:
    """Return True if a report is due now, and note it as done; monotonic seconds.

    Unchanged reasons are reported every `again_s`, changed ones at most every CHANGE_EVERY_S.
    """
    before, reported_s = waiting.reported.get(subject, _NEVER)
    if now_s - reported_s < (again_s if reasons == before else CHANGE_EVERY_S):
        return False
    waiting.reported[subject] = (reasons, now_s)
    return True


def inherit(waiting: queues.Waiting, subject: Subject, now_s: float, reasons: frozenset[str]) -> None:
    """Note as reported what another scheduler has reported about a Pod that came from it, for the same reasons.

    With shared work, Pods that fit nowhere go to the holder of the Lease and back, twice a minute.
    """
    if waiting.late_s is not None:
        waiting.reported.setdefault(subject, (reasons - {PREEMPTION}, now_s))
