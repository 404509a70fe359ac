"""Every step of an order has room for the old and the new container, and the last one reaches the placement."""

import numpy as np
import pytest

from carico_core.numerics.rescheduling.services import affinity, order, search
from tests.unit.numerics.rescheduling.services import affinity_problems


def assert_feasible(problem: affinity.Problem, ordered: order.Order) -> None:
    """Replay the steps with sums of requests, independently of the code of the product."""
    where = dict(enumerate(problem.home.tolist()))
    request = [problem.request[service].tolist() for service in problem.service]
    for container, source, target in ordered.steps:
        assert where[container] == source != target
        assert problem.allowed[target, problem.service[container]]
        there = [each for each, machine in where.items() if machine == target]
        for resource in range(2):
            needed = sum(request[each][resource] for each in [*there, container])
            assert needed <= problem.capacity[target, resource] * (1 + 1e-7)
        where[container] = target
    assert list(where.values()) == ordered.where.tolist()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("full", [0.7, 0.95])
def test_every_step_has_room_for_old_and_new(seed: int, full: float) -> None:
    problem = affinity_problems.random_problem(seed, services=10, machines=5, most=5, pairs=16, full=full)
    answer = search.search(
        problem, limit=problem.containers, rng=np.random.default_rng(seed), progress=lambda made: made / 3_000,
        schedule=search.Schedule(block=128),
    )  # fmt: skip
    wanted = affinity.counts(problem, answer.where)
    ordered = order.order(problem, wanted)
    assert_feasible(problem, ordered)
    if not ordered.blocked:
        assert affinity.counts(problem, ordered.where).tolist() == wanted.tolist()
        assert len(ordered.steps) == answer.moved + ordered.parked


SWAPPED = np.array([1, 1, 0, 0], dtype=np.int32)


def test_a_cycle_of_full_machines_is_broken_on_a_third() -> None:
    problem = affinity_problems.two_full_machines(third=1.0)
    ordered = order.order(problem, affinity.counts(problem, SWAPPED))
    assert_feasible(problem, ordered)
    assert (len(ordered.steps), ordered.parked, ordered.blocked) == (3, 1, 0)
    assert ordered.where.tolist() == SWAPPED.tolist()


def test_a_cycle_without_a_third_machine_is_blocked_and_left_out() -> None:
    problem = affinity_problems.two_full_machines(third=0.5)
    ordered = order.order(problem, affinity.counts(problem, SWAPPED))
    assert (ordered.steps, ordered.parked, ordered.blocked) == ((), 0, 2)
    assert ordered.where.tolist() == problem.home.tolist()


def test_an_order_ends_at_its_limit_of_steps() -> None:
    problem = affinity_problems.two_full_machines(third=2.0)
    ordered = order.order(problem, affinity.counts(problem, SWAPPED), most=2)
    assert (len(ordered.steps), ordered.blocked) == (2, 0)
    assert_feasible(problem, ordered)
