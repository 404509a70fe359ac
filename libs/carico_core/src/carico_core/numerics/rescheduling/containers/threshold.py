"""Rebalancing by thresholds: containers leave over-used servers for under-used ones.

Source: the paper on hybrid shared-state scheduling of PRONTO's authors (section 6), which quotes the Kubernetes
descheduler's LowNodeUtilization: below 20 % of CPU and memory and below 20 Pods a server is under-used; above 50 % of
either or above 50 Pods it is over-used. Usage is the sum of requests, as in the descheduler.
"""

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.containers import model

# Shares of a server's capacity, and numbers of containers.
_UNDER_SHARE, _UNDER_CONTAINERS = 0.2, 20
_OVER_SHARE, _OVER_CONTAINERS = 0.5, 50


def rebalanced(problem: model.Problem, *, counted: model.Bools | None = None) -> model.Ints:
    """Return the placement after containers have left over-used servers for servers that are under-used at the start.

    The fullest server comes first, and of it the smallest container. Each goes to the emptiest under-used server where
    every constraint holds and which it does not make over-used. Without such a server it stays. `counted` (P,): the
    containers that count where containers are counted; None: all.
    """
    model.check_present(problem)
    groups, group = model.contracted(problem)
    each_counts = np.ones(problem.containers) if counted is None else counted.astype(np.float64)
    size = model.totals(group, each_counts, groups.containers)
    placed = groups.present.copy()
    targets = np.flatnonzero(_under(groups, placed, size))
    usage = _usage(groups, placed)
    for source in np.argsort(-usage.max(axis=1), kind="stable"):
        leaving = np.flatnonzero((placed == source) & groups.movable)
        for each in leaving[np.argsort(groups.request[leaving].max(axis=1), kind="stable")]:
            if not _over(groups, placed, size)[source]:
                break
            _move(groups, placed, size, each=int(each), targets=targets)
    return placed[group]


def _move(problem: model.Problem, placed: model.Ints, size: arrays.Array, *, each: int, targets: model.Ints) -> None:
    source = placed[each]
    for target in targets[np.argsort(_usage(problem, placed)[targets].max(axis=1), kind="stable")]:
        placed[each] = target
        if not _over(problem, placed, size)[target] and next(model.violations(problem, placed), None) is None:
            return
    placed[each] = source


def _usage(problem: model.Problem, placed: model.Ints) -> arrays.Array:
    """Return the share of each server's CPU and memory that is requested, shape (N, 2)."""
    used = np.column_stack([model.totals(placed, each, problem.servers) for each in problem.request.T])
    return np.divide(used, problem.capacity, out=np.zeros_like(used), where=problem.capacity > 0.0)


def _under(problem: model.Problem, placed: model.Ints, size: arrays.Array) -> model.Bools:
    count = np.bincount(placed, weights=size, minlength=problem.servers)
    return (_usage(problem, placed) < _UNDER_SHARE).all(axis=1) & (count < _UNDER_CONTAINERS)


def _over(problem: model.Problem, placed: model.Ints, size: arrays.Array) -> model.Bools:
    count = np.bincount(placed, weights=size, minlength=problem.servers)
    return (_usage(problem, placed) > _OVER_SHARE).any(axis=1) | (count > _OVER_CONTAINERS)
