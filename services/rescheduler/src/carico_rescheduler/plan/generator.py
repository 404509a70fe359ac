"""From a problem to a curve over the number of moves: an algorithm names targets, the order takes the best move first.

The search (`carico_core.numerics.rescheduling.containers.carico`) knows no price of a move: it may move most Pods for a
little. So its placement is not the plan: of the moves towards it, `ordering` takes those that gain most.
"""

import dataclasses

import numpy as np

from carico_core.numerics.rescheduling.containers import annealing, carico, model, threshold
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import gains, ordering, refinement

# What finds the placement that is aimed at, by name (docs/rescheduling.md#the-papers-algorithms).
CARICO, THRESHOLD = "carico", "threshold"
ALGORITHMS = (CARICO, *(each.value for each in annealing.Variant), THRESHOLD)
# Of the paper's algorithms, within its range (alpha .8 to .99, 100 to 1000 moves): 36,000 moves, a few seconds also
# without numba.
_SCHEDULE = annealing.Schedule(alpha=0.95, moves=200)


def curve(
    context: contexts.Context,
    effort: carico.Effort,
    *,
    seed: int,
    weights: gains.Weights,
    most: int,
    algorithm: str = CARICO,
    detours: ordering.Detours = ordering.ANY,
) -> ordering.Curve:
    """Return the first `most` moves to the placement that an algorithm finds, the one with the largest gain first."""
    target = _aim(context.problem, effort, weights, seed=seed, algorithm=algorithm)
    return ordering.towards(context, target, weights, most=most, detours=detours)


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
