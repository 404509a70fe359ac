"""Schedulers that do not use telemetry: kube-scheduler by requests, and a constant number of Pods per node.

Kubernetes v1.33 kube-scheduler, default profile (kubernetes.io/docs/reference/scheduling/config): NodeResourcesFit
with LeastAllocated (or MostAllocated) and NodeResourcesBalancedAllocation, each of weight 1, integer scores of 0 to
100. From 100 nodes on it stops searching at (50 - nodes / 125) % feasible nodes, at least 5 % and at least 100, and the
next search continues there.
"""

import collections
import dataclasses
from typing import Literal

import numpy as np
import numpy.typing as npt

from carico_twin import records
from carico_twin.schedulers import port

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Pods that score without a request count as this much (kube-scheduler, util/pod_resources.go): 100m and 200 MB.
DEFAULT_CORES = 0.1
DEFAULT_BYTES = 200.0 * 1024**2
MIN_FEASIBLE = 100
# Reserved for DaemonSets and the kubelet: in the published figures four cores take 7 Pods of 500m, 37 of 100m.
RESERVED_CORES = 0.25
RESERVED_BYTES = 0.4 * 2**30
POD_LIMIT = 110


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KubeOptions:
    """request_cores, request_bytes: replace the Pods' requests; None: as stated. strategy: of NodeResourcesFit.

    reserved_cores, reserved_bytes: reserved on each node for DaemonSets and the kubelet.
    """

    request_cores: float | None = None
    request_bytes: float | None = None
    strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    reserved_cores: float = RESERVED_CORES
    reserved_bytes: float = RESERVED_BYTES


class KubeScheduler:
    """kube-scheduler by requests."""

    def __init__(self, cluster: port.Cluster, options: KubeOptions, rng: np.random.Generator) -> None:
        self._cluster = cluster
        self._options = options
        self._rng = rng
        self._queue: collections.deque[records.PodRecord] = collections.deque()
        hardware = [node.machine.hardware for node in cluster.nodes]
        self._cores = np.array([each.cores - options.reserved_cores for each in hardware])
        self._bytes = np.array([each.memory_bytes - options.reserved_bytes for each in hardware])
        self._used_cores = np.zeros(len(hardware))
        self._used_bytes = np.zeros(len(hardware))
        # The same with scoring's defaults for Pods without requests.
        self._seen_cores = np.zeros(len(hardware))
        self._seen_bytes = np.zeros(len(hardware))
        # A node that has not joined yet is treated as full.
        self._pods = np.array([0 if node.is_up else POD_LIMIT for node in cluster.nodes])
        self._next = 0
        self._blocked = False

    def offer(self, record: records.PodRecord) -> None:
        """Queue a Pod."""
        self._queue.append(record)
        self._blocked = False

    def ended(self, record: records.PodRecord) -> None:
        """Free the Pod's requests."""
        self._count(record, -1)
        self._blocked = False

    def joined(self, node: int) -> None:
        """Add a node, empty."""
        self._pods[node] = 0
        self._blocked = False

    def step(self) -> None:
        """Place Pods oldest first; one that fits nowhere does not block the others."""
        if self._blocked:
            return
        refused: list[records.PodRecord] = []
        failed: set[tuple[float, float]] = set()
        while self._queue:
            record = self._queue.popleft()
            wanted = self._requests(record)
            node = -1 if wanted in failed else self._choose(record)
            if node < 0:
                failed.add(wanted)
                refused.append(record)
                continue
            self._count(record, 1, node)
            self._cluster.bind(record, node)
        self._queue.extend(refused)
        self._blocked = True

    def _requests(self, record: records.PodRecord) -> tuple[float, float]:
        options = self._options
        cores = record.request_cores if options.request_cores is None else options.request_cores
        size = record.request_bytes if options.request_bytes is None else options.request_bytes
        return cores, size

    def _choose(self, record: records.PodRecord) -> int:
        cores, size = self._requests(record)
        fits = (
            (self._used_cores + cores <= self._cores + 1e-9)
            & (self._used_bytes + size <= self._bytes)
            & (self._pods < POD_LIMIT)
        )
        feasible = self._sample(fits)
        if not len(feasible):
            return -1
        scores = self._scores(feasible, cores or DEFAULT_CORES, size or DEFAULT_BYTES)
        best = feasible[scores == scores.max()]
        return int(best[self._rng.integers(len(best))]) if len(best) > 1 else int(best[0])

    def _sample(self, fits: Bools) -> Ints:
        count = len(fits)
        wanted = count
        if count >= MIN_FEASIBLE:
            share = max(50.0 - count / 125.0, 5.0)
            wanted = max(MIN_FEASIBLE, int(count * share / 100.0))
        order = (np.arange(count) + self._next) % count if self._next else np.arange(count)
        found = order[fits[order]]
        if len(found) > wanted:
            found = found[:wanted]
            self._next = int(found[-1] + 1) % count
        elif count >= MIN_FEASIBLE:
            self._next = 0
        return found

    def _scores(self, nodes: Ints, cores: float, size: float) -> Floats:
        cpu = np.minimum((self._seen_cores[nodes] + cores) / self._cores[nodes], 1.0)
        memory = np.minimum((self._seen_bytes[nodes] + size) / self._bytes[nodes], 1.0)
        if self._options.strategy == "LeastAllocated":
            fit = (np.floor((1.0 - cpu) * 100.0) + np.floor((1.0 - memory) * 100.0)) // 2.0
        else:
            fit = (np.floor(cpu * 100.0) + np.floor(memory * 100.0)) // 2.0
        # Two resources: the standard deviation of the shares is half their difference.
        balanced = np.floor((1.0 - np.abs(cpu - memory) / 2.0) * 100.0)
        return np.asarray(fit + balanced)

    def _count(self, record: records.PodRecord, sign: int, node: int | None = None) -> None:
        node = record.node if node is None else node
        cores, size = self._requests(record)
        self._used_cores[node] += sign * cores
        self._used_bytes[node] += sign * size
        self._seen_cores[node] += sign * (cores or DEFAULT_CORES)
        self._seen_bytes[node] += sign * (size or DEFAULT_BYTES)
        self._pods[node] += sign


class Constant:
    """At most `pods_per_core` x cores Pods on a node; the emptiest by share first."""

    def __init__(self, cluster: port.Cluster, *, pods_per_core: float) -> None:
        self._cluster = cluster
        self._most = np.array([max(1, int(node.machine.hardware.cores * pods_per_core)) for node in cluster.nodes])
        self._pods = np.where([node.is_up for node in cluster.nodes], 0, self._most)
        self._queue: collections.deque[records.PodRecord] = collections.deque()

    def offer(self, record: records.PodRecord) -> None:
        """Queue a Pod."""
        self._queue.append(record)

    def ended(self, record: records.PodRecord) -> None:
        """Free the Pod's place."""
        self._pods[record.node] -= 1

    def joined(self, node: int) -> None:
        """Add a node, empty."""
        self._pods[node] = 0

    def step(self) -> None:
        """Place Pods oldest first."""
        while self._queue:
            left = (self._most - self._pods) / self._most
            node = int(left.argmax())
            if self._pods[node] >= self._most[node]:
                return
            self._pods[node] += 1
            self._cluster.bind(self._queue.popleft(), node)
