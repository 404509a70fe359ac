"""Exact search over every placement of a small problem: an oracle for the other algorithms.

Larger problems have no exact answer in useful time: for 50 containers on 5 servers the paper's solver takes 82 minutes.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from carico_core.numerics.rescheduling.containers import model

MOST_CONTAINERS, MOST_SERVERS = 8, 3


def placements(problem: model.Problem) -> Iterator[model.Ints]:
    """Yield every placement that fulfils all constraints.

    Raises ValueError for more than 8 containers or 3 servers.
    """
    if problem.containers > MOST_CONTAINERS or problem.servers > MOST_SERVERS:
        raise ValueError(
            f"exact search: expected at most {MOST_CONTAINERS} containers on {MOST_SERVERS} servers, "
            f"got {problem.containers} on {problem.servers}"
        )
    for each in itertools.product(range(problem.servers), repeat=problem.containers):
        placement = np.array(each, dtype=np.int32)
        if next(model.violations(problem, placement), None) is None:
            yield placement


def best(problem: model.Problem, *, per_byte: float, per_load: float) -> model.Ints:
    """Return a placement of least per_byte x cntc + per_load x coc; the first in lexicographic order of several."""

    def cost(placement: model.Ints) -> float:
        found = model.costs(problem, placement)
        return per_byte * found.cntc + per_load * found.coc

    return min(placements(problem), key=cost)


def pareto(problem: model.Problem) -> list[model.Costs]:
    """Return the costs of the placements that no other one improves in both, by ascending cntc."""
    front: list[model.Costs] = []
    found = {model.costs(problem, each) for each in placements(problem)}
    for each in sorted(found, key=lambda costs: (costs.cntc, costs.coc)):
        if not front or each.coc < front[-1].coc:
            front.append(each)
    return front
