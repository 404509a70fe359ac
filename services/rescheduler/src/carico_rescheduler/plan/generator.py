"""From a problem to curves over the number of moves: an algorithm names targets, the order takes the best move first.

An algorithm knows no price of a move: it may move most Pods for a little. So its placement is not the plan: of the
moves towards it, `ordering` takes those that gain most.
"""

from collections.abc import Iterator

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.containers import annealing, carico, gains, model, series, threshold
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import ordering

# What finds the placement that is aimed at, by name (docs/rescheduling.md#the-papers-algorithms).
CARICO, THRESHOLD = "carico", "threshold"
ALGORITHMS = (CARICO, *(each.value for each in annealing.Variant), THRESHOLD)
# The paper's algorithms have tables of containers by servers: 70 bytes for each pair without numba, half a GiB for so
# many. Ours has the constraints of each pair alone, a byte in four copies.
PAIRS_MOST = dict.fromkeys(ALGORITHMS, 8000000) | {CARICO: 40_000_000}
# Of the paper's algorithms, within its range (alpha .8 to .99, 100 to 1000 moves): 36,000 moves, a few seconds also
# without numba.
_SCHEDULE = annealing.Schedule(alpha=0.95, moves=200)
# To the best placement that is found, the first moves may not pay, but those to one of the next.
_AIMS_MOST = 4


def curves(
    context: contexts.Context,
    effort: carico.Effort,
    *,
    seed: int,
    weights: gains.Weights,
    most: int,
    algorithm: str = CARICO,
    detours: ordering.Detours = ordering.ANY,
) -> Iterator[ordering.Curve]:
    """Yield the first `most` moves to each placement that an algorithm finds, the one with the largest gain first."""
    for target in _aims(context, effort, weights, seed=seed, algorithm=algorithm):
        yield ordering.towards(context, target, weights, most=most, detours=detours)


def _aims(
    context: contexts.Context, effort: carico.Effort, weights: gains.Weights, *, seed: int, algorithm: str
) -> list[model.Ints]:
    """Return the placements that an algorithm of `ALGORITHMS` finds, of each kind the best first."""
    problem = context.problem
    if algorithm == CARICO:
        began_s = effort.now_s()

        def solve(share: float, room: arrays.Array | None = None, *, is_free: bool = False) -> list[model.Ints]:
            def is_over() -> bool:
                return effort.budget_s is not None and effort.now_s() >= began_s + share * effort.budget_s

            return series.solve(
                problem, seed=seed, weights=weights, room=room, prices=None if is_free else context.prices,
                is_over=is_over,
            )  # fmt: skip

        found = solve(0.5)[:_AIMS_MOST]
        if not found:
            # What would gain, but does not pay back, is to be reported.
            return [*solve(1.0, is_free=True)[:1], problem.present]
        if _has_room(context, found[0]):
            return found
        # Some of the first have room only once others have made a detour, and what has none at all is to be reported.
        return [found[0], *solve(1.0, context.room)[:_AIMS_MOST]]
    if algorithm == THRESHOLD:
        return [threshold.rebalanced(problem, counted=np.arange(problem.containers) < len(context.pods))]
    answer = annealing.solve(
        problem, annealing.Variant(algorithm), seed=seed, schedule=_SCHEDULE, budget_s=effort.budget_s,
        now_s=effort.now_s,
    )  # fmt: skip
    return [answer.placement]


def _has_room(context: contexts.Context, target: model.Ints) -> bool:
    """Return whether each node has room for the Pods that it gets."""
    servers = context.problem.servers
    before, after = (np.bincount(each, minlength=servers) for each in (context.problem.present, target))
    return bool((after <= before + context.room).all())
