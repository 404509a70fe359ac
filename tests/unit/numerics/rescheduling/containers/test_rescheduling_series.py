"""Series of moves, and the best of several searches: constraints hold, nothing is lost, seeds repeat, time is kept."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carico_core.numerics.rescheduling.containers import gains, generator, model, series
from tests.unit.numerics.rescheduling.containers import exact_search, small_problems

WEIGHTS = gains.Weights(task_bytes=4.0)


def cost(problem: model.Problem, placement: model.Ints) -> float:
    return gains.cost(problem, placement, WEIGHTS)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_placements_cost_less_than_the_present_one_and_violate_no_constraint(seed: int) -> None:
    problem = small_problems.small(seed, containers=14, servers=4)
    room = np.array([0.0, 1.0, 2.5, 9.0])
    found = series.solve(problem, seed=seed, weights=WEIGHTS, room=room)
    costs = [cost(problem, each) for each in found]
    # What is worth to stay is less than a thousandth.
    assert costs == sorted(costs) and all(each < cost(problem, problem.present) for each in costs)
    for each in found:
        assert list(model.violations(problem, each)) == []


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_no_server_gets_more_containers_than_it_has_room_for(seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=14, servers=4))
    room = np.array([0.0, 1.0, 2.5, 9.0])
    before = np.bincount(problem.present, minlength=4)
    for each in series.solve(problem, seed=seed, weights=WEIGHTS, room=room):
        assert (np.bincount(each, minlength=4) <= before + room).all()


@pytest.mark.parametrize("small", [0, 10_000])
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_the_table_of_gains_is_that_of_the_placement(small: int, seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=10, servers=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series, "_SMALL", small)
        table = series._Table(problem, WEIGHTS, np.full(3, np.inf))
        random = np.random.default_rng(seed)
        for _ in range(5):
            possible = np.argwhere(table.gains > -np.inf)
            if not len(possible):
                return
            row, server = random.choice(possible)
            after = table.placed.copy()
            after[table.units[row]] = server
            assert list(model.violations(problem, after)) == []
            gain = cost(problem, table.placed) - cost(problem, after)
            assert table.gains[row, server] == pytest.approx(gain, abs=1e-5)
            table._move(int(row), int(server))
            fresh = series._Table(dataclasses.replace(problem, present=table.placed), WEIGHTS, np.full(3, np.inf))
            # Both differ by what it is worth to stay.
            assert np.array_equal(np.isinf(table.gains), np.isinf(fresh.gains)) or not problem.movable.all()
            assert np.allclose(
                np.where(np.isinf(table.gains), 0.0, table.gains),
                np.where(np.isinf(fresh.gains), 0.0, fresh.gains),
                atol=1e-5,
            )
        table.restore(problem.present)
        assert np.allclose(table.gains, series._Table(problem, WEIGHTS, np.full(3, np.inf)).gains, atol=1e-9)


@pytest.fixture
def few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers may go to few of the servers, as in a large cluster; a search begins again four times."""
    for name, value in (("_WHOLE", 0), ("_SMALL", 0), ("_COLUMNS", 6), ("_ROOMY", 2), ("SEARCHES", 4)):
        monkeypatch.setattr(series, name, value)


@pytest.mark.usefixtures("few_columns")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000))
def test_each_entry_of_a_table_of_few_columns_is_the_gain_of_its_move(seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=24, servers=12))
    table = series._Table(problem, WEIGHTS, np.full(12, np.inf))
    random = np.random.default_rng(seed)
    for turn in range(12):
        assert table.columns.shape[1] == 6 and all(len(set(each) - {-1}) == (each >= 0).sum() for each in table.columns)
        possible = np.argwhere(table.gains > -np.inf)
        if not len(possible):
            return
        for row, column in random.permutation(possible)[:8]:
            after = table.placed.copy()
            after[table.units[row]] = table.columns[row, column]
            assert list(model.violations(problem, after)) == []
            gain = cost(problem, table.placed) - cost(problem, after)
            assert table.gains[row, column] == pytest.approx(gain, abs=1e-5)
        if turn == 8:
            table.restore(problem.present)
        else:
            row, column = random.choice(possible)
            table._move(int(row), int(column))


@pytest.mark.usefixtures("few_columns")
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000))
def test_with_few_columns_placements_violate_no_constraint_either(seed: int) -> None:
    problem = small_problems.small(seed, containers=24, servers=12)
    found = series.solve(problem, seed=seed, weights=WEIGHTS)
    costs = [cost(problem, each) for each in found]
    assert costs == sorted(costs) and all(each < cost(problem, problem.present) for each in costs)
    assert [each for placement in found for each in model.violations(problem, placement)] == []


@pytest.mark.parametrize("seed", range(3))
def test_few_columns_find_nearly_what_all_of_them_find(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = generator.generate(generator.SIZES["L"], seed=seed)
    weights = gains.Weights(task_bytes=float(problem.traffic.sum()) / problem.servers)

    def least() -> float:
        left = 4000

        def is_over() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        found = series.solve(problem, seed=1, weights=weights, is_over=is_over)
        return gains.cost(problem, found[0], weights)

    whole = least()
    monkeypatch.setattr(series, "_WHOLE", 0)
    gained = gains.cost(problem, problem.present, weights) - whole
    assert least() <= whole + 0.02 * gained


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_container_whose_price_is_more_than_its_moves_gain_stays(seed: int) -> None:
    problem = small_problems.small(seed, containers=10, servers=3)
    prices = np.where(np.arange(10) < 5, 1e6, 0.0)
    for each in series.solve(problem, seed=seed, weights=WEIGHTS, prices=prices):
        assert (each[:5] == problem.present[:5]).all()


def trio() -> model.Problem:
    """Three containers that talk, on a server with a task too many; there is room for them on an empty one."""
    return model.Problem(
        request=np.zeros((4, 2)), capacity=np.array([[4.0, 1.0], [4.0, 1.0]]), tasks=np.array([0.5, 0.5, 0.5, 4.0]),
        allowed=np.ones((4, 2), dtype=bool), movable=np.array([True, True, True, False]),
        present=np.zeros(4, dtype=int),
        pairs=np.array([[0, 1], [0, 2], [1, 2]]), traffic=np.full(3, 4.0), together=small_problems.NO_PAIRS,
        apart=small_problems.NO_PAIRS,
    )  # fmt: skip


def test_several_that_talk_leave_together_though_the_first_loses() -> None:
    problem = trio()
    assert series._Table(problem, WEIGHTS, np.full(2, np.inf)).gains.max() < 0.0
    best, *_ = series.solve(problem, seed=1, weights=WEIGHTS)
    assert best.tolist() == [1, 1, 1, 0] and cost(problem, best) == 0.0


def test_when_the_time_is_up_nothing_more_is_moved() -> None:
    assert series.solve(trio(), seed=1, weights=WEIGHTS, is_over=lambda: True) == []


@pytest.mark.parametrize("seed", range(8))
def test_small_problems_are_solved_as_by_exact_search(seed: int) -> None:
    problem = small_problems.small(seed, containers=7)
    found = [*series.solve(problem, seed=1, weights=WEIGHTS), problem.present]
    least = min(cost(problem, each) for each in exact_search.placements(problem) if stays(problem, each))
    assert cost(problem, found[0]) == pytest.approx(least, abs=1e-4)


def stays(problem: model.Problem, placement: model.Ints) -> bool:
    return bool((placement == problem.present)[~problem.movable].all())


def test_a_seed_repeats_placements() -> None:
    problem = generator.generate(generator.SIZES["S"], seed=1)
    one, same = (series.solve(problem, seed=3, weights=WEIGHTS) for _ in range(2))
    assert len(one) > 1 and np.array_equal(one, same)


@pytest.mark.parametrize("size", ["S", "M", "L"])
def test_the_time_is_asked_for_at_least_every_few_moves(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, left = generator.generate(generator.SIZES[size], seed=1), 200
    moves = 0
    move = series._Table._move

    def counted(table: series._Table, row: int, column: int) -> set[int]:
        nonlocal moves
        moves += 1
        return move(table, row, column)

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    monkeypatch.setattr(series._Table, "_move", counted)
    found = series.solve(problem, seed=1, weights=WEIGHTS, is_over=is_over)
    assert found and list(model.violations(problem, found[0])) == []
    # Only the random moves between two searches are made without a look at the time.
    assert moves <= 200 + series.KICKED
