"""The inner loop: its tables always agree with costs that are calculated in full."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.rescheduling.containers import kernel, model
from tests.unit.numerics.rescheduling.containers import small_problems


@given(st.integers(0, 10_000))
def test_the_effect_of_a_move_is_the_difference_of_full_costs(seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=8, servers=4))
    fixed, now = kernel.tables(problem), kernel.state(problem, problem.present)
    random = np.random.default_rng(seed)
    for _ in range(30):
        unit, target = int(random.integers(problem.containers)), int(random.integers(problem.servers))
        source, after = int(now.server[unit]), np.array(now.server, dtype=np.int32)
        if target == source:
            continue
        after[unit] = target
        excess = np.maximum(model.loads(problem, after) - problem.saturation, 0.0)
        full = model.costs(problem, after)
        coc = kernel.coc_after(now, problem.servers, source, target, float(excess[source]), float(excess[target]))
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
def test_tables_after_many_proposals_are_those_of_the_placement(seed: int) -> None:
    problem, _ = model.contracted(small_problems.small(seed, containers=8, servers=4))
    fixed, now = kernel.tables(problem), kernel.state(problem, problem.present)
    if not len(fixed.movable):
        return
    now.numbers[kernel.PER_BYTE], now.numbers[kernel.PER_LOAD], now.numbers[kernel.TEMPERATURE] = 0.05, 0.5, 0.1
    drawn = kernel.draws(np.random.default_rng(seed), 400)
    used = kernel.advance(fixed, now, drawn, 0, problem.saturation, 0.6, 0, True, 0.0)
    assert used == 400
    placement = np.array(now.server, dtype=np.int32)
    assert list(model.violations(problem, placement)) == []
    fresh = kernel.state(problem, placement)
    assert now.numbers[kernel.COC] == pytest.approx(fresh.numbers[kernel.COC], abs=1e-9)
    for name in ("server", "cpu_free", "memory_free", "load", "excess", "bytes_to", "barred"):
        assert np.array(getattr(now, name)) == pytest.approx(np.array(getattr(fresh, name)), abs=1e-9), name
    best = model.costs(problem, np.array(now.best, dtype=np.int32))
    assert best.cntc == now.numbers[kernel.BEST_CNTC]
    assert best.coc == pytest.approx(now.numbers[kernel.BEST_COC], abs=1e-9)
