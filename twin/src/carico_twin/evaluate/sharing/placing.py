"""Nodes for the Pods of a batch: chosen by the scheduler service's own cycle, or by the paper's walk."""

import collections
from collections.abc import Sequence
from typing import Protocol

from carico_scheduler.decide import cycle
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import reservations
from carico_twin import records
from carico_twin.evaluate.sharing import cluster, paper, pods
from carico_twin.nodes import work as works

DEMAND = demands.Demand()
_POD = records.api_pod(records.PodRecord(uid="", job="load", work=works.PI, cpu_s=0.0, created_s=0.0))
# What such a Pod counts on its node.
CLAIM = reservations.booking_of(_POD, node="", now_s=0.0)._replace(pod_class=DEMAND.pod_class)


class Placing(Protocol):
    """Chooses nodes."""

    def place(self, view: cluster.View, waiting: Sequence[pods.Pod]) -> tuple[list[pods.Request], list[pods.Pod]]:
        """Return the Pods that got a node, which `view` counts by then, and those that fit nowhere."""


class ByCycle:
    """The service's own cycle."""

    def __init__(self, cycles: cycle.Cycle) -> None:
        self._cycle = cycles

    def place(self, view: cluster.View, waiting: Sequence[pods.Pod]) -> tuple[list[pods.Request], list[pods.Pod]]:
        """See `Placing`."""
        batch = _Batch(waiting)
        made = self._cycle.run(view.snapshot, batch, most=len(waiting))
        found = [
            pods.Request(pod=batch.taken[each.waiting.pod.uid], node=each.row.slot, seq=view.seq[each.row.slot])
            for each in made.placed
        ]
        for each in found:
            view.choose(each.node)
        return found, batch.parked


class ByWalk:
    """Pod by Pod, each from where the search for the one before ended."""

    def __init__(self, walk: paper.Walk) -> None:
        self._walk = walk

    def place(self, view: cluster.View, waiting: Sequence[pods.Pod]) -> tuple[list[pods.Request], list[pods.Pod]]:
        """See `Placing`."""
        found, parked = [], []
        for pod in waiting:
            node, _ = self._walk.find(view)
            if node is None:
                parked.append(pod)
                continue
            found.append(pods.Request(pod=pod, node=node, seq=view.seq[node]))
            view.choose(node)
        return found, parked


class _Batch:
    """The Pods of one cycle, oldest first."""

    def __init__(self, waiting: Sequence[pods.Pod]) -> None:
        self._left = collections.deque(waiting)
        self.taken: dict[str, pods.Pod] = {}
        self.parked: list[pods.Pod] = []

    def take(self, now_s: float) -> queues.Waiting | None:
        """Return the next Pod, or None."""
        if not self._left:
            return None
        pod = self._left.popleft()
        self.taken[pod.uid] = pod
        return queues.Waiting(pod=_POD._replace(uid=pod.uid), demand=DEMAND, since_s=pod.arrived_s)

    def park(self, waiting: queues.Waiting) -> None:
        """Take back a Pod that fits nowhere."""
        self.parked.append(self.taken[waiting.pod.uid])
