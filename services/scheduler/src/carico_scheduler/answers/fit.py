"""How many more Pods of a kind fit, on each node and in all, and what stops the next one.

If the answer depends only on each node, Pods are counted per node. If it depends on other Pods or volumes (spread,
anti-affinity, ports), the cycle itself places Pods of the kind one by one, in a draft that is discarded.
"""

import asyncio
import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from carico_core.domain import decision
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness
from carico_scheduler.answers import kinds, questions, room
from carico_scheduler.answers import known as knowns
from carico_scheduler.decide import cycle_scores
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import headroom, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues

# Nodes counted before the loop yields to binds and decisions: some milliseconds.
_NODES_AT_ONCE = 100
# Maximum Pods placed in a draft times nodes: some tens of milliseconds, during which decisions wait.
_WORK_MOST = 200_000
_PLACED_LEAST, _PLACED_MOST = 16, 512
# Classes in an overview, and nodes sampled for each of them for what is scarce.
_KINDS_MOST, _ASKED_MOST = 8, 30
_BOUNDED = frozenset({decision.Reason.CAPACITY, decision.Reason.REQUESTS})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """How many fit on a node, and what stops the next one there."""

    node: str
    fits: int
    free: float
    age_s: float
    stopped_by: str
    say: Callable[[], str]


async def answer(known: knowns.Known, asked: Mapping[str, Any], clock: clocks.Clock) -> dict[str, Any]:
    """Return per node and in total how many more Pods of a kind fit, as JSON. Raises `BadQuestion`.

    A node that the question names is the first of the answer.
    """
    limit, kind = questions.limit_of(asked), kinds.kind_of(known, asked)
    first = questions.text_of(asked, "node") if "node" in asked else ""
    scores = known.cycle.explain(known.view(clock.monotonic_s()), kind.demand)
    is_capped = False
    if _is_by_peers(scores):
        found, is_capped = _placed(known, kind, scores, first)
    else:
        found = await _counted(known, kind, scores, clock)
    return {
        **_summary(kind, found, limit, known.lease_s, first=first),
        # True if counting stopped at a limit: more may fit.
        "at_least": is_capped,
        "threshold": scores.view.policy.threshold,
        "kinds": overview(known, clock.monotonic_s()) if kind.is_typical else None,
    }


def overview(known: knowns.Known, now_s: float) -> list[dict[str, Any]]:
    """Return for the most frequent classes and an unmeasured one how many Pods fit, and what stops the next one.

    It counts on whole columns, since it reads every node for each class; what stops the next Pod comes from a sample.
    """
    running: collections.Counter[str] = collections.Counter()
    for each in known.state.heard.values():
        for name, capacity in (each.advertisement.classes or {}).items():
            running[name] += capacity.pods
    for general in headroom.GENERAL:
        running.pop(general, None)
    found = []
    for name in [*(name for name, _ in running.most_common(_KINDS_MOST)), headroom.UNNAMED]:
        scores = known.cycle.explain(known.view(now_s), kinds.kind(known, kinds.typical(), name, name).demand)
        free = scores.view.free(scores.demand.pod_class, scores.demand.ceiling_offset)[scores.values > scoring.REFUSED]
        total = int(np.maximum(np.floor(free - scores.view.policy.threshold + room.SLACK) + 1, 1).sum())
        shown = name or known.general()
        stops = _stops_of_some(scores)
        found.append({"class": shown, "pods": running.get(name, 0), "total": total, "stopped_by": stops})
    return found


def _stops_of_some(scores: cycle_scores.Scores) -> str | None:
    """Return what stops the next Pod most often in a sample of the nodes; None if there are no nodes."""
    slots = scores.view.present.nonzero()[0]
    rows = [scores.view.row(slot) for slot in slots[:: max(len(slots) // _ASKED_MOST, 1)].tolist()]
    asked = [_count_of_class(scores, row).stopped_by for row in rows]
    return collections.Counter(asked).most_common(1)[0][0] if asked else None


def _summary(kind: kinds.Kind, found: list[_Found], limit: int, lease_s: float, *, first: str) -> dict[str, Any]:
    stops: collections.Counter[str] = collections.Counter(each.stopped_by for each in found)
    rows = sorted(found, key=lambda each: (each.node != first, -each.fits, -each.free, each.node))
    return {
        "of": kind.of,
        "class": kind.pod_class,
        "is_measured": kind.is_measured,
        "total": sum(each.fits for each in found),
        "nodes": len(found),
        "stopped_by": dict(stops.most_common()),
        "per_node": [_row(each, lease_s) for each in rows[:limit]],
        "left_off": max(len(rows) - limit, 0),
    }


def _is_by_peers(scores: cycle_scores.Scores) -> bool:
    """Return True if one more Pod may change what other nodes allow."""
    if not scores.demand.looks_at_peers:
        return False
    return any(each.peers(scores.view, scores.demand) is not None for each in scores.stages.by_peers)


async def _counted(
    known: knowns.Known, kind: kinds.Kind, scores: cycle_scores.Scores, clock: clocks.Clock
) -> list[_Found]:
    """Count each node alone. Decisions run between groups of nodes, so each node is counted as of its group."""
    found: list[_Found] = []
    names = known.state.fleet.names()
    for begin in range(0, len(names), _NODES_AT_ONCE):
        if begin:
            await asyncio.sleep(0)
            scores = known.cycle.explain(known.view(clock.monotonic_s()), scores.demand)
        slots = [known.state.fleet.slot_of(name) for name in names[begin : begin + _NODES_AT_ONCE]]
        found += [_count(known, kind, scores, scores.view.row(slot)) for slot in slots if slot is not None]
    return found


def _count(known: knowns.Known, kind: kinds.Kind, scores: cycle_scores.Scores, row: snapshot.NodeRow) -> _Found:
    """Count one node: by the tightest of its bounds, or 0 with why it is refused."""
    if not kind.is_typical:
        return _count_of_class(scores, row)
    threshold = scores.view.policy.threshold
    bounds = room.typical_bounds(row, known.advertisement(row.node.name))
    rejection = _rejection(scores, row)
    if rejection is not None and rejection.reason is not decision.Reason.CAPACITY:
        return _found(scores, row, 0, rejection, _tightest(bounds, threshold))
    return _found(scores, row, room.typical_count(row, bounds, threshold), None, _tightest(bounds, threshold))


def _count_of_class(scores: cycle_scores.Scores, row: snapshot.NodeRow) -> _Found:
    threshold = scores.view.policy.threshold
    tightest = _tightest(room.bounds(row, scores.demand), threshold)
    rejection = _rejection(scores, row)
    # An empty node takes one, whatever its cautious costs say (`headroom.NodeRoom`).
    fits = 0 if rejection is not None else max(tightest.count(threshold), 1)
    return _found(scores, row, fits, rejection, tightest)


def _rejection(scores: cycle_scores.Scores, row: snapshot.NodeRow) -> decision.Rejection | None:
    """Return why the node is refused; its score shows faster whether it is."""
    return None if scores.values[row.slot] > scoring.REFUSED else scores.rejection(row)


def _tightest(bounds: list[room.Bound], threshold: float) -> room.Bound:
    return min(bounds, key=lambda each: (each.count(threshold), each.pods))


def _found(
    scores: cycle_scores.Scores, row: snapshot.NodeRow, fits: int, rejection: decision.Rejection | None,
    tightest: room.Bound,
) -> _Found:  # fmt: skip
    """Return the count of one node; name the dimension or cap where the stage (capacity, requests) is less specific."""
    by_stage = rejection is not None and rejection.reason not in _BOUNDED
    return _Found(
        node=row.node.name,
        fits=fits,
        free=row.free(scores.demand.pod_class, scores.demand.ceiling_offset),
        age_s=scores.view.now_s - row.sampled_s,
        stopped_by=rejection.reason.value if rejection is not None and by_stage else tightest.what,
        say=functools.partial(str, rejection.detail) if rejection is not None and by_stage else tightest.say,
    )


class _Endless:
    """Pods of one kind, until one of them fits nowhere."""

    def __init__(self, kind: kinds.Kind) -> None:
        self._kind = kind
        self._made = 0
        self._is_done = False

    def take(self, now_s: float) -> queues.Waiting | None:
        """Return one more Pod, or None after the last."""
        if self._is_done:
            return None
        self._made += 1
        pod = self._kind.pod._replace(uid=f"{kinds.WHAT_IF}-{self._made}", name=f"{kinds.WHAT_IF}-{self._made}")
        return queues.Waiting(pod=pod, demand=self._kind.demand, since_s=now_s)

    def park(self, waiting: queues.Waiting) -> None:
        """Stop: it fits nowhere, nor will the next."""
        self._is_done = True


def _placed(
    known: knowns.Known, kind: kinds.Kind, scores: cycle_scores.Scores, first: str
) -> tuple[list[_Found], bool]:  # fmt: skip
    """Place Pods of the kind while they fit, and count them per node; return True if more may fit.

    `first` is asked for, so that it has one Pod at least if it takes one, also where the count stops before.
    """
    view = scores.view
    most = min(max(_WORK_MOST // max(view.count, 1), _PLACED_LEAST), _PLACED_MOST)
    outcome = known.cycle.run(view, _Endless(kind), most=most)
    counts = collections.Counter(each.row.node.name for each in outcome.placed)
    if outcome.placed:
        scores = outcome.placed[-1].scores
    found = []
    for name in known.state.fleet.names():
        slot = known.state.fleet.slot_of(name)
        assert slot is not None
        row = _after(view.row(slot), kind.demand, counts[name])
        bounds = room.bounds(row, kind.demand)
        tightest = _tightest(bounds, view.policy.threshold)
        rejection = scores.rejection(row)
        fits = counts[name] or int(name == first and rejection is None)
        found.append(_found(scores, row, fits, rejection, tightest))
    return found, not outcome.unplaced


def _after(row: snapshot.NodeRow, demand: demands.Demand, pods: int) -> snapshot.NodeRow:
    """Return the node with this many more Pods of the demand."""
    for _ in range(pods):
        row = row.with_pod(demand)
    return row


def _row(found: _Found, lease_s: float) -> dict[str, Any]:
    return {
        "node": found.node,
        "fits": found.fits,
        "free": questions.finite(found.free),
        "freshness": freshness.classify(found.age_s, lease_s=lease_s).value,
        "stopped_by": found.stopped_by,
        "detail": found.say(),
    }
