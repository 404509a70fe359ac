"""The report as one HTML file: verdicts, tables and charts. It loads nothing from elsewhere."""

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from carico_cli.evaluation import emulated, plots, text
from carico_cli.output import formats, report

Json = Mapping[str, Any]

# Wider than a demo's report: the tables have a dozen columns.
STYLE = """
body { max-width: 78rem }
table { width: auto; margin: .6rem 0; font-size: .86rem }
th, td { padding: .25rem .5rem } td:first-child { min-width: 9.5rem } td.n { white-space: nowrap }
tr.ours td { font-weight: 600 } small { opacity: .75 }
@media print { table { font-size: .6rem } td:first-child { min-width: 0 } }
"""
_COLUMNS = (
    ("job_s", "job time, s", 1), ("pod_mean_s", "Pod time, s", 2), ("pod_p95_s", "p95, s", 2),
    ("pod_max_s", "max, s", 1),
    ("slowdown", "slowdown", 3), ("most_per_core", "most Pods per core", 2), ("overrun_node_s", "overrun, node-s", 1),
    ("oom_killed", "OOM-killed", 1),
    ("peak_memory_share", "peak memory", 2), ("contended_share", "server contended", 3),
    ("load_per_core_spread", "load spread", 2),
)  # fmt: skip


def page(found: Json) -> str:
    """Return the whole page."""
    details = (
        ("All scenarios that ran", _summaries(found)),
        ("Targets", _targets(found)),
        ("Charts", _figures(plots.own(found))),
        ("Published findings, and whether the twin reproduces them", _shapes(found)),
        ("Calibration: the twin as the published cluster", _calibration(found)),
        ("Calibration: the twin compared with emulated nodes", emulated.section(found["emulated"])),
        ("Chapter 5 on the calibrated twin", _figures(plots.chapter_5(found))),
        ("Ablation", _ablation(found)),
        ("Late and lost messages, dead agents (pi-500)", _faults(found)),
        ("Each scenario", _scenarios(found)),
        ("Schedulers", _schedulers(found)),
    )
    drawn = plots.result(found)
    return report.document(
        report.Page(
            title="CARICO: evaluation",
            result=text.result(found),
            origin=report.origin(found),
            notes=[_runs(found)],
            picture="" if drawn is None else report.figure(drawn[1], drawn[0]),
            details=[(title, inside) for title, inside in details if inside],
        ),
        style=STYLE,
    )


def _runs(found: Json) -> str:
    first, last = found["first_seed"], found["first_seed"] + found["seeds"] - 1
    return (
        f"{found['runs']} runs in the twin, {f'seeds {first} to {last}' if last > first else f'seed {first}'}"
        f"{' (quick: fewer scenarios and seeds)' if found['quick'] else ''}. "
        "Values are means ± half the width of the 95 % interval."
    )


def folded(tables: Iterable[report.Table], *, ours: str = "") -> Iterator[tuple[str, str]]:
    """Yield title and HTML of tables, for a page's details; rows with the cell `ours` are marked."""
    for each in tables:
        marked = {place for place, row in enumerate(each.rows) if ours and ours in row}
        yield each.title, each.as_html(ours=marked)


def _interval(found: Sequence[Any], digits: int) -> str:
    mean, half, _ = found
    more = "" if half is None else f" <small>± {formats.number(half, digits)}</small>"
    return report.Html(formats.number(mean, digits) + more)


def _summaries(found: Json) -> str:
    if not found["summaries"]:
        return ""
    return f"<p>Geometric means.</p>{text.summaries(found).as_html(ours=_ours(found['summaries'], found['default']))}"


def _ours(names: Iterable[str], default: str) -> set[int]:
    """Return which of the names is the default."""
    return {place for place, name in enumerate(names) if name == default}


def _targets(found: Json) -> str:
    if not found["targets"]:
        return ""
    known = [each for each in found["targets"] if each["verdict"] != "unknown"]
    rows = [
        (
            each["name"], formats.number(each["value"], 3), formats.number(each["bound"], 3), each["unit"],
            report.verdict(each["verdict"]), each["detail"],
        )
        for each in known
    ]  # fmt: skip
    shown = report.table(("", "measured", "at most", "", "", ""), rows) if rows else ""
    note = f"<p>{left}</p>" if (left := text.not_measured(found)) else ""
    return f"{shown}{note}"


def _figures(drawn: Iterator[plots.Plot]) -> str:
    return "".join(report.figure(svg, caption) for caption, svg in drawn)


_WORDS = {True: '<span class="yes">reproduced</span>', False: '<span class="no">not reproduced</span>', None: "not run"}


def _verdict(shape: Json) -> report.Html:
    return report.Html('<span class="yes">better</span>' if shape["better"] else _WORDS[shape["reproduced"]])


def _shapes(found: Json) -> str:
    if not found["shapes"]:
        return ""
    rows = [(each["says"], each["mode"], _verdict(each), each["detail"]) for each in found["shapes"]]
    left = "".join(f"<li>{html.escape(each)}</li>" for each in found["not_in_the_twin"])
    return (
        f"{report.table(('published', 'with', '', 'in the twin'), rows)}<p>Not in the twin:</p><ul>{left}</ul>"
        f"{_not_run(found)}"
    )


def _not_run(found: Json) -> str:
    """Return the published tables for which the twin has no numbers."""
    head = ("server latency, ms", "min", "p50", "p90", "p95", "p99", "max")
    latency = report.table(
        head, [(name, *(f"{v:.2f}" for v in row)) for name, row in found["server_latency_ms"].items()]
    )
    overhead = found["agent_overhead_percent"]
    agents = report.table(
        ("increase of the job time by agents, %", *(f"{pods} Pods" for pods in overhead)),
        [("published", *(f"{mean:+.2f} ± {sd:.2f}" for mean, sd in overhead.values()))],
    )
    return latency + agents


def _calibration(found: Json) -> str:
    if not found["calibration"]:
        return ""
    rows = [
        (
            f"{each['plan']}, {each['job']}: {each['figure'].replace('_s', '').replace('.', ' time ')}",
            each["contender"], each["twin_contender"], text.with_sd(each),
            _interval(each["twin"], 2), "-" if each["error"] is None else f"{each['error']:+.0%}", each["where"],
        )
        for each in found["calibration"]
    ]  # fmt: skip
    errors = [
        (name, f"{each['mean']:.1%}", f"{each['largest']:.1%}", f"{each['numbers']:.0f}")
        for name, each in found["calibration_errors"].items()
    ]
    head = ("", "published with", "twin with", "published", "twin", "difference", "where")
    return (
        "<p>A node's speed, its start latency, the creation rate and the width of a sklearn Pod are fitted. Speed "
        "and width are not independent of figures 5.1 and 5.2; schedulers, sizes and mixes are not fitted.</p>"
        f"{report.table(('error', 'mean', 'largest', 'numbers'), errors)}"
        f"<details><summary>All published numbers</summary>{report.table(head, rows)}</details>"
    )


def _ablation(found: Json) -> str:
    if not found["ablation"]:
        return ""
    return f"<p>Ratios to the default with the same seeds; above 1 is worse.</p>{text.ablation(found).as_html()}"


def _faults(found: Json) -> str:
    parts = [f"<h3>{html.escape(plan)}</h3>{_cells(cells, '')}" for plan, cells in found["faults"].items()]
    return "".join(parts)


def _scenarios(found: Json) -> str:
    parts = [
        f"<details{' open' if len(found['scenarios']) == 1 else ''}><summary>{html.escape(plan)}</summary>"
        f"{_cells(cells, found['default'])}</details>"
        for plan, cells in found["scenarios"].items()
    ]
    return "".join(parts)


def _cells(cells: Json, ours: str) -> str:
    shown = [column for column in _COLUMNS if any(cell["figures"][column[0]][0] is not None for cell in cells.values())]
    rows = [
        (
            report.Html(html.escape(name) + _unfinished(cell["finished"])),
            *(_interval(cell["figures"][key], digits) for key, _, digits in shown),
        )
        for name, cell in cells.items()
    ]
    return report.table(("", *(title for _, title, _ in shown)), rows, ours=_ours(cells, ours))


def _unfinished(finished: float) -> str:
    """Mark a contender that did not always finish, below its name: the page has no room for another column."""
    return "" if finished == 1.0 else f"<br><small>finished in {finished:.0%} of the runs</small>"


def _schedulers(found: Json) -> str:
    ran = {name for cells in found["scenarios"].values() for name in cells}
    return report.table(
        (), [(name, says.replace("`", "")) for name, says in found["schedulers"].items() if name in ran or not ran]
    )
