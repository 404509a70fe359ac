"""The change of a move, from tables, is that of a full evaluation, however many moves came before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.numerics.rescheduling.services import affinity, moves, search, start
from carico_core.numerics.rescheduling.services import state as states
from tests.unit.numerics.rescheduling.services import affinity_problems


def assert_true(problem: affinity.Problem, fixed: states.Fixed, state: states.State) -> None:
    """Compare a state with the one made from its placement."""
    expected = start.place(problem, fixed, state.where)
    assert state.counts.tolist() == expected.counts.tolist()
    assert state.filled.tolist() == expected.filled.tolist()
    assert (state.on[state.slot] == np.arange(problem.containers)).all()
    np.testing.assert_allclose(state.free, expected.free, atol=1e-9)
    np.testing.assert_allclose(state.add, expected.add, atol=1e-9)
    # The table says nothing where there is no container.
    there = state.counts > 0
    np.testing.assert_allclose(state.drop[there], expected.drop[there], atol=1e-9)
    assert state.gain[0] == pytest.approx(affinity.local(problem, expected.counts), abs=1e-9)
    assert state.tally[0] == affinity.moved(fixed.before, expected.counts)
    listed = {(int(machine), int(service)) for machine, service in state.extra[: state.tally[1]]}
    assert listed == {(int(m), int(s)) for m, s in np.argwhere(expected.counts > fixed.before)}
    assert len(listed) == state.tally[1]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), steps=st.lists(st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)), max_size=12))
def test_the_change_of_a_move_is_that_of_a_full_evaluation(seed: int, steps: list[tuple[float, float]]) -> None:
    problem = affinity_problems.random_problem(seed)
    fixed = start.fix(problem)
    state = start.place(problem, fixed, problem.home)
    for first, second in steps:
        container = int(first * problem.containers)
        source, target = int(state.where[container]), int(second * len(problem.capacity))
        if source == target:
            continue
        service = int(fixed.service[container])
        changed = moves.change(state, service, source, target)
        more = moves.farther(fixed, state, service, source, target)
        after = state.where.copy()
        after[container] = target
        count = affinity.counts(problem, after)
        assert state.gain[0] + changed == pytest.approx(affinity.local(problem, count), abs=1e-9)
        assert state.tally[0] + more == affinity.moved(fixed.before, count)
        # What has no room is applied too: evictions make room for it afterwards. The list has places for some more.
        if moves.fits(fixed, state, service, target):
            moves.apply(fixed, state, container, target)
            assert_true(problem, fixed, state)


@pytest.mark.parametrize("full", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("most", [3, 100])
def test_proposals_keep_the_state_true_and_every_constraint(full: float, most: int) -> None:
    problem = affinity_problems.random_problem(7, services=12, machines=5, most=6, pairs=20, full=full)
    fixed = start.fix(problem)
    state = start.place(problem, fixed, problem.home)
    rng = np.random.default_rng(1)
    for heat in (0.1, 1e-3):
        made = moves.propose(fixed, state, search.draws(rng, 1000), moves.Mix(), 1e-3, heat, most)
        assert made > 100
        assert_true(problem, fixed, state)
        assert affinity.unfit(problem, state.counts) == []
        assert state.tally[0] <= most
    assert state.gain[0] > affinity.local(problem, fixed.before)


def test_a_machine_that_a_service_may_not_use_is_never_used() -> None:
    free = affinity_problems.random_problem(3, services=8, machines=4, pairs=12)
    count = affinity.counts(free, free.home)
    allowed = (count > 0) | (np.random.default_rng(0).random(count.shape) < 0.5)
    problem = affinity.Problem(
        size=free.size, request=free.request, capacity=free.capacity * 2.0, allowed=allowed, home=free.home,
        pairs=free.pairs, traffic=free.traffic,
    )  # fmt: skip
    fixed = start.fix(problem)
    state = start.place(problem, fixed, problem.home)
    moves.propose(
        fixed, state, search.draws(np.random.default_rng(0), 1000), moves.Mix(), 0.0, 1e-3, problem.containers
    )
    assert not (state.counts[~allowed]).any()
    assert state.gain[0] > affinity.local(problem, fixed.before)
