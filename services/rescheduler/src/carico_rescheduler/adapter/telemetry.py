"""Advertisements, loads and traffic of Pods from the bus: of each node, until they are older than they may be.

Loads are smoothed: a plan must rest on what lasts for minutes, not on the seconds before it.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.bus import listening
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire
from carico_rescheduler import instruments
from carico_rescheduler.adapter import traffic
from carico_rescheduler.context import cluster as clusters

# After this time, a smoothed load has followed 63 % of a step.
SMOOTHED_S = 30.0
# Agents report loads every 10 s; three reports may be lost.
LOADS_S = 40.0
# In this time, each agent that is heard has reported loads and traffic once.
COMPLETE_S = 12.0
# Advertisements of a node with 80 starts and ends of Pods a second. Each is decoded, also if its sender is no Node.
ADVERTISED = listening.Allowance(most=2_000, of_strangers=500, window_s=10.0)
# Of loads, and of traffic. A node reports either every 10 s; what has waited for a rescheduler that was frozen comes at
# once.
REPORTED = listening.Allowance(most=1_000, of_strangers=1_000, window_s=60.0)
# A step of the smoothing is at most this long: after a gap, the first report does not count for all of it.
_STEP_MOST_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was known at one time: for a thread, while events go on. `dropped`: see `clusters.Gaps`."""

    known: clusters.Cluster
    reports: Sequence[pod_telemetry.PodTraffic]
    dropped: Mapping[tuple[str, str], int]

    def resolve(self) -> clusters.Cluster:
        """Return the cluster with the reported traffic as flows between Pods.

        With hundreds of nodes this takes seconds: before a plan only, and never in the event loop.
        """
        known = self.known
        joined = traffic.joined(self.reports, known)
        known.flows = traffic.flows(joined, known)
        known.gaps = clusters.Gaps(
            unresolved_bytes=joined.unresolved, skipped=traffic.skipped(self.reports), dropped=self.dropped
        )
        return known


class Telemetry:
    """Takes messages in, and forgets nodes that are silent. Nothing that arrives can stop the service."""

    def __init__(
        self, into: clusters.Cluster, *, lease_s: float, clock: clocks.Clock, metrics: instruments.Instruments
    ) -> None:  # fmt: skip
        self._into = into
        self._lease_s = lease_s
        self._clock = clock
        self._metrics = metrics
        self._guards = {kind: freshness.SequenceGuard(lease_s) for kind in ("capacity", "pods", "traffic")}
        # By node: when it was heard, on the monotonic clock, and the UIDs of its loads.
        self._advertised_s: dict[str, float] = {}
        # Since when any agent has been heard without a break; None while none is.
        self._heard_since_s: float | None = None
        # Whether agents have sent a report since then that was dropped, so that the next one is to be waited for.
        self._is_after_outage = False
        self._loads_s: dict[str, float] = {}
        self._loaded: dict[str, frozenset[str]] = {}
        self._traffic = traffic.TrafficWindow()
        self._dropped: collections.Counter[tuple[str, str]] = collections.Counter()
        self._odd_line = logs.RateLimited(logs.get("telemetry"), clock=clock)
        self.listening = {
            kind: listening.Listening(
                take, subject=subject, allowed=allowed, names=lambda: [name for _, name in into.nodes.found],
                on_drop=functools.partial(self._drop, kind), clock=clock,
            )
            for kind, subject, allowed, take in (
                ("capacity", subjects.CAPACITY_ALL, ADVERTISED, self.on_advertisement),
                ("pods", subjects.PODS_ALL, REPORTED, self.on_loads),
                ("traffic", subjects.TRAFFIC_ALL, REPORTED, self.on_traffic),
            )
        }  # fmt: skip

    def on_advertisement(self, subject: str, payload: bytes) -> None:
        """Take in an advertisement that has just arrived."""
        found = self._decoded("capacity", subject, lambda: wire.decode_advertisement(payload, subject=subject))
        if found is None:
            return
        now_s = self._clock.monotonic_s()
        self._into.advertisements[found.node] = found
        self._advertised_s[found.node] = now_s
        if self._heard_since_s is None:
            self._heard_since_s = now_s

    def on_loads(self, subject: str, payload: bytes) -> None:
        """Take in the loads of a node's Pods."""
        found = self._decoded("pods", subject, lambda: wire.decode_loads(payload, subject=subject))
        if found is None:
            return
        now_s = self._clock.monotonic_s()
        passed_s = min(now_s - self._loads_s.get(found.node, -math.inf), _STEP_MOST_S)
        share = 1.0 - math.exp(-passed_s / SMOOTHED_S)
        for uid in self._loaded.get(found.node, frozenset()) - found.loads.keys():
            self._into.loads.pop((found.node, uid), None)
        node = self._into.nodes.found["", found.node]
        for uid, each in found.loads.items():
            key, load = (found.node, uid), clusters.Load(each.tasks, each.memory_bytes).on(node)
            self._into.loads[key] = _smoothed(self._into.loads.get(key), load, share)
        self._loaded[found.node] = frozenset(found.loads)
        self._loads_s[found.node] = now_s

    def on_traffic(self, subject: str, payload: bytes) -> None:
        """Take in the traffic of a node's Pods."""
        found = self._decoded("traffic", subject, lambda: wire.decode_traffic(payload, subject=subject))
        if found is None:
            return
        if found.interval_s > traffic.WINDOW_S:
            # The first report after an outage of the bus is about all of it.
            self._is_after_outage = True
            self._drop("traffic", subject, errors.Drop.TOO_OLD, f"traffic of {found.interval_s:.0f} s")
            return
        self._traffic.add(found, self._clock.monotonic_s())

    def forget(self) -> None:
        """Forget advertisements that are older than the lease, and what nodes have reported too long ago."""
        now_s = self._clock.monotonic_s()
        self._traffic.forget(now_s)
        for node in [node for node, at_s in self._advertised_s.items() if now_s - at_s > self._lease_s]:
            del self._advertised_s[node]
            self._into.advertisements.pop(node, None)
        if not self._advertised_s:
            self._heard_since_s, self._is_after_outage = None, False
        for node in [node for node, at_s in self._loads_s.items() if now_s - at_s > LOADS_S]:
            del self._loads_s[node]
            for uid in self._loaded.pop(node):
                self._into.loads.pop((node, uid), None)

    def incomplete(self) -> str:
        """Return why no plan can rest on what is known; empty if one can.

        Of a Pod that talks with Pods of two nodes, only the traffic with one may be known at first.
        """
        if not self._into.advertisements:
            return "no advertisement of any node has arrived"
        since_s, complete_s = self._heard_since_s, COMPLETE_S * (2.0 if self._is_after_outage else 1.0)
        if since_s is None or self._clock.monotonic_s() - since_s < complete_s:
            return (
                f"agents have been heard for less than {complete_s:.0f} s: each reports loads and traffic in that time"
            )
        return ""

    def snapshot(self) -> Snapshot:
        """Return what is known now."""
        return Snapshot(known=self._into.copied(), reports=self._traffic.reports(), dropped=dict(self._dropped))

    def _decoded(self, kind: str, subject: str, decode: Callable[[], Any]) -> Any:
        """Return a message if it is valid and newer than the last one of its writer; None otherwise."""
        try:
            found = decode()
        except errors.MessageError as error:
            self._drop(kind, subject, error.reason, str(error))
            return None
        if not self._may_exist(found.node):
            self._drop(kind, subject, errors.Drop.FOREIGN_NODE, f"the API shows no Node {found.node}")
            return None
        drop = self._guards[kind].accept(found.node, found.boot, found.seq, self._clock.monotonic_s())
        if drop is not None:
            self._drop(kind, subject, drop, f"boot {found.boot} seq {found.seq}")
            return None
        return found

    def _may_exist(self, node: str) -> bool:
        """Return whether the API shows such a Node; who has a key of all nodes can report of any number of names."""
        return ("", node) in self._into.nodes.found

    def _drop(self, kind: str, subject: str, reason: errors.Drop, why: str) -> None:
        self._metrics.drops.labels(kind, reason.value).inc()
        self._dropped[kind, reason.value] += 1
        self._odd_line.warning((subject, reason), "message dropped", subject=subject, reason=reason.value, why=why)


def _smoothed(before: clusters.Load | None, load: clusters.Load, share: float) -> clusters.Load:
    if before is None:
        return load
    return clusters.Load(
        before.tasks + share * (load.tasks - before.tasks),
        before.memory_bytes + share * (load.memory_bytes - before.memory_bytes),
    )
