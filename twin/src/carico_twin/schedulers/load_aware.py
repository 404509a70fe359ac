"""Load-aware plugins of kube-scheduler, with usage scraped every 30 s.

Trimaran's TargetLoadPacking filters by requests, as kube-scheduler does. Its score is the last scraped usage plus 1.5 x
the request of every Pod bound since the scrape (1 core without a request; both are Trimaran's defaults), compared with
a target of 40 %: up to the target the score grows with usage, above it it falls. Koordinator's LoadAware also filters
by usage: no Pod where scraped usage plus the estimate of new Pods is above 65 % CPU or 95 % memory.
"""

import dataclasses
from typing import Literal

import numpy as np

from carico_twin import records, virtual_time
from carico_twin.schedulers import port, slots

SCRAPE_EVERY_S = 30.0
# Trimaran: defaultRequestsMultiplier 1.5, defaultRequests 1 core, targetUtilization 40.
MULTIPLIER = 1.5
DEFAULT_CORES = 1.0
TARGET = 0.4
# Koordinator: usageThresholds 65 % CPU, 95 % memory; estimate of a Pod: 85 % of its CPU request, 70 % of its memory
# request, 250m and 200 MB without.
CPU_THRESHOLD = 0.65
MEMORY_THRESHOLD = 0.95
ESTIMATE_CPU, ESTIMATE_MEMORY = 0.85, 0.7
ESTIMATE_CORES, ESTIMATE_BYTES = 0.25, 200.0 * 1024**2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadAwareOptions:
    """way: whose rules."""

    way: Literal["trimaran", "koordinator"]


class LoadAware(slots.KubeScheduler):
    """kube-scheduler's filter, ranking by usage instead of requests."""

    def __init__(
        self,
        cluster: port.Cluster,
        options: LoadAwareOptions,
        timeline: virtual_time.Timeline,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(cluster, slots.KubeOptions(), rng)
        self._way = options.way
        self._timeline = timeline
        count = len(cluster.nodes)
        self._capacity = np.array([node.machine.hardware.cores for node in cluster.nodes])
        self._memory = np.array([node.machine.hardware.memory_bytes for node in cluster.nodes])
        # Scraped: share of the cores busy and of the memory used; -1 before the first scrape.
        self._cpu = np.zeros(count)
        self._held = np.zeros(count)
        self._busy_s = np.zeros(count)
        self._scraped_s = 0.0
        # Pods that have not run during a whole scrape interval, oldest first: when bound, node, and estimates.
        self._recent: dict[str, tuple[float, int, float, float]] = {}
        self._extra_cores = np.zeros(count)
        self._extra_bytes = np.zeros(count)
        timeline.after(float(rng.random()) * SCRAPE_EVERY_S, self._scrape)

    def _scrape(self) -> None:
        now_s = self._timeline.now_s
        span_s = now_s - self._scraped_s
        for index, node in enumerate(self._cluster.nodes):
            node.settle()
            busy_s = node.machine.busy_s
            self._cpu[index] = (busy_s - self._busy_s[index]) / (span_s * self._capacity[index]) if span_s else 0.0
            self._busy_s[index] = busy_s
            self._held[index] = min(node.machine.memory_bytes(now_s) / self._memory[index], 1.0)
        self._scraped_s = now_s
        self._forget(now_s)
        self._blocked = False
        self._timeline.after(SCRAPE_EVERY_S, self._scrape)
        self._timeline.after(0.0, self.step)

    def _forget(self, now_s: float) -> None:
        """Drop the estimates of Pods that ran during the whole scrape interval; later Pods stay estimated."""
        while self._recent:
            uid = next(iter(self._recent))
            if self._recent[uid][0] >= now_s - SCRAPE_EVERY_S:
                return
            self._drop(uid)

    def _drop(self, uid: str) -> None:
        _, node, cores, size = self._recent.pop(uid)
        self._extra_cores[node] -= cores
        self._extra_bytes[node] -= size

    def _count(self, record: records.PodRecord, sign: int, node: int | None = None) -> None:
        super()._count(record, sign, node)
        if sign > 0 and node is not None:
            cores, size = self._estimate(record)
            self._recent[record.uid] = (self._timeline.now_s, node, cores, size)
            self._extra_cores[node] += cores
            self._extra_bytes[node] += size
        elif sign < 0 and record.uid in self._recent:
            # Both plugins remove a Pod that has ended from their caches; its usage disappears with the next scrape.
            self._drop(record.uid)

    def _estimate(self, record: records.PodRecord) -> tuple[float, float]:
        cores, size = self._requests(record)
        if self._way == "trimaran":
            return (MULTIPLIER * cores if cores else DEFAULT_CORES), 0.0
        return (
            ESTIMATE_CPU * cores if cores else ESTIMATE_CORES,
            ESTIMATE_MEMORY * size if size else ESTIMATE_BYTES,
        )

    def _sample(self, fits: slots.Bools) -> slots.Ints:
        if self._way == "koordinator":
            cpu = self._cpu + self._extra_cores / self._capacity
            memory = self._held + self._extra_bytes / self._memory
            fits = fits & (cpu < CPU_THRESHOLD) & (memory < MEMORY_THRESHOLD)
        return super()._sample(fits)

    def _scores(self, nodes: slots.Ints, cores: float, size: float) -> slots.Floats:
        cpu = self._cpu[nodes] + self._extra_cores[nodes] / self._capacity[nodes]
        if self._way == "koordinator":
            # Least used first, as its LeastRequested score.
            memory = self._held[nodes] + self._extra_bytes[nodes] / self._memory[nodes]
            return np.asarray(np.floor((2.0 - np.minimum(cpu, 1.0) - np.minimum(memory, 1.0)) * 50.0))
        # Below the target T: (100 - T) u / T + T; above: T (100 - u) / (100 - T), in percent (Trimaran's README).
        used = np.clip(cpu, 0.0, 1.0) * 100.0
        target = TARGET * 100.0
        packing = (100.0 - target) * used / target + target
        falling = target * (100.0 - used) / (100.0 - target)
        return np.asarray(np.rint(np.where(used <= target, packing, falling)))
