"""When a Pod that waits is reported: no more often than needed.

What has changed is said sooner than what stays as it was. An Event is repeated, as the API forgets it, and is not about
a Pod that has only just come: waiting for room is how CARICO works, and a bind that failed is tried again at once.
"""

import math
from typing import Literal, Protocol, TypeAlias

from carico_core.domain import cluster
from carico_scheduler.pods import queue as queues

# A Pod whose reasons alternate is reported this often at most.
CHANGE_EVERY_S = 10.0
EVENT_EVERY_S = 60.0
# Why the Pod fits nowhere, as a record; the same as an Event; binds that fail, as an Event.
Subject: TypeAlias = Literal["record", "room", "bind"]
_NEVER: tuple[frozenset[str], float] = (frozenset(), -math.inf)


class Sink(Protocol):
    """Where Events go."""

    def failed(self, pod: cluster.Pod, text: str) -> None:
        """Say why a Pod waits."""


class Notices:
    """Events about Pods that wait."""

    def __init__(self, events: Sink, *, after_s: float) -> None:
        """Set up notices; no Event is written about a Pod that has waited for less than `after_s`."""
        self._events = events
        self._after_s = after_s

    def tell(
        self, waiting: queues.Waiting, subject: Subject, text: str, now_s: float, reasons: frozenset[str] = frozenset()
    ) -> bool:
        """Return True if an Event was due, and is on its way."""
        is_young = now_s - waiting.since_s < self._after_s
        if is_young or not is_due(waiting, subject, now_s, reasons=reasons, again_s=EVENT_EVERY_S):
            return False
        self._events.failed(waiting.pod, text)
        return True


def is_due(waiting: queues.Waiting, subject: Subject, now_s: float, *, reasons: frozenset[str], again_s: float) -> bool:
    """Return True if a report is due now, and note it as done; monotonic seconds.

    While the reasons stay they are reported every `again_s`, and if they change every CHANGE_EVERY_S at most.
    """
    before, told_s = waiting.told.get(subject, _NEVER)
    if now_s - told_s < (again_s if reasons == before else CHANGE_EVERY_S):
        return False
    waiting.told[subject] = (reasons, now_s)
    return True
