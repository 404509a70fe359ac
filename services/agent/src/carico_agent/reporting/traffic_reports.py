"""Traffic between two reports: flows are added up by endpoints, and what was not sent is part of the next report."""

import collections
from collections.abc import Iterable

from carico_agent.reporting import advertisement
from carico_core.domain import pod_telemetry
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks

# Interval of reports: a rescheduler acts on means of minutes.
TRAFFIC_EVERY_S = 10.0
# Pairs of endpoints between two reports, twice as many as a message takes. The bytes of further ones are counted only.
PAIRS_MOST = 4096

# Bytes of a pair in a report: integers of JSON have 64 bits.
BYTES_MOST = 2**63 - 1

_Key = tuple[str | None, pod_telemetry.Endpoint, pod_telemetry.Endpoint]


class Counters:
    """The metrics of traffic: carico_agent_traffic_..."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self.bytes = metrics.counter("traffic_bytes", "bytes that Pods sent and received, as reported")
        self.skipped = metrics.counter(
            "traffic_skipped",
            "readings of traffic that were skipped: counters that decreased, events lost by the kernel, sockets that "
            "cannot be read, unusable answers or lines, numbers that are not finite",
            ("reason",),
        )
        self.skipped_by_reason: collections.Counter[str] = collections.Counter()

    def skip(self, reason: str, count: int) -> None:
        """Count what was skipped."""
        self.skipped.labels(reason).inc(count)
        self.skipped_by_reason[reason] += count


class TrafficReports:
    """What the next report contains."""

    def __init__(self, *, node: str, boot: str, network: str, clock: clocks.Clock, counters: Counters) -> None:
        self._network = network
        self._clock = clock
        self._counters = counters
        self._totals: dict[_Key, tuple[int, int]] = {}
        self._left_out_bytes = 0
        self._since_s = clock.monotonic_s()
        self._stamps = advertisement.Stamps(node=node, boot=boot, wall_ns=clock.wall_ns)

    def add(self, flows: Iterable[pod_telemetry.PodFlow]) -> None:
        """Take in what has been transferred."""
        for flow in flows:
            self._counters.bytes.inc(flow.sent_bytes + flow.received_bytes)
            self._add(flow)

    def next(self) -> pod_telemetry.PodTraffic:
        """Return the report of the time since the last one."""
        now_s = self._clock.monotonic_s()
        totals, self._totals = self._totals, {}
        left_out, self._left_out_bytes = self._left_out_bytes, 0
        interval_s, self._since_s = now_s - self._since_s, now_s
        stamp = self._stamps.next("traffic")
        return pod_telemetry.PodTraffic(
            node=stamp.node, boot=stamp.boot, seq=stamp.seq, ts_ns=stamp.ts_ns, interval_s=interval_s,
            network=self._network, left_out_bytes=left_out, skipped=dict(self._counters.skipped_by_reason),
            flows=tuple(pod_telemetry.PodFlow(*key, *total) for key, total in totals.items()),
        )  # fmt: skip

    def put_back(self, report: pod_telemetry.PodTraffic) -> None:
        """Take back a report that was not sent."""
        self._since_s -= report.interval_s
        self._left_out_bytes += report.left_out_bytes
        for flow in report.flows:
            self._add(flow)

    def _add(self, flow: pod_telemetry.PodFlow) -> None:
        key = (flow.pod, flow.local, flow.remote)
        if key not in self._totals and len(self._totals) >= PAIRS_MOST:
            self._left_out_bytes += flow.sent_bytes + flow.received_bytes
            return
        sent, received = self._totals.get(key, (0, 0))
        # A source that is wrong may state any number; a message takes none above this.
        self._totals[key] = (
            min(sent + flow.sent_bytes, BYTES_MOST), min(received + flow.received_bytes, BYTES_MOST),
        )  # fmt: skip
