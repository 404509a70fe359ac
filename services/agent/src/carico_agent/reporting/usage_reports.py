"""What single Pods use: read from their cgroups as they are due, and reported at intervals, by class and by Pod."""

from collections.abc import Callable, Mapping

from carico_agent import ports
from carico_agent.learning import pod_usage
from carico_agent.reporting import advertisement
from carico_core.domain import pod_telemetry
from carico_core.domain import usage as usages
from carico_core.runtime.process import clock as clocks

# Interval of reports of what classes use: with it, a class is recommended some ten seconds after its first Pod's start.
USAGE_EVERY_S = 5.0
# Interval of reports of each Pod's load: a rescheduler acts on means of minutes.
LOADS_EVERY_S = 10.0


class UsageReports:
    """What the next reports contain."""

    def __init__(
        self, *, node: str, boot: str, scale: float, classes: ports.PodClasses, ledger: ports.PodLedger,
        clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._classes = classes
        self._ledger = ledger
        self._clock = clock
        self._pods = pod_usage.PodUsage(scale=scale)
        self._stamps = advertisement.Stamps(node=node, boot=boot, wall_ns=clock.wall_ns)
        self._usage_reported_s = self._loads_reported_s = clock.monotonic_s()
        self._on_usage: Callable[[], None] = _nothing
        self._on_loads: Callable[[], None] = _nothing

    def when_due(self, *, usage: Callable[[], None], loads: Callable[[], None]) -> None:
        """Register publish callbacks."""
        self._on_usage = usage
        self._on_loads = loads

    def read(self, named: Mapping[str, str], now_s: float) -> None:
        """Read those of the running Pods (UID -> class) that are due, and request a report at times."""
        ledger, classes, pods = self._ledger, self._classes, self._pods
        for uid in pods.follow(named, now_s, classes.template):
            ledger.forget(uid)
        pods.name_ended(classes.of, now_s, classes.template)
        for uid in pods.due(now_s):
            # Not the update's time: an agent that waited for a CPU meanwhile would report more than the Pod had.
            read_s = self._clock.monotonic_s()
            amounts = ledger.read(uid, has_several=pods.has_several(uid))
            pods.take(uid, amounts, read_s, container=classes.container)
        if now_s - self._usage_reported_s >= USAGE_EVERY_S:
            self._usage_reported_s = now_s
            self._on_usage()
        if now_s - self._loads_reported_s >= LOADS_EVERY_S:
            self._loads_reported_s = now_s
            self._on_loads()

    def next_usage(self) -> usages.UsageReport | None:
        """Return what classes of Pods have used since the last report; None if there is nothing to report."""
        self._pods.failed(self._classes.take_failed(), self._clock.monotonic_s())
        found = self._pods.report()
        if not found:
            return None
        stamp = self._stamps.next("usage")
        return usages.UsageReport(node=stamp.node, boot=stamp.boot, seq=stamp.seq, ts_ns=stamp.ts_ns, classes=found)

    def put_back(self, report: usages.UsageReport) -> None:
        """Take back a report that was not sent."""
        self._pods.put_back(report.classes)

    def next_loads(self) -> pod_telemetry.PodLoads:
        """Return the load of each Pod. A node without Pods reports that it has none."""
        return self._loads(self._pods.loads())

    def known_loads(self) -> pod_telemetry.PodLoads:
        """Return the last report, with Pods that have started since, for who asks between two."""
        return self._loads(self._pods.known_loads())

    def _loads(self, loads: Mapping[str, pod_telemetry.PodLoad]) -> pod_telemetry.PodLoads:
        stamp = self._stamps.next("pods")
        return pod_telemetry.PodLoads(
            node=stamp.node, boot=stamp.boot, seq=stamp.seq, ts_ns=stamp.ts_ns, loads=loads
        )  # fmt: skip


def _nothing() -> None:
    return None
