"""The inner loop of annealing: proposals, and their exact effect on both costs from tables, not from the placement.

The effect on traffic takes one look into the table of bytes between each container and each server; the effect on
overload takes one pass over the overloaded servers. An accepted move updates the rows of the containers that exchange
traffic with the moved one. numba compiles the functions if it is installed. Otherwise they run on lists, which Python
reads three times faster than arrays.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from carico_core.numerics.rescheduling import compiled, model

# A vector or matrix: an array where numba compiles the loop, nested lists otherwise.
Numbers = Any


class Tables(NamedTuple):
    """What does not change. The pairs of container u are at first[u] to first[u + 1] of `other` and `weight`."""

    cores: Numbers
    cpu: Numbers
    memory: Numbers
    tasks: Numbers
    movable: Numbers
    allowed: Numbers
    first: Numbers
    other: Numbers
    weight: Numbers
    apart_first: Numbers
    apart_other: Numbers


class State(NamedTuple):
    """What a move changes.

    bytes_to[u][n]: traffic of container u with those on server n. clashes[u][n]: containers on n that must not share a
    server with u. excess[n]: load above saturation. overloaded: servers with excess, of which there are COUNT; place[n]
    is a server's index in it, -1 for none. best: the placement of least cost so far. numbers: see below.
    """

    server: Numbers
    best: Numbers
    cpu_free: Numbers
    memory_free: Numbers
    load: Numbers
    excess: Numbers
    overloaded: Numbers
    place: Numbers
    bytes_to: Numbers
    clashes: Numbers
    numbers: Numbers


# Indexes of State.numbers. EXCESS is the sum of `excess`. PER_BYTE and PER_LOAD are weight times normalization.
CNTC, COC, EXCESS, COUNT, BEST_CNTC, BEST_COC = 0, 1, 2, 3, 4, 5
PER_BYTE, PER_LOAD, CNTC_MIN, CNTC_MAX, COC_MIN, COC_MAX = 6, 7, 8, 9, 10, 11
TEMPERATURE, EVALUATED, DRAWN, EVALUATIONS = 12, 13, 14, 15
_NUMBERS = 16
# A temperature ends after so many draws for each evaluation that it should have: most servers may be full.
_DRAWS_MOST = 20.0
# Random numbers of a proposal: container, kind, server or partner, acceptance.
DRAW_WIDTH = 4


def tables(problem: model.Problem) -> Tables:
    """Return the constant tables of a problem without groups (`model.contracted`)."""
    first, other, weight = _adjacent(problem.pairs, problem.traffic, problem.containers)
    apart_first, apart_other, _ = _adjacent(problem.apart, np.ones(len(problem.apart)), problem.containers)
    return Tables(*(
        _plain(each) for each in (
            problem.capacity[:, 0], problem.request[:, 0], problem.request[:, 1], problem.tasks,
            np.flatnonzero(problem.movable), problem.allowed, first, other, weight, apart_first, apart_other,
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
    numbers = np.zeros(_NUMBERS)
    numbers[CNTC], numbers[COC] = model.cntc(problem, placement), model.coc(load, problem.saturation)
    numbers[EXCESS], numbers[COUNT] = excess.sum(), len(over)
    for extremes in (slice(BEST_CNTC, BEST_COC + 1), slice(CNTC_MIN, COC_MAX, 2), slice(CNTC_MAX, COC_MAX + 1, 2)):
        numbers[extremes] = numbers[CNTC], numbers[COC]
    return State(*(
        _plain(each) for each in (
            placement.astype(np.int64), placement.astype(np.int64), room[:, 0] - used[0], room[:, 1] - used[1],
            load, excess, overloaded, place, _to_servers(problem, placement, problem.pairs, problem.traffic),
            _to_servers(problem, placement, problem.apart, np.ones(len(problem.apart))), numbers,
        )
    ))  # fmt: skip


def draws(random: np.random.Generator, count: int) -> Numbers:
    """Return the random numbers of so many proposals."""
    return _plain(random.random((count, DRAW_WIDTH)))


def _plain(array: Any) -> Numbers:
    return np.array(array) if compiled.IS_COMPILED else array.tolist()


def _adjacent(pairs: Any, weight: Any, count: int) -> tuple[Any, Any, Any]:
    """Return (first, other, weight) of pairs in both directions, by container."""
    sides = np.concatenate((pairs, pairs[:, ::-1])).astype(np.int64)
    order = np.argsort(sides[:, 0], kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(sides[:, 0], minlength=count))))
    return first, sides[order, 1], np.concatenate((weight, weight))[order]


def _to_servers(problem: model.Problem, placement: Any, pairs: Any, weight: Any) -> Any:
    """Return for each container and server the weight of its pairs on that server, shape (P, N)."""
    one, other = pairs.astype(np.int64).T
    cells = np.concatenate((one * problem.servers + placement[other], other * problem.servers + placement[one]))
    flat = np.bincount(cells, weights=np.concatenate((weight, weight)), minlength=problem.containers * problem.servers)
    return flat.reshape(problem.containers, problem.servers)


@compiled.compiled
def fits(fixed: Tables, now: State, unit: int, target: int) -> bool:
    """Return whether every constraint holds after a container has moved."""
    return bool(
        fixed.allowed[unit][target]
        and fixed.cpu[unit] <= now.cpu_free[target]
        and fixed.memory[unit] <= now.memory_free[target]
        and now.clashes[unit][target] == 0.0
    )


@compiled.compiled
def coc_after(fixed: Tables, now: State, source: int, target: int, at_source: float, at_target: float) -> float:
    """Return coc with these excesses of two servers."""
    numbers = now.numbers
    total = numbers[EXCESS] + (at_source - now.excess[source]) + (at_target - now.excess[target])
    average = total / len(fixed.cores)
    found: float = max(0.0, at_source - average) + max(0.0, at_target - average)
    for index in range(int(numbers[COUNT])):
        server = now.overloaded[index]
        above = now.excess[server] - average
        if above > 0.0 and server != source and server != target:
            found += above
    return found


@compiled.compiled
def _set_load(now: State, server: int, load: float, saturation: float) -> None:
    numbers = now.numbers
    before, after = now.excess[server], max(0.0, load - saturation)
    now.load[server] = load
    now.excess[server] = after
    numbers[EXCESS] += after - before
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
def move(fixed: Tables, now: State, unit: int, target: int, saturation: float) -> None:
    """Move a container, and update everything but coc."""
    source = now.server[unit]
    now.numbers[CNTC] += now.bytes_to[unit][source] - now.bytes_to[unit][target]
    now.server[unit] = target
    now.cpu_free[source] += fixed.cpu[unit]
    now.cpu_free[target] -= fixed.cpu[unit]
    now.memory_free[source] += fixed.memory[unit]
    now.memory_free[target] -= fixed.memory[unit]
    tasks = fixed.tasks[unit]
    _set_load(now, source, now.load[source] - tasks / fixed.cores[source], saturation)
    _set_load(now, target, now.load[target] + tasks / fixed.cores[target], saturation)
    for index in range(fixed.first[unit], fixed.first[unit + 1]):
        row = now.bytes_to[fixed.other[index]]
        row[source] -= fixed.weight[index]
        row[target] += fixed.weight[index]
    for index in range(fixed.apart_first[unit], fixed.apart_first[unit + 1]):
        row = now.clashes[fixed.apart_other[index]]
        row[source] -= 1.0
        row[target] += 1.0


@compiled.compiled
def _note(now: State, progressive: bool, bound: float) -> None:
    """Follow the least and largest costs if normalization is progressive, and keep the placement if it is the best."""
    numbers = now.numbers
    cntc, coc = numbers[CNTC], numbers[COC]
    if progressive:
        numbers[CNTC_MIN], numbers[CNTC_MAX] = min(numbers[CNTC_MIN], cntc), max(numbers[CNTC_MAX], cntc)
        numbers[COC_MIN], numbers[COC_MAX] = min(numbers[COC_MIN], coc), max(numbers[COC_MAX], coc)
        traffic, overload = numbers[CNTC_MAX] - numbers[CNTC_MIN], numbers[COC_MAX] - numbers[COC_MIN]
        # eta = 1 / (max - min), and 1 while both are equal; both weights are one half.
        numbers[PER_BYTE] = 0.5 / traffic if traffic > 0.0 else 0.5
        numbers[PER_LOAD] = 0.5 / overload if overload > 0.0 else 0.5
    change = numbers[PER_BYTE] * (cntc - numbers[BEST_CNTC])
    change += numbers[PER_LOAD] * (max(0.0, coc - bound) - max(0.0, numbers[BEST_COC] - bound))
    if change < 0.0:
        numbers[BEST_CNTC], numbers[BEST_COC] = cntc, coc
        for unit in range(len(now.server)):
            now.best[unit] = now.server[unit]


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
    numbers = now.numbers
    for row in range(begin, len(drawn)):
        draw = drawn[row]
        numbers[DRAWN] += 1.0
        if moves > 0 and (numbers[EVALUATED] >= moves or numbers[DRAWN] > _DRAWS_MOST * moves):
            numbers[EVALUATED], numbers[DRAWN] = 0.0, 0.0
            return row
        unit = fixed.movable[int(draw[0] * len(fixed.movable))]
        source, start = now.server[unit], fixed.first[unit]
        degree = fixed.first[unit + 1] - start
        if degree > 0 and draw[1] < neighbours:
            target = now.server[fixed.other[start + int(draw[2] * degree)]]
        else:
            target = int(draw[2] * len(fixed.cores))
        if target == source or not fits(fixed, now, unit, target):
            continue
        numbers[EVALUATED] += 1.0
        numbers[EVALUATIONS] += 1.0
        # Accepted if new - old is at most this: exp((old - new) / T) is larger than the random number.
        most = -numbers[TEMPERATURE] * math.log(1.0 - draw[3])
        most -= numbers[PER_BYTE] * (now.bytes_to[unit][source] - now.bytes_to[unit][target])
        tasks = fixed.tasks[unit]
        at_source = max(0.0, now.load[source] - tasks / fixed.cores[source] - saturation)
        at_target = max(0.0, now.load[target] + tasks / fixed.cores[target] - saturation)
        coc = numbers[COC]
        if at_source > 0.0 or at_target > 0.0 or now.excess[source] > 0.0:
            relief = now.excess[source] - at_source
            if numbers[PER_LOAD] > 0.0 and bound == 0.0:
                # At best coc falls by what leaves the source, and by what the rest gains from a higher average.
                raised = max(0.0, at_target - now.excess[target] - relief)
                if -numbers[PER_LOAD] * (relief + raised) > most + 1e-12:
                    continue
            coc = coc_after(fixed, now, source, target, at_source, at_target)
        if numbers[PER_LOAD] * (max(0.0, coc - bound) - max(0.0, numbers[COC] - bound)) > most:
            continue
        move(fixed, now, unit, target, saturation)
        numbers[COC] = coc
        _note(now, progressive, bound)
    return len(drawn)
