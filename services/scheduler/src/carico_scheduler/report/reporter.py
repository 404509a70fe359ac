"""Reports why Pods wait, with a decision record, an Event and a condition each.

A record is written only when the set of reasons for a Pod changes: the stream of decisions is limited, and repetitions
would displace placements. Events are repeated (`notices`).
"""

import math
import operator
from typing import NamedTuple, Protocol

from carico_core.domain import decision
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions, explain, notices, verdicts

# Maximum Pods reported in one round; with thousands waiting, rounds take turns.
PODS_A_ROUND = 64
# Maximum demands scored in one round: each reads every node, on the event loop that also binds.
DEMANDS_A_ROUND = 32


class Conditions(Protocol):
    """Where conditions go."""

    def note(self, waiting: queues.Waiting, verdict: verdicts.Verdict, text: str, reasons: frozenset[str]) -> bool:
        """Queue the condition of a Pod if a change of it is due; return True if it was."""


class _Unplaced(NamedTuple):
    """Why Pods of one demand fit nowhere."""

    facts: decisions.Facts
    verdict: verdicts.Verdict


class Reporter:
    """Reports the Pods that fit nowhere, in turns."""

    def __init__(
        self, *, cycle: cycles.Cycle, log: decisions.Log, notices: notices.Notices, conditions: Conditions
    ) -> None:
        self._cycle = cycle
        self._log = log
        self._notices = notices
        self._conditions = conditions

    def round(self, queue: queues.Queue, view: snapshot.Snapshot) -> bool:
        """Report the waiting Pods whose turn it is.

        Return True if a parked Pod fits a node after all: the caller then opens the queue again.
        """
        found: dict[demands.Demand, _Unplaced | None] = {}
        reported = 0
        # The Pod whose turn was longest ago comes first; those that never had a turn come before all others.
        for waiting in sorted(queue.parked(), key=operator.attrgetter("considered_s")):
            if reported >= PODS_A_ROUND:
                break
            if waiting.demand not in found:
                if len(found) >= DEMANDS_A_ROUND:
                    continue
                found[waiting.demand] = self._why_unplaced(waiting.demand, view)
            unplaced = found[waiting.demand]
            if unplaced is not None:
                reported += self._report(waiting, unplaced, view.now_s)
        return None in found.values()

    def _why_unplaced(self, demand: demands.Demand, view: snapshot.Snapshot) -> _Unplaced | None:
        """Return why Pods of this demand fit nowhere; None if they do."""
        scores = self._cycle.explain(view, demand)
        if scores.best("") != snapshot.NO_NODE:
            return None
        candidates = explain.candidates_of(scores, scores.seen())
        facts = decisions.Facts(
            outcome=decision.Outcome.UNSCHEDULABLE,
            node=None,
            free=None,
            candidates=candidates,
            refused=scores.refused,
            message=explain.why_unplaced(scores.refused, view.count, candidates),
        )
        return _Unplaced(facts, verdicts.verdict_of(scores))

    def _report(self, waiting: queues.Waiting, unplaced: _Unplaced, now_s: float) -> bool:
        """Report one Pod; return True if a report was due."""
        waiting.considered_s = now_s
        facts, verdict = unplaced
        reasons = frozenset(facts.refused)
        is_new = notices.is_due(waiting, "record", now_s, reasons=reasons, again_s=math.inf)
        if is_new:
            self._log.record(waiting, facts)
        is_new |= self._conditions.note(waiting, verdict, facts.message, reasons)
        return self._notices.notify(waiting, "room", facts.message, now_s, reasons) or is_new
