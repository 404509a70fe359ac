"""What is compared is what was asked for, runs in processes give what runs here give, and targets can be missed."""

import dataclasses
import math
import os
import re
import xml.etree.ElementTree as ET

import pytest

from carico_cli.evaluation import page, text
from carico_cli.output import charts
from carico_core.domain import errors
from carico_twin import catalogue, scenario, world
from carico_twin.evaluate import ablation, contenders, pool, results, runs, study, tables, targets
from carico_twin.evaluate.comparisons import calibration, published, shapes
from carico_twin.nodes import machine
from carico_twin.nodes import work as works

SMALL = scenario.Scenario(
    name="small", hardware=(machine.Hardware(),) * 2,
    jobs=(scenario.Job(name="pi", work=works.PI, pods=12, request_cores=1.0),), limit_s=200.0,
)  # fmt: skip


def tasks(*names: str, seeds: int = 2) -> list[runs.Task]:
    every = contenders.all_contenders()
    return [
        runs.Task(group=study.MAIN, plan=SMALL, contender=every[name], seed=seed, pictured=seed == 1)
        for name in names
        for seed in range(1, seeds + 1)
    ]


def test_every_setting_that_was_promised_is_there_once() -> None:
    found = contenders.all_contenders()
    assert {"kube-100m", "kube-200m", "kube-500m", "kube-700m", "kube-1000m", "kube-exact"} <= set(found)
    assert {"constant-0.75", "constant-1", "constant-1.25", "constant-1.5", "constant-2", "constant-2n-1"} <= set(found)
    assert {"trimaran", "koordinator", "oracle", "paper", "node-local"} <= set(found)
    assert {f"footprint-{ceiling:.2f}" for ceiling in contenders.CEILINGS} <= set(found)
    assert contenders.DEFAULT in found
    assert len({repr(each.choice) for each in found.values()}) == len(found)


def test_the_default_contender_is_carico_as_it_is_installed() -> None:
    assert contenders.all_contenders()[contenders.DEFAULT].choice == world.CaricoOptions()


@pytest.mark.parametrize("name", [*contenders.all_contenders()])
def test_every_contender_finishes_a_small_job(name: str) -> None:
    assert runs.run(tasks(name, seeds=1)[0]).measures.finished


def test_unknown_names_give_the_known_ones() -> None:
    with pytest.raises(
        errors.SettingsError, match=r"^--scheduler: got 'kub' \(did you mean kube\?\), expected one of kube-"
    ):
        contenders.named(["kub"])
    with pytest.raises(errors.SettingsError, match=r"^--scenario: got 'nope', expected one of "):
        study.named(["nope"])
    with pytest.raises(errors.SettingsError, match=r"^--scenario: got 'pi-99', .*expected one of pi-100, pi-250"):
        study.named(["pi-99"])


def test_a_family_is_all_its_settings() -> None:
    assert [each.name for each in contenders.named(["constant"])] == [
        "constant-0.75", "constant-1", "constant-1.25", "constant-1.5", "constant-2", "constant-2n-1",
    ]  # fmt: skip


def test_the_whole_study_has_every_scenario_under_the_default_and_quick_is_far_less() -> None:
    whole, quick = study.tasks(study.Selection()), study.tasks(study.Selection(quick=True))
    ran = {task.plan.name for task in whole if task.contender.name == contenders.DEFAULT and task.group == study.MAIN}
    assert ran == {*catalogue.all_scenarios(), *study.EXTRA_PLANS}
    assert {task.seed for task in whole} == set(range(1, 11))
    assert sum(task.effort for task in quick) < sum(task.effort for task in whole) / 15.0


def test_a_user_gets_all_of_what_he_named_and_nothing_else() -> None:
    selection = study.Selection(scenarios=("pi-100",), schedulers=("oracle", "node-local"), seeds=3)
    found = study.tasks(selection)
    assert {(task.plan.name, task.contender.name) for task in found} == {("pi-100", "oracle"), ("pi-100", "node-local")}
    assert len(found) == 6


def test_seeds_are_counted_from_the_first_one() -> None:
    selection = study.Selection(scenarios=("pi-100",), schedulers=("oracle",), seeds=3, first_seed=201)
    assert [task.seed for task in study.tasks(selection)] == [201, 202, 203]
    assert results.document(selection, [])["first_seed"] == 201


def test_processes_give_what_this_one_gives() -> None:
    wanted = tasks("kube-500m", "constant-1")

    def key(each: runs.RunResult) -> tuple[str, int]:
        return each.contender, each.seed

    here = sorted(pool.run_all(wanted, jobs=1), key=key)
    there = sorted(pool.run_all(wanted, jobs=2), key=key)
    assert [repr(each) for each in here] == [repr(each) for each in there]


def test_stopping_ends_the_processes() -> None:
    running = pool.run_all(tasks("kube-500m", seeds=6), jobs=2)
    next(running)
    children = _children()
    assert len(children) >= 2
    running.close()
    assert not set(children) & set(_children())


def _children() -> list[str]:
    """Workers of this process, by pid."""
    with open(f"/proc/self/task/{os.getpid()}/children") as found:
        return [pid for pid in found.read().split() if _is_worker(pid)]


def _is_worker(pid: str) -> bool:
    with open(f"/proc/{pid}/cmdline") as found:
        return "spawn_main" in found.read()


def test_a_run_that_raises_in_a_process_raises_here() -> None:
    broken = dataclasses.replace(tasks("node-local", seeds=1)[0].contender, choice="no choice")  # type: ignore[arg-type]  # on purpose
    bad = [dataclasses.replace(each, contender=broken) for each in tasks("node-local")]
    with pytest.raises(AttributeError):
        list(pool.run_all(bad, jobs=2))


def test_series_count_the_pods_that_run() -> None:
    outcome = runs.run(tasks("constant-1", seeds=1)[0])
    assert outcome.series is not None
    assert max(high for _, _, high in outcome.series.pods) == 4.0
    assert max(cpu for cpu, _ in outcome.series.used) == 1.0
    assert outcome.series.pods[-1] == (0.0, 0.0, 0.0)
    assert len(outcome.pod_times_s["pi"]) == 12


def test_the_calibrated_node_does_what_was_published_of_one() -> None:
    # Eight pi Pods on one published node: 0.563 a second once all run.
    plan = dataclasses.replace(
        calibration.as_published(catalogue.pi(80)), hardware=(calibration.HARDWARE,), limit_s=600.0
    )
    done = world.run(plan, contenders.constant(2.0).choice, seed=1)
    ended = sorted(pod.ended_s for pod in done.pods)
    assert 60.0 / (ended[69] - ended[9]) == pytest.approx(calibration.PUBLISHED_PODS_PER_S, rel=0.1)


def test_the_paper_runs_as_the_author_did() -> None:
    task = next(each for each in calibration.tasks([1], only=["pi-1000"]) if each.contender.name == contenders.PAPER)
    done = runs.run(task)
    assert done.pod_s["pi"]["mean"] == pytest.approx(7.69, rel=0.15)
    assert done.job_s["pi"] == pytest.approx(109.0, rel=0.15)
    # On the node; the recorded 7 are those that the API shows as running, which is one less.
    assert done.measures.most_per_core * 4.0 <= 8.0


def test_every_published_number_has_its_run() -> None:
    values = list(published.values())
    assert len(values) == 25 + 4 + 6 + 11 * 7
    # Every job time has its deviation.
    assert all(math.isfinite(value.sd) == (value.figure == "job_s") for value in values)
    wanted = {(task.plan.name, task.contender.name) for task in calibration.tasks([1])}
    for value in values:
        for name in calibration.OURS if value.contender == published.CARICO else (value.contender,):
            assert (value.plan, name) in wanted


def cell(**figures: float) -> tables.Cell:
    numbers = {**dict.fromkeys(tables.FIELDS, 1.0), **figures}
    intervals = {name: tables.Interval(mean=value, half=0.0, count=10) for name, value in numbers.items()}
    return tables.Cell(finished=1.0, figures=intervals, job_s={}, pod_s={})


def verdicts(found: tables.Table) -> dict[str, str]:
    return {each.name: each.verdict for each in targets.judge(found)}


def test_targets_are_met_missed_or_unknown() -> None:
    table = {
        "pi-1000": {
            contenders.DEFAULT: cell(job_s=80.0, pod_mean_s=6.0, most_per_core=2.25),
            "kube-500m": cell(job_s=78.0, pod_mean_s=8.0),
            "constant-1": cell(job_s=90.0, pod_mean_s=5.0),
        }
    }
    found = verdicts(table)
    assert found["pi-1000: mean Pod time"] == "met"
    assert found["pi-1000: job time, at most 3% over kube-scheduler's best"] == "met"
    assert found["pi-1000: most Pods running on a node, per core"] == "missed"
    # kube-500m ends earlier, the constant has faster Pods: neither is beaten in both.
    dominated = next(each for each in targets.judge(table) if "in both figures" in each.name)
    assert (dominated.value, dominated.verdict) == (2.0, "missed")
    assert found["train-100: largest share of a node's memory"] == "unknown"


def test_nothing_run_meets_no_target() -> None:
    assert set(verdicts({}).values()) == {"unknown"}


def test_a_shape_without_its_runs_is_neither_shown_nor_refuted() -> None:
    assert {each.reproduced for each in shapes.judge({}, {})} == {None}


def test_that_today_is_better_than_published_is_neither_an_error_nor_a_failed_statement() -> None:
    times = {"pi-100": {contenders.DEFAULT: 15.0, "paper": 15.0, "kube-500m": 15.7}}
    table = {
        plan: {
            name: dataclasses.replace(cell(job_s=value), job_s={"pi": tables.Interval(mean=value, half=0.0, count=1)})
            for name, value in cells.items()
        }
        for plan, cells in times.items()
    }
    ramp_up = [each for each in shapes.judge(table, {}) if "ramp-up" in each.says]
    assert [(each.mode, each.reproduced, each.better) for each in ramp_up] == [
        (contenders.DEFAULT, False, True), ("paper", False, False)
    ]  # fmt: skip
    compared = calibration.compare(table)
    assert set(calibration.errors(compared)) == {"kube-500m job_s", "paper job_s"}
    assert calibration.differences(compared)[f"{contenders.DEFAULT} job_s"]["mean"] == pytest.approx(15.0 / 20.3 - 1.0)


def test_use_over_time_is_judged_by_when_it_is_full_and_how_it_varies() -> None:
    def series(used: list[float]) -> runs.Series:
        return runs.Series(
            at_s=tuple(float(index) for index in range(len(used))), pods=(), used=tuple((one, 0.1) for one in used)
        )

    soon, late = [1.0] * 20, [0.5] * 4 + [1.0] * 14 + [0.0] * 2
    used = {("pi-1000", "kube-100m"): series(soon), ("pi-1000", "kube-500m"): series(soon)}
    used |= {("pi-1000", name): series(late) for name in calibration.OURS}
    verdicts = {(each.says.split(":")[1][:20], each.mode): each.reproduced for each in shapes.judge({}, used)
                if each.says.startswith("pi-1000") and "figure 5.7" in each.says}  # fmt: skip
    assert set(verdicts.values()) == {True}
    assert len(verdicts) == 5
    read = " ".join(each.detail for each in shapes.judge({}, used))
    assert "kube-100m time until 95% of the CPU is in use 0.0 s" in read and "full_s" not in read


def test_ablation_changes_one_thing_at_a_time_and_ratios_are_against_the_default() -> None:
    variants = ablation.variants()
    assert variants[ablation.BASE] == world.CaricoOptions()
    assert len({repr(each) for each in variants.values()}) >= len(variants) - 1
    found = {"p": {ablation.BASE: cell(job_s=10.0), "no classes": cell(job_s=12.0, overrun_node_s=5.0)}}
    effect = next(each for each in ablation.effects(found) if each.name == "no classes")
    assert effect.job_ratio == pytest.approx(1.2)
    assert effect.overrun_more_node_s == 4.0


def test_the_page_is_whole_without_numbers_and_with_them() -> None:
    outcomes = [runs.run(task) for task in tasks("kube-500m", contenders.DEFAULT, seeds=1)]
    outcomes += [dataclasses.replace(each, group=calibration.GROUP, plan="pi-1000") for each in outcomes]
    # The same small run stands for every picture's scenario.
    outcomes += [dataclasses.replace(each, plan=plan) for each in outcomes[:2] for plan in ("pi-1000", "isolation")]
    document = results.document(study.Selection(seeds=1), outcomes)
    html = page.page(document)
    for part in html.split("<svg")[1:]:
        ET.fromstring("<svg" + part.split("</svg>")[0] + "</svg>")
    assert html.count("<svg") >= 6
    assert not re.search(r"https?:|\bnan\b|\bNone\b|<script", html)
    # A target that was not measured has no row.
    assert re.search(r"<p>Not measured: \d+ targets, whose scenarios or schedulers did not run\.</p>", html)
    assert '<span class="unknown">' not in html
    before, _, _ = html.partition("<details>")
    assert before.count("<svg") == 1
    assert re.search(r"jobs took [\d.]+ s and Pods [\d.]+ times their time alone under CARICO\. kube-scheduler", before)
    assert f"CARICO ({contenders.DEFAULT})" in before
    assert text.result(document) in before
    assert "without CARICO's default" in text.result(document | {"default": "absent"})
    # Of a calibration alone.
    verdicts = [{"reproduced": each} for each in (True, False, None, True)]
    assert text.result(document | {"scenarios": {}, "shapes": verdicts}) == (
        "The twin reproduces 2 of 3 published findings."
    )
    assert "footprint" in page.page(results.document(study.Selection(plan=SMALL, seeds=1), []))


def test_the_page_shows_next_to_its_name_what_did_not_finish_and_names_only_what_ran() -> None:
    ended, given_up = (runs.run(task) for task in tasks("constant-0.75", contenders.DEFAULT, seeds=1))
    given_up = dataclasses.replace(given_up, measures=dataclasses.replace(given_up.measures, finished=False))
    document = results.document(study.Selection(plan=SMALL, seeds=1), [ended, given_up])
    html = page.page(document)
    assert f"<td>{given_up.contender}<br><small>finished in 0% of the runs</small></td>" in html
    # Words are not set as numbers, whatever they begin with.
    assert "<td>0.75 Pods a core</td>" in html
    assert "koordinator" not in html


def test_a_name_that_does_not_fit_next_to_its_bars_is_shortened_there() -> None:
    drawn = charts.bars(["n" * 63], [("ours", [1.0])], "1 = best", name="what")
    assert f">{'n' * 14}~{'n' * 13}<" in drawn


def test_words_next_to_points_do_not_cover_each_other() -> None:
    near = [charts.Line(label="a", x=[1.0, 1.01, 1.02], y=[1.0, 1.01, 1.0], colour="#000000", marks=True,
                        words=["one-name", "another-name", "a-third-name"])]  # fmt: skip
    drawn = charts.lines([charts.Chart(title="t", x_label="x", y_label="y", lines=near)])
    places = [
        tuple(map(float, found))
        for found in re.findall(r"<text[^>]*translate\(([\d.]+) ([\d.]+)\)[^>]*>[a-z-]*name<", drawn)
    ] or [(float(x), float(y)) for x, y in re.findall(r'<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>[a-z-]*name<', drawn)]
    assert len(places) == 3
    # Letters are about nine points high.
    for index, (_, y) in enumerate(places):
        assert all(abs(y - other) > 7.0 for _, other in places[index + 1 :]) or len({x > 300 for x, _ in places}) > 1


def test_a_plan_has_a_name_of_its_own_as_targets_go_by_names() -> None:
    with pytest.raises(errors.SettingsError, match="got the name 'pi-1000', expected a name that no built-in"):
        study.tasks(study.Selection(plan=dataclasses.replace(SMALL, name="pi-1000")))


def test_json_has_no_numbers_that_are_none() -> None:
    assert results.finite({"a": [math.nan, 1.0], "b": (math.inf,)}) == {"a": [None, 1.0], "b": [None]}
