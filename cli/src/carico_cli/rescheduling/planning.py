"""A plan: the search within a time or a number of proposals, and the order of the moves."""

import dataclasses
from collections.abc import Callable

import numpy as np

from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.services import affinity, order, search
from carico_core.runtime.process import clock

# Of the time, for what comes after the search: the order of the moves, and writing. And what Python takes to start, in
# seconds, before any clock is read.
_AFTERWARDS = 0.02
_START_S = 0.25
# Proposals: without compilation some 5 ms.
_LEAST_BLOCK = 128


# A start of the search is not shorter than this.
_START_LEAST_S, _START_LEAST_PROPOSALS = 5.0, 20_000_000
# The points of a curve: shares of the containers.
_CURVE = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When the search ends: after a time (the clock began at `began_s`), or after a number of proposals."""

    clock: clock.Clock
    began_s: float
    seconds: float | None
    proposals: int | None

    def progress(self, *, parts: int) -> Callable[[int], float]:
        """Return how a search that gets one of the `parts` left of the time knows how much of it is over."""
        if self.proposals is not None:
            total = self.proposals
            return lambda made: made / total
        assert self.seconds is not None
        begin_s = self.clock.monotonic_s()
        end_s = self.began_s + self.seconds * (1.0 - _AFTERWARDS) - _START_S
        length_s = max(end_s - begin_s, 0.1 * self.seconds) / parts
        return lambda made: (self.clock.monotonic_s() - begin_s) / length_s


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """before, after: the share of the traffic that is local. limit: most containers to move, or None."""

    before: float
    after: float
    limit: int | None
    moved: int
    order: order.Order
    proposals: int


def plan(problem: affinity.Problem, *, limit: int | None, seed: int, budget: Budget, parts: int = 1) -> Plan:
    """Return the moves that make the most traffic local, found in one of the `parts` that are left of the budget."""
    most = problem.containers if limit is None else min(limit, problem.containers)
    found = search.search(
        problem, limit=most, rng=np.random.default_rng(seed), progress=budget.progress(parts=parts),
        schedule=_schedule(problem, most, budget, parts),
    )  # fmt: skip
    ordered = order.order(problem, affinity.counts(problem, found.where), most=limit)
    before, after = (affinity.counts(problem, where) for where in (problem.home, ordered.where))
    return Plan(
        before=affinity.local(problem, before),
        after=affinity.local(problem, after),
        limit=limit,
        moved=affinity.moved(before, after),
        order=ordered,
        proposals=found.proposals,
    )


def curve(problem: affinity.Problem, *, limit: int | None, seed: int, budget: Budget) -> list[Plan]:
    """Return plans for growing limits of moves, the last for `limit`; a time is divided equally among them."""
    most = problem.containers if limit is None else limit
    smaller = [count for share in _CURVE if 0 < (count := int(share * problem.containers)) < most]
    limits = [*dict.fromkeys(smaller), limit]
    return [
        plan(problem, limit=each, seed=seed, budget=budget, parts=len(limits) - number)
        for number, each in enumerate(limits)
    ]


def _schedule(problem: affinity.Problem, most: int, budget: Budget, parts: int) -> search.Schedule:
    """Return a schedule with many blocks even in a short search, and in one that is not compiled."""
    suited = search.suited(problem, most)
    if budget.proposals is not None:
        starts, block = budget.proposals // _START_LEAST_PROPOSALS, budget.proposals // 200
    else:
        assert budget.seconds is not None
        starts, block = int(budget.seconds / parts / _START_LEAST_S), suited.block
    if not compiled.IS_COMPILED and budget.proposals is None:
        starts, block = 1, _LEAST_BLOCK
    return dataclasses.replace(
        suited, starts=max(1, min(suited.starts, starts)), block=max(_LEAST_BLOCK, min(suited.block, block))
    )
