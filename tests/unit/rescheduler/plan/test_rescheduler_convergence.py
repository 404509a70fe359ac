"""Plan after plan, a cluster comes to rest, in a state that does not depend on where it began."""

import dataclasses

import numpy as np
import pytest

from carico_core.numerics.rescheduling.containers import carico, model
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, gains, generator, planning
from tests.unit.rescheduler import cluster_objects as world

NODES = 6
WEIGHTS = gains.Weights(task_bytes=1e7)
RULE = decision.Rule(least_bytes=1e5, least_tasks=1.0, least_move=0.1, most_moves=10, weights=WEIGHTS)
ROUNDS = 40


def groups(begin: int, count: int, each: int) -> contexts.Context:
    """Applications whose Pods exchange much within and some between them, on random nodes."""
    known = world.make({f"node-{number}": 20.0 for number in range(NODES)})
    start, random = np.random.default_rng(begin), np.random.default_rng(0)
    made = [
        pod
        for number in range(count * each)
        for pod in world.deploy(
            known, f"app-{number}", [f"node-{start.integers(NODES)}"], tasks=float(random.uniform(0.5, 1.5))
        )
    ]
    for one, mine in enumerate(made):
        for other, theirs in enumerate(made[:one]):
            if one // each == other // each:
                world.talk(known, mine, theirs, float(random.uniform(1e6, 5e6)))
            elif random.uniform() < 0.1:
                world.talk(known, mine, theirs, float(random.uniform(1e5, 1e6)))
    return contexts.build(world.judge(known), world.CEILINGS)


def rest(begin: int, count: int, each: int) -> float:
    """Carry out plans until none moves anything; return the cost."""
    context = groups(begin, count, each)
    for number in range(ROUNDS):
        asked = planning.Request(
            effort=carico.Effort(proposals=3000), seed=100 * begin + number, rule=RULE, budget=1000, at_ns=0
        )
        plan = planning.make(context, asked)
        problem = context.problem
        if not plan.moves:
            return cost(problem)
        placed, names = problem.present.copy(), {pod.uid: at for at, pod in enumerate(context.pods)}
        for move in plan.moves:
            placed[names[move.pod.uid]] = context.nodes.index(move.target)
        context = dataclasses.replace(context, problem=dataclasses.replace(problem, present=placed))
    raise AssertionError("it does not come to rest")


def cost(problem: model.Problem) -> float:
    excess = generator.excess_tasks(problem, problem.present)
    return WEIGHTS.gain(model.cntc(problem, problem.present), excess)


@pytest.mark.parametrize(("count", "each"), [(6, 5), (4, 8)])
def test_ten_random_starts_end_within_5_percent_of_each_other(count: int, each: int) -> None:
    costs = [rest(begin, count, each) for begin in range(1, 11)]
    assert max(costs) <= 1.05 * min(costs)
