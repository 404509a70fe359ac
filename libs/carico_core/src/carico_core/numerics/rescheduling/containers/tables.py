"""The arrays of the inner loop (`kernel`) for a problem and a placement; lists if nothing is compiled."""

from typing import Any

import numpy as np

from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.containers import kernel, model


def fixed(problem: model.Problem) -> kernel.Tables:
    """Return the constant tables of a problem without groups (`model.contracted`)."""
    first, other, weight = _adjacent(problem.pairs, problem.traffic, problem.containers)
    apart_first, apart_other, apart_weight = _adjacent(
        problem.apart, np.ones(len(problem.apart), dtype=np.int32), problem.containers
    )
    return kernel.Tables(*(
        _plain(each) for each in (
            problem.capacity[:, 0], problem.request[:, 0], problem.request[:, 1], problem.tasks,
            np.flatnonzero(problem.movable), first, other, weight, apart_first, apart_other, apart_weight,
        )
    ))  # fmt: skip


def state(problem: model.Problem, placement: model.Ints) -> kernel.State:
    """Return the state of a placement that fulfils all constraints."""
    load = model.loads(problem, placement)
    excess = np.maximum(load - problem.saturation, 0.0)
    used = [model.totals(placement, each, problem.servers) for each in problem.request.T]
    room = problem.capacity * (1.0 + model.ROUNDING)
    clashes = _to_servers(problem, placement, problem.apart, np.ones(len(problem.apart)))
    numbers = np.zeros(kernel.NUMBERS)
    numbers[kernel.CNTC], numbers[kernel.COC] = model.cntc(problem, placement), model.coc(load, problem.saturation)
    numbers[kernel.EXCESS], numbers[kernel.ABOVE] = excess.sum(), (excess > excess.mean()).sum()
    for extremes in (
        slice(kernel.BEST_CNTC, kernel.BEST_COC + 1),
        slice(kernel.CNTC_MIN, kernel.COC_MAX, 2),
        slice(kernel.CNTC_MAX, kernel.COC_MAX + 1, 2),
    ):
        numbers[extremes] = numbers[kernel.CNTC], numbers[kernel.COC]
    return kernel.State(*(
        _plain(each) for each in (
            placement.astype(np.int64), placement.astype(np.int64),
            np.zeros(problem.containers, dtype=np.int64), np.full(problem.containers, -1.0),
            room[:, 0] - used[0], room[:, 1] - used[1],
            load, excess, *_residents(problem, placement),
            _to_servers(problem, placement, problem.pairs, problem.traffic),
            (clashes + ~problem.allowed.ravel()).astype(np.int32), numbers,
        )
    ))  # fmt: skip


def _residents(problem: model.Problem, placement: model.Ints) -> tuple[Any, Any, Any]:
    """Return `on`, `filled` and `slot` of the state."""
    movable = np.flatnonzero(problem.movable)
    filled = np.bincount(placement[movable], minlength=problem.servers)
    ordered = movable[np.argsort(placement[movable], kind="stable")]
    slot = np.zeros(problem.containers, dtype=np.int64)
    slot[ordered] = np.arange(len(ordered)) - np.repeat(np.cumsum(filled) - filled, filled)
    on = np.zeros(problem.servers * problem.containers, dtype=np.int32)
    on[placement[ordered] * problem.containers + slot[ordered]] = ordered
    return on, filled, slot


def draws(random: np.random.Generator, count: int) -> kernel.Numbers:
    """Return the random numbers of so many proposals."""
    return _plain(random.random((count, kernel.DRAW_WIDTH)))


def _plain(array: Any) -> kernel.Numbers:
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
