"""The inner loop: its tables always agree with costs that are calculated in full."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.rescheduling.containers import kernel, model, tables
from tests.unit.numerics.rescheduling.containers import small_problems


@given(st.integers(0, 10_000))
def test_the_effect_of_a_move_is_the_difference_of_full_costs(seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=8, servers=4))
    fixed, now = tables.fixed(problem), tables.state(problem, problem.present)
    random = np.random.default_rng(seed)
    for _ in range(30):
        unit, target = int(random.integers(problem.containers)), int(random.integers(problem.servers))
        source, after = int(now.server[unit]), np.array(now.server, dtype=np.int32)
        if target == source:
            continue
        after[unit] = target
        excess = np.maximum(model.loads(problem, after) - problem.saturation, 0.0)
        full = model.costs(problem, after)
        coc = kernel.coc_after(now, source, target, float(excess[source]), float(excess[target]))
        assert coc == pytest.approx(full.coc, abs=1e-9)
        was, becomes = (now.excess[source], now.excess[target]), (float(excess[source]), float(excess[target]))
        average, above = now.numbers[kernel.EXCESS] / problem.servers, now.numbers[kernel.ABOVE]
        least = kernel.coc_at_least(now.numbers[kernel.COC], above, average, problem.servers, was, becomes)
        assert least <= full.coc + 1e-9
        kernel.move(fixed, now, unit, target, problem.saturation)
        assert now.numbers[kernel.CNTC] == full.cntc
        assert now.numbers[kernel.COC] == pytest.approx(full.coc, abs=1e-9)
        assert list(now.load) == pytest.approx(list(model.loads(problem, after)), abs=1e-9)


@given(st.integers(0, 10_000))
def test_the_effect_of_an_exchange_is_the_difference_of_full_costs(seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=8, servers=4))
    problem = dataclasses.replace(problem, movable=np.ones(problem.containers, dtype=bool))
    fixed, now = tables.fixed(problem), tables.state(problem, problem.present)
    random = np.random.default_rng(seed)
    for _ in range(30):
        one, other = random.permutation(problem.containers)[:2].tolist()
        after = np.array(now.server, dtype=np.int32)
        if after[one] == after[other]:
            continue
        after[[one, other]] = after[[other, one]]
        kernel.exchange(fixed, now, one, other, problem.saturation)
        full = model.costs(problem, after)
        assert now.numbers[kernel.CNTC] == full.cntc
        assert now.numbers[kernel.COC] == pytest.approx(full.coc, abs=1e-9)
        assert_tables(problem, now, after)


def assert_tables(problem: model.Problem, now: kernel.State, placement: model.Ints) -> None:
    fresh = tables.state(problem, placement)
    assert now.numbers[kernel.COC] == pytest.approx(fresh.numbers[kernel.COC], abs=1e-9)
    for name in ("server", "cpu_free", "memory_free", "load", "excess", "filled", "bytes_to", "barred"):
        assert np.array(getattr(now, name)) == pytest.approx(np.array(getattr(fresh, name)), abs=1e-9), name
    for server, filled in enumerate(now.filled):
        on = now.on[server * problem.containers :][:filled]
        assert sorted(on) == np.flatnonzero(problem.movable & (placement == server)).tolist()
        assert [now.slot[each] for each in on] == list(range(filled))


def paper(fixed: kernel.Tables, now: kernel.State, drawn: kernel.Numbers, saturation: float) -> None:
    assert kernel.advance(fixed, now, drawn, 0, saturation, 400, True) == 400


def ours(fixed: kernel.Tables, now: kernel.State, drawn: kernel.Numbers, saturation: float) -> None:
    kernel.search(fixed, now, drawn, saturation, 0.6, 0.0)


@pytest.mark.parametrize("loop", [paper, ours])
@given(seed=st.integers(0, 10_000))
def test_tables_after_many_proposals_are_those_of_the_placement(loop: Callable[..., None], seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=8, servers=4))
    fixed, now = tables.fixed(problem), tables.state(problem, problem.present)
    if not len(fixed.movable):
        return
    now.numbers[kernel.PER_BYTE], now.numbers[kernel.PER_LOAD], now.numbers[kernel.TEMPERATURE] = 0.05, 0.5, 0.1
    loop(fixed, now, tables.draws(np.random.default_rng(seed), 400), problem.saturation)
    placement = np.array(now.server, dtype=np.int32)
    assert list(model.violations(problem, placement)) == []
    assert_tables(problem, now, placement)
    best = model.costs(problem, np.array(now.best, dtype=np.int32))
    assert best.cntc == now.numbers[kernel.BEST_CNTC]
    assert best.coc == pytest.approx(now.numbers[kernel.BEST_COC], abs=1e-9)
