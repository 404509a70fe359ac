"""Summaries of the cluster, one every five seconds, from which pages and terminals draw the last quarter of an hour.

The scheduler that leads writes them: it has what all nodes advertise and all Pods, so that they cost agents nothing.
The stream `CARICO_HISTORY` keeps them. Of schedulers that share the work, the holder of the Lease counts the Pods of
all.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict

import numpy as np

from carico_core.domain import cluster, errors, messages, names
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire
from carico_scheduler.report import decisions
from carico_scheduler.state import state as states

EVERY_S = 5.0
# Events kept between two summaries; a summary carries fewer (`wire.messages.summary`).
EVENTS_MOST = 256
# Dimensions in a summary: those that most nodes report. A message takes twice as many.
DIMS_MOST = 16
NODE, EVICTED, MOVED, LEADER = "node", "evicted", "moved", "leader"
JOINED, GONE, READY = "joined", "gone", "ready"
# As in `carico top`: why a Node gets no Pods.
UNREADY, CORDONED = "unready", "cordon"
_SHARES = (0.05, 0.5, 0.95)
_DIGITS = 4
# Advertisements of busy machines alternate between these.
_HEARD = frozenset({freshness.Freshness.FRESH.value, freshness.Freshness.AGEING.value})


class _Sums(TypedDict):
    pods: int
    capacity: float
    capacity_sd: float
    usage: dict[str, messages.Percentiles]


class Summaries:
    """What has happened since the last summary. `is_writer`: whether this scheduler is the one that writes them now."""

    def __init__(
        self, state: states.State, *, boot: str, clock: clocks.Clock, is_writer: Callable[[], bool],
        is_shared: bool, leader: Callable[[], str], on_drop: Callable[[], None],
    ) -> None:  # fmt: skip
        """`is_shared`: others decide at the same time. `leader` returns the name of the scheduler that leads."""
        self._state = state
        self._boot = boot
        self._clock = clock
        self._is_writer = is_writer
        self._is_shared = is_shared
        self._leader = leader
        self._on_drop = on_drop
        self._seq = 0
        # When the last summary was made; monotonic seconds. None: this scheduler has written none in this term.
        self._made_s: float | None = None
        self._placed = 0
        self._placed_waited_s = 0.0
        self._events: list[messages.ClusterEvent] = []
        self._left_off = 0
        # The state of each node in the last summary.
        self._nodes: dict[str, str] | None = None
        state.on_bound = self._bound

    def evicted(self, pod: cluster.Pod) -> None:
        """Note that a Pod is evicted for another."""
        if not self._is_writer():
            return
        self._note(EVICTED, f"{pod.namespace}/{pod.name}", pod.node_name or "evicted")

    async def publish_forever(self, bus: decisions.Publisher) -> None:
        """Publish a summary every `EVERY_S` while this scheduler is the one that writes them, until cancelled."""
        while True:
            await self.publish_due(bus)
            await asyncio.sleep(EVERY_S)

    async def publish_due(self, bus: decisions.Publisher) -> None:
        """Publish a summary if this scheduler writes them now. One that the bus does not take is counted and lost."""
        if not self._is_writer():
            self._forget()
            return
        try:
            await bus.publish(subjects.SUMMARY, wire.encode_summary(self.summary()))
        except errors.CaricoError:
            self._on_drop()

    def summary(self) -> messages.ClusterSummary:
        """Return the cluster as it is now with what has happened since the last summary, and begin the next span."""
        now_s = self._clock.monotonic_s()
        if self._made_s is None:
            self._note(LEADER, self._leader(), "leads")
        self._note_nodes(found := self._node_states(now_s))
        waiting, oldest_s = self._waiting(now_s)
        self._seq += 1
        made = messages.ClusterSummary(
            boot=self._boot, seq=self._seq, ts_ns=self._clock.wall_ns(),
            span_s=0.0 if self._made_s is None else round(now_s - self._made_s, _DIGITS),
            nodes=_counted(found.values()), **_sums(self._heard(found)),
            waiting=waiting, oldest_s=round(oldest_s, _DIGITS),
            placed=self._placed, placed_waited_s=round(self._placed_waited_s, _DIGITS),
            events=tuple(self._events), left_off=self._left_off,
        )  # fmt: skip
        self._forget()
        self._made_s, self._nodes = now_s, found
        return made

    def _forget(self) -> None:
        self._made_s, self._nodes = None, None
        self._placed, self._placed_waited_s, self._left_off = 0, 0.0, 0
        self._events = []

    def _bound(self, pod: cluster.Pod, node: str, since_s: float | None) -> None:
        """Count a Pod that has got a node. since_s: since when it was in the queue; None: in that of another."""
        if not self._is_writer():
            return  # the one that leads counts it
        if names.SURGE_LABEL in pod.labels and node:
            # A new replica of a move of the rescheduler.
            self._note(MOVED, pod.key, node)
        if pod.scheduler_name in self._state.fleet.policy.names:
            self._placed += 1
            self._placed_waited_s = max(self._placed_waited_s, self._waited_s(pod, since_s))

    def _waited_s(self, pod: cluster.Pod, since_s: float | None) -> float:
        if since_s is not None:
            return max(self._clock.monotonic_s() - since_s, 0.0)
        return max(self._clock.wall_ns() / 1e9 - pod.created_at_s, 0.0)

    def _waiting(self, now_s: float) -> tuple[int, float]:
        """Return how many Pods wait for a node of ours, and for how long the first of them has waited."""
        waited_s = [now_s - each.began_s for each in self._state.queue]
        if self._is_shared:
            waited_s += [self._waited_s(pod, None) for pod in self._state.of_others()]
        return len(waited_s), max(waited_s, default=0.0)

    def _node_states(self, now_s: float) -> dict[str, str]:
        """Return the state of each node, as `carico top` shows it."""
        fleet = self._state.fleet
        view = fleet.snapshot(now_s)
        found = {}
        ages_s = (now_s - view.sampled_s).tolist()
        for name in fleet.names():
            slot = fleet.slot_of(name)
            assert slot is not None
            if not view.ready[slot]:
                found[name] = UNREADY
            elif not view.schedulable[slot]:
                found[name] = CORDONED
            else:
                found[name] = freshness.classify(ages_s[slot], lease_s=fleet.policy.lease_s).value
        return found

    def _heard(self, found: Mapping[str, str]) -> list[messages.Advertisement]:
        """Return the advertisements of the nodes that are not absent."""
        now_s, lease_s = self._clock.monotonic_s(), self._state.fleet.policy.lease_s
        each_of = ((name, self._state.heard.get(name)) for name in found)
        return [each.advertisement for _, each in each_of if each is not None and now_s - each.sampled_s <= lease_s]

    def _note_nodes(self, found: Mapping[str, str]) -> None:
        """Note the nodes whose state has changed since the last summary."""
        before = self._nodes
        if before is None:
            return
        for name in before.keys() - found.keys():
            self._note(NODE, name, GONE)
        for name, now in found.items():
            was = before.get(name)
            if was == now or (was in _HEARD and now in _HEARD):
                continue
            self._note(NODE, name, JOINED if was is None else READY if now in _HEARD else now)

    def _note(self, kind: str, about: str, state: str) -> None:
        if len(self._events) >= EVENTS_MOST:
            self._left_off += 1
            return
        self._events.append(messages.ClusterEvent(self._clock.wall_ns(), kind, about, state))


def _counted(found: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in found:
        counts[each] = counts.get(each, 0) + 1
    return counts


def _sums(heard: list[messages.Advertisement]) -> _Sums:
    """Return Pods, capacity and usage of the nodes that advertise."""
    usage: dict[str, list[float]] = {}
    for each in heard:
        for dim, share in each.usage.items():
            usage.setdefault(dim, []).append(share)
    kept = sorted(sorted(usage), key=lambda dim: -len(usage[dim]))[:DIMS_MOST]
    return {
        "pods": sum(each.pods for each in heard),
        "capacity": round(sum(each.capacity for each in heard), _DIGITS),
        "capacity_sd": round(math.sqrt(sum(each.capacity_sd**2 for each in heard)), _DIGITS),
        "usage": {dim: _spread(usage[dim]) for dim in sorted(kept)},
    }


def _spread(shares: list[float]) -> messages.Percentiles:
    ordered = np.sort(np.clip(shares, 0.0, 1.0))
    places = [round(share * (len(ordered) - 1)) for share in _SHARES]
    return messages.Percentiles(*(round(float(ordered[place]), _DIGITS) for place in places))
