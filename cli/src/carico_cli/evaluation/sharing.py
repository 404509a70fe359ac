"""`carico evaluate --sharing`: several schedulers at once in virtual time, as tables and curves."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from carico_cli.evaluation import page as evaluation_page
from carico_cli.output import charts, formats, report
from carico_twin.evaluate.sharing import results, study

Json = Mapping[str, Any]
PLAIN_LINE_EVERY_S = 5.0
_TITLES = {
    "schedulers": "Number of schedulers",
    "choice": "How a node is chosen, Pods one by one (homes 2: a node of another member counts as 2 Pods fuller)",
    "burst": "How a node is chosen, Pods created together",
    "old": "Nearly full, and views that are old",
    "fill": "Fill of the cluster",
    "batch": "Pods decided on in one cycle, of 256 created at once, 4 schedulers",
    "commit": "What a commit contains, and what is a conflict",
    "decision": "Time of one decision",
    "paper": "What ships (shared), and the queue of the hybrid shared-state scheduler as its paper has it (paper)",
    "delay": "Time of a commit, and age of the views",
}
# Columns that differ within a sweep, and how they are shown.
_VARIED: Mapping[str, tuple[str, ...]] = {
    "schedulers": ("mode", "schedulers"),
    "choice": ("choice", "schedulers", "fill", "view"),
    "burst": ("choice", "burst"),
    "old": ("burst", "schedulers", "fill", "view"),
    "fill": ("mode", "schedulers", "fill"),
    "batch": ("batch",),
    "commit": ("choice", "detection", "transaction"),
    "decision": ("mode", "schedulers", "decision"),
    "paper": ("mode", "schedulers", "fill", "view", "score", "corrected"),
    "delay": ("commit", "view"),
}
_FIGURES = (
    "conflicts %", "retries %", "requeued %", "busy %", "wait ms", "p99 ms", "placed %", "chosen", "deviation"
)  # fmt: skip


def selection(*, quick: bool, seeds: int | None) -> study.Selection:
    """Return what is run; seeds None: 3, or 1 if quick."""
    chosen = study.QUICK if quick else study.FULL_RUN
    return chosen if seeds is None else dataclasses.replace(chosen, seeds=seeds)


def run(chosen: study.Selection, *, now_s: Callable[[], float]) -> dict[str, Any]:
    """Make every run, with progress on stderr, and return the evaluation as JSON types."""
    found = []
    began_s = shown_s = now_s()
    total = len(study.setups_of(chosen))
    for each in study.cells(chosen):
        found.append(each)
        if now_s() - shown_s >= PLAIN_LINE_EVERY_S or len(found) == total:
            shown_s = now_s()
            formats.say(f"{shown_s - began_s:6.0f} s  setups {len(found)}/{total}", err=True)
    return results.document(chosen, found)


def text(found: Json) -> str:
    """Return the evaluation as text."""
    lines = [_setting(found), _meaning(), ""]
    for table in _tables(found):
        lines += [table.title, *table.lines(), ""]
    return "\n".join(lines).rstrip()


def page(found: Json) -> str:
    """Return the evaluation as an HTML page."""
    first, *others = (report.figure(charts.lines([chart]), caption) for chart, caption in _charts(found))
    return report.document(
        report.Page(
            title="CARICO: several schedulers at a time",
            result=_result(found),
            origin=report.origin(found),
            notes=[_setting(found), _meaning()],
            picture=first,
            details=[("Charts", "".join(others)), *evaluation_page.folded(_tables(found))],
        ),
        style=evaluation_page.STYLE,
    )


def _result(found: Json) -> str:
    targets = found["targets"]
    met = sum(bool(each["is_met"]) for each in targets)
    missed = ", ".join(each["name"] for each in targets if not each["is_met"])
    return f"{met} of {len(targets)} targets are met{f'; not met: {missed}' if missed else ''}."


def _setting(found: Json) -> str:
    base, full = found["base"], study.FULL_RUN
    pods_per_s = base["fill"] * base["nodes"] * base["pods_per_node"] / base["life_s"]
    return (
        f"{base['nodes']} nodes with room for {base['pods_per_node']} Pods, {formats.percent(base['fill'], 0)} % full, "
        f"Pods of {base['life_s']:g} s: {pods_per_s:.0f} Pods/s, {base['burst']} at once; a decision takes "
        f"{_ms(base['decision_s'])} ms, a commit {_ms(base['commit_s'])} ms, views are {_ms(base['view_s'])} ms old; "
        f"{found['seeds']} x {base['measured_s']:g} s each, unless a table states otherwise; at least "
        f"{full.seeds} x {full.base.measured_s:g} s with {study.OLD['schedulers']} schedulers, "
        f"{formats.percent(study.OLD['fill'], 0)} % full, and views {_ms(study.OLD['view_s'])} ms old."
    )


def _meaning() -> str:
    return (
        "conflicts: of commits; retries, requeued: of Pods; busy: of the time, each scheduler; chosen: Pods already on "
        "the node that is chosen; deviation: of Pods between nodes; corrected: of Pods, by the correction function."
    )


def _tables(found: Json) -> Iterator[report.Table]:
    yield report.Table(
        "Targets",
        ("target", "measured", "at most", "met"),
        [
            [each["name"], f"{each['measured']:.4g}", f"{each['most']:g}", formats.cell(each["is_met"])]
            for each in found["targets"]
        ],
    )
    yield report.Table(
        "Conflicts, % of commits, Pods one by one, next to the model that the design was made with",
        ("choice", "schedulers", "fill %", "view ms", "conflicts %", "design %"),
        [
            [
                _choice(each), str(each["schedulers"]), formats.percent(each["fill"], 0), _ms(each["view_s"]),
                formats.percent(each["conflicts"]), formats.percent(each["stated"]),
            ]
            for each in found["design"]
        ],
    )  # fmt: skip
    for name, rows in found["sweeps"].items():
        varied = _VARIED[name]
        yield report.Table(
            _TITLES[name],
            (*(_HEADS.get(column, column) for column in varied), *_FIGURES),
            [[*(_varied(each, column) for column in varied), *_figures(each)] for each in rows],
        )


_HEADS = {
    "fill": "fill %", "view": "view ms", "commit": "commit ms", "decision": "decision ms", "score": "nodes scored %",
    "corrected": "corrected %",
}  # fmt: skip


def _varied(each: Json, column: str) -> str:
    if column == "choice":
        return _choice(each)
    if column in ("fill", "corrected"):
        return formats.percent(each[column], 0 if column == "fill" else 2)
    if column == "score":
        return formats.percent(each["score_percent"] / 100.0 if each["mode"] == "paper" else None, 0)
    return _ms(each[f"{column}_s"]) if f"{column}_s" in each else str(each[column])


def _choice(each: Json) -> str:
    return f"homes {each['fuller_pods']:g}" if each["choice"] == "homes" else str(each["choice"])


def _figures(each: Json) -> list[str]:
    return [
        *(formats.percent(each[name]) for name in ("conflicts", "retries", "requeued")),
        formats.percent(each["busy"], 0), _ms(each["waiting_s"]), _ms(each["waiting_p99_s"]),
        formats.percent(each["placed"], 1), formats.number(each["chosen_pods"]), formats.number(each["deviation"]),
    ]  # fmt: skip


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"


def _charts(found: Json) -> Iterator[tuple[charts.Chart, str]]:
    sweeps = found["sweeps"]
    usual = [each for each in sweeps["choice"] if each["fill"] == found["base"]["fill"]]
    yield (
        _chart("Conflicts", "schedulers", "conflicts, % of commits", usual, _choice, "schedulers", "conflicts", 100.0),
        "Conflicts by the way in which a node is chosen; Pods arrive one by one.",
    )
    yield (
        _chart("Busy", "schedulers", "busy, %", sweeps["schedulers"], _mode, "schedulers", "busy", 100.0),
        "Share of the time in which a scheduler decides or commits.",
    )
    yield (
        _chart("Waiting", "fill, %", "waiting p99, ms", sweeps["fill"], _mode, "fill", "waiting_p99_s", 1e3, 100.0),
        "Waiting time (99th percentile) by the fill of the cluster: one leader, and eight schedulers.",
    )


def _mode(each: Json) -> str:
    return str(each["mode"])


def _chart(
    title: str, x_label: str, y_label: str, rows: Sequence[Json], label: Callable[[Json], str], x: str, y: str,
    scale: float, x_scale: float = 1.0,
) -> charts.Chart:  # fmt: skip
    lines = []
    for index, name in enumerate(dict.fromkeys(label(each) for each in rows)):
        own = [each for each in rows if label(each) == name]
        lines.append(
            charts.Line(
                label=name, x=[x_scale * each[x] for each in own], y=[scale * (each[y] or 0.0) for each in own],
                colour=charts.colour(index), marks=True,
            )
        )  # fmt: skip
    return charts.Chart(title=title, x_label=x_label, y_label=y_label, lines=lines)
