"""Figures over seeds agree with scipy; a best in hindsight never wins by leaving work undone or memory overrun."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from carico_twin import measures
from carico_twin.evaluate import runs, tables

FINITE = st.floats(min_value=0.1, max_value=1e4)


def measured(**changes: Any) -> measures.Measures:
    numbers: dict[str, Any] = dict.fromkeys((field.name for field in dataclasses.fields(measures.Measures)), 1.0)
    return measures.Measures(**{**numbers, "finished": True, "pods": 1, **changes})


def outcome(name: str, *, seed: int = 1, plan: str = "p", **changes: object) -> runs.RunResult:
    return runs.RunResult(
        group="main", plan=plan, contender=name, seed=seed, measures=measured(**changes), job_s={"pi": 1.0}, pod_s={}
    )


@given(st.lists(FINITE, min_size=2, max_size=31))
def test_intervals_are_students(values: list[float]) -> None:
    found = tables.interval(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=0.0, scale=max(stats.sem(values), 1e-300))
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert found.half == pytest.approx((high - low) / 2.0, rel=1e-3, abs=1e-9)


def test_an_interval_of_one_seed_has_no_width_and_one_of_none_no_mean() -> None:
    assert math.isnan(tables.interval([3.0]).half)
    assert math.isnan(tables.interval([]).mean)
    assert tables.interval([3.0, math.nan]).count == 1


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_geometric_means_agree_with_scipy(values: list[float]) -> None:
    assert tables.geometric_mean(values) == pytest.approx(stats.gmean(values))


def cells(*outcomes: runs.RunResult) -> dict[str, tables.Cell]:
    return tables.table(outcomes)["p"]


def test_the_best_has_least_overrun_first_and_then_least_product() -> None:
    found = cells(
        outcome("quick but over", job_s=1.0, overrun_node_s=50.0),
        outcome("slow", job_s=9.0, overrun_node_s=0.2),
        outcome("fair", job_s=5.0, overrun_node_s=0.0),
    )
    assert tables.best(found, found) == "fair"
    assert tables.best(found, ["slow", "quick but over"]) == "slow"


def test_what_did_not_finish_is_never_best_and_has_no_times() -> None:
    found = cells(outcome("given up", job_s=1.0, finished=False), outcome("slow", job_s=9.0))
    assert tables.best(found, found) == "slow"
    assert tables.best(found, ["given up"]) is None
    assert math.isnan(found["given up"].mean("job_s"))
    assert found["given up"].mean("overrun_node_s") == 1.0


def test_one_seed_that_did_not_finish_spoils_the_setting() -> None:
    found = cells(outcome("a", seed=1), outcome("a", seed=2, finished=False))
    assert found["a"].finished == 0.5
    assert tables.best(found, ["a"]) is None


def test_a_summary_names_the_scenarios_it_could_not_take_in() -> None:
    found = tables.table([outcome("a", plan="p", job_s=4.0), outcome("a", plan="q", job_s=1.0, finished=False)])
    summary = tables.summary(found, {"p": "a", "q": "a"})
    assert summary.job_s == pytest.approx(4.0)
    assert (summary.scenarios, summary.unfinished) == (1, ("q",))
    # Overrun counts whether a run finished or not.
    assert summary.overrun_node_s == 2.0
