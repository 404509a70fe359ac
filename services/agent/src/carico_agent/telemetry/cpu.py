"""The dimension "cpu": the mean of utilisation and pressure, which is linear up to two tasks per core."""

from carico_agent.telemetry import contention, port
from carico_agent.telemetry.cgroups import pod_throttling
from carico_core.runtime.process import clock as clocks


class Cpu:
    """cpu = (utilisation + pressure) / 2; only utilisation if the kernel has no PSI.

    `shared`: the node is a part of a machine (a cgroup, a process tree), whose CPUs other work may use. Then all its
    tasks may wait while it uses less than its quota. By the plain mean such a starved node would read two thirds full,
    however many Pods it has, and receive more (measured: 54 Pods on four cores). If tasks wait, all available CPUs are
    in use, so utilisation counts as at least the pressure. A host's CPUs are its own, and tasks may wait for one busy
    CPU of eight while the host is not full, so there the plain mean is used.
    """

    def __init__(
        self,
        utilisation: port.Utilisation,
        pressure: port.Gauge | None,
        *,
        clock: clocks.Clock,
        throttling: pod_throttling.PodThrottling | None = None,
        cpus: float = 1.0,
        shared: bool = False,
    ) -> None:
        self._utilisation = utilisation
        self._pressure = pressure
        self._clock = clock
        self._throttling = throttling
        self._shared = shared
        self._correction = contention.Correction(cpus=cpus)
        self._last_s: float | None = None
        self._scanned_s: float | None = None
        self.parts: dict[str, float] = {}

    @property
    def has_pressure(self) -> bool:
        """Whether pressure is measured."""
        return self._pressure is not None

    @property
    def tasks_per_core(self) -> float:
        """Runnable tasks per core at a share of 1: two with pressure, one with utilisation only."""
        return 2.0 if self.has_pressure else 1.0

    def pods_changed(self) -> None:
        """Check the Pods' limits again at the next read."""
        self._scanned_s = None

    def read(self) -> float | None:
        """Return the share since the last read; `parts` holds the raw shares behind it."""
        utilisation = self._utilisation.read()
        pressure = None if self._pressure is None else self._pressure.read()
        now_s = self._clock.monotonic_s()
        elapsed_s = 0.0 if self._last_s is None else now_s - self._last_s
        self._last_s = now_s
        if utilisation is None or (self._pressure is not None and pressure is None):
            return None
        self.parts = {"cpu.utilisation": utilisation}
        if pressure is None:
            return utilisation
        pressure = self._corrected(pressure, utilisation, elapsed_s, now_s)
        self.parts["cpu.pressure"] = pressure
        busy = max(utilisation, pressure) if self._shared else utilisation
        return (busy + pressure) / 2.0

    def _corrected(self, pressure: float, utilisation: float, elapsed_s: float, now_s: float) -> float:
        if self._throttling is None:
            return pressure
        if self._scanned_s is None or now_s - self._scanned_s >= pod_throttling.RESCAN_S:
            self._throttling.rescan()
            self._scanned_s = now_s
        if not self._throttling.any_limit:
            self._correction.clear()
            return pressure
        span = contention.Span(
            elapsed_s=elapsed_s,
            pressed_s=pressure * elapsed_s,
            ran_s=utilisation * self._utilisation.cores * elapsed_s,
            throttled_s=self._throttling.read(),
        )
        return self._correction.apply(pressure, span, in_progress_s=self._throttling.in_progress_s)
