"""The problem and a placement as the inner loop (`moves`) reads them."""

import numpy as np
import numpy.typing as npt

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.services import affinity, moves, state

# Entries of `state.Fixed.lottery` for each pair; and the power of a pair's traffic that decides how often it is drawn.
TICKETS = 16
POWER = 0.5


def fix(problem: affinity.Problem) -> state.Fixed:
    """Return the problem as the inner loop reads it."""
    services, ends = len(problem.size), problem.pairs.astype(np.int64)
    share = problem.share
    # Both directions of each pair, in the order of their first service.
    here, there = np.concatenate([ends, ends[:, ::-1]]).reshape(-1, 2).T
    both = np.concatenate([share, share])
    order = np.argsort(here, kind="stable")
    here, there, both = here[order], there[order], both[order]
    return state.Fixed(
        begin=_begins(problem.size),
        service=problem.service,
        request=np.array(problem.request),
        allowed=np.array(problem.allowed),
        home=np.array(problem.home),
        before=affinity.counts(problem, problem.home),
        links=_begins(np.bincount(here, minlength=services)),
        partner=there.astype(np.int32),
        own=both / problem.size[here],
        other=both / problem.size[there],
        pairs=problem.pairs.copy(),
        weight=share / problem.size[problem.pairs].max(axis=1, initial=1),
        lottery=lottery(share, POWER),
        floor=_begins(_most(problem)),
        talking=_talking(problem),
    )


def lottery(share: arrays.Array, power: float) -> affinity.Ints:
    """Return a pair for each ticket; the number of a pair's tickets is as its share (E,) of the traffic to a power."""
    drawn = share**power
    tickets = drawn / drawn.sum() * TICKETS * len(share) if drawn.sum() > 0.0 else drawn
    pairs: affinity.Ints = np.repeat(np.arange(len(share), dtype=np.int32), np.ceil(tickets).astype(np.int64))
    return pairs


def place(problem: affinity.Problem, fixed: state.Fixed, where: affinity.Ints) -> state.State:
    """Return the state of a placement (P,)."""
    machines = len(problem.capacity)
    count = affinity.counts(problem, where)
    by_machine = np.argsort(where, kind="stable")
    filled = np.bincount(where, minlength=machines).astype(np.int32)
    slot = np.empty(len(where), dtype=np.int32)
    rank_on_machine = np.arange(len(where)) - np.repeat(_begins(filled)[:-1], filled)
    slot[by_machine] = fixed.floor[where[by_machine]] + rank_on_machine
    on = np.zeros(fixed.floor[-1], dtype=np.int32)
    on[slot] = np.arange(len(where))
    extra = np.argwhere(count > fixed.before).astype(np.int32)
    rank = np.full(count.shape, -1, dtype=np.int32)
    rank[extra[:, 0], extra[:, 1]] = np.arange(len(extra))
    add, drop = _tables(problem, count)
    moved = affinity.moved(fixed.before, count)
    return state.State(
        where=where.copy(),
        on=on,
        slot=slot,
        filled=filled,
        counts=count,
        free=problem.capacity * (1.0 + affinity.ROUNDING) - affinity.used(problem, count),
        add=add,
        drop=drop,
        extra=np.concatenate([extra, np.zeros((len(where) + 1 - len(extra), 2), dtype=np.int32)]),
        rank=rank,
        gain=np.array([affinity.local(problem, count)]),
        tally=np.array([moved, len(extra), 0, 0], dtype=np.int32),
        log=np.zeros((2 * (moves.EVICTED + 1), 2), dtype=np.int32),
        picks=np.zeros(moves.EVICTED, dtype=np.int32),
    )


def _begins(sizes: npt.ArrayLike) -> affinity.Ints:
    begins: affinity.Ints = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return begins


def _talking(problem: affinity.Problem) -> affinity.Ints:
    found = np.flatnonzero(np.isin(problem.service, problem.pairs[problem.traffic > 0.0])).astype(np.int32)
    return found if len(found) else np.arange(problem.containers, dtype=np.int32)


def _most(problem: affinity.Problem) -> affinity.Ints:
    """Return the most containers (M,) that each machine can have while a proposal is looked at."""
    most = np.full(len(problem.capacity), problem.containers)
    for resource in range(2):
        smallest = np.cumsum(np.sort(np.repeat(problem.request[:, resource], problem.size)))
        most = np.minimum(most, np.searchsorted(smallest, problem.capacity[:, resource] * 1.01, side="right"))
    bound: affinity.Ints = np.minimum(most + 2 * (moves.EVICTED + 1), problem.containers).astype(np.int32)
    return bound


def _tables(problem: affinity.Problem, count: affinity.Ints) -> tuple[arrays.Array, arrays.Array]:
    """Return `State.add` and `State.drop` for counts (M, S)."""
    add, drop = np.zeros(count.shape), np.zeros(count.shape)
    for (first, second), share in zip(problem.pairs, problem.share, strict=True):
        for one, other in ((first, second), (second, first)):
            x, step = count[:, one] * (share / problem.size[one]), share / problem.size[one]
            y = count[:, other] * (share / problem.size[other])
            now = np.minimum(x, y)
            add[:, one] += np.minimum(x + step, y) - now
            drop[:, one] += np.minimum(x - step, y) - now
    return add, drop
