"""The evaluation of several schedulers: which runs it makes, and its document."""

import dataclasses

import orjson
import pytest

from carico_twin.evaluate.sharing import model, results, setup, study

FIGURES = model.Figures(
    arrived=10, placed=9, commits=8, conflicts=2, retries=1, given_up=1, requeued=1, busy=0.5,
    waiting_s=(0.1,) * 9 + (0.5,), chosen_pods=2.0, deviation=0.5,
)  # fmt: skip


def test_every_sweep_has_a_row_for_each_of_its_setups() -> None:
    selection = study.QUICK
    found = [study.Cell(setup=each, runs=[FIGURES]) for each in study.setups_of(selection)]
    document = results.document(selection, found)
    assert {name: len(rows) for name, rows in document["sweeps"].items()} == {
        name: len(cells) for name, cells in study.sweeps(selection.base).items()
    }
    assert len(document["design"]) == 16
    assert all(each["conflicts"] == 0.25 for each in document["design"])
    assert [each["is_met"] for each in document["targets"]] == [False, False, False, False, True, True]
    assert orjson.loads(orjson.dumps(document))["version"] == results.VERSION


def test_setups_that_several_sweeps_share_run_once() -> None:
    found = study.setups_of(study.QUICK)
    assert len(found) == len(set(found))
    assert len(found) < sum(map(len, study.sweeps(study.QUICK.base).values()))


def test_counts_are_summed_over_seeds_and_waiting_times_taken_together() -> None:
    other = dataclasses.replace(FIGURES, commits=2, conflicts=2, busy=0.7, waiting_s=(0.2,) * 10)
    found = results.row(study.Cell(setup=setup.Setup(), runs=[FIGURES, other]))
    assert found["conflicts"] == pytest.approx(4 / 10)
    assert found["placed"] == pytest.approx(0.9)
    assert found["busy"] == pytest.approx(0.6)
    assert found["waiting_s"] == pytest.approx(0.2)
    assert found["waiting_p99_s"] > 0.2


def test_a_run_in_which_nothing_arrives_has_no_waiting_time() -> None:
    nothing = dataclasses.replace(
        FIGURES, arrived=0, placed=0, commits=0, conflicts=0, retries=0, given_up=0, requeued=0, waiting_s=()
    )
    found = results.row(study.Cell(setup=setup.Setup(), runs=[nothing]))
    assert (found["waiting_s"], found["waiting_p99_s"], found["conflicts"]) == (None, None, 0.0)


def test_runs_of_a_cell_differ_in_their_seeds() -> None:
    base = setup.Setup(nodes=10, pods_per_node=2, warm_up_s=0.0, measured_s=0.1, life_s=0.5)
    cell = next(study.cells(study.Selection(base=base, seeds=2)))
    assert cell.setup.seed == 1
    assert len(cell.runs) == 2
    assert cell.runs[0] != cell.runs[1]


def test_where_conflicts_are_close_to_their_target_a_quick_evaluation_is_as_long_as_the_full_one() -> None:
    base = setup.Setup(nodes=10, pods_per_node=2, warm_up_s=0.0, measured_s=0.02, life_s=0.5)
    old = dataclasses.replace(base, **study.OLD)
    found = study.by_setup(list(study.cells(study.Selection(base=base, seeds=1))))
    assert {len(cell.runs) for each, cell in found.items() if each != old} == {1}
    full = dataclasses.replace(old, warm_up_s=study.FULL_RUN.base.warm_up_s, measured_s=study.FULL_RUN.base.measured_s)
    assert found[old].runs == [model.Model(dataclasses.replace(full, seed=seed)).run() for seed in (1, 2, 3)]
