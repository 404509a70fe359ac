"""Local traffic, moved containers and constraints of a placement."""

import numpy as np
import pytest

from carico_core.numerics.rescheduling.services import affinity
from tests.unit.numerics.rescheduling.services import affinity_problems


def test_local_traffic_is_the_smaller_share_of_each_pair_summed_over_machines() -> None:
    problem = affinity.Problem(
        size=np.array([2, 4, 1], dtype=np.int32), request=np.ones((3, 2)), capacity=np.full((2, 2), 9.0),
        allowed=np.ones((2, 3), dtype=np.bool_), home=np.array([0, 1, 0, 0, 0, 1, 1], dtype=np.int32),
        pairs=np.array([[0, 1], [1, 2]], dtype=np.int32), traffic=np.array([3.0, 1.0]),
    )  # fmt: skip
    count = affinity.counts(problem, problem.home)
    assert count.tolist() == [[1, 3, 0], [1, 1, 1]]
    # 3/4 (min(1/2, 3/4) + min(1/2, 1/4)) + 1/4 (min(3/4, 0) + min(1/4, 1))
    assert affinity.local(problem, count) == pytest.approx(0.75 * 0.75 + 0.25 * 0.25)


def test_containers_of_a_service_that_change_places_have_not_moved() -> None:
    before = np.array([[1, 2], [1, 0]], dtype=np.int32)
    assert affinity.moved(before, np.array([[1, 2], [1, 0]], dtype=np.int32)) == 0
    assert affinity.moved(before, np.array([[0, 2], [2, 0]], dtype=np.int32)) == 1
    assert affinity.moved(before, np.array([[2, 0], [0, 2]], dtype=np.int32)) == 3


def test_what_does_not_fit_is_named() -> None:
    problem = affinity_problems.two_full_machines(third=1.0)
    assert affinity.unfit(problem, affinity.counts(problem, problem.home)) == []
    crowded = affinity.counts(problem, np.array([0, 0, 0, 1], dtype=np.int32))
    assert affinity.unfit(problem, crowded) == [(0, "CPU"), (0, "memory")]


def test_a_problem_does_not_alias_its_arrays_and_checks_their_shapes() -> None:
    problem = affinity_problems.random_problem(0)
    assert not problem.home.flags.writeable and not problem.request.flags.writeable
    with pytest.raises(ValueError, match=r"affinity home: expected shape \(4,\), got \(3,\)"):
        affinity.Problem(
            size=np.array([4], dtype=np.int32), request=np.ones((1, 2)), capacity=np.ones((2, 2)),
            allowed=np.ones((2, 1), dtype=np.bool_), home=np.zeros(3, dtype=np.int32),
            pairs=np.zeros((0, 2), dtype=np.int32), traffic=np.zeros(0),
        )  # fmt: skip
