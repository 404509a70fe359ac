"""The problem of moving running containers: traffic between servers, CPU overload, and constraints.

Source: Bracke et al., "A multiobjective metaheuristic-based container consolidation model for cloud application
performance improvement", equations 1 to 9. A placement is an array (P,) with the server of each container.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from carico_core.domain import errors
from carico_core.numerics import arrays

Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Bools: TypeAlias = npt.NDArray[np.bool_]

RESOURCES = ("CPU", "memory")
# Requests may exceed a capacity by this share: rounding of their sum.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """P containers on N servers, with E pairs that exchange traffic.

    request (P, 2) and capacity (N, 2): CPU in cores and memory. tasks (P,): runnable tasks of each container, running
    or waiting for a core. allowed (P, N): whether a container may be on a server; False for servers that take no
    containers. movable (P,): whether a container may move. present (P,): its server now. pairs (E, 2): two different
    containers. traffic (E,): bytes between them, in both directions. together, apart (K, 2): containers that must, or
    must not, share a server. saturation: the load at which a server is saturated, in tasks per core.

    Arrays are copied and read-only. Raises ValueError for shapes that do not fit, and numbers out of range.
    """

    request: arrays.Array
    capacity: arrays.Array
    tasks: arrays.Array
    allowed: Bools
    movable: Bools
    present: Ints
    pairs: Ints
    traffic: arrays.Array
    together: Ints
    apart: Ints
    saturation: float = 1.0

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            array = np.array(getattr(self, name), dtype=kind, order="C")
            if name in _PAIRS and not array.size:
                array = array.reshape(0, 2)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        self._check_shapes()
        self._check_values()

    def _check_shapes(self) -> None:
        containers, servers = len(self.request), len(self.capacity)
        shapes = {
            "request": (containers, 2), "capacity": (servers, 2), "tasks": (containers,),
            "allowed": (containers, servers), "movable": (containers,), "present": (containers,),
            "pairs": (len(self.traffic), 2), "traffic": (len(self.traffic),),
            "together": (len(self.together), 2), "apart": (len(self.apart), 2),
        }  # fmt: skip
        for name, expected in shapes.items():
            got = getattr(self, name).shape
            if got != expected:
                raise ValueError(f"rescheduling {name}: expected shape {expected}, got {got}")

    def _check_values(self) -> None:
        for name in ("request", "capacity", "tasks", "traffic"):
            array = getattr(self, name)
            if not (np.isfinite(array).all() and (array >= 0.0).all()):
                raise ValueError(f"rescheduling {name}: expected finite numbers of at least 0")
        if not (self.capacity[:, 0] > 0.0).all():
            raise ValueError("rescheduling capacity: expected more than 0 cores on each server")
        if not 0.0 < self.saturation < np.inf:
            raise ValueError(f"rescheduling saturation: expected a finite number above 0, got {self.saturation}")
        limits = {"present": self.servers, **dict.fromkeys(_PAIRS, self.containers)}
        for name, limit in limits.items():
            array = getattr(self, name)
            if array.size and (array.min() < 0 or array.max() >= limit):
                raise ValueError(f"rescheduling {name}: expected indexes from 0 to {limit - 1}")
        for name in _PAIRS:
            array = getattr(self, name)
            if (array[:, 0] == array[:, 1]).any():
                raise ValueError(f"rescheduling {name}: expected pairs of two different containers")

    @property
    def containers(self) -> int:
        """P, the number of containers."""
        return len(self.request)

    @property
    def servers(self) -> int:
        """N, the number of servers."""
        return len(self.capacity)


_PAIRS = ("pairs", "together", "apart")
_KINDS: dict[str, type[np.generic]] = {
    "request": np.float64, "capacity": np.float64, "tasks": np.float64, "allowed": np.bool_, "movable": np.bool_,
    "present": np.int32, "pairs": np.int32, "traffic": np.float64, "together": np.int32, "apart": np.int32,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The two costs of a placement: bytes between servers, and overload above the average one in tasks per core."""

    cntc: float
    coc: float


def costs(problem: Problem, placement: Ints) -> Costs:
    """Return both costs of a placement, calculated in full."""
    return Costs(cntc=cntc(problem, placement), coc=coc(loads(problem, placement), problem.saturation))


def cntc(problem: Problem, placement: Ints) -> float:
    """Return the bytes between servers (equation 1), each pair once.

    The paper sums over servers, which counts a pair on two servers twice. Ratios of two placements are the same.
    """
    sides = placement[problem.pairs]
    return float(problem.traffic[sides[:, 0] != sides[:, 1]].sum())


def loads(problem: Problem, placement: Ints) -> arrays.Array:
    """Return the load of each server, in tasks per core."""
    return totals(placement, problem.tasks, problem.servers) / problem.capacity[:, 0]


def totals(index: Ints, weights: arrays.Array, count: int) -> arrays.Array:
    """Return the sum of the weights at each index, shape (count,)."""
    return np.bincount(index, weights=weights, minlength=count).astype(np.float64)


def aso(load: arrays.Array, saturation: float = 1.0) -> float:
    """Return the average server overload (equation 2).

    >>> aso(np.array([0.5, 1.25, 0.25, 1.5]))  # figure 5 (b)
    0.1875
    """
    return float(np.maximum(load - saturation, 0.0).mean())


def coc(load: arrays.Array, saturation: float = 1.0) -> float:
    """Return the cluster overload cost (equation 3). It is 0 also where every server is equally overloaded.

    >>> coc(np.array([0.5, 1.25, 0.25, 1.5])), coc(np.full(4, 1.25))  # figure 5 (b) and (c)
    (0.375, 0.0)
    """
    return float(np.maximum(load - (saturation + aso(load, saturation)), 0.0).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A constraint that a placement violates: the paper's equation (0: a container that may not move), and where."""

    equation: int
    detail: str


def violations(problem: Problem, placement: Ints) -> Iterator[Violation]:
    """Yield each constraint that a placement violates.

    A container that has not moved may stay on a server that no longer allows it, as in Kubernetes.
    """
    placed = np.asarray(placement)
    if placed.shape != (problem.containers,) or ((placed < 0) | (placed >= problem.servers)).any():
        yield Violation(equation=4, detail=f"expected a server from 0 to {problem.servers - 1} for each container")
        return
    for resource, equation in enumerate((5, 6)):
        used = totals(placed, problem.request[:, resource], problem.servers)
        for server in np.flatnonzero(used > problem.capacity[:, resource] * (1.0 + ROUNDING)):
            has = problem.capacity[server, resource]
            detail = f"server {server}: {RESOURCES[resource]} requests {used[server]:g} of {has:g}"
            yield Violation(equation=equation, detail=detail)
    moved = placed != problem.present
    for each in np.flatnonzero(moved & ~problem.allowed[np.arange(problem.containers), placed]):
        yield Violation(equation=7, detail=f"container {each} may not be on server {placed[each]}")
    for one, other in problem.together[placed[problem.together[:, 0]] != placed[problem.together[:, 1]]]:
        yield Violation(equation=8, detail=f"containers {one} and {other} must share a server")
    for one, other in problem.apart[placed[problem.apart[:, 0]] == placed[problem.apart[:, 1]]]:
        yield Violation(equation=9, detail=f"containers {one} and {other} must not share server {placed[one]}")
    for each in np.flatnonzero(moved & ~problem.movable):
        yield Violation(equation=0, detail=f"container {each} may not move")


def check_present(problem: Problem) -> None:
    """Raise `errors.SettingsError` if the present placement violates a constraint: every search starts from it."""
    found = list(violations(problem, problem.present))
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise errors.SettingsError(
            f"the present placement violates a constraint: {found[0].detail}{more}; "
            f"expected a placement that fulfils all of them: correct the problem"
        )


def contracted(problem: Problem) -> tuple[Problem, Ints]:
    """Return the problem with one container for each group that must stay together, and the group of each container.

    A placement of the groups, indexed by the second value, is one of the containers with the same costs.
    """
    if not len(problem.together):
        each: Ints = np.arange(problem.containers, dtype=np.int32)
        pairs, traffic = _merged(problem.pairs, problem.traffic, problem.containers)
        apart, _ = _merged(problem.apart, np.ones(len(problem.apart)), problem.containers)
        return dataclasses.replace(problem, pairs=pairs, traffic=traffic, apart=apart), each
    group = _groups(problem)
    first = np.unique(group, return_index=True)[1]
    count = len(first)
    sums = [totals(group, values, count) for values in (*problem.request.T, problem.tasks)]
    # A group may be only where each of its containers may be, or stay where it is.
    allowed = np.ones((count, problem.servers), dtype=bool)
    containers, servers = np.nonzero(~problem.allowed)
    allowed[group[containers], servers] = False
    pairs, traffic = _merged(group[problem.pairs], problem.traffic, count)
    apart, _ = _merged(group[problem.apart], np.ones(len(problem.apart)), count)
    smaller = dataclasses.replace(
        problem, request=np.column_stack(sums[:2]), tasks=sums[2], allowed=allowed,
        movable=np.bincount(group, weights=~problem.movable, minlength=count) == 0.0, present=problem.present[first],
        pairs=pairs, traffic=traffic, together=np.zeros((0, 2), dtype=np.int32), apart=apart,
    )  # fmt: skip
    return smaller, group


def _groups(problem: Problem) -> Ints:
    """Return the group of each container, numbered by their first container."""
    leader = list(range(problem.containers))

    def root(each: int) -> int:
        while leader[each] != each:
            leader[each] = leader[leader[each]]
            each = leader[each]
        return each

    for one, other in problem.together.tolist():
        low, high = sorted((root(one), root(other)))
        leader[high] = low
    return np.unique([root(each) for each in range(problem.containers)], return_inverse=True)[1].astype(np.int32)


def _merged(pairs: Ints, weight: arrays.Array, count: int) -> tuple[Ints, arrays.Array]:
    """Return each pair of different groups once, and its total weight; pairs inside a group are left out."""
    low, high = pairs.min(axis=1, initial=count), pairs.max(axis=1, initial=-1)
    apart = low != high
    keys, place = np.unique(low[apart].astype(np.int64) * count + high[apart], return_inverse=True)
    return np.column_stack((keys // count, keys % count)), totals(place, weight[apart], len(keys))
