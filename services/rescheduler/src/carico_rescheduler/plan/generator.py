"""From a problem to a curve over the number of moves: an algorithm names targets, the order takes the best move first.

The search (`carico_core.numerics.rescheduling.carico`) knows no price of a move: it may move most Pods for a little.
So its placement is not the plan. Of the moves towards it, each step takes the one with the largest gain that fits with
the old and the new Pod present. Two Pods that talk to each other and both go to one node are also tried together, since
the first of them alone may gain nothing.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from carico_core.numerics.rescheduling import annealing, carico, model, threshold
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import gains, refinement

# A Pod must have room as the scheduler sees it: one whole Pod.
_ROOM_LEAST = 1.0
# What finds the placement that is aimed at, by name (docs/rescheduling.md#the-papers-algorithms).
CARICO, THRESHOLD = "carico", "threshold"
ALGORITHMS = (CARICO, *(each.value for each in annealing.Variant), THRESHOLD)
# Of the paper's algorithms, within its range (alpha .8 to .99, 100 to 1000 moves): 36,000 moves, a few seconds also
# without numba.
_SCHEDULE = annealing.Schedule(alpha=0.95, moves=200)
# Below this, the gain of a move is rounding.
_GAIN_LEAST = 1e-9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One move: container, servers, and what it gains once the moves before it are made.

    bytes_per_s: traffic between nodes that ends (below 0: begins). tasks: fewer tasks above saturation.
    """

    container: int
    source: int
    target: int
    bytes_per_s: float
    tasks: float
    gain: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """steps in order. blocked: containers whose move would gain, but has no room at any time. Costs before it."""

    steps: tuple[Step, ...]
    blocked: tuple[int, ...]
    weights: gains.Weights


def curve(
    context: contexts.Context,
    effort: carico.Effort,
    *,
    seed: int,
    weights: gains.Weights,
    most: int,
    algorithm: str = CARICO,
) -> Curve:
    """Return the first `most` moves to the placement that an algorithm finds, the one with the largest gain first."""
    return towards(context, _aim(context.problem, effort, weights, seed=seed, algorithm=algorithm), weights, most=most)


def _aim(
    problem: model.Problem, effort: carico.Effort, weights: gains.Weights, *, seed: int, algorithm: str
) -> model.Ints:
    """Return the placement that an algorithm of `ALGORITHMS` finds."""
    if algorithm == CARICO:
        # The search begins where single moves lead: what gains as much with more moves is no better to it.
        begin = dataclasses.replace(problem, present=refinement.refined(problem, problem.present, weights))
        return refinement.refined(problem, carico.solve(begin, effort, seed=seed).placement, weights)
    if algorithm == THRESHOLD:
        return threshold.rebalanced(problem)
    return annealing.solve(
        problem, annealing.Variant(algorithm), seed=seed, schedule=_SCHEDULE, budget_s=effort.budget_s,
        now_s=effort.now_s,
    ).placement  # fmt: skip


def excess_tasks(problem: model.Problem, placement: model.Ints) -> float:
    """Return the tasks above saturation, of all servers. Unlike `coc` it is not 0 if all are equally overloaded."""
    limits = problem.saturation * problem.capacity[:, 0]
    return float(np.maximum(model.totals(placement, problem.tasks, problem.servers) - limits, 0.0).sum())


def towards(context: contexts.Context, target: model.Ints, weights: gains.Weights, *, most: int) -> Curve:
    """Return the first `most` moves of those containers that have another server in `target`.

    A search moves most containers, and each step looks at all that are left: to order all of them would take minutes.
    """
    ordering = _Ordering(context, target, weights)
    steps: list[Step] = []
    while len(steps) < most and (found := ordering.best()) is not None:
        steps += [ordering.make(container) for container in found]
    # What is left after `most` steps is not blocked.
    blocked = ordering.blocked() if len(steps) < most else []
    return Curve(steps=tuple(steps), blocked=tuple(blocked), weights=weights)


class _Ordering:
    """The placement after the steps so far, and what is left to move."""

    def __init__(self, context: contexts.Context, target: model.Ints, weights: gains.Weights) -> None:
        problem = self._problem = context.problem
        self._target = target
        self._weights = weights
        self._placed = problem.present.copy()
        self._limit = problem.capacity * (1.0 + model.ROUNDING)
        self._used = np.column_stack([model.totals(self._placed, each, problem.servers) for each in problem.request.T])
        self._tasks = model.totals(self._placed, problem.tasks, problem.servers)
        self._room = context.room.copy()
        self._left = np.flatnonzero((target != problem.present) & problem.movable).tolist()
        self._talks = gains.adjacent(problem.pairs, problem.traffic)
        self._apart = gains.adjacent(problem.apart, np.ones(len(problem.apart)))
        # The gain of each group that is left; a move changes those of few groups.
        self._gains = {group: self._gain(group) for group in self._groups()}

    def best(self) -> tuple[int, ...] | None:
        """Return the container, or the two, whose move gains most for each; None if no move that fits gains."""
        found: tuple[int, ...] | None = None
        most = _GAIN_LEAST
        for group, gain in self._gains.items():
            if gain / len(group) > most and self._fit(group):
                most, found = gain / len(group), group
        return found

    def make(self, container: int) -> Step:
        """Make one move, and return it."""
        source, target = int(self._placed[container]), int(self._target[container])
        bytes_per_s, tasks = self._fewer_bytes((container,)), self._fewer_tasks((container,))
        self._used[source] -= self._problem.request[container]
        self._used[target] += self._problem.request[container]
        self._tasks[source] -= self._problem.tasks[container]
        self._tasks[target] += self._problem.tasks[container]
        self._room[source] += 1.0
        self._room[target] -= 1.0
        self._placed[container] = target
        self._left.remove(container)
        self._update(container, {source, target})
        gain = self._weights.gain(bytes_per_s, tasks)
        return Step(
            container=container, source=source, target=target, bytes_per_s=bytes_per_s, tasks=tasks, gain=gain
        )  # fmt: skip

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
        return self._weights.gain(self._fewer_bytes(group), self._fewer_tasks(group))

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
