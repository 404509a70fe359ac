"""Tells people why Pods wait: a decision record and an Event each, as seldom as will do.

A record is written when the set of reasons for a Pod changes, and not again while it stays: the stream of decisions
holds so many, and repetitions would push the placements out of it. An Event comes more seldom still, but is repeated
as the API forgets it, and not for a Pod that has only just come: waiting for room is how CARICO works, not a failure.
"""

import dataclasses
import math
from typing import Protocol

from carico_core.domain import cluster, decision
from carico_scheduler import cycle as cycles
from carico_scheduler import decisions, explain, snapshot
from carico_scheduler import demand as demands
from carico_scheduler import queue as queues

# A Pod whose reasons go to and fro is told about this often at most.
CHANGE_EVERY_S = 10.0
EVENT_EVERY_S = 60.0
# Pods told about in one round: with thousands waiting, the rounds take turns.
PODS_A_ROUND = 64
# Demands looked at in one round, for the same reason: each is a look at every node, on the loop that also binds.
DEMANDS_A_ROUND = 32


class Sink(Protocol):
    """Where Events go."""

    def failed(self, pod: cluster.Pod, text: str) -> None:
        """Says why a Pod waits."""


@dataclasses.dataclass(slots=True, kw_only=True)
class _Told:
    # When its turn was last, whether or not there was something to say.
    looked_s: float = -math.inf
    # None: never told.
    reasons: frozenset[str] | None = None
    recorded_s: float = -math.inf
    event_reasons: frozenset[str] = frozenset()
    event_s: float = -math.inf


class Reporter:
    """Remembers what was said of each waiting Pod."""

    def __init__(self, *, cycle: cycles.Cycle, log: decisions.Log, events: Sink, event_after_s: float) -> None:
        self._cycle = cycle
        self._log = log
        self._events = events
        self._event_after_s = event_after_s
        self._told: dict[str, _Told] = {}

    def round(self, queue: queues.Queue, view: snapshot.Snapshot) -> bool:
        """True where a Pod that was thought to fit nowhere does: the caller opens the queue again.

        Tells about waiting Pods whose turn it is.
        """
        self._told = {uid: told for uid, told in self._told.items() if uid in queue}
        found: dict[demands.Demand, decisions.Facts | None] = {}
        told = 0
        # Whose turn was longest ago comes first, and who never had one before all.
        for waiting in sorted(queue.parked(), key=self._looked_s):
            if told >= PODS_A_ROUND:
                break
            if waiting.demand not in found:
                if len(found) >= DEMANDS_A_ROUND:
                    continue
                found[waiting.demand] = self._why_unplaced(waiting.demand, view)
            facts = found[waiting.demand]
            if facts is not None:
                told += self._tell(waiting, facts, view.now_s)
        return None in found.values()

    def _looked_s(self, waiting: queues.Waiting) -> float:
        told = self._told.get(waiting.pod.uid)
        return -math.inf if told is None else told.looked_s

    def _why_unplaced(self, demand: demands.Demand, view: snapshot.Snapshot) -> decisions.Facts | None:
        """Why Pods of this demand fit nowhere; None where they do."""
        board = self._cycle.explain(view, demand)
        if board.best("") != snapshot.NO_NODE:
            return None
        candidates = explain.candidates_of(board, board.seen())
        return decisions.Facts(
            outcome=decision.Outcome.UNSCHEDULABLE,
            node=None,
            free=None,
            candidates=candidates,
            refused=board.refused,
            message=explain.why_unplaced(board.refused, view.count, candidates),
        )

    def _tell(self, waiting: queues.Waiting, facts: decisions.Facts, now_s: float) -> bool:
        """True where something was said."""
        reasons = frozenset(facts.refused)
        told = self._told.get(waiting.pod.uid)
        if told is None:
            told = self._told[waiting.pod.uid] = _Told()
        told.looked_s = now_s
        is_due = told.reasons != reasons and now_s - told.recorded_s >= CHANGE_EVERY_S
        if is_due:
            told.reasons, told.recorded_s = reasons, now_s
            self._log.record(waiting, facts)
        if now_s - waiting.since_s >= self._event_after_s and self._is_event_due(told, reasons, now_s):
            told.event_reasons, told.event_s = reasons, now_s
            self._events.failed(waiting.pod, facts.message)
            return True
        return is_due

    @staticmethod
    def _is_event_due(told: _Told, reasons: frozenset[str], now_s: float) -> bool:
        every_s = EVENT_EVERY_S if told.event_reasons == reasons else CHANGE_EVERY_S
        return now_s - told.event_s >= every_s
