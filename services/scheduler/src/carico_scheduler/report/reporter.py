"""Reports why Pods wait, with a decision record, an Event and a condition each.

A record is written only when the set of reasons for a Pod changes: the stream of decisions is limited, and repetitions
would displace placements. Events are repeated (`notices`).
"""

import collections
import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from carico_core.domain import decision, gangs
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.decide import cycle_scores
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions, explain, notices, verdicts

# Maximum Pods reported in one round; with thousands waiting, rounds take turns, and so do namespaces.
PODS_A_ROUND = 64
# Maximum demands scored in one round: each reads every node, on the event loop that also binds.
DEMANDS_A_ROUND = 32


# Room that is held on nodes: slot, demand, and the Pod whose host ports and disks are, too.
_Room: TypeAlias = list[cycles.Held]


class ConditionSink(Protocol):
    """Where conditions go."""

    def note(self, waiting: queues.Waiting, verdict: verdicts.Verdict, text: str, reasons: frozenset[str]) -> bool:
        """Queue the condition of a Pod if a change of it is due; return True if it was."""


class GangsInWords(Protocol):
    """The gangs."""

    def is_short(self, key: gangs.Key) -> bool:
        """Return whether a gang lacks something other than room."""

    def why(self, key: gangs.Key) -> str:
        """Return why a gang waits, in words."""


class Held(Protocol):
    """The room that is held on nodes."""

    def nominees(self) -> Sequence[cycles.Nominee]:
        """Return the Pods for which room is held on a node."""

    def slots_for_others(self) -> Iterable[cycles.Held]:
        """Yield the room that is held for Pods of other schedulers."""


class _Unplaced(NamedTuple):
    """Why Pods of one demand fit nowhere."""

    facts: decisions.Facts
    verdict: verdicts.Verdict


class Reporter:
    """Reports the Pods that fit nowhere, in turns."""

    def __init__(
        self, *, cycle: cycles.Cycle, log: decisions.Log, notices: notices.Notices, conditions: ConditionSink,
        gangs: GangsInWords,
    ) -> None:  # fmt: skip
        self._cycle = cycle
        self._log = log
        self._notices = notices
        self._conditions = conditions
        self._gangs = gangs

    def round(self, queue: queues.Queue, view: snapshot.Snapshot, held: Held) -> bool:
        """Report the waiting Pods whose turn it is.

        Return True if a parked Pod fits a node after all: the caller then opens the queue again. What is held for a Pod
        of higher priority, one that has waited longer, or one of another scheduler is no room.
        """
        found: dict[demands.Demand, _Unplaced | None] = {}
        reported = 0
        for waiting in _in_turns(queue.parked()):
            if reported >= PODS_A_ROUND:
                break
            if waiting.demand not in found:
                if len(found) >= DEMANDS_A_ROUND:
                    continue
                against = functools.partial(_against, waiting, queue, held)
                found[waiting.demand] = self._why_unplaced(waiting, view, against)
            unplaced = found[waiting.demand]
            if unplaced is not None:
                reported += self._report(waiting, unplaced, view.now_s)
        return None in found.values()

    def _why_unplaced(
        self, waiting: queues.Waiting, view: snapshot.Snapshot, held: Callable[[], _Room]
    ) -> _Unplaced | None:  # fmt: skip
        """Return why Pods like this one fit nowhere; None if they do. `held` returns the room that they do not get."""
        demand = waiting.demand
        scores = self._cycle.explain(view, demand)
        if demand.gang is not None:
            return self._why_gang_waits(demand.gang, scores)
        # Most of the Pods that wait fit nowhere anyway.
        room = held() if scores.best("") != snapshot.NO_NODE else []
        if room:
            scores = self._cycle.explain(view, demand, held=room)
        if scores.best("") != snapshot.NO_NODE:
            return None
        return _Unplaced(_facts(scores, scores.refused), verdicts.verdict_of(scores))

    def _why_gang_waits(self, key: gangs.Key, scores: cycle_scores.Scores) -> _Unplaced:
        """Return why the Pods of a gang wait, some of which may fit a node by themselves."""
        why = self._gangs.why(key)
        if self._gangs.is_short(key):
            facts = _facts(scores, scores.refused)._replace(message=why)
            return _Unplaced(facts, verdicts.Verdict.UNKNOWN)
        return _Unplaced(_facts(scores, explain.refused_to_gang(scores), f"{why}; "), verdicts.verdict_of(scores))

    def _report(self, waiting: queues.Waiting, unplaced: _Unplaced, now_s: float) -> bool:
        """Report one Pod; return True if a report was due."""
        waiting.considered_s = now_s
        facts, verdict = unplaced
        reasons = frozenset(facts.refused)
        if waiting.in_vain:
            # Another reason, so that it is reported soon.
            reasons |= {notices.PREEMPTION}
            facts = facts._replace(message=f"{facts.message}; {waiting.in_vain}")
        if waiting.pod.unscheduled_reason:
            # Who wrote the condition has written a record.
            notices.inherit(waiting, "record", now_s, reasons)
        is_new = notices.is_due(waiting, "record", now_s, reasons=reasons, again_s=math.inf)
        if is_new:
            self._log.record(waiting, facts)
        is_new |= self._conditions.note(waiting, verdict, facts.message, reasons)
        return self._notices.notify(waiting, "room", facts.message, now_s, reasons) or is_new


def _against(waiting: queues.Waiting, queue: queues.Queue, held: Held) -> _Room:
    """Return the room that a cycle holds against a Pod, but for others of its demand, which are tried before it."""
    nominees = (
        (each.slot, each.demand, each.pod)
        for each in held.nominees()
        if each.key < waiting.key
        and (each.demand != waiting.demand or each.uid not in queue or queue.due_s(each.uid) is not None)
    )
    return [*held.slots_for_others(), *nominees]


def _in_turns(parked: Iterable[queues.Waiting]) -> Iterator[queues.Waiting]:
    """Yield one Pod of each namespace, then the next of each.

    The namespace whose last turn was longest ago comes first, and so does the Pod of a namespace. Those that never had
    one come before.
    """
    by_namespace: collections.defaultdict[str, list[queues.Waiting]] = collections.defaultdict(list)
    for waiting in sorted(parked, key=operator.attrgetter("considered_s")):
        by_namespace[waiting.pod.namespace].append(waiting)
    turns = collections.deque(map(iter, sorted(by_namespace.values(), key=lambda pods: pods[-1].considered_s)))
    while turns:
        pods = turns.popleft()
        waiting_next = next(pods, None)
        if waiting_next is not None:
            turns.append(pods)
            yield waiting_next


def _facts(scores: cycle_scores.Scores, refused: dict[str, int], begin: str = "") -> decisions.Facts:
    """Return the content of the record about a Pod that waits; `begin`: how its message begins."""
    candidates = explain.candidates_of(scores, scores.seen())
    return decisions.Facts(
        outcome=decision.Outcome.UNSCHEDULABLE, node=None, free=None, candidates=candidates, refused=refused,
        message=begin + explain.why_unplaced(refused, scores.view.count, candidates),
    )  # fmt: skip
