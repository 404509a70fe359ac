"""Small random problems whose present placement fulfils every constraint."""

import numpy as np

from carico_core.numerics.rescheduling.containers import model

NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


def small(seed: int, *, containers: int = 6, servers: int = 3) -> model.Problem:
    """Return a problem with each kind of constraint, tight enough that many moves have no room."""
    random = np.random.default_rng(seed)
    present = random.integers(0, servers, containers)
    request = random.uniform(0.1, 1.0, (containers, 2))
    used = np.column_stack([np.bincount(present, weights=each, minlength=servers) for each in request.T])
    allowed = random.random((containers, servers)) < 0.8
    allowed[np.arange(containers), present] = True
    one, other = np.triu_indices(containers, 1)
    kind = random.random(len(one))
    same = present[one] == present[other]
    talks = random.random(len(one)) < 0.6
    every = np.column_stack((one, other))
    return model.Problem(
        request=request, capacity=used + random.uniform(0.3, 1.5, (servers, 2)),
        tasks=random.uniform(0.1, 1.0, containers),
        allowed=allowed, movable=random.random(containers) < 0.8, present=present, pairs=every[talks],
        traffic=random.integers(1, 6, talks.sum()), together=every[same & (kind < 0.2)],
        apart=every[~same & (kind < 0.2)], saturation=0.7,
    )  # fmt: skip
