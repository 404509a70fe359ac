"""The Pods that wait for a node, grouped by the reason, and by namespace and class. Read only."""

import dataclasses
import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from carico_core.domain import decision
from carico_scheduler.answers import known as knowns
from carico_scheduler.answers import questions
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import explain

# Pods that are named of each group by default, and the groups of each kind that an answer holds.
NAMED = 10
GROUPS_MAX = 50
HELD = "room on a node is held for it, as Pods end there"
BACKOFF = "waits for a backoff after a failed bind"
NEW = "not considered yet"


@dataclasses.dataclass(slots=True, kw_only=True)
class _Group:
    """Pods with something in common."""

    waiting: list[queues.Waiting] = dataclasses.field(default_factory=list)

    def oldest_s(self, now_s: float) -> float:
        return max(now_s - each.since_s for each in self.waiting)


def answer(known: knowns.Known, asked: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """Return the groups, those with the longest wait first; `limit` Pods of each are named, in the queue's order."""
    limit = questions.limit_of({"limit": NAMED, **asked})
    by_reason: dict[str, _Group] = {}
    by_class: dict[tuple[str, str], _Group] = {}
    for each in known.state.queue:
        by_reason.setdefault(_reason(known, each), _Group()).waiting.append(each)
        by_class.setdefault((each.pod.namespace, each.demand.pod_class), _Group()).waiting.append(each)
    return {
        "pods": len(known.state.queue),
        "reasons": [
            {"reason": reason, **_counts(group, now_s), "named": _named(group, limit, now_s)}
            for reason, group in _longest(by_reason.items(), now_s)
        ],
        "classes": [
            {"namespace": namespace, "class": name, **_counts(group, now_s)}
            for (namespace, name), group in _longest(by_class.items(), now_s)
        ],
    }


def _reason(known: knowns.Known, waiting: queues.Waiting) -> str:
    """Return why a Pod waits, without the numbers of nodes, so that Pods with one cause are one group."""
    uid = waiting.pod.uid
    if known.state.nominations.find(uid) is not None or (known.turns is not None and known.turns.find(uid) is not None):
        return HELD
    if known.state.queue.due_s(uid) is not None:
        return BACKOFF
    reasons, _ = waiting.reported.get("record", (frozenset[str](), 0.0))
    return ", ".join(sorted(explain.phrase(decision.Reason(each)) for each in reasons)) or NEW


def _longest(groups: Iterable[tuple[Any, _Group]], now_s: float) -> list[tuple[Any, _Group]]:
    return heapq.nlargest(GROUPS_MAX, groups, key=lambda item: item[1].oldest_s(now_s))


def _counts(group: _Group, now_s: float) -> dict[str, Any]:
    return {"pods": len(group.waiting), "oldest_s": questions.finite(group.oldest_s(now_s))}


def _named(group: _Group, limit: int, now_s: float) -> list[dict[str, Any]]:
    first = heapq.nsmallest(limit, group.waiting, key=lambda each: each.key)
    return [
        {
            "namespace": each.pod.namespace, "pod": each.pod.name, "class": each.demand.pod_class,
            "waited_s": questions.finite(now_s - each.since_s),
        }
        for each in first
    ]  # fmt: skip
