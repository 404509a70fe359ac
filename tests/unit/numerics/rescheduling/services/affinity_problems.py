"""Small problems with traffic between services."""

import itertools

import numpy as np

from carico_core.numerics.rescheduling.services import affinity


def random_problem(
    seed: int, *, services: int = 6, machines: int = 4, most: int = 4, pairs: int = 6, full: float = 0.7
) -> affinity.Problem:  # fmt: skip
    """Return a problem whose placement is random and feasible; machines are about `full` on average."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, most + 1, services)
    request = rng.uniform(0.5, 1.5, (services, 2))
    home = rng.integers(0, machines, size.sum())
    used = np.zeros((machines, 2))
    np.add.at(used, home, np.repeat(request, size, axis=0))
    choices = np.array(list(itertools.combinations(range(services), 2)))
    chosen = choices[rng.permutation(len(choices))[:pairs]]
    return affinity.Problem(
        size=size.astype(np.int32),
        request=request,
        capacity=np.maximum(used, used.mean(axis=0) / full),
        allowed=np.ones((machines, services), dtype=np.bool_),
        home=home.astype(np.int32),
        pairs=chosen.astype(np.int32),
        traffic=rng.exponential(1.0, len(chosen)),
    )


def two_full_machines(*, third: float) -> affinity.Problem:
    """Return two full machines whose containers want to change places, and a third of this size."""
    return affinity.Problem(
        size=np.array([1, 1, 1, 1], dtype=np.int32),
        request=np.ones((4, 2)),
        capacity=np.array([[2.0, 2.0], [2.0, 2.0], [third, third]]),
        allowed=np.ones((3, 4), dtype=np.bool_),
        # Services 0 and 1 talk, and 2 and 3; each pair is divided between the machines.
        home=np.array([0, 1, 0, 1], dtype=np.int32),
        pairs=np.array([[0, 1], [2, 3]], dtype=np.int32),
        traffic=np.ones(2),
    )
