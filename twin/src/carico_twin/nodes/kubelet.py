"""A node of the twin: a machine, and a kubelet with a runtime's latencies and spikes.

Latencies are those of recorded container events (design, section 11): from create to start 0.55 s (median), 0.98 s
(90th percentile), log-normal; a program uses CPU about 0.2 s after its start; the API knows of an exit after about
0.7 s. Creating a container costs the node 0.5 core-seconds and removing one 0.2, as extra runnable tasks for about
0.2 s each.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from carico_twin import records, virtual_time
from carico_twin.nodes import machine

# For rounding: memory that is exactly full when the kernel kills a Pod is not an overrun.
ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Latencies in seconds and spikes in core-seconds."""

    hear_s: float = 0.02
    start_median_s: float = 0.55
    # ln(0.98 / 0.55) / 1.2816, the 90th percentile of a normal.
    start_sigma: float = 0.45
    work_lag_s: float = 0.2
    report_s: float = 0.7
    create_core_s: float = 0.5
    delete_core_s: float = 0.2
    spike_s: float = 0.25


@dataclasses.dataclass(slots=True, eq=False)
class Watchers:
    """Callbacks by kind of event, called in order with the node's index and the Pod."""

    # The runtime creates the Pod's container, its program starts, its program has exited: seen on the node.
    created: list[Callable[[int, records.PodRecord], None]] = dataclasses.field(default_factory=list)
    started: list[Callable[[int, records.PodRecord], None]] = dataclasses.field(default_factory=list)
    exited: list[Callable[[int, records.PodRecord], None]] = dataclasses.field(default_factory=list)
    # The API shows the Pod as terminal.
    terminal: list[Callable[[int, records.PodRecord], None]] = dataclasses.field(default_factory=list)


class TwinNode:
    """Runs the Pods bound to it."""

    def __init__(
        self, index: int, hardware: machine.Hardware, runtime: Runtime, timeline: virtual_time.Timeline,
        watchers: Watchers, rng: np.random.Generator, *, kills: bool,
    ) -> None:  # fmt: skip
        """`kills`: exceeding the node's memory kills Pods; otherwise it is only counted."""
        self.index = index
        # False before the node joins the cluster.
        self.is_up = True
        self._kills = kills
        self.machine = machine.Machine(hardware)
        self.record = records.NodeRecord(cores=hardware.cores)
        # Brings the node's agent up to an instant; called before anything on the node changes.
        self.catch_up: Callable[[float], object] = lambda _: None
        # Pods whose program has started, including the 0.2 s before it uses CPU.
        self.pods: dict[str, records.PodRecord] = {}
        self._runtime = runtime
        self._timeline = timeline
        self._watchers = watchers
        self._rng = rng
        # Incremented at each change of rates, which makes ends planned with earlier rates void.
        self._generation = 0
        self._noted_s = 0.0
        self._servers = 0

    def bind(self, record: records.PodRecord) -> None:
        """Take in a Pod bound to the node: create its container, and start it after the runtime's latency."""
        runtime = self._runtime
        self.catch_up(self._timeline.now_s)
        if self.machine.tasks > self.machine.hardware.cores * 2.0:
            self.record.bound_when_full += 1
        latency_s = runtime.start_median_s * math.exp(runtime.start_sigma * self._rng.standard_normal())
        self._spike(runtime.create_core_s)
        for watcher in self._watchers.created:
            watcher(self.index, record)
        self._timeline.after(latency_s, lambda: self._start(record))

    def disturb(self, tasks: float) -> None:
        """Add runnable tasks of a neighbour outside Kubernetes, or remove them (below 0)."""
        self._change(lambda now_s: self.machine.spike(tasks, now_s))

    def settle(self) -> None:
        """Bring counters and record up to now."""
        self.machine.advance(self._up_to_now())

    def note_memory(self, now_s: float) -> None:
        """Bring the record of memory, which grows between changes, up to an instant up to which nothing changes."""
        if self.machine.holders:
            self._note(now_s)

    def _start(self, record: records.PodRecord) -> None:
        record.started_s = self._up_to_now()
        self.pods[record.uid] = record
        self._servers += record.work.lifetime_s is not None
        self.record.most_pods = max(self.record.most_pods, len(self.pods))
        for watcher in self._watchers.started:
            watcher(self.index, record)
        self._timeline.after(self._runtime.work_lag_s, lambda: self._work(record))

    def _work(self, record: records.PodRecord) -> None:
        self._change(lambda now_s: self.machine.start(record.uid, record.work, record.cpu_s, now_s))
        busy_at_s = record.work.busy_at_s
        if busy_at_s is not None and busy_at_s > self._timeline.now_s:
            self._timeline.at(busy_at_s, lambda: self._change(self.machine.wave))

    def _kill(self) -> None:
        """End the Pod that the kernel would choose: exit code 137, reason OOMKilled."""
        uid = self.machine.worst(self._timeline.now_s)
        self.pods[uid].failed = True
        self.record.oom_kills += 1
        self._end(uid)

    def _reach(self, uid: str) -> None:
        """Go on with the Pod's next phase, or end it after its last."""
        if self.machine.is_last(uid):
            self._end(uid)
        else:
            self._change(lambda now_s: self.machine.step(uid, now_s))

    def _end(self, uid: str) -> None:
        now_s = self._up_to_now()
        record = self.pods.pop(uid)
        self._servers -= record.work.lifetime_s is not None
        record.ended_s = now_s
        self._change(lambda now_s: self.machine.stop(uid, now_s))
        self._spike(self._runtime.delete_core_s)
        for watcher in self._watchers.exited:
            watcher(self.index, record)
        self._timeline.after(self._runtime.report_s, lambda: self._report(record))

    def _report(self, record: records.PodRecord) -> None:
        record.terminal_s = self._timeline.now_s
        for watcher in self._watchers.terminal:
            watcher(self.index, record)

    def _spike(self, core_s: float) -> None:
        span_s = self._runtime.spike_s
        if core_s <= 0.0:
            return
        tasks = core_s / span_s
        self._change(lambda now_s: self.machine.spike(tasks, now_s))
        self._timeline.after(span_s, lambda: self._change(lambda now_s: self.machine.spike(-tasks, now_s)))

    def _change(self, change: Callable[[float], object]) -> None:
        """Apply a change of tasks, and plan the next end again."""
        now_s = self._up_to_now()
        change(now_s)
        self._generation += 1
        generation = self._generation
        upcoming = self.machine.next_end(now_s)
        if upcoming is not None:
            when_s, uid = upcoming
            self._timeline.at(when_s, lambda: self._reach(uid) if generation == self._generation else None)
        over_s = self.machine.next_overrun(now_s) if self._kills else None
        if over_s is not None:
            self._timeline.at(over_s, lambda: self._kill() if generation == self._generation else None)

    def _up_to_now(self) -> float:
        """Bring agent and record up to now, before anything on the node changes; return the time."""
        now_s = self._timeline.now_s
        self.catch_up(now_s)
        self._note(now_s)
        return now_s

    def _note(self, now_s: float) -> None:
        """Add the time since the last change to the node's record."""
        span_s, self._noted_s = now_s - self._noted_s, now_s
        if span_s <= 0.0:
            return
        record, hardware = self.record, self.machine.hardware
        tasks, cores = self.machine.tasks, hardware.cores
        record.pod_s += span_s * len(self.pods)
        if tasks > 2.0 * cores:
            record.doubled_s += span_s
        if self._servers:
            record.server_s += span_s
            if tasks > cores:
                record.server_contended_s += span_s
        share = self.machine.memory_bytes(now_s) / hardware.memory_bytes
        if share > record.peak_memory_share:
            record.peak_memory_share = share
        if share > 1.0 + ROUNDING:
            record.memory_over_s += span_s
