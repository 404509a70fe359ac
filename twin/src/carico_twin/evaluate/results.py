"""An evaluation as JSON types, from which the text and the page are made."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carico_twin import catalogue
from carico_twin.evaluate import ablation, contenders, runs, study, tables, targets
from carico_twin.evaluate.comparisons import calibration, emulated, published, shapes

VERSION = 1
Json = dict[str, Any]


def document(selection: study.Selection, outcomes: Sequence[runs.RunResult]) -> Json:
    """Return an evaluation as JSON types. Numbers that are not finite are None; intervals are [mean, half, seeds]."""
    main = tables.table(_of(outcomes, study.MAIN))
    published_runs = tables.table(_of(outcomes, calibration.GROUP))
    compared = calibration.compare(published_runs)
    is_plan = selection.plan is not None
    found: Json = {
        "version": VERSION,
        "quick": selection.quick,
        "seeds": len(selection.seed_list),
        "first_seed": selection.first_seed,
        "runs": len(outcomes),
        "default": contenders.DEFAULT,
        "schedulers": {name: each.says for name, each in contenders.all_contenders().items()},
        "scenarios": {plan: {name: _cell(cell) for name, cell in _ordered(cells)} for plan, cells in _sorted(main)},
        "best": {plan: _best(cells) for plan, cells in main.items()},
        "summaries": {} if is_plan else _summaries(main),
        "targets": [] if is_plan else [_target(each) for each in targets.judge(main)],
        "calibration": [_compared(each) for each in compared],
        "calibration_errors": calibration.errors(compared),
        "calibration_differences": calibration.differences(compared),
        "emulated": _emulated(selection, outcomes),
        "shapes": [dataclasses.asdict(each) for each in shapes.judge(published_runs, _used(outcomes))]
        if compared
        else [],
        "not_in_the_twin": list(shapes.NOT_IN_THE_TWIN),
        "server_latency_ms": {name: list(row) for name, row in published.SERVER_LATENCY_MS.items()},
        "agent_overhead_percent": {str(pods): list(row) for pods, row in published.AGENT_OVERHEAD.items()},
        "pictured": [_pictured(each) for each in outcomes if each.series is not None],
        "ablation": [
            dataclasses.asdict(each) for each in ablation.effects(tables.table(_of(outcomes, ablation.STEPS)))
        ],
        "faults": {
            plan: {name: _cell(cell) for name, cell in cells.items()}
            for plan, cells in tables.table(_of(outcomes, ablation.FAULTS)).items()
        },
    }
    clean = finite(found)
    assert isinstance(clean, dict)
    return clean


def finite(value: Any) -> Any:
    """Replace numbers that are not finite by None: JSON has no NaN."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def _of(outcomes: Iterable[runs.RunResult], group: str) -> list[runs.RunResult]:
    return [each for each in outcomes if each.group == group]


def _sorted(found: tables.Table) -> list[tuple[str, Mapping[str, tables.Cell]]]:
    """Sort scenarios in the order of the catalogue; a user's own comes last."""
    places = {name: place for place, name in enumerate([*catalogue.all_scenarios(), *study.EXTRA_PLANS])}
    return sorted(found.items(), key=lambda item: places.get(item[0], len(places)))


def _ordered(cells: Mapping[str, tables.Cell]) -> list[tuple[str, tables.Cell]]:
    return [(name, cells[name]) for name in contenders.all_contenders() if name in cells]


def _cell(cell: tables.Cell) -> Json:
    return {
        "finished": cell.finished,
        "figures": {name: _interval(each) for name, each in cell.figures.items()},
        "job_s": {job: _interval(each) for job, each in cell.job_s.items()},
        "pod_s": {job: {name: _interval(each) for name, each in row.items()} for job, row in cell.pod_s.items()},
    }


def _interval(found: tables.Interval) -> list[float]:
    return [found.mean, found.half, found.count]


def _best(cells: Mapping[str, tables.Cell]) -> Json:
    every = contenders.all_contenders()
    families = dict.fromkeys(each.family for each in every.values())
    return {family: tables.best(cells, contenders.in_families(every, family)) for family in families}


def _summaries(main: tables.Table) -> Json:
    return {name: dataclasses.asdict(each) for name, each in targets.family_summaries(main).items()}


def _target(found: targets.Target) -> Json:
    return {**dataclasses.asdict(found), "verdict": found.verdict}


def _compared(found: calibration.Compared) -> Json:
    return {
        **dataclasses.asdict(found.published), "twin_contender": found.contender, "twin": _interval(found.twin),
        "same_scheduler": found.is_same, "error": found.error,
    }  # fmt: skip


def _used(outcomes: Iterable[runs.RunResult]) -> shapes.Used:
    """Return the use of CPU and memory over time in the runs that are pictured."""
    return {
        (each.plan, each.contender): each.series
        for each in _of(outcomes, calibration.GROUP) if each.series is not None
    }  # fmt: skip


def _emulated(selection: study.Selection, outcomes: Sequence[runs.RunResult]) -> Json | None:
    """Return the same job on emulated nodes and in the twin; None if no comparison was given."""
    if selection.emulated is None:
        return None
    compared = emulated.compare(selection.emulated, tables.table(_of(outcomes, emulated.GROUP)))
    setting = {
        field.name: getattr(selection.emulated, field.name)
        for field in dataclasses.fields(selection.emulated) if field.name not in ("rows", "left_out")
    }  # fmt: skip
    return {
        "setting": setting,
        "left_out": list(selection.emulated.left_out),
        "figures": [
            {
                "contender": each.contender, "figure": each.figure, "emulated": dataclasses.asdict(each.emulated),
                "runs": each.runs, "twin": _interval(each.twin), "error": each.error,
            }
            for each in compared
        ],
        "errors": emulated.errors(compared),
    }  # fmt: skip


def _pictured(found: runs.RunResult) -> Json:
    assert found.series is not None
    return {
        "plan": found.plan, "contender": found.contender, "seed": found.seed,
        "pod_times_s": {job: list(values) for job, values in found.pod_times_s.items()},
        "series": dataclasses.asdict(found.series),
    }  # fmt: skip
