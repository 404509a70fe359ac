"""Evicts opportunistic Pods from nodes that have filled, twice a second, in the way in which preemption does.

The Pods of one PriorityClass run on what is idle. They are placed like others. A node has filled if it uses more than
its ceiling: what it advertises as headroom, less what is reserved, is below zero in some dimension. Then as many of
them go as hold what is lacking, the least important first, without waiting for a Pod that needs the room.

A node takes a Pod only with room for a whole one, and evicts below zero, so that a Pod that is created again does not
return at once.
"""

import functools
from collections.abc import Callable

from carico_core.domain import cluster
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.nodes import headroom, snapshot
from carico_scheduler.preempt import evictor, preemptor, search, victims
from carico_scheduler.report import instruments
from carico_scheduler.rules import admission
from carico_scheduler.state import state as states

# How long a node must have been full: three advertisements, so that a peak evicts nothing.
FULL_FOR_S = 3.0
# After victims have left a node, or an eviction has failed, no others go for so long: its agent must measure it first.
SETTLE_S = 5.0


class Opportunistic:
    """Evicts the Pods of one PriorityClass from full nodes."""

    def __init__(
        self, state: states.State, *, kube: api_actions.BindApi, clock: clocks.Clock, events: preemptor.Events,
        metrics: instruments.Instruments, term: Callable[[], int | None], priority_class: str,
    ) -> None:  # fmt: skip
        """`term`: the term in which this scheduler may evict, or None."""
        self._state = state
        self._clock = clock
        self._term = term
        self._priority_class = priority_class
        self._evictor = evictor.Evictor(
            kube, clock=clock, write_event=events.preempted, term=term,
            count=lambda outcome: metrics.victims.labels(outcome).inc(), leaving=state.nominations,
        )  # fmt: skip
        # By node: since when it is full, and until when nothing is evicted there (monotonic).
        self._full_since_s: dict[str, float] = {}
        self._rests_until_s: dict[str, float] = {}
        self._line = logs.get("scheduler")

    async def work_forever(self) -> None:
        """Look after full nodes until cancelled."""
        await self._evictor.work_forever(self.round)

    async def round(self) -> None:
        """Evict what is due now."""
        term, now_s = self._term(), self._clock.monotonic_s()
        if term is None or not self._state.may_evict:
            self._full_since_s.clear()
            return
        view = self._state.fleet.snapshot(now_s)
        full = view.present & (view.free(headroom.UNNAMED) < 0.0) & admission.are_believed(view)
        rows = [view.row(slot) for slot in full.nonzero()[0].tolist()]
        since_s = self._full_since_s
        self._full_since_s = {row.node.name: since_s.get(row.node.name, now_s) for row in rows if _is_full(row.room)}
        self._rests_until_s = {node: at_s for node, at_s in self._rests_until_s.items() if at_s > now_s}
        for row in rows:
            if now_s - self._full_since_s.get(row.node.name, now_s) >= FULL_FOR_S:
                self._relieve(row, term, now_s)

    def _relieve(self, row: snapshot.NodeRow, term: int, now_s: float) -> None:
        """Evict as many Pods as hold what a full node lacks once those that are leaving are gone."""
        node = row.node.name
        here = self._residents(node)
        leaving = [each for each in here if each.is_leaving]
        own = [each for each in here if each.pod.priority_class == self._priority_class and not each.is_leaving]
        if not own or (node in self._rests_until_s and not leaving):
            return
        gone: list[cluster.Pod] = []
        # One that frees nothing is of a class that is not measured here: its node must show first what it frees.
        if not any(each.is_evicted and _frees_nothing(row, each) for each in leaving):
            gone = self._least(row.counting((each.counted for each in leaving), -1), own)
        if leaving and not gone:
            self._rests_until_s[node] = now_s + SETTLE_S
        if not gone or node in self._rests_until_s:
            return
        self._rests_until_s[node] = now_s + SETTLE_S
        self._line.info("node is full", node=node, evicted=[pod.key for pod in gone])
        for pod in gone:
            text = f"{node} is full, and {self._priority_class} Pods run on what is idle"
            cause = evictor.Cause(evictor.REASON, f"{pod.scheduler_name}: {text}", f"Evicted: {text}")
            self._evictor.evict(pod, cause, functools.partial(self._may_evict, pod.uid, node, term))

    def _residents(self, node: str) -> list[victims.Resident]:
        """Return the Pods on a node, but for those that belong to it, are still being bound, or do not end in time."""
        leaving, unix_s = self._state.nominations, self._clock.wall_ns() / 1e9
        return [
            each for each in search.residents(self._state, node)
            if not (each.booking.is_baseline or self._state.is_binding(each.pod.uid))
            and (not each.pod.deleting or leaving.is_leaving(each.pod, node, unix_s))
        ]  # fmt: skip

    def _least(self, row: snapshot.NodeRow, found: list[victims.Resident]) -> list[cluster.Pod]:
        """Return which of these Pods have to go: it is assumed that all are gone, and as many as possible return."""
        # The lowest priority first, then the youngest; those that would violate a budget, in this order, after others.
        found = sorted(found, key=lambda each: (each.pod.priority, -each.pod.created_at_s, each.pod.uid))
        evicting = self._state.nominations.evicting(self._state.node_of)
        violating = self._state.budgets.violated_by([each.pod for each in found], evicting)
        found.sort(key=lambda each: each.pod.uid in violating)
        # A Pod stays under the ceiling by which it was placed, if that is higher: it would return at once.
        offsets = {each.pod.uid: max(self._state.demand_of(each.pod).ceiling_offset, 0.0) for each in found}
        left, staying = row.counting((each.counted for each in found), -1), set[str]()
        order = sorted(found, key=lambda each: offsets[each.pod.uid])
        for each in reversed(order):
            back = left.counting((each.counted,), 1)
            if not _is_full(back.room_under(offsets[each.pod.uid])):
                left = back
                staying.add(each.pod.uid)
        gone: list[cluster.Pod] = []
        for each in found:
            if each.pod.uid not in staying:
                gone.append(each.pod)
                if _frees_nothing(row, each):
                    # As above: no other goes with it.
                    break
        return gone

    def _may_evict(self, uid: str, node: str, term: int) -> bool:
        return self._term() == term and self._state.node_of(uid) == node


def _is_full(room: headroom.NodeRoom) -> bool:
    """Return True if a node uses more than its ceiling in some dimension, with what is reserved."""
    if room.offer is None:
        return False
    return any(free < taken for free, taken in zip(room.offer.headroom, room.taken, strict=True))


def _frees_nothing(row: snapshot.NodeRow, each: victims.Resident) -> bool:
    return row.counting((each.counted,), -1).room.taken == row.room.taken
