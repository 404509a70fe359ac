"""The paper's model: its worked examples (figure 5), constraints, and groups of containers."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.domain import errors
from carico_core.numerics.rescheduling.containers import model
from tests.unit.numerics.rescheduling.containers import exact_search, small_problems

# Figure 5: containers with a load of .25 on each of four servers; aso, coc, and the least coc of any placement.
FIGURE_5 = {
    "a": ((2, 3, 1, 2), 0.0, 0.0, 0.0),
    "b": ((2, 5, 1, 6), 0.1875, 0.375, 0.0),
    "c": ((2, 5, 7, 6), 0.375, 0.5, 0.0),
    "d": ((2, 5, 7, 7), 0.4375, 0.625, 0.1875),
}


@pytest.mark.parametrize(("containers", "aso", "coc", "least"), FIGURE_5.values(), ids=list(FIGURE_5))
def test_overload_is_as_in_figure_5(containers: tuple[int, ...], aso: float, coc: float, least: float) -> None:
    load = 0.25 * np.array(containers)
    assert model.aso(load) == aso
    assert model.coc(load) == coc
    total = sum(containers)
    every = (each for each in itertools.product(range(total + 1), repeat=4) if sum(each) == total)
    assert min(model.coc(0.25 * np.array(each)) for each in every) == least


def test_the_least_overload_of_figure_5_d_is_one_container_more_on_one_server() -> None:
    load = np.array([1.25, 1.25, 1.25, 1.5])
    assert (model.aso(load), model.coc(load)) == (0.3125, 0.1875)


def test_traffic_counts_each_pair_on_two_servers_once() -> None:
    problem = small_problems.small(1)
    placement = problem.present
    expected = sum(
        amount
        for (one, other), amount in zip(problem.pairs.tolist(), problem.traffic.tolist(), strict=True)
        if placement[one] != placement[other]
    )
    assert model.cntc(problem, placement) == expected > 0.0


def test_each_violated_constraint_is_found_with_its_equation() -> None:
    tiny = model.Problem(
        request=[[1.0, 1.0], [1.0, 2.0], [0.1, 0.1], [0.1, 0.1]], capacity=[[1.5, 2.5], [4.0, 4.0]],  # type: ignore[arg-type]
        tasks=np.zeros(4), allowed=np.array([[True, True], [True, True], [True, False], [True, True]]),
        movable=np.array([True, True, True, False]), present=np.array([0, 1, 0, 0]), pairs=small_problems.NO_PAIRS,
        traffic=np.zeros(0), together=np.array([[2, 3]]), apart=np.array([[0, 1]]),
    )  # fmt: skip

    def found(*placement: int) -> list[int]:
        return sorted(each.equation for each in model.violations(tiny, np.array(placement)))

    assert found(0, 1, 0, 0) == []
    assert found(0, 0, 0, 0) == [5, 6, 9]
    assert found(0, 1, 1, 0) == [7, 8]
    assert found(0, 1, 0, 1) == [0, 8]
    assert found(0, 2, 0, 0) == [4]
    assert found(0, 1, 0) == [4]


def test_a_container_may_stay_where_it_may_not_go() -> None:
    problem = small_problems.small(2)
    closed = dataclasses.replace(problem, allowed=np.zeros_like(problem.allowed))
    assert list(model.violations(closed, closed.present)) == []


def test_a_present_placement_that_violates_a_constraint_is_refused() -> None:
    problem = small_problems.small(3)
    with pytest.raises(errors.SettingsError, match=r"present placement violates .* correct the problem"):
        model.check_present(dataclasses.replace(problem, capacity=problem.capacity * 0.1 + 1e-3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": [1.0]}, r"tasks: expected shape \(6,\), got \(1,\)"),
        ({"tasks": [1.0, 1.0, 1.0, 1.0, 1.0, np.nan]}, "tasks: expected finite numbers of at least 0"),
        ({"present": [0, 0, 0, 0, 0, 3]}, "present: expected indexes from 0 to 2"),
        ({"apart": [[0, 6]]}, "apart: expected indexes from 0 to 5"),
        ({"together": [[1, 1]]}, "together: expected pairs of two different containers"),
        ({"saturation": 0.0}, "saturation: expected a finite number above 0"),
        ({"capacity": [[0.0, 1.0]] * 3}, "capacity: expected more than 0 cores"),
    ],
)
def test_numbers_that_make_no_problem_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(small_problems.small(1), **change)


@given(st.integers(0, 10_000))
def test_groups_have_the_costs_and_constraints_of_their_containers(seed: int) -> None:
    problem = small_problems.small(seed)
    groups, group = model.contracted(problem)
    assert len(groups.together) == 0
    assert list(model.violations(problem, groups.present[group])) == []
    random = np.random.default_rng(seed)
    for _ in range(20):
        placement = random.integers(0, problem.servers, groups.containers)
        of_groups, of_containers = model.costs(groups, placement), model.costs(problem, placement[group])
        assert of_groups.cntc == of_containers.cntc
        assert of_groups.coc == pytest.approx(of_containers.coc, abs=1e-12)
        is_allowed = next(model.violations(problem, placement[group]), None) is None
        assert is_allowed == (next(model.violations(groups, placement), None) is None)


def test_exact_search_knows_every_placement_and_its_limit() -> None:
    problem = small_problems.small(4, containers=5)
    free = dataclasses.replace(
        problem, allowed=np.ones((5, 3), dtype=bool), movable=np.ones(5, dtype=bool), capacity=np.full((3, 2), 9.0),
        together=small_problems.NO_PAIRS, apart=small_problems.NO_PAIRS,
    )  # fmt: skip
    assert len(list(exact_search.placements(free))) == 3**5
    together_all = exact_search.best(free, per_byte=1.0, per_load=0.0)
    assert model.cntc(free, together_all) == 0.0
    with pytest.raises(ValueError, match="at most 8 containers on 3 servers, got 9 on 3"):
        next(exact_search.placements(small_problems.small(1, containers=9)))


def test_the_front_has_only_costs_that_none_improves() -> None:
    problem = small_problems.small(5)
    front = exact_search.pareto(problem)
    every = [model.costs(problem, each) for each in exact_search.placements(problem)]
    assert front[0].cntc == min(each.cntc for each in every)
    assert front[-1].coc == min(each.coc for each in every)
    assert not any(
        other != each and other.cntc <= each.cntc and other.coc <= each.coc for each in front for other in every
    )
