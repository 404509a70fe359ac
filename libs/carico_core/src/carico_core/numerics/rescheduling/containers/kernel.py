"""The inner loop of annealing: proposals, and their exact effect on both costs from tables, not from the placement.

The effect on traffic takes one look into the table of bytes between each container and each server; the effect on
overload takes one pass over the overloaded servers. An accepted move updates the rows of the containers that exchange
traffic with the moved one. numba compiles the functions if it is installed. Otherwise they run on lists, which Python
reads three times faster than arrays.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.containers import model

# A vector, or the rows of a matrix one after the other: an array if numba compiles the loop, a list otherwise.
Numbers = Any


class Tables(NamedTuple):
    """What does not change. The pairs of container u are at first[u] to first[u + 1] of `other` and `weight`."""

    cores: Numbers
    cpu: Numbers
    memory: Numbers
    tasks: Numbers
    movable: Numbers
    first: Numbers
    other: Numbers
    weight: Numbers
    apart_first: Numbers
    apart_other: Numbers
    apart_weight: Numbers


class State(NamedTuple):
    """What a move changes.

    bytes_to, by container and server: traffic of the container with those on the server. barred, likewise: containers
    on the server that must not share one with it, and one more if the container may not be there. excess: a server's
    load above saturation. overloaded: the servers with excess, of which there are COUNT; place: a server's index in it,
    -1 for none. best: the placement of least cost so far. changed: the containers that have moved since then, of which
    there are CHANGED; since: the best, by its number (BESTS), after which a container was listed. numbers: see below.
    """

    server: Numbers
    best: Numbers
    changed: Numbers
    since: Numbers
    cpu_free: Numbers
    memory_free: Numbers
    load: Numbers
    excess: Numbers
    overloaded: Numbers
    place: Numbers
    bytes_to: Numbers
    barred: Numbers
    numbers: Numbers


# Indexes of State.numbers. EXCESS is the sum of `excess`; ABOVE
# the number of servers above its average. PER_BYTE and PER_LOAD are weight times normalization.
CNTC, COC, EXCESS, COUNT, BEST_CNTC, BEST_COC = 0, 1, 2, 3, 4, 5
PER_BYTE, PER_LOAD, CNTC_MIN, CNTC_MAX, COC_MIN, COC_MAX = 6, 7, 8, 9, 10, 11
TEMPERATURE, EVALUATED, DRAWN, EVALUATIONS, ABOVE, CHANGED, BESTS, COC_WEIGHT = 12, 13, 14, 15, 16, 17, 18, 19
_NUMBERS = 20
# More than the rounding of a cost, far less than a difference that counts.
_SLACK = 1e-9
# A temperature ends after so many draws for each evaluation that it should have: most servers may be full.
_DRAWS_MOST = 20.0
# Random numbers of a proposal: container, kind, server or partner, acceptance.
DRAW_WIDTH = 4


def tables(problem: model.Problem) -> Tables:
    """Return the constant tables of a problem without groups (`model.contracted`)."""
    first, other, weight = _adjacent(problem.pairs, problem.traffic, problem.containers)
    apart_first, apart_other, apart_weight = _adjacent(
        problem.apart, np.ones(len(problem.apart), dtype=np.int32), problem.containers
    )
    return Tables(*(
        _plain(each) for each in (
            problem.capacity[:, 0], problem.request[:, 0], problem.request[:, 1], problem.tasks,
            np.flatnonzero(problem.movable), first, other, weight, apart_first, apart_other, apart_weight,
        )
    ))  # fmt: skip


def state(problem: model.Problem, placement: model.Ints) -> State:
    """Return the state of a placement that fulfils all constraints."""
    load = model.loads(problem, placement)
    excess = np.maximum(load - problem.saturation, 0.0)
    over = np.flatnonzero(excess)
    overloaded, place = np.zeros(problem.servers, dtype=np.int64), np.full(problem.servers, -1)
    overloaded[: len(over)] = over
    place[over] = np.arange(len(over))
    used = [model.totals(placement, each, problem.servers) for each in problem.request.T]
    room = problem.capacity * (1.0 + model.ROUNDING)
    clashes = _to_servers(problem, placement, problem.apart, np.ones(len(problem.apart)))
    numbers = np.zeros(_NUMBERS)
    numbers[CNTC], numbers[COC] = model.cntc(problem, placement), model.coc(load, problem.saturation)
    numbers[COC_WEIGHT] = 0.5
    numbers[EXCESS], numbers[COUNT], numbers[ABOVE] = excess.sum(), len(over), (excess > excess.mean()).sum()
    for extremes in (slice(BEST_CNTC, BEST_COC + 1), slice(CNTC_MIN, COC_MAX, 2), slice(CNTC_MAX, COC_MAX + 1, 2)):
        numbers[extremes] = numbers[CNTC], numbers[COC]
    return State(*(
        _plain(each) for each in (
            placement.astype(np.int64), placement.astype(np.int64),
            np.zeros(problem.containers, dtype=np.int64), np.full(problem.containers, -1.0),
            room[:, 0] - used[0], room[:, 1] - used[1],
            load, excess, overloaded, place, _to_servers(problem, placement, problem.pairs, problem.traffic),
            (clashes + ~problem.allowed.ravel()).astype(np.int32), numbers,
        )
    ))  # fmt: skip


def draws(random: np.random.Generator, count: int) -> Numbers:
    """Return the random numbers of so many proposals."""
    return _plain(random.random((count, DRAW_WIDTH)))


def _plain(array: Any) -> Numbers:
    flat = array.ravel()
    return np.array(flat) if compiled.IS_COMPILED else flat.tolist()


def _adjacent(pairs: Any, weight: Any, count: int) -> tuple[Any, Any, Any]:
    """Return (first, other, weight) of pairs in both directions, by container."""
    sides = np.concatenate((pairs, pairs[:, ::-1])).astype(np.int64)
    order = np.argsort(sides[:, 0], kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(sides[:, 0], minlength=count))))
    return first, sides[order, 1], np.concatenate((weight, weight))[order]


def _to_servers(problem: model.Problem, placement: Any, pairs: Any, weight: Any) -> Any:
    """Return for each container and server the weight of its pairs on that server, shape (P * N,)."""
    one, other = pairs.astype(np.int64).T
    cells = np.concatenate((one * problem.servers + placement[other], other * problem.servers + placement[one]))
    return np.bincount(cells, weights=np.concatenate((weight, weight)), minlength=problem.containers * problem.servers)


@compiled.compiled
def coc_after(now: State, servers: int, source: int, target: int, at_source: float, at_target: float) -> float:
    """Return coc of so many servers with these excesses of two of them."""
    excess, numbers = now.excess, now.numbers
    total = numbers[EXCESS] + (at_source - excess[source]) + (at_target - excess[target])
    average = total / servers
    found: float = max(0.0, at_source - average) + max(0.0, at_target - average)
    for index in range(int(numbers[COUNT])):
        server = now.overloaded[index]
        above = excess[server] - average
        if above > 0.0 and server != source and server != target:
            found += above
    return found


@compiled.compiled
def coc_at_least(
    coc: float, above: float, average: float, servers: int, was: tuple[float, float], becomes: tuple[float, float]
) -> float:
    """Return a lower bound of coc after the excesses of two servers have changed, in constant time.

    coc of the other servers is convex in the average: it is at least its tangent, whose slope is the number of servers
    above the average. The bound is close, since one move hardly changes the average.
    """
    after = average + (becomes[0] - was[0] + becomes[1] - was[1]) / servers
    for excess in was:
        if excess > average:
            coc -= excess - average
            above -= 1.0
    return max(0.0, coc - above * (after - average)) + max(0.0, becomes[0] - after) + max(0.0, becomes[1] - after)


@compiled.compiled
def _set_load(now: State, server: int, load: float, saturation: float) -> None:
    numbers = now.numbers
    before, after = now.excess[server], max(0.0, load - saturation)
    now.load[server] = load
    now.excess[server] = after
    last = int(numbers[COUNT])
    if before == 0.0 and after > 0.0:
        now.overloaded[last] = server
        now.place[server] = last
        numbers[COUNT] += 1.0
    elif before > 0.0 and after == 0.0:
        index, moved = now.place[server], now.overloaded[last - 1]
        now.overloaded[index] = moved
        now.place[moved] = index
        now.place[server] = -1
        numbers[COUNT] -= 1.0


@compiled.compiled
def _set_coc(fixed: Tables, now: State) -> None:
    # Summed again, not updated: rounding would make an excess of servers without any.
    numbers, count = now.numbers, int(now.numbers[COUNT])
    total, coc, above = 0.0, 0.0, 0.0
    for index in range(count):
        total += now.excess[now.overloaded[index]]
    average = total / len(fixed.cores)
    for index in range(count):
        excess = now.excess[now.overloaded[index]]
        if excess > average:
            coc += excess - average
            above += 1.0
    numbers[EXCESS], numbers[COC], numbers[ABOVE] = total, coc, above


@compiled.compiled
def move(fixed: Tables, now: State, unit: int, target: int, saturation: float) -> None:
    """Move a container, and update all tables."""
    source, servers = now.server[unit], len(fixed.cores)
    now.numbers[CNTC] += now.bytes_to[unit * servers + source] - now.bytes_to[unit * servers + target]
    now.server[unit] = target
    if now.since[unit] != now.numbers[BESTS]:
        now.since[unit] = now.numbers[BESTS]
        now.changed[int(now.numbers[CHANGED])] = unit
        now.numbers[CHANGED] += 1.0
    now.cpu_free[source] += fixed.cpu[unit]
    now.cpu_free[target] -= fixed.cpu[unit]
    now.memory_free[source] += fixed.memory[unit]
    now.memory_free[target] -= fixed.memory[unit]
    tasks = fixed.tasks[unit]
    _set_load(now, source, now.load[source] - tasks / fixed.cores[source], saturation)
    _set_load(now, target, now.load[target] + tasks / fixed.cores[target], saturation)
    _set_coc(fixed, now)
    _shift(now.bytes_to, fixed.first, fixed.other, fixed.weight, unit, source, target, servers)
    _shift(now.barred, fixed.apart_first, fixed.apart_other, fixed.apart_weight, unit, source, target, servers)


@compiled.compiled
def _shift(
    table: Numbers, first: Numbers, other: Numbers, weight: Numbers, unit: int, source: int, target: int, servers: int
) -> None:
    for index in range(first[unit], first[unit + 1]):
        row = other[index] * servers
        table[row + source] -= weight[index]
        table[row + target] += weight[index]


@compiled.compiled
def _note(now: State, progressive: bool, bound: float) -> None:
    """Follow the least and largest costs if normalization is progressive, and keep the placement if it is the best."""
    numbers = now.numbers
    cntc, coc = numbers[CNTC], numbers[COC]
    if progressive:
        numbers[CNTC_MIN], numbers[CNTC_MAX] = min(numbers[CNTC_MIN], cntc), max(numbers[CNTC_MAX], cntc)
        numbers[COC_MIN], numbers[COC_MAX] = min(numbers[COC_MIN], coc), max(numbers[COC_MAX], coc)
        traffic, overload = numbers[CNTC_MAX] - numbers[CNTC_MIN], numbers[COC_MAX] - numbers[COC_MIN]
        # eta = 1 / (max - min), and 1 while both are equal.
        weight = numbers[COC_WEIGHT]
        numbers[PER_BYTE] = (1.0 - weight) / traffic if traffic > 0.0 else 1.0 - weight
        numbers[PER_LOAD] = weight / overload if overload > 0.0 else weight
    change = numbers[PER_BYTE] * (cntc - numbers[BEST_CNTC])
    change += numbers[PER_LOAD] * (max(0.0, coc - bound) - max(0.0, numbers[BEST_COC] - bound))
    if change < 0.0:
        numbers[BEST_CNTC], numbers[BEST_COC] = cntc, coc
        for index in range(int(numbers[CHANGED])):
            now.best[now.changed[index]] = now.server[now.changed[index]]
        numbers[CHANGED] = 0.0
        numbers[BESTS] += 1.0


@compiled.compiled
def advance(
    fixed: Tables,
    now: State,
    drawn: Numbers,
    begin: int,
    saturation: float,
    neighbours: float,
    moves: int,
    progressive: bool,
    bound: float,
) -> int:
    """Make proposals from row `begin` on, and return the next row: at the end of the rows or of a temperature.

    neighbours: the share of proposals to the server of a container with which the chosen one exchanges traffic. moves:
    evaluations of a temperature, 0 for no end. bound: coc up to which it costs nothing.
    """
    # Local names: a field of a tuple costs numba two atomic operations each time.
    numbers, cores, tasks, cpu, memory = now.numbers, fixed.cores, fixed.tasks, fixed.cpu, fixed.memory
    movable, first, other = fixed.movable, fixed.first, fixed.other
    at, cpu_free, memory_free, barred = now.server, now.cpu_free, now.memory_free, now.barred
    load, excess, bytes_to, servers = now.load, now.excess, now.bytes_to, len(fixed.cores)
    for row in range(begin, len(drawn) // DRAW_WIDTH):
        numbers[DRAWN] += 1.0
        if moves > 0 and (numbers[EVALUATED] >= moves or numbers[DRAWN] > _DRAWS_MOST * moves):
            numbers[EVALUATED], numbers[DRAWN] = 0.0, 0.0
            return row
        draw = row * DRAW_WIDTH
        unit = movable[int(drawn[draw] * len(movable))]
        source, start = at[unit], first[unit]
        degree = first[unit + 1] - start
        if degree > 0 and drawn[draw + 1] < neighbours:
            target = at[other[start + int(drawn[draw + 2] * degree)]]
        else:
            target = int(drawn[draw + 2] * servers)
        cell = unit * servers + target
        if target == source or barred[cell] > 0:
            continue
        if cpu[unit] > cpu_free[target] or memory[unit] > memory_free[target]:
            continue
        numbers[EVALUATED] += 1.0
        numbers[EVALUATIONS] += 1.0
        # Accepted if new - old is at most this: exp((old - new) / T) is larger than the random number.
        most = -numbers[TEMPERATURE] * math.log(1.0 - drawn[draw + 3])
        most -= numbers[PER_BYTE] * (bytes_to[unit * servers + source] - bytes_to[cell])
        at_source = max(0.0, load[source] - tasks[unit] / cores[source] - saturation)
        at_target = max(0.0, load[target] + tasks[unit] / cores[target] - saturation)
        coc = numbers[COC]
        per_load, paid = numbers[PER_LOAD], max(0.0, coc - bound)
        if per_load >= 0.0:
            was, becomes = (excess[source], excess[target]), (at_source, at_target)
            least = coc_at_least(coc, numbers[ABOVE], numbers[EXCESS] / servers, servers, was, becomes)
            if per_load * (max(0.0, least - bound) - paid) > most + _SLACK:
                continue
        coc = coc_after(now, servers, source, target, at_source, at_target)
        if per_load * (max(0.0, coc - bound) - paid) <= most:
            move(fixed, now, unit, target, saturation)
            _note(now, progressive, bound)
    return len(drawn) // DRAW_WIDTH
