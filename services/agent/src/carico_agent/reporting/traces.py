"""The agent's part of a Pod's trace: its container was created, and the scheduler was notified that it counts."""

import collections
from collections.abc import Set
from typing import Protocol

from carico_core.domain import recording
from carico_core.runtime.observe import tracing
from carico_core.runtime.process import clock as clocks

# Maximum number of Pods traced at a time, more than a node runs; the oldest is evicted.
OPEN_MOST = 1024


class Tracer(Protocol):
    """Receives steps."""

    def follows(self, uid: str) -> bool:
        """Return True for Pods that are traced."""

    def add(self, step: tracing.Step) -> None:
        """Add a completed step."""


class TracedPods:
    """Traces each Pod from its container's creation to the first advertisement that covers it."""

    def __init__(self, tracer: Tracer, *, node: str, clock: clocks.Clock) -> None:
        self._tracer = tracer
        self._node = node
        self._clock = clock
        self._creating_s: collections.OrderedDict[str, float] = collections.OrderedDict()
        self._started_s: collections.OrderedDict[str, float] = collections.OrderedDict()

    def happened(self, kind: recording.EventKind, uid: str, at_s: float) -> None:
        """Take in an event of a Pod."""
        if not self._tracer.follows(uid):
            return
        if kind is recording.EventKind.CREATED:
            _keep(self._creating_s, uid, at_s)
        elif kind is recording.EventKind.STARTED:
            # If its creation was not seen, the step starts and ends at the same time.
            self._add("start", uid, self._creating_s.pop(uid, at_s), at_s, {})
            _keep(self._started_s, uid, at_s)
        elif kind is recording.EventKind.REMOVED:
            self._creating_s.pop(uid, None)

    def advertised(self, covers: Set[str], *, seq: int, capacity: float) -> None:
        """Take in that an advertisement covering these UIDs is being sent."""
        if not self._started_s:
            return
        now_s = self._clock.monotonic_s()
        for uid in [uid for uid in self._started_s if uid in covers]:
            attributes: tracing.Attributes = {"carico.advertisement.seq": seq, "carico.capacity_pods": capacity}
            self._add("advertise", uid, self._started_s.pop(uid), now_s, attributes)

    def _add(self, name: str, uid: str, began_s: float, ended_s: float, attributes: tracing.Attributes) -> None:
        named = {"k8s.node.name": self._node, **attributes}
        self._tracer.add(tracing.Step(name=name, uid=uid, began_s=began_s, ended_s=ended_s, attributes=named))


def _keep(into: "collections.OrderedDict[str, float]", uid: str, at_s: float) -> None:
    into[uid] = at_s
    if len(into) > OPEN_MOST:
        into.popitem(last=False)
