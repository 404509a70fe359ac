"""Rosters: which Pods are on each node and of which class, for the node's agent, which only sees UIDs.

A roster is sent when a Pod is placed on the node, every second while the node does not advertise, since an agent that
starts waits for its first roster, and otherwise every minute in case one was lost. Pods that have ended leave it with
the next one: an agent does not ask about them. Failed Pods stay a while, since an agent cannot see that a Pod has
failed, and a roster may be lost.
"""

import asyncio
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

from carico_core.domain import cluster, errors, messages, names, usage
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.report import decisions
from carico_scheduler.state import state as states

# Pods placed within this time share a roster. Containers start later than that.
EVERY_S = 0.1
# At most so many rosters at a time: decisions and binds run on the same loop.
AT_ONCE = 250
# So many are written together; then decisions have their turn.
IN_A_ROW = 8
# Each node's roster is repeated after this time, and nodes are checked for it, and for silence, after the second.
REPEAT_S = 60.0
CHECK_S = 1.0
# An agent that runs advertises every second.
SILENT_AFTER_S = 2.0
# Failed Pods stay in this many repetitions, and at most so many of each node.
FAILED_S = 3 * REPEAT_S
FAILED_MOST = 64


class _Failed(NamedTuple):
    """A Pod that has failed, and when: monotonic seconds."""

    pod: cluster.Pod
    at_s: float


class Rosters:
    """The rosters that are due. `is_writer`: whether this scheduler is the one that sends them now."""

    def __init__(
        self, state: states.State, *, boot: str, clock: clocks.Clock, is_writer: Callable[[], bool],
        on_drop: Callable[[], None],
    ) -> None:  # fmt: skip
        self._state = state
        self._boot = boot
        self._clock = clock
        self._is_writer = is_writer
        self._on_drop = on_drop
        self._seq = 0
        # The nodes whose roster is due, in this order.
        self._due: dict[str, None] = {}
        # When each node's roster was sent; monotonic seconds.
        self._sent_s: dict[str, float] = {}
        self._checked_s = -math.inf
        # By node and UID, oldest first.
        self._failed: dict[str, dict[str, _Failed]] = {}
        state.placements.on_placed = self.mark
        state.on_failed = self.failed

    def mark(self, node: str) -> None:
        """Note that the roster of a node is due."""
        self._due[node] = None

    def failed(self, pod: cluster.Pod, node: str) -> None:
        """Note that a Pod on a node has failed."""
        found = self._failed.setdefault(node, {})
        found[pod.uid] = _Failed(pod, self._clock.monotonic_s())
        if len(found) > FAILED_MOST:
            del found[next(iter(found))]
        self.mark(node)

    async def publish_forever(self, bus: decisions.Publisher) -> None:
        """Publish rosters as they become due, until cancelled."""
        while True:
            await self.publish_due(bus)
            await asyncio.sleep(EVERY_S)

    async def publish_due(self, bus: decisions.Publisher) -> None:
        """Publish rosters that are due. What the bus does not take is counted, and repeated later."""
        if not self._is_writer():
            # The next term begins with all of them.
            self._due.clear()
            self._sent_s.clear()
            self._checked_s = -math.inf
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._checked_s >= CHECK_S:
            self._checked_s = now_s
            self._mark_old(now_s)
        for number, node in enumerate(list(itertools.islice(self._due, AT_ONCE))):
            if number % IN_A_ROW == 0:
                # A publisher may never wait: decisions run in between.
                await asyncio.sleep(0)
                if not self._is_writer():
                    return
            self._due.pop(node, None)
            self._sent_s[node] = now_s
            try:
                await bus.publish(subjects.roster(node), wire.encode_roster(self._roster(node)))
            except errors.CaricoError:
                self._on_drop()

    def _mark_old(self, now_s: float) -> None:
        """Mark nodes that are silent, or whose roster was sent long ago or never; forget those that are gone."""
        self._sent_s = {node: self._sent_s.get(node, -math.inf) for node in self._state.fleet.names()}
        self._failed = {node: found for node, each in self._failed.items() if (found := _recent(each, now_s))}
        for node, sent_s in self._sent_s.items():
            heard = self._state.heard.get(node)
            is_silent = heard is None or now_s - heard.sampled_s > SILENT_AFTER_S
            if is_silent or now_s - sent_s >= REPEAT_S:
                self.mark(node)

    def _roster(self, node: str) -> messages.Roster:
        self._seq += 1
        includes = self._state.baseline.includes
        failed = [each.pod for each in self._failed.get(node, {}).values()]
        pods: dict[str, str | None] = {}
        templates: dict[str, usage.Template] = {}
        containers: dict[str, dict[str, str]] = {}
        for pod in (*failed, *self._state.fleet.pod_counts.on(node)):
            name = pods[pod.uid_on_node] = None if includes(pod) else names.class_of(pod)
            # What counts on a node is the Pod as it was placed: it had no containers then, and may be resized since.
            shown = self._state.pod(pod.uid) or pod
            if name is not None and shown.template is not None:
                templates[pod.uid_on_node] = shown.template
            if name is not None and shown.containers:
                containers[pod.uid_on_node] = dict(shown.containers)
        return messages.Roster(
            node=node, boot=self._boot, seq=self._seq, ts_ns=self._clock.wall_ns(), pods=pods, templates=templates,
            containers=containers, failed=frozenset(pod.uid_on_node for pod in failed),
        )  # fmt: skip


def _recent(failed: dict[str, _Failed], now_s: float) -> dict[str, _Failed]:
    return {uid: each for uid, each in failed.items() if now_s - each.at_s < FAILED_S}
