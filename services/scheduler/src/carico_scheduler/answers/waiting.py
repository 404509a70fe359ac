"""The Pods that wait for a node, grouped by the reason, and by namespace and class. Read only."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from carico_core.domain import cluster, decision, names
from carico_core.runtime.process import clock as clocks
from carico_scheduler.answers import known as knowns
from carico_scheduler.answers import questions
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import explain, notices

# Pods that are named of each group by default, and the groups of each kind that an answer holds.
NAMED = 10
GROUPS_MAX = 50
HELD = "room on a node is held for it, as Pods end there"
BACKOFF = "waits for a backoff after a failed bind"
NEW = "not considered yet"
ELSEWHERE = "decided on by another scheduler"


class _Waits(NamedTuple):
    """A Pod that waits here or for another scheduler; monotonic seconds."""

    pod: cluster.Pod
    pod_class: str
    since_s: float
    reason: str


# Pods with something in common.
_Group: TypeAlias = list[_Waits]


def answer(known: knowns.Known, asked: Mapping[str, Any], clock: clocks.Clock) -> dict[str, Any]:
    """Return the groups, those with the longest wait first; `limit` Pods of each are named, in the queue's order."""
    limit, now_s = questions.limit_of({"limit": NAMED, **asked}), clock.monotonic_s()
    by_reason: dict[str, _Group] = {}
    by_class: dict[tuple[str, str], _Group] = {}
    every = list(_every(known, clock))
    for each in every:
        by_reason.setdefault(each.reason, []).append(each)
        by_class.setdefault((each.pod.namespace, each.pod_class), []).append(each)
    return {
        "pods": len(every),
        "reasons": [
            {"reason": reason, **_counts(group, now_s), "named": _named(group, limit, now_s)}
            for reason, group in _longest(by_reason.items())
        ],
        "classes": [
            {"namespace": namespace, "class": name, **_counts(group, now_s)}
            for (namespace, name), group in _longest(by_class.items())
        ],
    }


def since_created_s(pod: cluster.Pod, clock: clocks.Clock) -> float:
    """Return how long ago a Pod was created, which waits for another scheduler."""
    return max(clock.wall_ns() / 1e9 - pod.created_at_s, 0.0)


def _every(known: knowns.Known, clock: clocks.Clock) -> Iterator[_Waits]:
    """Yield the Pods of the queue, then those of schedulers with which this one shares the work."""
    of_class: dict[str, str] = {}
    said: dict[frozenset[str], str] = {}
    for each in known.state.queue:
        found = _Waits(each.pod, each.demand.pod_class, each.began_s, _reason(known, each, said))
        if found.reason != NEW:
            of_class.setdefault(found.pod_class, found.reason)
        yield found
    for pod in known.state.of_others() if known.is_shared else ():
        pod_class = names.class_of(pod)
        since_s = clock.monotonic_s() - since_created_s(pod, clock)
        # Why it waits there is not known here: most probably for the same reason as Pods of its class here.
        yield _Waits(pod, pod_class, since_s, of_class.get(pod_class, ELSEWHERE))


def _reason(known: knowns.Known, waiting: queues.Waiting, said: dict[frozenset[str], str]) -> str:
    """Return why a Pod waits, without the numbers of nodes, so that Pods with one cause are one group.

    `said`: what was returned before in the same answer, since most of thousands of Pods wait for the same.
    """
    uid = waiting.pod.uid
    if known.state.nominations.find(uid) is not None or (known.turns is not None and known.turns.find(uid) is not None):
        return HELD
    if known.state.queue.due_s(uid) is not None:
        return BACKOFF
    reported, _ = waiting.reported.get("record", (frozenset[str](), 0.0))
    reasons = reported - {notices.PREEMPTION}
    found = said.get(reasons)
    if found is None:
        found = said[reasons] = ", ".join(sorted(explain.phrase(decision.Reason(each)) for each in reasons)) or NEW
    return found


def _longest(groups: Iterable[tuple[Any, _Group]]) -> list[tuple[Any, _Group]]:
    return heapq.nsmallest(GROUPS_MAX, groups, key=lambda item: _oldest_s(item[1]))


def _oldest_s(group: _Group) -> float:
    """Return since when the first of these Pods has waited."""
    return min(each.since_s for each in group)


def _counts(group: _Group, now_s: float) -> dict[str, Any]:
    return {"pods": len(group), "oldest_s": questions.finite(now_s - _oldest_s(group))}


def _named(group: _Group, limit: int, now_s: float) -> list[dict[str, Any]]:
    first = heapq.nsmallest(limit, group, key=lambda each: queues.key_of(each.pod))
    return [
        {
            "namespace": each.pod.namespace, "pod": each.pod.name, "class": each.pod_class,
            "waited_s": questions.finite(now_s - each.since_s),
        }
        for each in first
    ]  # fmt: skip
