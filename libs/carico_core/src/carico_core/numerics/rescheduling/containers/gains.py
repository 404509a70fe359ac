"""What moves gain, in one absolute unit, and which containers exchange traffic."""

import dataclasses

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.containers import model


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What a move gains, in tasks above saturation. `task_bytes`: traffic (per second) that weighs as much as one.

    The amounts are absolute: what a move gains does not depend on the rest of the cluster.
    """

    task_bytes: float

    def gain(self, bytes_per_s: float, tasks: float) -> float:
        """Return the gain of so many fewer bytes between nodes, and tasks above saturation."""
        return bytes_per_s / self.task_bytes + tasks


def cost(problem: model.Problem, placement: model.Ints, weights: Weights) -> float:
    """Return what a placement costs: its traffic between servers and its tasks above saturation."""
    return weights.gain(model.cntc(problem, placement), excess_tasks(problem, placement))


def excess_tasks(problem: model.Problem, placement: model.Ints) -> float:
    """Return the tasks above saturation, of all servers. Unlike `coc` it is not 0 if all are equally overloaded."""
    limits = problem.saturation * problem.capacity[:, 0]
    return float(np.maximum(model.totals(placement, problem.tasks, problem.servers) - limits, 0.0).sum())


def adjacent(pairs: model.Ints, weight: arrays.Array) -> dict[int, dict[int, float]]:
    """Return the partners of each container, with the sum of the weights of their pairs."""
    found: dict[int, dict[int, float]] = {}
    for (one, other), each in zip(pairs.tolist(), weight.tolist(), strict=True):
        for mine, theirs in ((one, other), (other, one)):
            row = found.setdefault(mine, {})
            row[theirs] = row.get(theirs, 0.0) + each
    return found
