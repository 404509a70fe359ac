"""Turns: room is held on one node for a Pod that has waited for long, so that later Pods do not take it. Pure.

The queue tries Pods by priority, then by age, and one that fits nowhere lets the others pass. If small Pods come for
ever, a larger one would never find enough room at once. So the first Pod of a demand that has waited for `AFTER_S` gets
a turn: on the node that lacks least for it, Pods that come after it in the queue get no room. As Pods end there, the
room for it grows.

Bound: a Pod that is the first in the queue waits for at most `AFTER_S`, plus the longest time for which a Pod runs on
its node after its turn has begun, if that is at most `HELD_FOR_S`. At most a tenth of the nodes, and one at least, are
held at the same time: further demands wait for the turns of those before them. A turn is over after `HELD_FOR_S`, or
once its node has no Pods and still refuses it; the next one of its demand comes later each time. Pods of higher
priority come first without a bound, as in Kubernetes.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from carico_core.domain import decision
from carico_core.numerics import backoff
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.nodes import fleet as fleets
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.rules import admission
from carico_scheduler.rules.filters import requests

# Longer than a Pod waits in a queue of Pods like itself: a job of a minute or two needs no turns.
AFTER_S = 120.0
# For how long a node is held at most; Pods that run longer than this do not make room in time.
HELD_FOR_S = 300.0
# After a turn that gave no room, the demand has its next one after this time, doubled each time up to the second.
AGAIN_S, AGAIN_MOST_S = 300.0, 3600.0
# At most this share of the nodes is held, and one at least.
SHARE = 0.1
# Demands remembered that have their next turn later; those of which the last one ended longest ago are forgotten.
PAUSES_KEPT = 1024
# Demands that are examined in one round: each reads every node.
EXAMINED_MAX = 8
# Nodes of a demand that are examined, those with most room first.
_NODES_MAX = 16
# What other Pods' leaving can change.
_BY_PODS = frozenset({decision.Reason.REQUESTS, decision.Reason.CAPACITY})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The Pod for which a node is held, and since when: monotonic seconds."""

    uid: str
    key: queues.Key
    demand: demands.Demand
    node: str
    since_s: float


@dataclasses.dataclass(slots=True)
class _Pause:
    """When the next turn of a demand may begin, and how many gave no room."""

    due_s: float
    turns: int


class Turns:
    """The turns of one scheduler's waiting Pods."""

    def __init__(
        self, fleet: fleets.Fleet, queue: queues.Queue, *, is_served: Callable[[str], bool] = lambda uid: False
    ) -> None:  # fmt: skip
        """`is_served`: whether room is made for a Pod by other means, such as preemption."""
        self._fleet = fleet
        self._queue = queue
        self._is_served = is_served
        self._cycle = cycles.Cycle(fleet.policy)
        self._turns: dict[str, Turn] = {}
        self._pauses: dict[demands.Demand, _Pause] = {}
        # Demands for which no node was found by the rounds before, which ended before all that are due were examined.
        self._fruitless: set[demands.Demand] = set()

    def __len__(self) -> int:
        return len(self._turns)

    def find(self, uid: str) -> Turn | None:
        """Return the turn of a Pod; None if it has none."""
        return self._turns.get(uid)

    def on(self, node: str) -> list[Turn]:
        """Return the turns on a node."""
        return [each for each in self._turns.values() if each.node == node]

    def nominees(self) -> list[cycles.Nominee]:
        """Return the Pods for which room is held, in the order of the queue."""
        found = []
        for each in self._turns.values():
            slot = self._fleet.slot_of(each.node)
            if slot is not None and each.uid in self._queue:
                found.append(cycles.Nominee(each.uid, each.key, slot, each.demand))
        return sorted(found, key=lambda each: each.key)

    def refresh(self, now_s: float) -> bool:
        """End the turns that are over, and begin those that are due; return True if a node is no longer held."""
        ended = [each for each in self._turns.values() if self._is_over(each, now_s)]
        for each in ended:
            del self._turns[each.uid]
        heads = [each for each in self._queue.parked_heads() if now_s - each.began_s >= AFTER_S]
        if heads:
            self._begin(sorted(heads, key=lambda each: each.key), now_s)
        elif self._pauses:
            self._pauses = {demand: each for demand, each in self._pauses.items() if each.due_s > now_s}
        return bool(ended)

    def end_all(self) -> bool:
        """End all turns: another scheduler gives them. Return True if a node is no longer held."""
        is_held, self._turns = bool(self._turns), {}
        return is_held

    def _is_over(self, turn: Turn, now_s: float) -> bool:
        if turn.uid not in self._queue:
            self._pauses.pop(turn.demand, None)
            return True
        slot = self._fleet.slot_of(turn.node)
        if slot is None or self._is_served(turn.uid):
            return True
        row = self._fleet.row(slot, now_s)
        is_vain = now_s - turn.since_s > HELD_FOR_S or (row.workloads == 0 and not row.reserved and not row.pods)
        if is_vain and self._rejection(turn.demand, slot, now_s) is None:
            # It fits: the next cycle places it there.
            return False
        if is_vain:
            before = self._pauses.pop(turn.demand, None)
            turns = 1 if before is None else before.turns + 1
            rest_s = backoff.doubled_s(turns - 1, first_s=AGAIN_S, most_s=AGAIN_MOST_S)
            self._pauses[turn.demand] = _Pause(now_s + rest_s, turns)
            if len(self._pauses) > PAUSES_KEPT:
                del self._pauses[next(iter(self._pauses))]
        return is_vain

    def _begin(self, heads: Sequence[queues.Waiting], now_s: float) -> None:
        """Give turns to the first Pods of their demands, in the order of the queue."""
        self._fruitless &= {each.demand for each in heads}
        most = max(1, int(SHARE * len(self._fleet)))
        passed_over = self._fruitless | {each.demand for each in self._turns.values()}
        examined = 0
        for waiting in heads:
            if len(self._turns) >= most:
                break
            if examined >= EXAMINED_MAX:
                return
            if waiting.demand in passed_over or not self._may_begin(waiting, now_s):
                continue
            examined += 1
            node = self._choose(waiting.demand, now_s)
            if node is None:
                self._fruitless.add(waiting.demand)
            else:
                self._turns[waiting.pod.uid] = Turn(
                    uid=waiting.pod.uid, key=waiting.key, demand=waiting.demand, node=node, since_s=now_s
                )
        self._fruitless.clear()

    def _may_begin(self, waiting: queues.Waiting, now_s: float) -> bool:
        demand, pause = waiting.demand, self._pauses.get(waiting.demand)
        is_other = demand.is_baseline or self._is_served(waiting.pod.uid)
        return not is_other and (pause is None or now_s >= pause.due_s)

    def _choose(self, demand: demands.Demand, now_s: float) -> str | None:
        """Return the node that lacks least; None if one has room, or none could get it from Pods that end."""
        view = self._fleet.snapshot(now_s)
        scores = self._cycle.explain(view, demand)
        if scores.best("") != snapshot.NO_NODE:
            return None
        nodes = scores.allowed & (view.workloads > 0) & admission.are_believed(view)
        taken = {each.node for each in self._turns.values()}
        slots = nodes.nonzero()[0]
        order = slots[np.argsort(-view.free(demand.pod_class, demand.ceiling_offset)[slots], kind="stable")]
        for slot in order[:_NODES_MAX].tolist():
            row = view.row(slot)
            found = scores.rejection(row)
            if (
                row.node.name not in taken
                and found is not None
                and found.reason in _BY_PODS
                and _is_enough(row, demand)
            ):
                return row.node.name
        return None

    def _rejection(self, demand: demands.Demand, slot: int, now_s: float) -> decision.Rejection | None:
        view = self._fleet.snapshot(now_s)
        return self._cycle.explain(view, demand).rejection(view.row(slot))


def _is_enough(row: snapshot.NodeRow, demand: demands.Demand) -> bool:
    """Return True if the whole node has what the Pod requests."""
    return all(amount <= requests.allocatable(row, name) for name, amount in demand.requests)
