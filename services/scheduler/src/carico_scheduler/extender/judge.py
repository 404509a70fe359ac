"""Which of the nodes that kube-scheduler offers have room by their advertisements, and how they rank. Pure.

Only what CARICO alone knows is evaluated: advertised capacity less reservations, whether an advertisement can be
trusted, and requests and host ports where room is held for Pods of CARICO. Taints, affinity and the rest belong to
kube-scheduler's own plugins, which have passed these nodes.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from carico_core.domain import cluster, constraints, decision
from carico_scheduler.decide import scores as scoring
from carico_scheduler.extender import holds as holding
from carico_scheduler.extender import messages
from carico_scheduler.nodes import fleet as fleets
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.report import explain
from carico_scheduler.rules import admission, registry, scorers

# kube-scheduler counts nodes by reason, and writes the Event and the Pod's condition again whenever the text changes: a
# reason has no numbers, and names its source.
_PREFIX = "CARICO: "
UNKNOWN = "the scheduler has not seen this node at the API yet"
# By what requests and held host ports refuse a node, and when evicting a Pod could help.
_BY_REQUESTS = registry.without_capacity().by_room
_PORTS = decision.Rejection(
    reason=decision.Reason.HOST_PORTS, detail="one of its host ports is held there for a Pod that comes first"
)
_YIELDING = frozenset({decision.Reason.CAPACITY, _PORTS.reason, *(each.reason for each in _BY_REQUESTS)})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict, the full reasons by node, and whether a node was refused only because of holds for other Pods."""

    verdict: messages.FilterResult
    details: Mapping[str, str]
    is_held_up: bool


class Judge:
    """Judges nodes of one fleet."""

    def __init__(
        self,
        fleet: fleets.Fleet,
        holds: holding.Holds,
        held_on: Callable[[str, cluster.Pod], list[demands.Demand]],
    ) -> None:
        """`held_on`: for which Pods of CARICO, or of its other schedulers, room is held on a node against a Pod."""
        self._fleet = fleet
        self._holds = holds
        self._held_on = held_on
        self._scorer = scorers.scorer_by(fleet.policy)

    def judge(self, names: Sequence[str], demand: demands.Demand, *, pod: cluster.Pod, now_s: float) -> Judged:
        """Return the verdict on nodes for one Pod; its own hold does not count against it."""
        view = self._fleet.snapshot(now_s)
        mask = self._mask(view, demand)
        passed: list[str] = []
        refused: dict[str, str] = {}
        lasting: dict[str, str] = {}
        details: dict[str, str] = {}
        is_held_up = False
        for name in names:
            slot = self._fleet.slot_of(name)
            if slot is None and not view.goes_by_requests:
                refused[name] = _PREFIX + UNKNOWN
                details[name] = UNKNOWN
                continue
            ours = self._held_on(name, pod)
            held = [*self._holds.on(name, but=pod.uid), *ours]
            if slot is None or (mask[slot] and not held):
                passed.append(name)
                continue
            found = _rejection(view.row(slot), demand, held=held, ours=ours)
            if found is None:
                passed.append(name)
                continue
            is_held_up = is_held_up or bool(mask[slot])
            kind = refused if found.reason in _YIELDING else lasting
            kind[name] = _PREFIX + explain.phrase(found.reason)
            details[name] = f"{found.reason.value}: {found.detail}"
        verdict = messages.FilterResult(passed=tuple(passed), refused=refused, lasting=lasting)
        return Judged(verdict=verdict, details=details, is_held_up=is_held_up)

    def why_not(self, name: str, demand: demands.Demand, *, pod: cluster.Pod, now_s: float) -> str | None:
        """Return why a node has no room for a Pod; None if it has."""
        return self.judge((name,), demand, pod=pod, now_s=now_s).details.get(name)

    def rank(self, names: Sequence[str], demand: demands.Demand, *, pod: cluster.Pod, now_s: float) -> list[int]:
        """Return 0 to 10 for each node: its score as a share of the best node's."""
        view = self._fleet.snapshot(now_s)
        column = np.asarray(self._scorer.score(view, demand))
        scores = [self._score(name, column, demand, view, pod) for name in names]
        best = max(scores, default=0.0)
        if best <= 0.0:
            return [0] * len(scores)
        return [round(messages.SCORE_MOST * max(score, 0.0) / best) for score in scores]

    def _score(
        self, name: str, column: snapshot.Floats, demand: demands.Demand, view: snapshot.Snapshot, pod: cluster.Pod
    ) -> float:
        slot = self._fleet.slot_of(name)
        if slot is None:
            return 0.0
        held = [*self._holds.on(name, but=pod.uid), *self._held_on(name, pod)]
        score = float(self._scorer.score(_with(view.row(slot), held), demand)) if held else column.item(slot)
        return score if math.isfinite(score) else 0.0

    def _mask(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools:
        """Return the nodes that have room if nothing is held there."""
        mask = view.present
        for each in () if view.goes_by_requests else admission.FILTERS:
            mask = mask & each.passes(view, demand)
        return mask


def _rejection(
    row: snapshot.NodeRow, demand: demands.Demand, *, held: list[demands.Demand], ours: list[demands.Demand]
) -> decision.Rejection | None:  # fmt: skip
    """Return why a node is refused, where room is held; `ours`: without what is held for Pods of kube-scheduler."""
    found = None
    if not row.view.goes_by_requests:
        found = scoring.rejection_by(admission.FILTERS, _with(row, held), demand)
    if found is None and ours:
        # kube-scheduler has checked the requests without these Pods. Of its own it knows to which node they go.
        found = scoring.rejection_by(_BY_REQUESTS, _with(row, ours), demand)
    return _PORTS if found is None and any(_has_same_port(demand, each) for each in ours) else found


def _has_same_port(one: demands.Demand, other: demands.Demand) -> bool:
    own, its = one.constraints, other.constraints
    return own is not None and its is not None and constraints.Occupied(own.host_ports).conflicts(its.host_ports)


def _with(row: snapshot.NodeRow, held: list[demands.Demand]) -> snapshot.NodeRow:
    """Return the row with the holds on it counted."""
    return functools.reduce(snapshot.NodeRow.with_pod, held, row)
