"""The rescheduling paper's simulations: every run is there, next to its published figures, and its seed repeats it."""

import dataclasses
import itertools
import json

import pytest

from carico_core.numerics.rescheduling.containers import annealing, generator
from carico_twin.rescheduling import published, results, study

TINY = study.Selection(
    sizes=("S",), runs=2, schedule=annealing.Schedule(alpha=0.5, moves=20), front_points=3, front_proposals=300
)


def ticking() -> annealing.Now:
    looks = itertools.count()
    return lambda: next(looks) * 0.001


@pytest.fixture(scope="module")
def runs() -> list[study.Run]:
    return list(study.runs(TINY, ticking()))


def test_every_algorithm_runs_so_often_and_violates_nothing(runs: list[study.Run]) -> None:
    assert len(runs) == study.count(TINY)
    names = [each.algorithm for each in runs if each.table == 7]
    assert {name: names.count(name) for name in names} == {
        "ws-sa": 2, "ws-sa-bn": 2, "ws-sa-pn": 2, "ws-sa-pn-tb": 2, "carico": 2, "threshold": 1,
    }  # fmt: skip
    assert [each.overload for each in runs if each.table == 4] == ["none", "none", "half", "half", "all", "all"]
    assert not any(each.violations for each in runs)
    assert all(each.seconds > 0.0 for each in runs)


def test_the_tables_have_measured_and_published_figures(runs: list[study.Run]) -> None:
    front = [point for overload in generator.Overload for point in study.front(TINY, overload)]
    found = results.document(TINY, runs, front, is_compiled=False)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    by_name = {each["algorithm"]: each for each in found["table_7"]}
    assert by_name["ws-sa"]["published"] == dataclasses.asdict(published.TABLE_7["S"]["ws-sa"])
    assert by_name["carico"]["published"] is None
    mean, deviation = by_name["ws-sa-pn"]["cntc"]
    own = [each.cntc for each in runs if each.table == 7 and each.algorithm == "ws-sa-pn"]
    assert mean == pytest.approx(sum(own) / 2) and deviation == pytest.approx(abs(own[0] - own[1]) / 2**0.5)
    assert by_name["ws-sa"]["evaluations"] == 5 * TINY.schedule.iterations * TINY.schedule.moves
    assert [each["coc"] is None for each in found["table_4"]] == [True, False, False]
    assert found["table_4"][1]["cplex"]["seconds"] == 4905.0
    assert set(found["table_6"][0]["parts_s"]) == set(published.TABLE_6["S"])
    assert found["table_2"]["Total"] == [4558, 3634]
    assert {each["algorithm"] for each in found["figure_8"]} == set(by_name) - {"threshold"}


def test_less_traffic_is_found_within_a_looser_bound() -> None:
    points = list(study.front(TINY, generator.Overload.HALF))
    assert len(points) == 3
    assert all(later.cntc <= before.cntc for before, later in itertools.pairwise(points))
    assert all(each.coc <= each.bound + 1e-6 for each in points)
    assert list(study.front(TINY, generator.Overload.NONE)) == []


def test_a_study_repeats_with_the_same_clock(runs: list[study.Run]) -> None:
    def costs(found: list[study.Run]) -> list[tuple[str, float, float | None]]:
        return [(each.algorithm, each.cntc, each.coc) for each in found]

    assert costs(list(study.runs(TINY, ticking()))) == costs(runs)


def test_only_published_gaps_larger_than_the_deviations_are_compared(runs: list[study.Run]) -> None:
    found = results.orders(runs)
    pairs = {(each.size, each.figure, each.lower, each.higher) for each in found}
    assert ("S", "cntc", "ws-sa", "ws-sa-bn") in pairs
    # 79.5 +- 4.9 and 79.9 +- 5.4
    assert ("S", "cntc", "ws-sa", "ws-sa-pn") not in pairs
    assert all(each.is_reproduced == (each.measured_gap > 0.0) for each in found)


def test_published_totals_are_the_sums_of_their_parts() -> None:
    for size, parts in published.TABLE_6.items():
        assert sum(parts.values()) == pytest.approx(published.TABLE_7[size]["ws-sa"].seconds, rel=0.05)
    for column in (0, 1):
        *services, total = (row[column] for row in published.TABLE_2.values())
        assert sum(services) == total
