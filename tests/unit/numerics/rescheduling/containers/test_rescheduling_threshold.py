"""The rule by thresholds: over-used servers give to under-used ones, within every constraint."""

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.rescheduling.containers import model, threshold
from tests.unit.numerics.rescheduling.containers import small_problems


def uneven(on_each: tuple[int, ...], request: float) -> model.Problem:
    present = np.repeat(np.arange(len(on_each)), on_each)
    count = len(present)
    return model.Problem(
        request=np.full((count, 2), request), capacity=np.full((len(on_each), 2), 10.0), tasks=np.ones(count),
        allowed=np.ones((count, len(on_each)), dtype=bool), movable=np.ones(count, dtype=bool), present=present,
        pairs=small_problems.NO_PAIRS, traffic=np.zeros(0),
        together=small_problems.NO_PAIRS, apart=small_problems.NO_PAIRS,
    )  # fmt: skip


def test_an_over_used_server_gives_until_it_is_not() -> None:
    placed = threshold.rebalanced(uneven((8, 1, 4), 1.0))
    # 80 % falls to 50 %; the server with 10 % receives, the one with 40 % is neither.
    assert np.bincount(placed).tolist() == [5, 4, 4]


def test_the_number_of_containers_counts_too() -> None:
    assert np.bincount(threshold.rebalanced(uneven((60, 1), 0.01))).tolist() == [50, 11]


def test_nothing_moves_without_an_under_used_server() -> None:
    problem = uneven((8, 3), 1.0)
    assert np.array_equal(threshold.rebalanced(problem), problem.present)


def test_a_server_with_twenty_containers_is_not_under_used() -> None:
    problem = uneven((60, 20), 0.01)
    assert np.array_equal(threshold.rebalanced(problem), problem.present)


@given(st.integers(0, 10_000))
def test_no_constraint_is_violated(seed: int) -> None:
    problem = small_problems.small(seed, containers=8)
    roomy = dataclasses.replace(problem, capacity=problem.capacity * np.array([[1.0], [1.0], [8.0]]))
    placed = threshold.rebalanced(roomy)
    assert list(model.violations(roomy, placed)) == []
