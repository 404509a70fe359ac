"""A plan: the search within a time or a number of proposals, and the order of the moves."""

import dataclasses
from collections.abc import Callable

import numpy as np

from carico_core.numerics.rescheduling import affinity, compiled, order, search
from carico_core.runtime.process import clock

# Of the time, for what comes after the search: the order of the moves, and writing. And what Python takes to start, in
# seconds, before any clock is read.
_AFTERWARDS = 0.02
_START_S = 0.25
# Proposals: without compilation some 5 ms.
_LEAST_BLOCK = 128


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When the search ends: after a time (the clock began at `began_s`), or after a number of proposals."""

    clock: clock.Clock
    began_s: float
    seconds: float | None
    proposals: int | None

    def progress(self) -> Callable[[int], float]:
        """Return the function that tells the search how much of it is over."""
        if self.proposals is not None:
            total = self.proposals
            return lambda made: made / total
        assert self.seconds is not None
        begin_s = self.clock.monotonic_s()
        end_s = self.began_s + self.seconds * (1.0 - _AFTERWARDS) - _START_S
        length_s = max(end_s - begin_s, 0.1 * self.seconds)
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


def plan(problem: affinity.Problem, *, limit: int | None, seed: int, budget: Budget) -> Plan:
    """Return the moves that make the most traffic local."""
    most = problem.containers if limit is None else min(limit, problem.containers)
    found = search.search(
        problem, limit=most, rng=np.random.default_rng(seed), progress=budget.progress(), schedule=_schedule(budget)
    )
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


def _schedule(budget: Budget) -> search.Schedule:
    """Return a schedule with many blocks even in a short search, and in one that is not compiled."""
    schedule = search.Schedule()
    if budget.proposals is not None:
        return dataclasses.replace(schedule, block=max(_LEAST_BLOCK, min(schedule.block, budget.proposals // 200)))
    return schedule if compiled.IS_COMPILED else dataclasses.replace(schedule, block=_LEAST_BLOCK)
