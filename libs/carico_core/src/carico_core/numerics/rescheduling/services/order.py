"""The order of single moves from the present placement to another one.

A step starts the new container before the old one ends, so its target must have room while both are there. Among the
moves whose target has room the largest container goes first, from the fullest machine that has one to give. Where none
has room, as in a cycle of full machines, a container that has to leave anyway is parked on a third machine: one step
more. Where that is impossible too, the steps that are left are blocked, and are left out: the order ends at a placement
that keeps every constraint, as all before it do.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carico_core.numerics.rescheduling.services import affinity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Order:
    """steps: (container, from, to) in order. where (P,): the placement that they reach.

    parked: how many steps park a container. blocked: how many moves are left out because no step is possible.
    """

    steps: tuple[tuple[int, int, int], ...]
    where: affinity.Ints
    parked: int
    blocked: int


def order(problem: affinity.Problem, target: affinity.Ints, *, most: int | None = None) -> Order:
    """Return the steps to counts (M, S) of `target`, at most `most`, with as few containers moved as there can be."""
    plan = _Plan(problem, target)
    is_blocked = False
    while plan.remaining and not is_blocked and (most is None or len(plan.steps) < most):
        is_blocked = not (plan.move() or plan.park())
    return Order(
        steps=tuple(plan.steps), where=plan.where, parked=plan.parked, blocked=plan.remaining if is_blocked else 0
    )


class _Plan:
    """What is left to move. Supply: containers that have to leave their machines. Demand: where one is missing."""

    def __init__(self, problem: affinity.Problem, target: affinity.Ints) -> None:
        before = affinity.counts(problem, problem.home)
        self._problem = problem
        self._service = problem.service
        self._free = problem.capacity * (1.0 + affinity.ROUNDING) - affinity.used(problem, before)
        # CPU and memory as shares of the mean machine: what "large" and "full" mean.
        self._mean = np.maximum(problem.capacity.mean(axis=0), np.finfo(float).tiny)
        self._size = (problem.request / self._mean).max(axis=1)
        self.where = problem.home.copy()
        self.steps: list[tuple[int, int, int]] = []
        self.parked = 0
        # One row for each missing container: service and machine (-1 once it is there), in the order of the attempts,
        # largest first; and whether it has room. Only rows of the two machines of a step are looked at again.
        missing = np.maximum(0, target - before)
        machine, service = np.nonzero(missing)
        rows = np.repeat(np.stack([service, machine], axis=1), missing[machine, service], axis=0)
        self._missing, self._machine = rows[np.argsort(-self._size[rows[:, 0]], kind="stable")].T.copy()
        self._fits = self._have_room(np.arange(len(rows)))
        # How many containers are not on their targets.
        self.remaining = len(rows)
        self._supply = _leaving(problem, before, target)

    def move(self) -> bool:
        """Make the first move whose target has room; False if there is none."""
        first = int(np.argmax(self._fits))
        if not self._fits[first]:
            return False
        givers = self._supply[self._service[self._supply] == self._missing[first]]
        fullest = np.argmin((self._free[self.where[givers]] / self._mean).min(axis=1))
        container, target = int(givers[fullest]), int(self._machine[first])
        self._machine[first], self._fits[first] = -1, False
        self.remaining -= 1
        self._supply = self._supply[self._supply != container]
        self._step(container, target)
        return True

    def park(self) -> bool:
        """Park a container whose leaving makes room for a move; False if there is none, or no place for it."""
        for container in self._supply[np.argsort(-self._size[self._service[self._supply]], kind="stable")]:
            source, request = self.where[container], self._problem.request[self._service[container]]
            waiting = self._problem.request[self._missing[self._machine == source]]
            if not (self._free[source] + request >= waiting).all(axis=1).any():
                continue
            place = self._place(int(container))
            if place >= 0:
                self._step(int(container), place)
                self.parked += 1
                return True
        return False

    def _place(self, container: int) -> int:
        """Return the emptiest machine with room for a container, of those that no move waits for, or -1."""
        service = self._service[container]
        possible = (self._free >= self._problem.request[service]).all(axis=1) & self._problem.allowed[:, service]
        possible[self.where[container]] = False
        # A container that was parked is not parked again: otherwise two could give way to each other for ever.
        if not possible.any() or self.where[container] != self._problem.home[container]:
            return -1
        room = (self._free / self._mean).min(axis=1)
        return int(np.argmax(np.where(possible, room, -np.inf)))

    def _have_room(self, rows: npt.NDArray[np.intp]) -> affinity.Bools:
        cpu, memory = (self._free[self._machine[rows]] >= self._problem.request[self._missing[rows]]).T
        have_room: affinity.Bools = cpu & memory
        return have_room

    def _step(self, container: int, target: int) -> None:
        source, request = int(self.where[container]), self._problem.request[self._service[container]]
        self._free[source] += request
        self._free[target] -= request
        rows = np.flatnonzero((self._machine == source) | (self._machine == target))
        self._fits[rows] = self._have_room(rows)
        self.where[container] = target
        self.steps.append((container, source, target))


def _leaving(problem: affinity.Problem, before: affinity.Ints, target: affinity.Ints) -> affinity.Ints:
    """Return the containers that leave their machines: of each service, as many as are too many there."""
    excess = np.maximum(0, before - target)
    # The rank of each container among those of its service on its machine; those of the least ranks leave.
    service = problem.service.astype(np.int64)
    key = problem.home * len(problem.size) + service
    by_key = np.argsort(key, kind="stable")
    begins = np.searchsorted(key[by_key], key[by_key], side="left")
    rank = np.empty(len(key), dtype=np.int64)
    rank[by_key] = np.arange(len(key)) - begins
    return np.flatnonzero(rank < excess[problem.home, service]).astype(np.int32)
