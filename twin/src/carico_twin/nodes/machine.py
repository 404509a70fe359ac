"""One node's hardware: tasks share its cores as under the kernel's scheduler, and its counters match the kernel's.

Pressure follows the kernel's definition (`some`, weighted per CPU): 0 up to one runnable task per core, then linear,
1 at two tasks per core (what kernels show: docs/measurements.md, "Emulated nodes"). Between changes every task runs at
a constant rate, so counters and remaining work are exact.
"""

import dataclasses
import math

from carico_twin.nodes import work as works

# Rounding in sums of memory is far smaller than this.
_SLACK_BYTES = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A kind of node. `full_speed`: relative speed of a core when all are busy, below 1 for hyperthreads."""

    cores: float = 4.0
    memory_bytes: float = 8.0 * works.GIB
    full_speed: float = 1.0
    baseline_cores: float = 0.02
    baseline_bytes: float = 0.5 * works.GIB


@dataclasses.dataclass(slots=True, eq=False)
class Running:
    """A Pod's processes on a machine. `left`: remaining core-seconds (inf if its lifetime is wall-clock time).

    asks: runnable tasks; a Pod with a CPU limit is runnable only for its limit's share of the time. Of work in phases,
    `left` is that of the present one, until_s the end of a wait, and `scale` this Pod's length against the others'.
    """

    uid: str
    work: works.Work
    started_s: float
    left: float
    threads: float
    rate: float = 0.0
    scale: float = 1.0
    phase: int = 0
    until_s: float = math.inf
    asks: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.run(self.threads)

    def enter(self, index: int, now_s: float) -> None:
        """Begin a phase."""
        phase = self.work.phases[index]
        seconds = phase.seconds * self.scale
        waits = phase.threads <= 0.0
        self.phase = index
        self.left = math.inf if waits else phase.threads * seconds
        self.until_s = now_s + seconds if waits else math.inf
        self.run(phase.threads)

    def run(self, threads: float) -> None:
        """Run this many threads from now on."""
        limit = self.work.limit_cores
        self.threads = threads
        self.asks = threads if limit is None or limit > threads else limit

    def resident_bytes(self, now_s: float) -> float:
        """Return the memory that it holds now."""
        if self.work.phases:
            return self.work.phases[self.phase].memory_bytes
        ramp_s = self.work.ramp_s
        share = 1.0 if ramp_s <= 0.0 else min(1.0, (now_s - self.started_s) / ramp_s)
        return self.work.memory_bytes * share


class Machine:
    """Tasks, their rates, and the counters that telemetry reads."""

    __slots__ = (
        "_at_s", "_busy", "_pressure", "busy_s", "hardware", "holders", "pressure_s", "running", "spikes", "tasks",
    )  # fmt: skip

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.running: dict[str, Running] = {}
        # Those of them that hold memory, which is summed at every sample.
        self.holders: dict[str, Running] = {}
        # Runnable tasks of the runtime itself, or of a neighbour outside Kubernetes.
        self.spikes = 0.0
        self.tasks = hardware.baseline_cores
        # Integrals: core-seconds busy, seconds of `some` pressure.
        self.busy_s = 0.0
        self.pressure_s = 0.0
        self._at_s = 0.0
        # How fast they grow: busy cores, and pressure.
        self._busy = self._pressure = 0.0
        self._share()

    def counters(self, now_s: float) -> tuple[float, float]:
        """Return (busy_s, pressure_s) at an instant up to which nothing changes."""
        span_s = now_s - self._at_s
        return self.busy_s + self._busy * span_s, self.pressure_s + self._pressure * span_s

    def advance(self, now_s: float) -> None:
        """Bring counters and remaining work up to `now_s`."""
        span_s = now_s - self._at_s
        if span_s <= 0.0:
            return
        self.busy_s, self.pressure_s = self.counters(now_s)
        for pod in self.running.values():
            pod.left -= pod.rate * span_s
        self._at_s = now_s

    def pressure(self) -> float:
        """Return the pressure of the tasks that are runnable now."""
        # some = min(max(tasks - cores, 0) / cores, 1)
        cores = self.hardware.cores
        return min(max(self.tasks - cores, 0.0) / cores, 1.0)

    def memory_bytes(self, now_s: float) -> float:
        """Return the memory demanded now; it is not clipped, so more than the hardware has is an overrun."""
        if not self.holders:
            return self.hardware.baseline_bytes
        return self.hardware.baseline_bytes + sum([pod.resident_bytes(now_s) for pod in self.holders.values()])

    def next_overrun(self, now_s: float) -> float | None:
        """Return when the running Pods will demand more memory than there is, or None if they never will."""
        size, held, at_s = self.hardware.memory_bytes, self.memory_bytes(now_s), now_s
        ramps = sorted(
            (pod.started_s + pod.work.ramp_s, pod.work.memory_bytes / pod.work.ramp_s)
            for pod in self.holders.values() if pod.work.ramp_s > 0.0 and pod.started_s + pod.work.ramp_s > now_s
        )  # fmt: skip
        rate = sum(each for _, each in ramps)
        if held > size + _SLACK_BYTES:
            return now_s
        for end_s, each in ramps:
            then = held + rate * (end_s - at_s)
            if then > size + _SLACK_BYTES:
                return at_s + (size - held) / rate
            held, at_s, rate = then, end_s, rate - each
        return None

    def worst(self, now_s: float) -> str:
        """Return the Pod that the kernel would kill for memory: the one that holds most.

        The kernel also adds oom_score_adj, which is equal for Pods without memory requests, as CARICO's are.
        Raises `ValueError` if there is none. Source: mm/oom_kill.c, oom_badness; Kubernetes, "Node out of memory
        behavior".
        """
        return max(self.holders.values(), key=lambda pod: (pod.resident_bytes(now_s), pod.uid)).uid

    def start(self, uid: str, work: works.Work, cpu_s: float, now_s: float) -> None:
        """Start a Pod's processes."""
        self.advance(now_s)
        left = math.inf if work.cpu_s is None else cpu_s
        busy = work.busy_at_s is not None and now_s >= work.busy_at_s
        threads = work.busy_threads if busy else work.threads
        pod = self.running[uid] = Running(uid=uid, work=work, started_s=now_s, left=left, threads=threads)
        if work.memory_bytes > 0.0:
            self.holders[uid] = pod
        if work.phases:
            pod.scale = cpu_s / work.cpu_s if work.cpu_s else 1.0
            pod.enter(0, now_s)
        self._share()

    def step(self, uid: str, now_s: float) -> None:
        """Let a Pod enter its next phase."""
        self.advance(now_s)
        pod = self.running[uid]
        pod.enter(pod.phase + 1, now_s)
        self._share()

    def is_last(self, uid: str) -> bool:
        """Return True where the Pod's work ends with what it does now."""
        pod = self.running[uid]
        return pod.phase + 1 >= len(pod.work.phases)

    def stop(self, uid: str, now_s: float) -> None:
        """Remove a Pod's processes."""
        self.advance(now_s)
        self.running.pop(uid, None)
        self.holders.pop(uid, None)
        self._share()

    def wave(self, now_s: float) -> None:
        """Make every running Pod whose busy time has come run its busy threads."""
        self.advance(now_s)
        for pod in self.running.values():
            if pod.work.busy_at_s is not None and now_s >= pod.work.busy_at_s:
                pod.run(pod.work.busy_threads)
        self._share()

    def spike(self, tasks: float, now_s: float) -> None:
        """Add runnable tasks that belong to no Pod, or remove them (below 0)."""
        self.advance(now_s)
        self.spikes = max(0.0, self.spikes + tasks)
        self._share()

    def next_end(self, now_s: float) -> tuple[float, str] | None:
        """Return (when, uid) of the Pod whose work or phase ends first at the present rates, or None if none will."""
        soonest_s, uid = math.inf, None
        for pod in self.running.values():
            if pod.work.lifetime_s is not None:
                when_s = pod.started_s + pod.work.lifetime_s
            elif pod.until_s < math.inf:
                when_s = pod.until_s
            elif pod.rate > 0.0:
                when_s = now_s + pod.left / pod.rate if pod.left > 0.0 else now_s
            else:
                continue
            if when_s < soonest_s:
                soonest_s, uid = when_s, pod.uid
        return None if uid is None else (soonest_s, uid)

    def _share(self) -> None:
        """Set the rates of all Pods: equal shares of the cores, at most one core per thread, within CPU limits."""
        hardware = self.hardware
        pods = self.running.values()
        self.tasks = hardware.baseline_cores + self.spikes + sum([pod.asks for pod in pods])
        self._busy, self._pressure = min(self.tasks, hardware.cores), self.pressure()
        speed = self._speed()
        if self.tasks <= hardware.cores:
            for pod in pods:
                pod.rate = pod.asks * speed
            return
        share = self._fair_share()
        for pod in pods:
            pod.rate = min(pod.asks, pod.threads * share) * speed

    def _fair_share(self) -> float:
        """Return cores per thread when demand exceeds the cores; what limited Pods leave goes to the others."""
        left, pods = self.hardware.cores, self.running.values()
        threads = self.hardware.baseline_cores + self.spikes + sum([pod.threads for pod in pods])
        limited = sorted([(pod.asks / pod.threads, pod.threads, pod.asks) for pod in pods if pod.asks < pod.threads])
        for per_thread, count, asks in limited:
            if threads <= 0.0 or per_thread >= left / threads:
                break
            left -= asks
            threads -= count
        return left / threads if threads > 0.0 else 1.0

    def _speed(self) -> float:
        """Return work per core-second: 1 on an almost idle node, `full_speed` when every core is busy."""
        full_speed = self.hardware.full_speed
        if full_speed >= 1.0:
            return 1.0
        # Hyperthreads come in pairs: up to half of them run without sharing a core.
        shared = max(0.0, 2.0 * min(1.0, self.tasks / self.hardware.cores) - 1.0)
        return 1.0 - (1.0 - full_speed) * shared
