"""Random problems: as table 5 states them, feasible at the start, and the same for a seed."""

import numpy as np
import pytest

from carico_core.numerics.rescheduling.containers import generator, model


@pytest.mark.parametrize("overload", generator.Overload)
@pytest.mark.parametrize("name", ["S", "M", "L"])
def test_a_problem_is_as_stated(name: str, overload: generator.Overload) -> None:
    size = generator.SIZES[name]
    problem = generator.generate(size, seed=3, overload=overload)
    assert list(model.violations(problem, problem.present)) == []
    assert (problem.containers, problem.servers) == (size.containers, size.servers)
    assert len(problem.together) == len(problem.apart) == size.constraints
    assert problem.movable.sum() == 0.8 * size.containers
    assert not problem.allowed[:, 0].any() and not (problem.present == 0).any()
    assert sorted(set(map(tuple, problem.capacity.tolist()))) == [(4.0, 32.0), (8.0, 64.0)]
    # Whole numbers from 1 to 5 in each direction.
    sends = size.containers * round(size.receivers * size.containers)
    assert sends <= problem.traffic.sum() <= 5 * sends
    assert problem.traffic.min() >= 1 and problem.traffic.max() <= 10
    over = int((model.loads(problem, problem.present) > 1.0).sum())
    assert over == {"none": 0, "half": size.servers // 2, "all": size.servers - 1}[overload.value]


def test_a_seed_repeats_a_problem() -> None:
    one, same, other = (generator.generate(generator.SIZES["M"], seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.present, same.present) and np.array_equal(one.tasks, same.tasks)
    assert not np.array_equal(one.present, other.present)


def test_affinities_leave_a_quarter_and_three_quarters_of_the_servers() -> None:
    size = generator.SIZES["L"]
    allowed = generator.generate(size, seed=1).allowed.sum(axis=1)
    values, counts = np.unique(allowed, return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {13: 50, 38: 50, 49: 400}
