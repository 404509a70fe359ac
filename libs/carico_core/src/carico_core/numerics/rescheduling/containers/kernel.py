"""The inner loop of annealing: proposals, and their exact effect on both costs from tables, not from the placement.

The effect on traffic takes one look into the table of bytes between each container and each server; the effect on
overload takes one pass over the overloaded servers. An accepted move updates the rows of the containers that exchange
traffic with the moved one. numba compiles the functions if it is installed. Otherwise they run on lists, which Python
reads three times faster than arrays.

`advance` is the loop of the paper's variants. `search` is ours: it looks at the traffic first, for which most proposals
are refused, and where only the target's load or room is in the way, it exchanges the container for one that is there.
"""

import math
from typing import Any, NamedTuple

from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.compiled import inlined, reordered

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
    load above saturation. on: the movable containers of each server, of which there are `filled`; slot: a container's
    index among them. best: the placement of least cost so far. changed: the containers that have moved since then, of
    which there are CHANGED; since: the best, by its number (BESTS), after which a container was listed. numbers: see
    below.
    """

    server: Numbers
    best: Numbers
    changed: Numbers
    since: Numbers
    cpu_free: Numbers
    memory_free: Numbers
    load: Numbers
    excess: Numbers
    on: Numbers
    filled: Numbers
    slot: Numbers
    bytes_to: Numbers
    barred: Numbers
    numbers: Numbers


# Indexes of State.numbers. EXCESS is the sum of `excess`, ABOVE the number of servers above its average. PER_BYTE and
# PER_LOAD are weight times normalization.
CNTC, COC, EXCESS, ABOVE, BEST_CNTC, BEST_COC = 0, 1, 2, 3, 4, 5
PER_BYTE, PER_LOAD, CNTC_MIN, CNTC_MAX, COC_MIN, COC_MAX = 6, 7, 8, 9, 10, 11
TEMPERATURE, EVALUATED, DRAWN, EVALUATIONS, CHANGED, BESTS = 12, 13, 14, 15, 16, 17
NUMBERS = 18
# More than the rounding of a cost, far less than a difference that counts.
_SLACK = 1e-9
# A temperature ends after so many draws for each evaluation that it should have: most servers may be full.
_DRAWS_MOST = 20.0
# Random numbers of a proposal: container, kind, server or partner, acceptance.
DRAW_WIDTH = 4


@inlined
def coc_after(now: State, source: int, target: int, at_source: float, at_target: float) -> float:
    """Return coc with these excesses of two servers."""
    excess, servers = now.excess, len(now.excess)
    average = (now.numbers[EXCESS] + (at_source - excess[source]) + (at_target - excess[target])) / servers
    coc: float = _above(excess, average)[0]
    coc += max(0.0, at_source - average) - max(0.0, excess[source] - average)
    coc += max(0.0, at_target - average) - max(0.0, excess[target] - average)
    return coc


@reordered
def _above(excess: Numbers, average: float) -> tuple[float, float]:
    """Return the sum of what is above the average, and how many servers are."""
    total, count = 0.0, 0.0
    for each in excess:
        total += each - average if each > average else 0.0
        count += 1.0 if each > average else 0.0
    return total, count


@reordered
def _total(excess: Numbers) -> float:
    total = 0.0
    for each in excess:
        total += each
    return total


@inlined
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


@inlined
def _set_load(now: State, server: int, load: float, saturation: float) -> None:
    now.load[server] = load
    now.excess[server] = max(0.0, load - saturation)


@inlined
def _set_coc(now: State) -> None:
    # Summed again, not updated: rounding would make an excess of servers without any.
    total = _total(now.excess)
    coc, above = _above(now.excess, total / len(now.excess))
    now.numbers[EXCESS], now.numbers[COC], now.numbers[ABOVE] = total, coc, above


@compiled.compiled
def move(fixed: Tables, now: State, unit: int, target: int, saturation: float) -> None:
    """Move a container, and update all tables."""
    source, tasks = now.server[unit], fixed.tasks[unit]
    _shift(fixed, now, unit, target)
    _set_load(now, source, now.load[source] - tasks / fixed.cores[source], saturation)
    _set_load(now, target, now.load[target] + tasks / fixed.cores[target], saturation)
    _set_coc(now)


@compiled.compiled
def exchange(fixed: Tables, now: State, unit: int, other: int, saturation: float) -> None:
    """Let two containers change places, and update all tables."""
    source, target, more = now.server[unit], now.server[other], fixed.tasks[other] - fixed.tasks[unit]
    _shift(fixed, now, unit, target)
    _shift(fixed, now, other, source)
    _set_load(now, source, now.load[source] + more / fixed.cores[source], saturation)
    _set_load(now, target, now.load[target] - more / fixed.cores[target], saturation)
    _set_coc(now)


@inlined
def _shift(fixed: Tables, now: State, unit: int, target: int) -> None:
    """Move a container in all tables but those of load."""
    source, servers, units = now.server[unit], len(fixed.cores), len(now.server)
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
    now.filled[source] -= 1
    last = now.on[source * units + now.filled[source]]
    now.on[source * units + now.slot[unit]] = last
    now.slot[last] = now.slot[unit]
    now.on[target * units + now.filled[target]] = unit
    now.slot[unit] = now.filled[target]
    now.filled[target] += 1
    _add(now.bytes_to, fixed.first, fixed.other, fixed.weight, unit, source, target, servers)
    _add(now.barred, fixed.apart_first, fixed.apart_other, fixed.apart_weight, unit, source, target, servers)


@inlined
def _add(
    table: Numbers, first: Numbers, other: Numbers, weight: Numbers, unit: int, source: int, target: int, servers: int
) -> None:
    for index in range(first[unit], first[unit + 1]):
        row = other[index] * servers
        table[row + source] -= weight[index]
        table[row + target] += weight[index]


@inlined
def _follow(now: State) -> None:
    """Follow the least and largest costs, and normalize by them."""
    numbers = now.numbers
    cntc, coc = numbers[CNTC], numbers[COC]
    numbers[CNTC_MIN], numbers[CNTC_MAX] = min(numbers[CNTC_MIN], cntc), max(numbers[CNTC_MAX], cntc)
    numbers[COC_MIN], numbers[COC_MAX] = min(numbers[COC_MIN], coc), max(numbers[COC_MAX], coc)
    traffic, overload = numbers[CNTC_MAX] - numbers[CNTC_MIN], numbers[COC_MAX] - numbers[COC_MIN]
    # eta = 1 / (max - min), and 1 while both are equal.
    numbers[PER_BYTE] = 0.5 / traffic if traffic > 0.0 else 0.5
    numbers[PER_LOAD] = 0.5 / overload if overload > 0.0 else 0.5


@inlined
def _note(now: State, bound: float) -> None:
    """Keep the placement if it is the best by the present normalization."""
    numbers = now.numbers
    cntc, coc = numbers[CNTC], numbers[COC]
    change = numbers[PER_BYTE] * (cntc - numbers[BEST_CNTC])
    change += numbers[PER_LOAD] * (max(0.0, coc - bound) - max(0.0, numbers[BEST_COC] - bound))
    if change < 0.0:
        numbers[BEST_CNTC], numbers[BEST_COC] = cntc, coc
        for index in range(int(numbers[CHANGED])):
            now.best[now.changed[index]] = now.server[now.changed[index]]
        numbers[CHANGED] = 0.0
        numbers[BESTS] += 1.0


@inlined
def _may_pay(
    now: State, servers: int, source: int, target: int, at_source: float, at_target: float, most: float, bound: float
) -> bool:
    """Return whether coc above the bound may cost at most so much more with these excesses of two servers."""
    numbers, excess = now.numbers, now.excess
    coc, per_load = numbers[COC], numbers[PER_LOAD]
    was, becomes = (excess[source], excess[target]), (at_source, at_target)
    least = coc_at_least(coc, numbers[ABOVE], numbers[EXCESS] / servers, servers, was, becomes)
    cost = per_load * (max(0.0, least - bound) - max(0.0, coc - bound))
    # Not a plain comparison: numba would make it a numpy.bool.
    return False if per_load >= 0.0 and cost > most + _SLACK else True  # noqa: SIM211


@inlined
def _pays(
    now: State, servers: int, source: int, target: int, at_source: float, at_target: float, most: float, bound: float
) -> bool:
    """Return whether it costs at most so much more."""
    if not _may_pay(now, servers, source, target, at_source, at_target, most, bound):
        return False
    after = coc_after(now, source, target, at_source, at_target)
    cost = now.numbers[PER_LOAD] * (max(0.0, after - bound) - max(0.0, now.numbers[COC] - bound))
    return True if cost <= most else False  # noqa: SIM210


@compiled.compiled
def advance(
    fixed: Tables, now: State, drawn: Numbers, begin: int, saturation: float, moves: int, progressive: bool
) -> int:
    """Make random moves from row `begin` on, and return the next row: at the end of the rows or of a temperature.

    moves: evaluations of a temperature.
    """
    # Local names: a field of a tuple costs numba two atomic operations each time.
    numbers, cores, tasks, cpu, memory = now.numbers, fixed.cores, fixed.tasks, fixed.cpu, fixed.memory
    movable, at, cpu_free, memory_free, barred = fixed.movable, now.server, now.cpu_free, now.memory_free, now.barred
    load, bytes_to, servers = now.load, now.bytes_to, len(fixed.cores)
    for row in range(begin, len(drawn) // DRAW_WIDTH):
        numbers[DRAWN] += 1.0
        if numbers[EVALUATED] >= moves or numbers[DRAWN] > _DRAWS_MOST * moves:
            numbers[EVALUATED], numbers[DRAWN] = 0.0, 0.0
            return row
        draw = row * DRAW_WIDTH
        unit, target = movable[int(drawn[draw] * len(movable))], int(drawn[draw + 2] * servers)
        source, cell = at[unit], unit * servers + target
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
        if _pays(now, servers, source, target, at_source, at_target, most, 0.0):
            move(fixed, now, unit, target, saturation)
            if progressive:
                _follow(now)
            _note(now, 0.0)
    return len(drawn) // DRAW_WIDTH


@inlined
def _counterpart(
    fixed: Tables, now: State, unit: int, target: int, share: float, slack: float, saturation: float, bound: float
) -> int:
    """Return a container of the target with which to change places at most at this cost, or -1.

    share: where to begin among its containers, from 0 to 1.
    """
    numbers, cores, tasks, bytes_to, servers = now.numbers, fixed.cores, fixed.tasks, now.bytes_to, len(fixed.cores)
    load, excess, source, filled = now.load, now.excess, now.server[unit], now.filled[target]
    per_byte, per_load, rise = numbers[PER_BYTE], numbers[PER_LOAD], numbers[ABOVE] / servers
    gained = bytes_to[unit * servers + target] - bytes_to[unit * servers + source]
    begin, floor = int(share * filled), target * len(now.server)
    for index in range(begin, begin + filled):
        other: int = now.on[floor + (index if index < filled else index - filled)]
        row, more = other * servers, tasks[other] - tasks[unit]
        most = slack + per_byte * (gained + bytes_to[row + source] - bytes_to[row + target])
        at_source = max(0.0, load[source] + more / cores[source] - saturation)
        at_target = max(0.0, load[target] - more / cores[target] - saturation)
        up, down = at_source - excess[source], at_target - excess[target]
        # One of both excesses does not rise, and the other does not fall: coc falls by no more than this.
        falls = (down * rise - up) if more < 0.0 else (up * rise - down)
        if most + per_load * falls < 0.0 or now.barred[row + source] > 0:
            continue
        cpu, memory = fixed.cpu[unit] - fixed.cpu[other], fixed.memory[unit] - fixed.memory[other]
        if cpu > now.cpu_free[target] or memory > now.memory_free[target]:
            continue
        if -cpu > now.cpu_free[source] or -memory > now.memory_free[source]:
            continue
        if _may_pay(now, servers, source, target, at_source, at_target, most, bound):
            # What both exchange with each other stays between servers; the tables count it twice as gained.
            most -= 2.0 * per_byte * _between(fixed, unit, other)
            if _pays(now, servers, source, target, at_source, at_target, most, bound):
                return other
    return -1


@inlined
def _between(fixed: Tables, unit: int, other: int) -> float:
    """Return the traffic of two containers with each other."""
    found = 0.0
    for index in range(fixed.first[unit], fixed.first[unit + 1]):
        if fixed.other[index] == other:
            found += fixed.weight[index]
    return found


@compiled.compiled
def search(fixed: Tables, now: State, drawn: Numbers, saturation: float, neighbours: float, bound: float) -> None:
    """Make a proposal for each row.

    neighbours: the share of proposals to the server of a container with which the chosen one exchanges traffic. bound:
    coc up to which it costs nothing.
    """
    movable, first, other, at, hot = fixed.movable, fixed.first, fixed.other, now.server, now.numbers[TEMPERATURE]
    for row in range(len(drawn) // DRAW_WIDTH):
        draw = row * DRAW_WIDTH
        unit = movable[int(drawn[draw] * len(movable))]
        degree = first[unit + 1] - first[unit]
        if degree > 0 and drawn[draw + 1] < neighbours:
            choice = drawn[draw + 2] * degree
            target = at[other[first[unit] + int(choice)]]
        else:
            choice = drawn[draw + 2] * len(fixed.cores)
            target = int(choice)
        if target != at[unit]:
            slack = -hot * math.log(1.0 - drawn[draw + 3])
            _propose(fixed, now, unit, target, choice - int(choice), slack, saturation, bound)


@inlined
def _propose(
    fixed: Tables, now: State, unit: int, target: int, share: float, slack: float, saturation: float, bound: float
) -> None:
    """Move a container, or let it change places, if that costs at most `slack`; share: see `_counterpart`."""
    numbers, bytes_to, excess, load, tasks = now.numbers, now.bytes_to, now.excess, now.load, fixed.tasks[unit]
    source, servers = now.server[unit], len(fixed.cores)
    numbers[EVALUATIONS] += 1.0
    most = slack + numbers[PER_BYTE] * (bytes_to[unit * servers + target] - bytes_to[unit * servers + source])
    at_source = max(0.0, load[source] - tasks / fixed.cores[source] - saturation)
    at_target = max(0.0, load[target] + tasks / fixed.cores[target] - saturation)
    # coc falls by no more than this.
    falls = excess[source] - at_source + (at_target - excess[target]) * numbers[ABOVE] / servers
    if most + numbers[PER_LOAD] * falls < 0.0 or now.barred[unit * servers + target] > 0:
        return
    has_room = fixed.cpu[unit] <= now.cpu_free[target] and fixed.memory[unit] <= now.memory_free[target]
    if has_room and _pays(now, servers, source, target, at_source, at_target, most, bound):
        move(fixed, now, unit, target, saturation)
        _note(now, bound)
    elif most >= 0.0:
        found = _counterpart(fixed, now, unit, target, share, slack, saturation, bound)
        if found >= 0:
            exchange(fixed, now, unit, found, saturation)
            _note(now, bound)
