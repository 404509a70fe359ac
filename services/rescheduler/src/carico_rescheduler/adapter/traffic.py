"""Traffic between Pods from the reports of the last minutes, resolved to Pods of the API."""

import collections
import dataclasses
import ipaddress
from collections.abc import Iterable, Sequence

from carico_core.domain import pod_telemetry
from carico_core.numerics.rescheduling import pod_traffic
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import services

# Reports come every 10 s; one about a longer time than this is dropped.
WINDOW_S = 120.0
# Reports of a node within this time are added up, at most so many of them: a minute later than the first of them has
# ended, they leave the window together. Added up, a plan joins a sixth of what agents have sent.
PART_S, PART_MOST = 60.0, 12
PARTS_MOST = 2


@dataclasses.dataclass(slots=True)
class _Part:
    """Reports of a node, added up. `began_s`: when the first of them arrived, on the monotonic clock."""

    began_s: float
    report: pod_telemetry.PodTraffic
    count: int = 1

    def takes(self, later: pod_telemetry.PodTraffic, now_s: float) -> bool:
        is_soon = now_s - self.began_s < PART_S and self.count < PART_MOST
        return is_soon and later.network == self.report.network


class TrafficWindow:
    """The traffic that each node has reported within the last one to two minutes."""

    def __init__(self) -> None:
        # By node, the oldest first.
        self._parts: dict[str, collections.deque[_Part]] = {}

    def add(self, report: pod_telemetry.PodTraffic, now_s: float) -> None:
        """Take in a report that has just arrived."""
        kept = self._parts.setdefault(report.node, collections.deque(maxlen=PARTS_MOST))
        if kept and kept[-1].takes(report, now_s):
            kept[-1].report = pod_traffic.added(kept[-1].report, report)
            kept[-1].count += 1
        else:
            kept.append(_Part(now_s, report))

    def forget(self, now_s: float) -> None:
        """Forget what is older than the window."""
        for node, kept in list(self._parts.items()):
            while kept and now_s - kept[0].began_s > WINDOW_S:
                kept.popleft()
            if not kept:
                del self._parts[node]

    def reports(self) -> list[pod_telemetry.PodTraffic]:
        """Return the reports of the window, added up, those of a node oldest first."""
        return [part.report for kept in self._parts.values() for part in kept]


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
