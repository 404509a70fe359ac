"""Oracle: knows every Pod's true cost, and places it at once.

It keeps the runnable tasks of every node at or below `tasks_per_core` per core and its memory below the ceiling, and
places a Pod on the node with most room.
"""

import collections

import numpy as np

from carico_twin import records
from carico_twin.schedulers import port

MEMORY_CEILING = 0.95


class Oracle:
    """Places by true costs; knows of a Pod's exit at once."""

    def __init__(self, cluster: port.Cluster, *, tasks_per_core: float) -> None:
        self._cluster = cluster
        hardware = [node.machine.hardware for node in cluster.nodes]
        self._room = np.array([node.machine.hardware.cores * tasks_per_core for node in cluster.nodes])
        self._bytes = np.array([each.memory_bytes * MEMORY_CEILING - each.baseline_bytes for each in hardware])
        self._cores = self._room.copy()
        self._room[[not node.is_up for node in cluster.nodes]] = -np.inf
        self._queues: dict[str, collections.deque[records.PodRecord]] = {}

    def offer(self, record: records.PodRecord) -> None:
        """Queue a Pod."""
        self._queues.setdefault(record.job, collections.deque()).append(record)

    def ended(self, record: records.PodRecord) -> None:
        """Do nothing: `exited` was called before."""

    def exited(self, record: records.PodRecord) -> None:
        """Free the Pod's cores and memory."""
        self._room[record.node] += record.work.most_threads
        self._bytes[record.node] += record.work.memory_bytes

    def joined(self, node: int) -> None:
        """Add a node, empty."""
        self._room[node] = self._cores[node]

    def step(self) -> None:
        """Place Pods, oldest job first."""
        for queue in self._queues.values():
            while queue and self._place(queue[0]):
                queue.popleft()

    def _place(self, record: records.PodRecord) -> bool:
        work = record.work
        # A Pod wider than any node's share gets a node of its own.
        fits = (self._room >= np.minimum(work.most_threads, self._cores) - 1e-9) & (self._bytes >= work.memory_bytes)
        if not fits.any():
            return False
        node = int(np.where(fits, self._room / self._cores, -np.inf).argmax())
        self._room[node] -= work.most_threads
        self._bytes[node] -= work.memory_bytes
        self._cluster.bind(record, node)
        return True
