"""Reports why Pods wait, with a decision record and an Event each.

A record is written only when the set of reasons for a Pod changes: the stream of decisions is limited, and repetitions
would displace placements. Events are repeated (`notices`).
"""

import math
import operator

from carico_core.domain import decision
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions, explain, notices

# Maximum Pods reported in one round; with thousands waiting, rounds take turns.
PODS_A_ROUND = 64
# Maximum demands scored in one round: each reads every node, on the event loop that also binds.
DEMANDS_A_ROUND = 32


class Reporter:
    """Reports the Pods that fit nowhere, in turns."""

    def __init__(self, *, cycle: cycles.Cycle, log: decisions.Log, notices: notices.Notices) -> None:
        self._cycle = cycle
        self._log = log
        self._notices = notices

    def round(self, queue: queues.Queue, view: snapshot.Snapshot) -> bool:
        """Report the waiting Pods whose turn it is.

        Return True if a parked Pod fits a node after all: the caller then opens the queue again.
        """
        found: dict[demands.Demand, decisions.Facts | None] = {}
        reported = 0
        # The Pod whose turn was longest ago comes first; those that never had a turn come before all others.
        for waiting in sorted(queue.parked(), key=operator.attrgetter("considered_s")):
            if reported >= PODS_A_ROUND:
                break
            if waiting.demand not in found:
                if len(found) >= DEMANDS_A_ROUND:
                    continue
                found[waiting.demand] = self._why_unplaced(waiting.demand, view)
            facts = found[waiting.demand]
            if facts is not None:
                reported += self._report(waiting, facts, view.now_s)
        return None in found.values()

    def _why_unplaced(self, demand: demands.Demand, view: snapshot.Snapshot) -> decisions.Facts | None:
        """Return why Pods of this demand fit nowhere; None if they do."""
        scores = self._cycle.explain(view, demand)
        if scores.best("") != snapshot.NO_NODE:
            return None
        candidates = explain.candidates_of(scores, scores.seen())
        return decisions.Facts(
            outcome=decision.Outcome.UNSCHEDULABLE,
            node=None,
            free=None,
            candidates=candidates,
            refused=scores.refused,
            message=explain.why_unplaced(scores.refused, view.count, candidates),
        )

    def _report(self, waiting: queues.Waiting, facts: decisions.Facts, now_s: float) -> bool:
        """Report one Pod; return True if a report was due."""
        waiting.considered_s = now_s
        reasons = frozenset(facts.refused)
        is_new = notices.is_due(waiting, "record", now_s, reasons=reasons, again_s=math.inf)
        if is_new:
            self._log.record(waiting, facts)
        return self._notices.notify(waiting, "room", facts.message, now_s, reasons) or is_new
