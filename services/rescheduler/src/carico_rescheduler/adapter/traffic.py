"""Traffic between Pods from the reports of the last minutes, resolved to Pods of the API."""

import collections
import ipaddress
from collections.abc import Iterable, Sequence

from carico_core.domain import pod_telemetry
from carico_core.numerics.rescheduling import pod_traffic
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import services

# The time over which traffic is a mean. Reports come every 10 s.
WINDOW_S = 120.0
# Reports that are kept of a node: more than agents send in that time.
REPORTS_MOST = 24


class TrafficWindow:
    """The reports of each node within the window."""

    def __init__(self) -> None:
        # (When it arrived on the monotonic clock, the report), oldest first.
        self._reports: dict[str, collections.deque[tuple[float, pod_telemetry.PodTraffic]]] = {}

    def add(self, report: pod_telemetry.PodTraffic, now_s: float) -> None:
        """Take in a report that has just arrived."""
        kept = self._reports.setdefault(report.node, collections.deque(maxlen=REPORTS_MOST))
        kept.append((now_s, report))

    def forget(self, now_s: float) -> None:
        """Forget reports that are older than the window."""
        for node, kept in list(self._reports.items()):
            while kept and now_s - kept[0][0] > WINDOW_S:
                kept.popleft()
            if not kept:
                del self._reports[node]

    def reports(self) -> list[pod_telemetry.PodTraffic]:
        """Return the reports of the window, those of a node oldest first."""
        return [report for kept in self._reports.values() for _, report in kept]


def skipped(reports: Iterable[pod_telemetry.PodTraffic]) -> dict[tuple[str, str], int]:
    """Return the readings that agents have skipped since they started, by node and reason."""
    newest = {report.node: report.skipped for report in reports}
    return {(node, why): count for node, found in sorted(newest.items()) for why, count in sorted(found.items())}


def joined(reports: Sequence[pod_telemetry.PodTraffic], known: clusters.Cluster) -> pod_traffic.Joined:
    """Return the traffic between Pods, by their UIDs on their nodes."""
    return pod_traffic.join(reports, _addresses(known)) if reports else pod_traffic.Joined({}, 0.0)


def flows(joined: pod_traffic.Joined, known: clusters.Cluster) -> tuple[clusters.Flow, ...]:
    """Return the traffic between Pods by their UIDs at the API."""
    uids = {each.pod.uid_on_node: each.uid for each in known.pods.found.values()}
    return tuple(
        clusters.Flow(one=uids[one], other=uids[other], bytes_per_s=rate)
        for (one, other), rate in joined.pairs.items()
        if one in uids and other in uids
    )


def _addresses(known: clusters.Cluster) -> pod_traffic.Addresses:
    running = [each for each in known.pods.found.values() if each.pod.node_name and not each.pod.is_terminal]
    having: dict[str, list[str]] = collections.defaultdict(list)
    for each in running:
        for address in each.addresses:
            try:
                having[str(ipaddress.ip_address(address))].append(each.pod.uid_on_node)
            except ValueError:
                continue
    return pod_traffic.Addresses(
        nodes={each.pod.uid_on_node: each.pod.node_name or "" for each in running},
        pods={address: uids[0] for address, uids in having.items() if len(uids) == 1},
        services=services.resolve(known.services.found.values(), known.slices.found.values()),
    )
