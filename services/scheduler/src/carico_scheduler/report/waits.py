"""How long Pods wait for a node, by namespace and class: what shows whether some wait far longer than others.

Labels are bounded: a class that finds no place in the table counts as `OTHERS`.
"""

import dataclasses
from collections.abc import Iterator

from carico_core.domain import cluster, names
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_scheduler.pods import queue as queues

CLASSES_MAX = 50
# A class of which no Pod was placed for this long gives its place to a new one.
IDLE_S = 600.0
OTHERS = "(others)"
_LABELS = ("namespace", "class")
_Key = tuple[str, str]
_OTHER_KEY = (OTHERS, OTHERS)


@dataclasses.dataclass(slots=True)
class _Waited:
    """The Pods of one class that were placed, and the seconds that they waited."""

    pods: int = 0
    seconds: float = 0.0
    placed_s: float = 0.0


class Waits:
    """The waiting times of one scheduler's Pods."""

    def __init__(self, registry: metrics.Metrics) -> None:
        self._waited: dict[_Key, _Waited] = {}
        self._queue: queues.Queue | None = None
        self._clock: clocks.Clock | None = None
        registry.reading(
            "class_placed_pods", f"Pods bound, by namespace and class; at most {CLASSES_MAX} of these",
            lambda: ((key, float(each.pods)) for key, each in self._waited.items()),
            labels=_LABELS, kind=metrics.Kind.COUNTER,
        )  # fmt: skip
        registry.reading(
            "class_waited_seconds", "Seconds that these Pods waited until they were bound, in all",
            lambda: ((key, each.seconds) for key, each in self._waited.items()),
            labels=_LABELS, kind=metrics.Kind.COUNTER,
        )  # fmt: skip
        registry.reading(
            "class_oldest_waiting_seconds", "Waiting time of the Pod that has waited longest, by namespace and class",
            self._oldest, labels=_LABELS,
        )  # fmt: skip

    def watch(self, queue: queues.Queue, clock: clocks.Clock) -> None:
        """Read the Pods that wait from this queue."""
        self._queue, self._clock = queue, clock

    def placed(self, pod: cluster.Pod, waited_s: float, now_s: float) -> None:
        """Count a Pod that was bound."""
        found = self._of((pod.namespace, names.class_of(pod)), now_s)
        found.pods += 1
        found.seconds += waited_s
        found.placed_s = now_s

    def _of(self, key: _Key, now_s: float) -> _Waited:
        """Return the entry of a class; make room for it if another one is idle."""
        found = self._waited.get(key)
        if found is None and len(self._waited.keys() - {_OTHER_KEY}) >= CLASSES_MAX:
            idle = min((each.placed_s, name) for name, each in self._waited.items() if name != _OTHER_KEY)
            if now_s - idle[0] < IDLE_S:
                key = _OTHER_KEY
            else:
                del self._waited[idle[1]]
        return self._waited.setdefault(key, _Waited())

    def _oldest(self) -> Iterator[tuple[_Key, float]]:
        """Yield the longest wait by class; of more classes than the bound, those that wait longest."""
        if self._queue is None or self._clock is None:
            return
        now_s, oldest = self._clock.monotonic_s(), dict[_Key, float]()
        for each in self._queue:
            key = (each.pod.namespace, each.demand.pod_class)
            oldest[key] = max(oldest.get(key, 0.0), now_s - each.began_s)
        ranked = sorted(oldest.items(), key=lambda item: -item[1])
        yield from ranked[:CLASSES_MAX]
        if len(ranked) > CLASSES_MAX:
            yield _OTHER_KEY, ranked[CLASSES_MAX][1]
