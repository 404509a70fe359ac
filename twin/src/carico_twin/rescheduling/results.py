"""An evaluation of rescheduling as JSON types."""

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from carico_core.numerics.rescheduling.containers import generator
from carico_twin.rescheduling import published, study

VERSION = 1
Json = dict[str, Any]

_COMPARED = (
    "Costs are shares of the present placement's. They depend on the problem, of which the paper does not give the "
    "loads and requests: they compare with the published ones by order only. Seconds compare per evaluation: a run "
    "here has {evaluations} (ws-sa five times as many); the paper does not state its number."
)


def document(
    selection: study.Selection, runs: Sequence[study.Run], front: Iterable[study.FrontPoint], *, is_compiled: bool
) -> Json:
    """Return an evaluation as JSON types: measured and published numbers next to each other."""
    return {
        "version": VERSION,
        "source": published.SOURCE,
        "compared": _COMPARED.format(evaluations=selection.schedule.iterations * selection.schedule.moves),
        "is_compiled": is_compiled,
        "runs": selection.runs,
        "schedule": dataclasses.asdict(selection.schedule),
        "sizes": {name: dataclasses.asdict(generator.SIZES[name]) for name in selection.sizes},
        "table_2": {name: list(row) for name, row in published.TABLE_2.items()},
        "table_4": _table_4(runs),
        "table_6": _table_6(selection, runs),
        "table_7": _table_7(runs),
        "orders": [dataclasses.asdict(each) for each in orders(runs)],
        "figure_6": {
            "front": [dataclasses.asdict(each) for each in front],
            "runs": [_point(each) for each in runs if each.table == 4],
        },
        "figure_7": [_point(each) for each in runs if each.table == 7],
        "figure_8": [
            {"size": each.size, "algorithm": each.algorithm, "curve": [list(point) for point in each.curve]}
            for each in runs if each.table == 7 and each.curve
        ],
    }  # fmt: skip


def _point(run: study.Run) -> Json:
    names = ("size", "overload", "algorithm", "seed", "cntc", "coc", "seconds")
    return {name: getattr(run, name) for name in names}


def _table_7(runs: Sequence[study.Run]) -> list[Json]:
    found = []
    for (size, algorithm), group in _grouped(runs, 7).items():
        row = published.TABLE_7[size].get(algorithm)
        found.append({"size": size, "algorithm": algorithm, **_figures(group), "published": _published(row)})
    return found


def _table_4(runs: Sequence[study.Run]) -> list[Json]:
    found = []
    for (overload, algorithm), group in _grouped(runs, 4).items():
        rows = published.TABLE_4[overload]
        found.append({
            "overload": overload, "algorithm": algorithm, **_figures(group),
            "published": _published(rows[algorithm]), "cplex": _published(rows["cplex"]),
        })  # fmt: skip
    return found


def _table_6(selection: study.Selection, runs: Sequence[study.Run]) -> list[Json]:
    found = []
    for size in selection.sizes:
        group = _grouped(runs, 7)[size, "ws-sa"]
        parts = {name: statistics.fmean(each.parts_s[name] for each in group) for name in published.TABLE_6[size]}
        found.append({"size": size, "parts_s": parts, "published_s": dict(published.TABLE_6[size])})
    return found


def _grouped(runs: Sequence[study.Run], table: int) -> dict[tuple[str, str], list[study.Run]]:
    found: dict[tuple[str, str], list[study.Run]] = {}
    for each in runs:
        if each.table == table:
            found.setdefault((each.size if table == 7 else each.overload, each.algorithm), []).append(each)
    return found


def _figures(group: Sequence[study.Run]) -> Json:
    """Return mean and standard deviation of each figure; coc None where the present placement has none."""
    evaluations = sum(each.evaluations for each in group)
    seconds = sum(each.seconds for each in group)
    shares = [each.coc for each in group if each.coc is not None]
    return {
        "runs": len(group),
        "cntc": _spread([each.cntc for each in group]),
        "coc": _spread(shares) if shares else None,
        "coc_left": _spread([each.coc_left for each in group]),
        "moved": statistics.fmean(each.moved for each in group),
        "seconds": _spread([each.seconds for each in group]),
        "evaluations": round(evaluations / len(group)),
        "evaluation_us": 1e6 * seconds / evaluations if evaluations else None,
        "violations": sum(each.violations for each in group),
    }


def _spread(values: Sequence[float]) -> list[float]:
    return [statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0]


def _published(row: published.Row | None) -> Json | None:
    return None if row is None else dataclasses.asdict(row)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two variants of table 7 whose published gap exceeds both deviations, and whether ours are in that order."""

    size: str
    figure: str
    lower: str
    higher: str
    published_gap: float
    measured_gap: float
    is_reproduced: bool


def orders(runs: Sequence[study.Run]) -> list[Order]:
    """Return every pair of variants that the published numbers separate: by more than both deviations together."""
    groups = _grouped(runs, 7)
    found = []
    for size, rows in published.TABLE_7.items():
        for figure in ("cntc", "coc"):
            for low, high in ((low, high) for low in rows for high in rows if low != high):
                gap = getattr(rows[high], figure) - getattr(rows[low], figure)
                deviations = getattr(rows[high], f"{figure}_std") + getattr(rows[low], f"{figure}_std")
                if gap > deviations and (size, low) in groups and (size, high) in groups:
                    measured = _mean(groups[size, high], figure) - _mean(groups[size, low], figure)
                    found.append(Order(
                        size=size, figure=figure, lower=low, higher=high, published_gap=gap,
                        measured_gap=100.0 * measured, is_reproduced=measured > 0.0,
                    ))  # fmt: skip
    return found


def _mean(group: Sequence[study.Run], figure: str) -> float:
    return statistics.fmean(getattr(each, figure) for each in group)
