"""Improves a placement by single moves that gain in absolute terms.

A search weighs costs by what the whole cluster has, so that in a large one the traffic of one pair is less than what
the search accepts as noise. Here each container is looked at by itself: would it gain on a server with which it
exchanges traffic, where it is now, or, from an overloaded server, on the least loaded one?
"""

from collections.abc import Iterator

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.containers import model
from carico_rescheduler.plan import gains

# Each container is looked at so often at most; what one has gained may let another gain.
_SWEEPS = 3
# Below this, a gain is rounding.
_LEAST = 1e-9
# What it is worth not to move, in tasks: of two places that are as good, a container takes the one where it is.
_HOME = 1e-6


def refined(problem: model.Problem, placement: model.Ints, weights: gains.Weights) -> model.Ints:
    """Return the placement after all such moves; constraints that it fulfils still hold."""
    state = _State(problem, placement, weights)
    movable = np.flatnonzero(problem.movable).tolist()
    for _ in range(_SWEEPS):
        moved = sum(state.improve(each) for each in movable)
        if not moved:
            break
    return state.placed


class _State:
    """The placement so far, and the totals of each server."""

    def __init__(self, problem: model.Problem, placement: model.Ints, weights: gains.Weights) -> None:
        self._problem = problem
        self._weights = weights
        self.placed = placement.copy()
        self._used = np.column_stack([model.totals(placement, each, problem.servers) for each in problem.request.T])
        self._room = problem.capacity * (1.0 + model.ROUNDING)
        self._tasks = model.totals(placement, problem.tasks, problem.servers)
        self._limits = problem.saturation * problem.capacity[:, 0]
        self._talks = gains.adjacent(problem.pairs, problem.traffic)
        self._apart = gains.adjacent(problem.apart, np.ones(len(problem.apart)))
        self._bound = {each for pair in problem.together.tolist() for each in pair}

    def improve(self, container: int) -> bool:
        """Move a container to where it gains most; return whether it gains anywhere."""
        if container in self._bound:
            return False
        near = self._near(container)
        best, most = -1, _LEAST
        for server in self._candidates(container, near):
            gain = self._gain(container, server, near)
            if gain > most and self._fits(container, server):
                best, most = server, gain
        if best < 0:
            return False
        source = int(self.placed[container])
        for totals, amount in ((self._used, self._problem.request), (self._tasks, self._problem.tasks)):
            totals[source] -= amount[container]
            totals[best] += amount[container]
        self.placed[container] = best
        return True

    def _near(self, container: int) -> dict[int, float]:
        """Return the traffic of a container by the server of the other end."""
        found: dict[int, float] = {}
        for other, rate in self._talks.get(container, {}).items():
            server = int(self.placed[other])
            found[server] = found.get(server, 0.0) + rate
        return found

    def _candidates(self, container: int, near: dict[int, float]) -> Iterator[int]:
        source = int(self.placed[container])
        found = dict.fromkeys([*near, int(self._problem.present[container])])
        if self._tasks[source] > self._limits[source]:
            spare: arrays.Array = np.where(self._problem.allowed[container], self._limits - self._tasks, -np.inf)
            found[int(spare.argmax())] = None
        found.pop(source, None)
        yield from found

    def _gain(self, container: int, server: int, near: dict[int, float]) -> float:
        source, tasks = int(self.placed[container]), float(self._problem.tasks[container])
        fewer_bytes = near.get(server, 0.0) - near.get(source, 0.0)
        fewer_tasks = self._excess(source, 0.0) - self._excess(source, -tasks)
        fewer_tasks += self._excess(server, 0.0) - self._excess(server, tasks)
        home = int(self._problem.present[container])
        stays = _HOME * (int(server == home) - int(source == home))
        return self._weights.gain(fewer_bytes, fewer_tasks) + stays

    def _excess(self, server: int, more: float) -> float:
        return max(float(self._tasks[server]) + more - float(self._limits[server]), 0.0)

    def _fits(self, container: int, server: int) -> bool:
        if not self._problem.allowed[container, server]:
            return False
        if (self._used[server] + self._problem.request[container] > self._room[server]).any():
            return False
        return not any(self.placed[other] == server for other in self._apart.get(container, {}))
