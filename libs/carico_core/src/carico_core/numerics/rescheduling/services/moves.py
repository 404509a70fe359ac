"""Proposals and their effect: the inner loop of the search, compiled if numba is there.

A proposal is one container to another machine, or both ends of a pair to one machine. Where a machine lacks room,
containers of little traffic are evicted from it in the same proposal, which is accepted or undone as a whole.

The change of the gain is read from two tables over machines and services: `add` if one container more, `drop` if one
fewer were there. A move of a container changes both in two rows, for the service and its partners. Random numbers come
in blocks from outside, so that a run is the same with and without compilation.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.compiled import compiled, inlined
from carico_core.numerics.rescheduling.services import affinity
from carico_core.numerics.rescheduling.services.state import Fixed, State

# Containers that one proposal may evict, and how many are looked at for each; machines looked at for a place.
EVICTED = 11
CANDIDATES = 4
PLACES = 8
# Random numbers of one proposal at most: kind, pair, end, two containers, machine, and those of the evictions twice.
DRAWS = 8 + 2 * (EVICTED + 1) * (CANDIDATES + PLACES + 4)
# Tries to find a home with room for one more of its service.
HOMES = 4


class Terms(NamedTuple):
    """When a proposal is accepted.

    price: what a moved container costs. least: what the proposal has to bring, negative. most: containers moved, beyond
    which it must not move more.
    """

    price: float
    least: float
    most: int


class Mix(NamedTuple):
    """Shares of the proposals by kind: towards a partner, a pair to one machine, anywhere; the rest goes home."""

    partner: float = 0.7
    pair: float = 0.1
    anywhere: float = 0.1


class Draws(NamedTuple):
    """Random numbers: uniform in [0, 1), exponential with mean 1, and how many of the first are used (1,)."""

    uniform: npt.NDArray[np.float32]
    exponential: arrays.Array
    used: affinity.Ints


@inlined
def _uniform(draws: Draws) -> float:
    number = draws.used[0]
    draws.used[0] = number + 1
    # For numba, float() of a number of 32 bits has 32 bits; what it is multiplied by must not be rounded to these.
    return float(draws.uniform[number]) * 1.0


@inlined
def _retable(fixed: Fixed, state: State, machine: int, service: int, step: int) -> None:
    """Count `step` (1 or -1) containers of a service on a machine, and update the machine's `add` and `drop`."""
    x0 = state.counts[machine, service]
    x = x0 + step
    state.counts[machine, service] = x
    more, less = 0.0, 0.0
    for link in range(fixed.links[service], fixed.links[service + 1]):
        partner = fixed.partner[link]
        own, other = fixed.own[link], fixed.other[link]
        here = state.counts[machine, partner] * other
        now, was = min(x * own, here), min(x0 * own, here)
        more += min((x + 1) * own, here) - now
        less += min((x - 1) * own, here) - now
        up, down = here + other, here - other
        state.add[machine, partner] += (min(x * own, up) - now) - (min(x0 * own, up) - was)
        state.drop[machine, partner] += (min(x * own, down) - now) - (min(x0 * own, down) - was)
    state.add[machine, service] = more
    state.drop[machine, service] = less


@inlined
def _note_extra(fixed: Fixed, state: State, machine: int, service: int) -> None:
    """Keep `extra` true for one machine and service."""
    rank, last = state.rank[machine, service], state.tally[1] - 1
    is_extra = state.counts[machine, service] > fixed.before[machine, service]
    if is_extra and rank < 0:
        state.extra[last + 1, 0], state.extra[last + 1, 1] = machine, service
        state.rank[machine, service] = last + 1
        state.tally[1] = last + 2
    elif not is_extra and rank >= 0:
        other_machine, other_service = state.extra[last, 0], state.extra[last, 1]
        state.extra[rank, 0], state.extra[rank, 1] = other_machine, other_service
        state.rank[other_machine, other_service] = rank
        state.rank[machine, service] = -1
        state.tally[1] = last


@inlined
def farther(fixed: Fixed, state: State, service: int, source: int, target: int) -> int:
    """Return by how many the moved containers would become more: -1, 0 or 1."""
    leaves = state.counts[source, service] <= fixed.before[source, service]
    returns = state.counts[target, service] < fixed.before[target, service]
    return int(leaves) - int(returns)


@inlined
def change(state: State, service: int, source: int, target: int) -> float:
    """Return what the gain would become more by."""
    return float(state.add[target, service] + state.drop[source, service])


@inlined
def fits(fixed: Fixed, state: State, service: int, machine: int) -> bool:
    """Return whether a machine has room for one more of a service."""
    cpu = state.free[machine, 0] >= fixed.request[service, 0]
    return bool(cpu and state.free[machine, 1] >= fixed.request[service, 1])


@inlined
def apply(fixed: Fixed, state: State, container: int, target: int) -> None:
    """Move a container."""
    service, source = fixed.service[container], state.where[container]
    state.gain[0] += change(state, service, source, target)
    state.tally[0] += farther(fixed, state, service, source, target)
    last = fixed.floor[source] + state.filled[source] - 1
    hole, moved = state.slot[container], state.on[last]
    state.on[hole], state.slot[moved] = moved, hole
    state.filled[source] -= 1
    hole = fixed.floor[target] + state.filled[target]
    state.on[hole], state.slot[container] = container, hole
    state.filled[target] += 1
    state.where[container] = target
    for resource in range(2):
        state.free[source, resource] += fixed.request[service, resource]
        state.free[target, resource] -= fixed.request[service, resource]
    _retable(fixed, state, source, service, -1)
    _retable(fixed, state, target, service, 1)
    _note_extra(fixed, state, source, service)
    _note_extra(fixed, state, target, service)


@inlined
def _logged(fixed: Fixed, state: State, container: int, target: int) -> None:
    entry = state.tally[2]
    state.log[entry, 0], state.log[entry, 1] = container, state.where[container]
    state.tally[2] = entry + 1
    apply(fixed, state, container, target)


@inlined
def _undo(fixed: Fixed, state: State) -> None:
    while state.tally[2] > 0:
        entry = state.tally[2] - 1
        state.tally[2] = entry
        apply(fixed, state, state.log[entry, 0], state.log[entry, 1])


@inlined
def _home(fixed: Fixed, state: State, draws: Draws, service: int) -> int:
    """Return a machine that has fewer of a service than before, or -1 if none was found."""
    begin = fixed.begin[service]
    size = fixed.begin[service + 1] - begin
    for _ in range(HOMES):
        machine = fixed.home[begin + int(_uniform(draws) * size)]
        if state.counts[machine, service] < fixed.before[machine, service]:
            return int(machine)
    return -1


@inlined
def _is_silent(fixed: Fixed, service: int) -> bool:
    """Return whether a service has no traffic."""
    return bool(fixed.links[service] == fixed.links[service + 1])


@inlined
def _place(fixed: Fixed, state: State, draws: Draws, price: float, container: int, left: int) -> int:
    """Return a machine with room for a container that has to leave its machine, or -1; `left` was freed before."""
    service, source = fixed.service[container], state.where[container]
    if price > 0.0 and state.counts[source, service] > fixed.before[source, service]:
        machine = _home(fixed, state, draws, service)
        if machine >= 0 and fits(fixed, state, service, machine):
            return machine
    best, best_add = -1, -1.0
    for number in range(PLACES):
        machine = left if number == 0 else int(_uniform(draws) * len(state.filled))
        if machine == source or not fixed.allowed[machine, service] or not fits(fixed, state, service, machine):
            continue
        if state.add[machine, service] > best_add:
            best, best_add = machine, state.add[machine, service]
            if _is_silent(fixed, service):
                break
    return best


@inlined
def _worth(state: State, terms: Terms, gain: float, moved: int) -> float:
    """Return what the proposal has brought so far."""
    return float(state.gain[0] - gain - terms.price * (state.tally[0] - moved))


@inlined
def _relief(fixed: Fixed, state: State, machine: int, service: int, price: float) -> float:
    """Return what a container brings by leaving its machine, at best: it may come home, or to a better place."""
    is_extra = state.counts[machine, service] > fixed.before[machine, service]
    return float(state.drop[machine, service] + (price if is_extra else -price))


@inlined
def _choose(fixed: Fixed, state: State, draws: Draws, machine: int, price: float, cpu: float, memory: float) -> int:
    """Choose one of some containers on a machine to evict, where `cpu` and `memory` are lacking; -1 if none.

    It is the one that loses least for the room that it gives, and not a part of this proposal yet.
    """
    best, best_relief = -1, 0.0
    for _ in range(CANDIDATES):
        container = state.on[fixed.floor[machine] + int(_uniform(draws) * state.filled[machine])]
        service = fixed.service[container]
        relief = _relief(fixed, state, machine, service, price)
        if relief < 0.0:
            times = 1.0
            if cpu > fixed.request[service, 0]:
                times = cpu / max(fixed.request[service, 0], cpu / EVICTED)
            if memory > fixed.request[service, 1]:
                times = max(times, memory / max(fixed.request[service, 1], memory / EVICTED))
            relief *= times
        if best >= 0 and relief <= best_relief:
            continue
        is_part = False
        for entry in range(state.tally[2]):
            is_part = is_part or state.log[entry, 0] == container
        for pick in range(state.tally[3]):
            is_part = is_part or state.picks[pick] == container
        if not is_part:
            best, best_relief = int(container), relief
    return best


@inlined
def _make_room(
    fixed: Fixed, state: State, draws: Draws, terms: Terms, service: int, machine: int, worth: float
) -> bool:  # fmt: skip
    """Choose containers to evict until one more of a service has room; False if that brings too little."""
    state.tally[3] = 0
    cpu = fixed.request[service, 0] - state.free[machine, 0]
    memory = fixed.request[service, 1] - state.free[machine, 1]
    while cpu > 0.0 or memory > 0.0:
        pick = state.tally[3]
        if pick == EVICTED:
            return False
        other = _choose(fixed, state, draws, machine, terms.price, cpu, memory)
        if other < 0:
            return False
        worth += _relief(fixed, state, machine, fixed.service[other], terms.price)
        if worth < terms.least:
            return False
        state.picks[pick] = other
        state.tally[3] = pick + 1
        cpu -= fixed.request[fixed.service[other], 0]
        memory -= fixed.request[fixed.service[other], 1]
    return True


@inlined
def _bring(fixed: Fixed, state: State, draws: Draws, terms: Terms, container: int, target: int) -> bool:
    """Move a container, and evict others from its target for it; False if that brings too little, or has no place."""
    service, source = fixed.service[container], state.where[container]
    more = farther(fixed, state, service, source, target)
    worth = change(state, service, source, target) - terms.price * more
    if not _make_room(fixed, state, draws, terms, service, target, worth):
        return False
    _logged(fixed, state, container, target)
    for pick in range(state.tally[3]):
        machine = _place(fixed, state, draws, terms.price, state.picks[pick], source)
        if machine < 0:
            return False
        _logged(fixed, state, state.picks[pick], machine)
    return True


@inlined
def _settle(fixed: Fixed, state: State, terms: Terms, gain: float, moved: int, is_possible: bool) -> None:
    """Accept or undo the proposal; `gain` and `moved` were before it."""
    is_within = state.tally[0] <= max(moved, terms.most)
    if is_possible and is_within and _worth(state, terms, gain, moved) >= terms.least:
        state.tally[2] = 0
    else:
        _undo(fixed, state)


@inlined
def _alone(fixed: Fixed, state: State, draws: Draws, terms: Terms, container: int, target: int) -> None:
    """Propose one container to a machine."""
    service, source = fixed.service[container], state.where[container]
    if source == target or not fixed.allowed[target, service]:
        return
    more = farther(fixed, state, service, source, target)
    if change(state, service, source, target) - terms.price * more < terms.least:
        return
    gain, moved = state.gain[0], state.tally[0]
    if not fits(fixed, state, service, target):
        is_possible = _bring(fixed, state, draws, terms, container, target)
        _settle(fixed, state, terms, gain, moved, is_possible)
    elif more <= 0 or moved < terms.most:
        apply(fixed, state, container, target)


@inlined
def _both(
    fixed: Fixed, state: State, draws: Draws, terms: Terms, first: int, second: int, target: int, weight: float
) -> None:
    """Propose the two ends of a pair to one machine; together they keep at most `weight` more there than each alone."""
    worth = weight
    for container in (first, second):
        service, source = fixed.service[container], state.where[container]
        if not fixed.allowed[target, service]:
            return
        if source != target:
            more = farther(fixed, state, service, source, target)
            worth += change(state, service, source, target) - terms.price * more
    if worth < terms.least:
        return
    gain, moved = state.gain[0], state.tally[0]
    lower = Terms(terms.price, terms.least - weight, terms.most)
    is_possible = True
    for container in (first, second):
        if is_possible and state.where[container] != target:
            is_possible = _bring(fixed, state, draws, lower, container, target)
    _settle(fixed, state, terms, gain, moved, is_possible)


@inlined
def _one_of(fixed: Fixed, draws: Draws, service: int) -> int:
    """Return a container of a service."""
    begin = fixed.begin[service]
    return int(begin + int(_uniform(draws) * (fixed.begin[service + 1] - begin)))


@inlined
def _one_on(fixed: Fixed, state: State, draws: Draws, service: int, machine: int) -> int:
    """Return a container of a service that is on a machine; there must be one."""
    begin = fixed.begin[service]
    size = fixed.begin[service + 1] - begin
    container = begin + int(_uniform(draws) * size)
    while state.where[container] != machine:
        container += 1
        if container == begin + size:
            container = begin
    return int(container)


@compiled
def propose(fixed: Fixed, state: State, draws: Draws, mix: Mix, price: float, heat: float, most: int) -> int:
    """Propose moves until the random numbers are used up; return how many.

    price: what a moved container costs, in units of the gain. heat: the temperature. A proposal that brings x is
    accepted if exp(x / heat) exceeds a uniform random number; the limit for x is drawn first, so that a hopeless
    proposal ends early. most: containers moved, beyond which no proposal may move more.
    """
    made = 0
    while made < len(draws.exponential) and draws.used[0] + DRAWS <= len(draws.uniform):
        terms = Terms(price, -heat * draws.exponential[made], most)
        made += 1
        kind = _uniform(draws)
        container, target = -1, -1
        if kind < mix.partner + mix.pair and len(fixed.lottery) > 0:
            pair = fixed.lottery[int(_uniform(draws) * len(fixed.lottery))]
            end = int(_uniform(draws) * 2.0)
            first = _one_of(fixed, draws, fixed.pairs[pair, end])
            second = _one_of(fixed, draws, fixed.pairs[pair, 1 - end])
            if kind < mix.partner:
                container, target = first, state.where[second]
            else:
                place = int(_uniform(draws) * len(state.filled))
                _both(fixed, state, draws, terms, first, second, place, fixed.weight[pair])
        elif kind < mix.partner + mix.pair + mix.anywhere or state.tally[1] == 0:
            container = fixed.talking[int(_uniform(draws) * len(fixed.talking))]
            target = int(_uniform(draws) * len(state.filled))
        else:
            entry = int(_uniform(draws) * state.tally[1])
            machine, service = state.extra[entry, 0], state.extra[entry, 1]
            target = _home(fixed, state, draws, service)
            if target >= 0:
                container = _one_on(fixed, state, draws, service, machine)
        # In one place, since all that it calls is compiled as a part of it.
        if container >= 0:
            _alone(fixed, state, draws, terms, container, target)
    return made
