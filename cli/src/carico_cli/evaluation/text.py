"""An evaluation as text: the result, means, targets, published findings, and the tables of a few scenarios."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from carico_cli.evaluation import emulated
from carico_cli.output import formats, report, words
from carico_core.domain import amounts

Json = Mapping[str, Any]
_COLUMNS = ("job_s", "pod_mean_s", "pod_max_s", "slowdown", "most_per_core", "overrun_node_s")
_TITLES = ("job s", "Pod s", "max s", "slowdown", "Pods/core", "overrun, node-s")
# The tables of more scenarios are only on the page.
_TABLES_MOST = 3
# As are further columns of the ablation's table.
_COLUMNS_MOST = 6
KUBE_BEST = "kube, best in hindsight"


def text(found: Json) -> str:
    """Return an evaluation as text."""
    parts = [
        *textwrap.wrap(result(found), words.WIDTH),
        "",
        *_scenarios(found),
        *((*summaries(found).lines(), "") if found["summaries"] else ()),
        *_targets(found),
        *_calibration(found),
        *_emulated(found),
        *(("", *_narrow(ablation(found))) if found["ablation"] else ()),
    ]
    return "\n".join(parts)


def result(found: Json) -> str:
    """Return what CARICO and kube-scheduler took, in two sentences; what ran where CARICO did not."""
    judged = [each for each in found["shapes"] if each["reproduced"] is not None]
    if judged and not found["scenarios"]:
        reproduced = sum(each["reproduced"] for each in judged)
        return f"The twin reproduces {reproduced} of {amounts.plural(len(judged), 'published finding')}."
    ours, kube, where = compared(found)
    if ours is None:
        count = len(found["scenarios"])
        return f"{found['runs']} runs on {amounts.plural(count, 'scenario')}, without CARICO's default setting."
    said = f"{where}, jobs took {_took(*ours)} under CARICO."
    if kube is not None:
        said += f" kube-scheduler took {_took(*kube)}, with the requests that proved best for each scenario."
    return said


Took: TypeAlias = tuple[float, float]


def compared(found: Json) -> tuple[Took | None, Took | None, str]:
    """Return job time in s and slowdown of CARICO's default and of kube-scheduler's best, and of which scenarios."""
    if len(found["scenarios"]) == 1:
        ((plan, cells),) = found["scenarios"].items()
        best = found["best"].get(plan, {}).get("kube")
        return _cell(cells, found["default"]), _cell(cells, best), f"In {plan}"
    rows = [found["summaries"].get(name) for name in (found["default"], KUBE_BEST)]
    ours, kube = (None if row is None else _known(row["job_s"], row["slowdown"]) for row in rows)
    count = 0 if rows[0] is None else rows[0]["scenarios"]
    return ours, kube, f"Over {amounts.plural(count, 'scenario')} (geometric means)"


def _cell(cells: Json, name: str | None) -> Took | None:
    if name is None or name not in cells:
        return None
    figures = cells[name]["figures"]
    return _known(figures["job_s"][0], figures["slowdown"][0])


def _known(job_s: float | None, slowdown: float | None) -> Took | None:
    return None if job_s is None or slowdown is None else (job_s, slowdown)


def _took(job_s: float, slowdown: float) -> str:
    return f"{formats.number(job_s, 1)} s and Pods {formats.number(slowdown)} times their time alone"


def with_interval(found: Sequence[Any]) -> str:
    """Return `mean ± half width`; only the mean where one seed ran."""
    mean, half, _ = found
    return formats.number(mean) if half is None else f"{formats.number(mean)} ± {formats.number(half)}"


def with_sd(each: Json) -> str:
    """Return a published number, `value ± standard deviation` where that is published, too."""
    return f"{each['value']:g}" if each["sd"] is None else f"{each['value']:g} ± {each['sd']:g}"


def _scenarios(found: Json) -> Iterator[str]:
    if len(found["scenarios"]) > _TABLES_MOST:
        return
    for plan, cells in found["scenarios"].items():
        rows = [
            [name, *(with_interval(cell["figures"][column]) for column in _COLUMNS), _ended(cell)]
            for name, cell in cells.items()
        ]
        yield from formats.aligned((plan, *_TITLES, ""), rows)
        yield ""


def _ended(cell: Json) -> str:
    return "" if cell["finished"] == 1.0 else f"finished in {cell['finished']:.0%} of the runs"


def summaries(found: Json) -> report.Table:
    """Return the geometric means over all scenarios."""
    rows = [
        (
            f"{name}{' (default)' if name == found['default'] else ''}", formats.number(each["job_s"]),
            formats.number(each["slowdown"], 3), formats.number(each["overrun_node_s"], 1), str(each["scenarios"]),
            ", ".join(each["unfinished"]),
        )
        for name, each in found["summaries"].items()
    ]  # fmt: skip
    head = ("all scenarios that ran", "job time, s", "slowdown", "overrun, node-s", "scenarios", "not finished")
    return report.Table("All scenarios that ran", head, rows)


def _narrow(table: report.Table) -> list[str]:
    """Return the columns that a terminal has room for."""
    return formats.aligned(table.head[:_COLUMNS_MOST], [row[:_COLUMNS_MOST] for row in table.rows])


def not_measured(found: Json) -> str:
    """Return how many targets were not measured, as a sentence; empty where all were."""
    count = sum(each["verdict"] == "unknown" for each in found["targets"])
    return (
        f"Not measured: {amounts.plural(count, 'target')}, whose scenarios or schedulers did not run." if count else ""
    )


def _targets(found: Json) -> Iterator[str]:
    known = [each for each in found["targets"] if each["verdict"] != "unknown"]
    for each in known:
        unit = f" {each['unit']}" if each["unit"] else ""
        value, bound = (f"{each[name]:.3g}" for name in ("value", "bound"))
        yield f"{each['verdict']:6s}  {each['name']}: {value}{unit} (at most {bound}; {each['detail']})"
    if left := not_measured(found):
        yield left
    if found["targets"]:
        yield ""


def _calibration(found: Json) -> Iterator[str]:
    for name, each in found["calibration_errors"].items():
        what = name.replace("job_s", "job time").replace("pod_s.mean", "mean Pod time")
        yield (
            f"error against published numbers: {what}: mean {each['mean']:.0%}, largest {each['largest']:.0%} "
            f"({each['numbers']:.0f} numbers)"
        )
    for name, each in found["calibration_differences"].items():
        what = name.replace("job_s", "job time").replace("pod_s.mean", "mean Pod time")
        yield f"today's CARICO against the author's: {what}: mean {each['mean']:+.0%} ({each['numbers']:.0f} numbers)"
    for shape in found["shapes"]:
        if shape["reproduced"] is not None:
            verdict = "reproduced" if shape["reproduced"] else "better" if shape["better"] else "NOT reproduced"
            mode = "" if shape["mode"] == "carico" else f" [{shape['mode']}]"
            yield f"{verdict}{mode}: {shape['says']}; measured: {shape['detail']}"
    if found["calibration"]:
        yield from (f"not in the twin: {each}" for each in found["not_in_the_twin"])


def _emulated(found: Json) -> Iterator[str]:
    if found["emulated"] is not None:
        yield ""
        yield emulated.sentence(found["emulated"])
        yield from formats.aligned(emulated.HEAD, emulated.rows(found["emulated"]))


def ablation(found: Json) -> report.Table:
    """Return the effect of each change alone."""
    rows = [
        (
            each["name"], formats.number(each["total"]["job_s"]), formats.number(each["total"]["slowdown"], 3),
            formats.number(each["job_ratio"], 3), formats.number(each["slowdown_ratio"], 3),
            formats.number(each["total"]["overrun_node_s"], 1), formats.number(each["capacity_overrun"], 1),
            ", ".join(each["total"]["unfinished"]),
        )
        for each in found["ablation"]
    ]  # fmt: skip
    head = ("changed", "job time, s", "slowdown", "job ratio", "slowdown ratio", "overrun, node-s",
            "bound without room", "not finished")  # fmt: skip
    return report.Table("Ablation", head, rows)
