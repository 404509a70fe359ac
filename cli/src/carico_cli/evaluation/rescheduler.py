"""`carico evaluate --rescheduler`: the rescheduling paper's tables and figures, measured and published.

All in one process and one thread, since times are measured.
"""

import dataclasses
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from carico_cli.evaluation import page as evaluation_page
from carico_cli.evaluation import rasa
from carico_cli.output import charts, formats, report
from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.containers import generator
from carico_twin.rescheduling import results, study

Json = Mapping[str, Any]
# Runs between two lines of progress.
_SHOWN_EVERY = 25
_QUOTED = "quoted"


def selection(*, quick: bool, runs: int | None) -> study.Selection:
    """Return what is run; runs None: 25, or 3 if quick."""
    chosen = study.QUICK if quick else study.Selection()
    return chosen if runs is None else dataclasses.replace(chosen, runs=runs)


def run(chosen: study.Selection, *, now_s: Callable[[], float]) -> dict[str, Any]:
    """Make every run, with progress on stderr, and return the evaluation as JSON types."""
    if not compiled.IS_COMPILED:
        formats.say(
            "numba is not installed: the searches run in Python, some twenty times slower "
            "(pip install 'carico-core[fast]')",
            err=True,
        )
    study.load(now_s)
    found, total, began_s = [], study.count(chosen), now_s()
    for each in study.runs(chosen, now_s):
        found.append(each)
        if len(found) % _SHOWN_EVERY == 0 or len(found) == total:
            where = f"size {each.size}, {each.algorithm}"
            formats.say(f"{now_s() - began_s:6.0f} s  runs {len(found)}/{total}  ({where})", err=True)
    front = [point for overload in generator.Overload for point in study.front(chosen, overload)]
    return results.document(chosen, found, front, is_compiled=compiled.IS_COMPILED)


def text(found: Json) -> str:
    """Return the evaluation as text."""
    lines = [_setting(found), ""]
    for table in _tables(found):
        lines += [table.title, *table.lines(), ""]
    return "\n".join([*lines, *_orders(found), "", found["compared"]])


def page(found: Json) -> str:
    """Return the evaluation as an HTML page."""
    first, *others = (report.figure(charts.lines([chart]), caption) for chart, caption in _charts(found))
    orders = "".join(f"<li>{html.escape(each)}</li>" for each in _orders(found))
    return report.document(
        report.Page(
            title="CARICO: rescheduling algorithms",
            result=found["compared"],
            origin=report.origin(found),
            notes=[_setting(found)],
            picture=first,
            details=[
                *evaluation_page.folded(_tables(found), ours=study.OURS),
                ("Order of the variants", f"<ul>{orders}</ul>"), ("Charts", "".join(others)),
            ],
        ),
        style=evaluation_page.STYLE,
    )  # fmt: skip


def _setting(found: Json) -> str:
    schedule = found["schedule"]
    return (
        f"{found['runs']} runs of each algorithm on sizes {', '.join(found['sizes'])}; alpha {schedule['alpha']}, "
        f"{schedule['moves']} moves a temperature, T from {schedule['start']:g} to {schedule['end']:g}; "
        f"{'compiled' if found['is_compiled'] else 'not compiled'}. Published: {found['source']}."
    )


def _tables(found: Json) -> Iterator[report.Table]:
    if found["rasa"] is not None:
        yield rasa.table(found["rasa"])
    yield report.Table(
        "Table 7: costs in % of the present placement's, mean ± standard deviation (half the servers overloaded)",
        ("size", "algorithm", "cntc", "published", "coc", "published", "s", "published", "us/evaluation", "moved"),
        [_row_of_table_7(each) for each in found["table_7"]],
    )
    yield report.Table(
        "Table 4: size S by overloaded servers (CPLEX: quoted, not run)",
        ("overloaded", "algorithm", "cntc", "published", "coc", "published", "s", "published"),
        [row for each in found["table_4"] for row in _rows_of_table_4(each)],
    )
    yield report.Table(
        "Table 6: seconds of the parts of ws-sa",
        ("size", *(f"{part}{suffix}" for part in _parts(found) for suffix in ("", " published"))),
        [
            [
                each["size"],
                *(_seconds(each[kind][part]) for part in _parts(found) for kind in ("parts_s", "published_s")),
            ]
            for each in found["table_6"]
        ],
    )
    yield report.Table(
        "Table 2: CPU seconds of the routing application on real servers (quoted, not run)",
        ("service", "1 server", "3 servers"),
        [[name, *map(str, row)] for name, row in found["table_2"].items()],
    )
    yield report.Table(
        f"Figure 6: least traffic found within a bound of overload, of {len(found['figure_6']['front'])} points",
        ("overloaded", "coc at most", "coc", "cntc"),
        [
            [each["overload"], *(formats.percent(each[name], 1) for name in ("bound", "coc", "cntc"))]
            for each in _some(found["figure_6"]["front"])
        ],
    )
    yield report.Table(
        "Figure 8: best costs after a share of the iterations, seed 1",
        ("size", "algorithm", *(f"{share}%" for share in _SHARES)),
        [
            [each["size"], each["algorithm"], *(_at(each["curve"], share / 100.0) for share in _SHARES)]
            for each in found["figure_8"]
        ],
    )


_SHARES = (10, 25, 40, 50, 75, 100)


def _parts(found: Json) -> list[str]:
    return list(found["table_6"][0]["parts_s"])


def _some(points: Sequence[Json]) -> list[Json]:
    """Return at most ten points of each problem, the first and the last included."""
    shown = []
    for overload in dict.fromkeys(each["overload"] for each in points):
        own = [each for each in points if each["overload"] == overload]
        count = min(10, len(own))
        shown += [own[round(index * (len(own) - 1) / max(count - 1, 1))] for index in range(count)]
    return shown


def _at(curve: Sequence[Sequence[float]], share: float) -> str:
    reached = [point for point in curve if point[0] <= share + 1e-9]
    return f"{formats.percent(reached[-1][1], 1)} / {formats.percent(reached[-1][2], 1)}" if reached else "-"


def _row_of_table_7(each: Json) -> list[str]:
    printed = each["published"]
    return [
        each["size"], each["algorithm"], _spread(each["cntc"]), _published(printed, "cntc"), _spread(each["coc"]),
        _published(printed, "coc"), _seconds(each["seconds"][0]), _seconds(printed and printed["seconds"]),
        formats.number(each["evaluation_us"], 2), formats.percent(each["moved"], 1),
    ]  # fmt: skip


def _rows_of_table_4(each: Json) -> Iterator[list[str]]:
    printed, exact = each["published"], each["cplex"]
    yield [
        each["overload"], each["algorithm"], _spread(each["cntc"]), _published(printed, "cntc"),
        _spread(each["coc"]) if each["coc"] else f"{each['coc_left'][0]:.1f}", _published(printed, "coc"),
        _seconds(each["seconds"][0]), _seconds(printed["seconds"]),
    ]  # fmt: skip
    yield [
        each["overload"], "CPLEX", _QUOTED, _published(exact, "cntc"), _QUOTED, _published(exact, "coc"), _QUOTED,
        _seconds(exact["seconds"]),
    ]  # fmt: skip


def _spread(found: Sequence[float] | None) -> str:
    return "-" if found is None else f"{100.0 * found[0]:.1f} ± {100.0 * found[1]:.1f}"


def _published(row: Json | None, name: str) -> str:
    if row is None:
        return "-"
    deviation = row[f"{name}_std"]
    return f"{row[name]:g}" if deviation is None else f"{row[name]:g} ± {deviation:g}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 1000.0 else f"{value:.0f}"


def _orders(found: Json) -> list[str]:
    return [
        f"{'reproduced' if each['is_reproduced'] else 'NOT reproduced'}: {each['size']}: {each['figure']} of "
        f"{each['lower']} below {each['higher']} (published gap {each['published_gap']:.1f}, ours "
        f"{each['measured_gap']:.1f})"
        for each in found["orders"]
    ]


def _charts(found: Json) -> Iterator[tuple[charts.Chart, str]]:
    if found["rasa"] is not None:
        yield rasa.chart(found["rasa"]), "What is local once so many containers have moved."
    yield _front(found), "Figure 6: lexicographic points, and each run of ws-sa on the same problem."
    for size in found["sizes"]:
        runs = [each for each in found["figure_7"] if each["size"] == size and each["algorithm"] != study.THRESHOLD]
        lines = [
            _cloud(name, [each for each in runs if each["algorithm"] == name], index)
            for index, name in enumerate(dict.fromkeys(each["algorithm"] for each in runs))
        ]
        yield _chart(f"Size {size}", "coc, %", lines), f"Figure 7, size {size}: each run."
    for size in found["sizes"]:
        curves = [each for each in found["figure_8"] if each["size"] == size]
        lines = [
            charts.Line(
                label=each["algorithm"], x=[100.0 * point[0] for point in each["curve"]],
                y=[100.0 * point[1] for point in each["curve"]], colour=charts.colour(index),
            )
            for index, each in enumerate(curves)
        ]  # fmt: skip
        yield _chart(f"Progress, size {size}", "iterations, %", lines), f"Figure 8, size {size}: the best cntc so far."


def _front(found: Json) -> charts.Chart:
    lines, front, runs = [], found["figure_6"]["front"], found["figure_6"]["runs"]
    for index, overload in enumerate(dict.fromkeys(each["overload"] for each in front)):
        points = [each for each in front if each["overload"] == overload]
        lines.append(_cloud(f"{overload}: lexicographic", points, index))
        lines.append(_cloud(f"{overload}: ws-sa", [each for each in runs if each["overload"] == overload], index + 4))
    return _chart("Pareto front, size S", "coc, %", lines)


def _cloud(label: str, points: Sequence[Json], index: int) -> charts.Line:
    return charts.Line(
        label=label, x=[100.0 * (each["coc"] or 0.0) for each in points], y=[100.0 * each["cntc"] for each in points],
        colour=charts.colour(index), line=False, marks=True,
    )  # fmt: skip


def _chart(title: str, x_label: str, lines: Sequence[charts.Line]) -> charts.Chart:
    return charts.Chart(title=title, x_label=x_label, y_label="cntc, %", lines=lines, from_zero=False)
