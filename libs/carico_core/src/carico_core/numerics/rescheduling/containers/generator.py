"""Random problems of the paper's four sizes (table 5), by seed.

Stated in the paper: numbers of containers, servers and constraints; the share of containers that each one sends to;
80 % movable; half the servers with 8 CPUs and 64 GB, half with 4 and 32; one server takes no containers; an affinity
leaves a random 25 % of the servers, an anti-affinity 75 %; traffic from 1 to 5; no, half or all servers overloaded.

Not stated there, and chosen here: requests are uniform, so that all together are 58 % of the capacity of the mean
server times 10 containers; the present placement is random among those that fulfil all constraints, with the server
that takes no containers empty; containers of pairs are different ones; traffic is a whole number in each direction; the
load is independent of requests, uniform within a factor of three inside a server, and scaled so that a server has .3 to
.9 tasks per core, or 1.1 to 1.6 where it is overloaded (the paper measures 1.6 in section 2).
"""

import dataclasses
import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from carico_core.domain import errors
from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.containers import model

_LARGE, _SMALL = (8.0, 64.0), (4.0, 32.0)
_CPU_REQUEST, _MEMORY_REQUEST = (0.1, 0.6), (0.8, 4.8)
_CALM, _OVERLOADED = (0.3, 0.9), (1.1, 1.6)
_MOVABLE = 0.8
# Random placements that are tried; one usually is enough.
_TRIES = 200


class Overload(enum.Enum):
    """Which share of the servers is overloaded."""

    NONE = "none"
    HALF = "half"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A row of table 5. Each kind of constraint has the same number."""

    name: str
    containers: int
    servers: int
    constraints: int
    receivers: float


SIZES = {
    size.name: size
    for size in (
        Size(name="S", containers=50, servers=5, constraints=5, receivers=0.2),
        Size(name="M", containers=100, servers=10, constraints=10, receivers=0.1),
        Size(name="L", containers=500, servers=50, constraints=50, receivers=0.02),
        Size(name="XL", containers=1500, servers=150, constraints=150, receivers=0.01),
    )
}


def generate(size: Size, *, seed: int, overload: Overload = Overload.HALF) -> model.Problem:
    """Return the problem of this size and seed. Raises `errors.SettingsError` if no placement is found for it."""
    random = np.random.default_rng([seed, size.containers, size.servers])
    for _ in range(_TRIES):
        draft = _draft(size, random)
        placement = _placed(draft, random)
        if placement is not None:
            tasks = _tasks(draft, placement, overload, random)
            return dataclasses.replace(draft, present=placement, tasks=tasks)
    raise errors.SettingsError(
        f"size {size.name}: got {size.containers} containers on {size.servers} servers for which no placement was "
        f"found in {_TRIES} tries, expected fewer constraints or more servers"
    )


def _draft(size: Size, random: np.random.Generator) -> model.Problem:
    """Return a problem without load, in which every container is on server 0, which takes no containers."""
    containers, servers, count = size.containers, size.servers, size.constraints
    order = random.permutation(containers)
    together, apart = order[: 2 * count].reshape(-1, 2), order[2 * count : 4 * count].reshape(-1, 2)
    pairs, traffic = _traffic(size, random)
    movable = np.ones(containers, dtype=bool)
    movable[random.permutation(containers)[round(_MOVABLE * containers) :]] = False
    larger = random.permutation(servers) < servers // 2
    request = [random.uniform(*bounds, containers) for bounds in (_CPU_REQUEST, _MEMORY_REQUEST)]
    return model.Problem(
        request=np.column_stack(request),
        capacity=np.where(larger[:, None], _LARGE, _SMALL), tasks=np.zeros(containers),
        allowed=_allowed(size, random), movable=movable, present=np.zeros(containers, dtype=np.int32),
        pairs=pairs, traffic=traffic, together=together, apart=apart,
    )  # fmt: skip


def _traffic(size: Size, random: np.random.Generator) -> tuple[model.Ints, arrays.Array]:
    """Return each pair with traffic, and its bytes in both directions."""
    receivers = round(size.receivers * size.containers)
    sums: dict[tuple[int, int], int] = {}
    for sender in range(size.containers):
        others = random.choice(size.containers - 1, receivers, replace=False)
        for other, amount in zip((others + (others >= sender)).tolist(), random.integers(1, 6, receivers), strict=True):
            pair = (min(sender, other), max(sender, other))
            sums[pair] = sums.get(pair, 0) + int(amount)
    return np.array(list(sums), dtype=np.int32), np.array(list(sums.values()), dtype=np.float64)


def _allowed(size: Size, random: np.random.Generator) -> model.Bools:
    allowed = np.ones((size.containers, size.servers), dtype=bool)
    chosen = random.permutation(size.containers)[: 2 * size.constraints]
    for shares, each in zip((0.25, 0.75), np.split(chosen, 2), strict=True):
        for container in each:
            # Of the servers that take containers: a quarter of 5 is two, so that one remains for certain.
            kept = 1 + random.permutation(size.servers - 1)[: math.ceil(shares * size.servers)]
            allowed[container] = np.isin(np.arange(size.servers), kept)
    allowed[:, 0] = False
    return allowed


def _placed(problem: model.Problem, random: np.random.Generator) -> model.Ints | None:
    """Return a random placement that fulfils all constraints, or None if this order of containers leads to none."""
    groups, group = model.contracted(problem)
    conflicts: dict[int, list[int]] = {}
    for one, other in groups.apart.tolist():
        conflicts.setdefault(one, []).append(other)
        conflicts.setdefault(other, []).append(one)
    free = groups.capacity.copy()
    placed = np.full(groups.containers, -1)
    for each in _hardest_first(groups, random):
        possible = groups.allowed[each] & (free >= groups.request[each]).all(axis=1)
        possible[_taken(placed, conflicts.get(each, ()))] = False
        choices = np.flatnonzero(possible)
        if not choices.size:
            return None
        placed[each] = random.choice(choices)
        free[placed[each]] -= groups.request[each]
    return placed[group].astype(np.int32)


def _hardest_first(problem: model.Problem, random: np.random.Generator) -> Iterable[int]:
    """Return containers with the fewest possible servers first, then at random."""
    return map(int, np.lexsort((random.random(problem.containers), problem.allowed.sum(axis=1))))


def _taken(placed: model.Ints, conflicts: Iterable[int]) -> list[int]:
    return [int(placed[other]) for other in conflicts if placed[other] >= 0]


def _tasks(
    problem: model.Problem, placement: model.Ints, overload: Overload, random: np.random.Generator
) -> arrays.Array:
    """Return the load of each container, so that the wanted servers are overloaded."""
    busy = random.permutation(np.unique(placement))
    count = {Overload.NONE: 0, Overload.HALF: problem.servers // 2, Overload.ALL: len(busy)}[overload]
    load = np.zeros(problem.servers)
    load[busy[:count]] = random.uniform(*_OVERLOADED, min(count, len(busy)))
    load[busy[count:]] = random.uniform(*_CALM, max(len(busy) - count, 0))
    drawn = random.uniform(0.5, 1.5, problem.containers)
    sums = model.totals(placement, drawn, problem.servers)
    return drawn * (load * problem.capacity[:, 0])[placement] / sums[placement]
