"""The order of single moves from the present placement to a target, the one with the largest gain first.

Of the moves towards the target, each step takes the one with the largest gain that fits with the old and the new Pod
present. Two Pods that talk to each other and both go to one node are also tried together, since the first of them alone
may gain nothing. Where no move gains, some that lose are made if those after them gain more. Where what would gain has
no room, as in a cycle of full nodes, a Pod in its way makes a detour: to a third node first, and on to its own target
once that has room. What no detour helps is blocked.
"""

import copy
import dataclasses
import math
from collections.abc import Iterator, Sequence, Set
from typing import TypeAlias

import numpy as np

from carico_core.numerics.rescheduling.containers import gains, model
from carico_rescheduler.context import problem as contexts

# A Pod must have room as the scheduler sees it: one whole Pod.
_ROOM_LEAST = 1.0
# Below this, the gain of a move is rounding.
_GAIN_LEAST = 1e-9
# Steps of a way that first loses, and Pods that are tried for a detour: each is simulated.
_WAY_MOST = 20
_TRIED_MOST = 16
# Which detours are possible: (container, node) of each, or all.
Detours: TypeAlias = Set[tuple[int, int]] | None
ANY: Detours = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One move: container, servers, and what it gains once the moves before it are made.

    bytes_per_s: traffic between nodes that ends (below 0: begins). tasks: fewer tasks above saturation. price: what it
    must gain at least. goes_on: where a later step takes the container; None: this is its last step.
    """

    container: int
    source: int
    target: int
    bytes_per_s: float
    tasks: float
    gain: float
    price: float
    goes_on: int | None = None

    @property
    def net(self) -> float:
        """What it gains beyond its price."""
        return self.gain - self.price


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """steps in order. blocked: containers whose move would gain, but has no room at any time.

    unpaid: moves that are left out, since they gain less than their price.
    """

    steps: tuple[Step, ...]
    blocked: tuple[int, ...]
    unpaid: tuple[Step, ...]


def towards(
    context: contexts.Context, target: model.Ints, weights: gains.Weights, *, most: int, detours: Detours = ANY
) -> Curve:
    """Return the first `most` moves of those containers that have another server in `target`.

    A search moves most containers, and each step looks at all that are left: to order all of them would take minutes.
    """
    ordering = _Ordering(context, target, weights)
    steps: list[Step] = []
    while len(steps) < most:
        found = ordering.best()
        if found is not None:
            steps += [ordering.make(container) for container in found]
            continue
        way = _way(ordering, detours, most=min(most - len(steps), _WAY_MOST))
        if way is None:
            break
        ordering = way.after
        steps += way.steps
    # What is left after `most` steps is not blocked.
    blocked = ordering.blocked() if len(steps) < most else []
    unpaid = ordering.unpaid()[:most]
    return Curve(steps=tuple(_going_on(steps)), blocked=tuple(blocked), unpaid=tuple(unpaid))


def _going_on(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with `goes_on`."""
    next_target: dict[int, int] = {}
    found = []
    for each in reversed(steps):
        found.append(dataclasses.replace(each, goes_on=next_target.get(each.container)))
        next_target[each.container] = each.target
    return found[::-1]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """Steps of which some lose, what they gain together, and the placement after them."""

    steps: list[Step]
    gain: float
    after: "_Ordering"


def _way(ordering: "_Ordering", detours: Detours, *, most: int) -> _Way | None:
    """Return the at most `most` steps that gain most, with a detour or without; None if none gain together."""
    ways = [_onward(ordering.copied(), [], most=most)]
    for container in ordering.in_the_way()[:_TRIED_MOST]:
        after = ordering.copied()
        place = after.place(container, detours)
        if place is not None:
            ways.append(_onward(after, [after.park(container, place)], most=most))
    found = [each for each in ways if each is not None]
    return max(found, key=lambda each: each.gain, default=None)


def _onward(after: "_Ordering", steps: list[Step], *, most: int) -> _Way | None:
    """Go on with the best moves, also if they lose, up to where all together gain most; None if they never gain."""
    best: _Way | None = None
    while len(steps) < most and (group := after.best(least=-math.inf)) is not None:
        steps += [after.make(each) for each in group]
        gain = sum(each.net for each in steps)
        if gain > (_GAIN_LEAST if best is None else best.gain):
            best = _Way(steps=[*steps], gain=gain, after=after.copied())
    return best


class _Ordering:
    """The placement after the steps so far, and what is left to move."""

    def __init__(self, context: contexts.Context, target: model.Ints, weights: gains.Weights) -> None:
        problem = self._problem = context.problem
        self._target = target.copy()
        self._weights = weights
        self._prices = context.prices
        self._placed = problem.present.copy()
        self._limit = problem.capacity * (1.0 + model.ROUNDING)
        self._used = np.column_stack([model.totals(self._placed, each, problem.servers) for each in problem.request.T])
        self._tasks = model.totals(self._placed, problem.tasks, problem.servers)
        self._room = context.room.copy()
        self._left = np.flatnonzero((target != problem.present) & problem.movable).tolist()
        # Of a large problem, few containers are to move.
        is_left = np.isin(np.arange(problem.containers), self._left)
        talk, avoid = (is_left[each].any(axis=1) for each in (problem.pairs, problem.apart))
        self._talks = gains.adjacent(problem.pairs[talk], problem.traffic[talk])
        self._apart = gains.adjacent(problem.apart[avoid], np.ones(int(avoid.sum())))
        # The gain of each group that is left; a move changes those of few groups.
        self._gains = {group: self._gain(group) for group in self._groups()}
        # Each makes one detour at most: otherwise two could give way to each other for ever.
        self._parked: frozenset[int] = frozenset()

    def copied(self) -> "_Ordering":
        """Return a copy, to try moves with."""
        other = copy.copy(self)
        for name in ("_target", "_placed", "_used", "_tasks", "_room", "_left", "_gains"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def best(self, *, least: float = _GAIN_LEAST) -> tuple[int, ...] | None:
        """Return the container, or the two, whose move gains most for each; None if none that fits gains more."""
        found: tuple[int, ...] | None = None
        most = least
        for group, gain in self._gains.items():
            if gain / len(group) > most and self._fit(group):
                most, found = gain / len(group), group
        return found

    def make(self, container: int) -> Step:
        """Make one move, and return it."""
        step = self._step(container)
        source, target = step.source, step.target
        self._used[source] -= self._problem.request[container]
        self._used[target] += self._problem.request[container]
        self._tasks[source] -= self._problem.tasks[container]
        self._tasks[target] += self._problem.tasks[container]
        self._room[source] += 1.0
        self._room[target] -= 1.0
        self._placed[container] = target
        self._left.remove(container)
        self._update(container, {source, target})
        return step

    def _step(self, container: int) -> Step:
        """Return the move of a container as it would be now."""
        bytes_per_s, tasks = self._fewer_bytes((container,)), self._fewer_tasks((container,))
        return Step(
            container=container, source=int(self._placed[container]), target=int(self._target[container]),
            bytes_per_s=bytes_per_s, tasks=tasks, gain=self._weights.gain(bytes_per_s, tasks),
            price=float(self._prices[container]),
        )  # fmt: skip

    def unpaid(self) -> list[Step]:
        """Return the moves that are left which would gain, but not what they must, the one that gains most first."""
        steps = [self._step(each) for each in self._left]
        found = [each for each in steps if each.gain > _GAIN_LEAST and each.net <= _GAIN_LEAST]
        return sorted(found, key=lambda each: -each.gain)

    def in_the_way(self) -> list[int]:
        """Return what is to leave the nodes that blocked containers would gain on, the one that loses least first."""
        full = {int(self._target[each]) for each in self.blocked()}
        found = [each for each in self._left if int(self._placed[each]) in full and each not in self._parked]
        return sorted(found, key=lambda each: -self._gains[each,])

    def place(self, container: int, detours: Detours) -> int | None:
        """Return where a container can go for a while: where it gains most, of the nodes with most to spare."""
        free = self._used + self._problem.request[container] <= self._limit
        possible = self._problem.allowed[container] & free.all(axis=1) & (self._room >= _ROOM_LEAST)
        possible[[self._placed[container], self._target[container]]] = False
        spare = self._problem.saturation * self._problem.capacity[:, 0] - self._tasks
        nodes = [each for each in np.argsort(-spare, kind="stable").tolist() if possible[each]]
        best, most = None, -math.inf
        goal = self._target[container]
        for node in nodes if detours is None else [each for each in nodes if (container, each) in detours]:
            self._target[container] = node
            gain = self._gain((container,))
            if gain > most and self._fit((container,)):
                best, most = node, gain
        self._target[container] = goal
        return best

    def park(self, container: int, node: int) -> Step:
        """Move a container to another node than its target, to which it has to go later."""
        goal = self._target[container]
        self._target[container] = node
        step = self.make(container)
        self._target[container] = goal
        self._left.append(container)
        self._parked |= {container}
        self._gains |= {group: self._gain(group) for group in self._groups() if container in group}
        return step

    def _update(self, moved: int, servers: set[int]) -> None:
        """Drop the groups of a container that has moved; calculate again what its move has changed.

        That are groups of its partners, and those that leave or enter one of the two servers.
        """
        near = self._talks.get(moved, {}).keys()
        for group in [group for group in self._gains if moved in group]:
            del self._gains[group]
        for group in self._gains:
            if any(each in near or self._placed[each] in servers or self._target[each] in servers for each in group):
                self._gains[group] = self._gain(group)

    def blocked(self) -> list[int]:
        """Return the containers that would gain if there were room."""
        return [each for each in self._left if self._gains[each,] > _GAIN_LEAST]

    def _groups(self) -> Iterator[tuple[int, ...]]:
        left = set(self._left)
        for one in self._left:
            yield (one,)
            for other in self._talks.get(one, {}):
                if one < other and other in left and self._target[one] == self._target[other]:
                    yield one, other

    def _gain(self, group: Sequence[int]) -> float:
        """Return what the group's move gains beyond its price."""
        price = sum(float(self._prices[each]) for each in group)
        return self._weights.gain(self._fewer_bytes(group), self._fewer_tasks(group)) - price

    def _fewer_bytes(self, group: Sequence[int]) -> float:
        """Return the traffic that ends between servers if the group moves, minus that which begins."""
        fewer = 0.0
        for one in group:
            for other, weight in self._talks.get(one, {}).items():
                if other in group and other < one:
                    continue
                goes_to = self._target[other] if other in group else self._placed[other]
                was_apart = self._placed[one] != self._placed[other]
                fewer += weight * (int(was_apart) - int(self._target[one] != goes_to))
        return fewer

    def _fewer_tasks(self, group: Sequence[int]) -> float:
        """Return the tasks above saturation that the group's move ends, minus those that begin."""
        change: dict[int, float] = {}
        for each in group:
            source, target = int(self._placed[each]), int(self._target[each])
            change[source] = change.get(source, 0.0) - self._problem.tasks[each]
            change[target] = change.get(target, 0.0) + self._problem.tasks[each]
        fewer = 0.0
        for server, more in change.items():
            limit = self._problem.saturation * self._problem.capacity[server, 0]
            before = self._tasks[server]
            fewer += max(before - limit, 0.0) - max(before + more - limit, 0.0)
        return float(fewer)

    def _fit(self, group: Sequence[int]) -> bool:
        """Return whether the group fits where it goes, one after the other, with the old ones still present."""
        target = int(self._target[group[0]])
        if not self._problem.allowed[list(group), target].all() or self._room[target] < _ROOM_LEAST * len(group):
            return False
        request = self._problem.request[list(group)].sum(axis=0)
        if (self._used[target] + request > self._limit[target]).any():
            return False
        return not any(
            self._placed[other] == target or other in group for each in group for other in self._apart.get(each, {})
        )
