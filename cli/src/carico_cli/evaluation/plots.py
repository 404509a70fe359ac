"""The charts of an evaluation, drawn from its JSON: the dissertation's figures of chapter 5, and our own."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_cli.output import charts
from carico_twin.evaluate import contenders
from carico_twin.evaluate.comparisons import published

Json = Mapping[str, Any]
# A caption and its SVG.
Plot = tuple[str, str]
_BINS = 60


def result(found: Json) -> Plot | None:
    """Return job time and slowdown of each scheduler over all scenarios, or in the only one; None without either."""
    if found["summaries"]:
        rows = {name: (each["job_s"], each["slowdown"]) for name, each in found["summaries"].items()}
        caption = "All scenarios that ran (geometric means). Less is better."
    elif len(found["scenarios"]) == 1:
        ((plan, cells),) = found["scenarios"].items()
        rows = {name: (each["figures"]["job_s"][0], each["figures"]["slowdown"][0]) for name, each in cells.items()}
        caption = f"{plan}. Less is better."
    else:
        return None
    titles = ("job time in seconds", "Pod time / time alone")
    shown = [charts.Panel(title=title, values=[row[at] for row in rows.values()]) for at, title in enumerate(titles)]
    ours = f"CARICO ({found['default']})"
    names = [ours if name == found["default"] else name for name in rows]
    return caption, charts.panels(names, shown, ours=ours, name="result")


def own(found: Json) -> Iterator[Plot]:
    """Yield charts of the scenarios that this evaluation ran."""
    yield from _trade(found)
    yield from _isolation(found)
    yield from _bars(found)


def chapter_5(found: Json) -> Iterator[Plot]:
    """Yield those of figures 5.1 to 5.12 that this evaluation ran on the calibrated twin."""
    yield from _job_times(found)
    for plan, figures in (
        ("pi-1000", ("5.3", "5.4", "5.7")), ("train-100", ("5.5", "5.6", "5.8, of 100 Pods")),
        ("train-200", ("5.5, of 200 Pods", "5.6, of 200 Pods", "5.8")), ("mixed-500+20", ("5.10", "5.11", "5.12")),
    ):  # fmt: skip
        drawn = [each for each in found["pictured"] if each["plan"] == plan]
        if drawn:
            yield from _pod_times(plan, drawn, figures[0])
            yield from _over_time(plan, drawn, figures[1], figures[2])


def _mean(cell: Json | None, figure: str) -> float:
    if cell is None:
        return math.nan
    value = cell["figures"][figure][0]
    return math.nan if value is None else float(value)


def _ceilings(cells: Json) -> list[str]:
    return [name for name in contenders.in_families(contenders.all_contenders(), "footprint") if name in cells]


def _trade(found: Json) -> Iterator[Plot]:
    cells = found["scenarios"].get("pi-1000", {})
    points = {name: (_mean(cell, "pod_mean_s"), _mean(cell, "job_s")) for name, cell in cells.items()}
    points = {name: point for name, point in points.items() if all(map(math.isfinite, point))}
    if not points:
        return
    least = [min(point[axis] for point in points.values()) for axis in (0, 1)]
    near = {
        name: (pod, job) for name, (pod, job) in points.items()
        if pod <= _SHOWN_POD * least[0] and job <= _SHOWN_JOB * least[1]
    }  # fmt: skip
    every = contenders.all_contenders()
    lines = [
        _cloud({n: near[n] for n in near if every[n].family in families}, label, charts.colour(index), line=not index)
        for index, (label, families) in enumerate(_GROUPS)
    ]
    chart = charts.Chart(
        title="pi-1000: job time against Pod time", x_label="mean Pod time, seconds", y_label="job time, seconds",
        lines=[line for line in lines if line.x], from_zero=False, height_in=5.6,
    )  # fmt: skip
    left_out = ", ".join(
        f"{name} ({pod:.1f} s, {job:.0f} s)" for name, (pod, job) in points.items() if name not in near
    )
    caption = "pi-1000: job time against mean Pod time, for all settings of all schedulers. Lower left is better."
    yield (
        caption + (f" Outside the chart (Pod time, job time): {left_out}." if left_out else ""),
        charts.lines([chart]),
    )


# Settings this many times worse than the best would squeeze all others into a corner of the chart.
_SHOWN_POD, _SHOWN_JOB = 2.2, 1.4
_GROUPS = (
    ("CARICO, CPU ceilings", ("footprint",)), ("kube-scheduler", ("kube",)), ("constant", ("constant",)),
    ("load-aware", ("trimaran", "koordinator")), ("oracle", ("oracle",)),
    ("paper, node-local", ("paper", "node-local")),
)  # fmt: skip


def _cloud(points: Mapping[str, tuple[float, float]], label: str, colour: str, *, line: bool) -> charts.Line:
    """Return labelled points; points that coincide share a dot."""
    merged: dict[tuple[float, float], list[str]] = {}
    for name, (pod, job) in points.items():
        place = next((each for each in merged if abs(each[0] - pod) < 0.03 and abs(each[1] - job) < 0.5), (pod, job))
        merged.setdefault(place, []).append(name.split("-", 1)[-1] if name.startswith(_FAMILY_PREFIXES) else name)
    return charts.Line(
        label=label, colour=colour, x=[pod for pod, _ in merged], y=[job for _, job in merged], line=line, marks=True,
        words=[", ".join(names) for names in merged.values()],
    )  # fmt: skip


_FAMILY_PREFIXES = ("footprint-", "kube-", "constant-")


def _isolation(found: Json) -> Iterator[Plot]:
    cells = found["scenarios"].get("isolation")
    if cells is None:
        return
    ours = _ceilings(cells)
    groups = [("CARICO, CPU ceilings", ours, True)]
    every = contenders.all_contenders()
    groups += [
        (family, [name for name in contenders.in_families(every, family) if name in cells], False)
        for family in ("kube", "constant", "oracle", "paper")
    ]
    lines = []
    for index, (label, names, joined) in enumerate(groups):
        whole = [name for name in names if math.isfinite(_mean(cells[name], "job_s"))]
        lines.append(
            charts.Line(
                label=label, colour=charts.colour(index), x=[_mean(cells[name], "job_s") for name in whole],
                y=[100.0 * _mean(cells[name], "contended_share") for name in whole], marks=True, line=joined,
                words=[name.removeprefix("footprint-").removeprefix("kube-") for name in whole],
            )
        )  # fmt: skip
    chart = charts.Chart(
        title="Isolation against job time", x_label="job time of 1000 pi Pods, seconds",
        y_label="contended time, %", lines=lines, height_in=4.6,
    )  # fmt: skip
    yield (
        "Isolation against job time: the share of time in which a server's node has more runnable tasks than cores.",
        charts.lines([chart]),
    )


def _bars(found: Json) -> Iterator[Plot]:
    """Yield our job time and slowdown in each scenario, relative to kube-scheduler with its best setting for it."""
    ours = found["default"]
    rows: list[tuple[str, list[float]]] = []
    for plan, cells in found["scenarios"].items():
        best = found["best"].get(plan, {}).get("kube")
        if best is None or ours not in cells:
            continue
        shown = [cells.get(name) for name in (ours, "constant-1.5", "oracle")]
        figures = ("job_s", "slowdown")
        rows.append((plan, [_mean(cell, each) / _mean(cells[best], each) for each in figures for cell in shown]))
    if not rows:
        return
    labels = ("CARICO", "1.5 Pods per core", "oracle")
    for offset, what in ((0, "Job time"), (3, "Slowdown (Pod time / time alone)")):
        series = [(label, [row[offset + place] for _, row in rows]) for place, label in enumerate(labels)]
        caption = f"{what} by scenario, relative to kube-scheduler with its best setting for it (line: 1)."
        yield (
            caption,
            charts.bars([plan for plan, _ in rows], series, "1 = kube-scheduler's best setting", name=what),
        )


def _job_times(found: Json) -> Iterator[Plot]:
    for figure, what, axis in (
        ("figure 5.1", "pi", lambda plan: float(plan.removeprefix("pi-"))),
        ("figure 5.2", "sklearn", lambda plan: float(plan.removeprefix("train-"))),
        ("figure 5.9", "pi + sklearn", _mixed_place),
    ):
        rows = [each for each in found["calibration"] if each["where"] == figure and each["figure"] == "job_s"]
        lines = []
        for index, name in enumerate(dict.fromkeys(each["contender"] for each in rows)):
            own = [each for each in rows if each["contender"] == name]
            modes = list(dict.fromkeys(each["twin_contender"] for each in own))
            first = [each for each in own if each["twin_contender"] == modes[0]]
            lines.append(_line(f"{name}, published", first, axis, charts.colour(index), twin=False))
            for place, mode in enumerate(modes):
                colour = charts.colour(index + place)
                lines.append(_line(mode, [e for e in own if e["twin_contender"] == mode], axis, colour, twin=True))
        if lines:
            chart = charts.Chart(title=figure, x_label=_AXIS[figure], y_label="job time, seconds", lines=lines)
            yield (
                f"Figure 5.{figure[-1]}: job completion time of {what}; dashed: published.",
                charts.lines([chart]),
            )


_AXIS = {"figure 5.1": "Pods", "figure 5.2": "Pods", "figure 5.9": "1: 500+20, 2: 250+50, 3: 100+100"}


def _mixed_place(plan: str) -> float:
    return 1.0 + [f"mixed-{pis}+{trains}" for pis, trains in published.MIXED].index(plan)


def _line(label: str, rows: Sequence[Json], axis: Any, colour: str, *, twin: bool) -> charts.Line:
    values = [math.nan if each["twin"][0] is None else each["twin"][0] for each in rows]
    return charts.Line(
        label=label, colour=colour, x=[axis(each["plan"]) for each in rows],
        y=values if twin else [each["value"] for each in rows], dashed=not twin, marks=True,
    )  # fmt: skip


def _pod_times(plan: str, drawn: Sequence[Json], figure: str) -> Iterator[Plot]:
    for job in drawn[0]["pod_times_s"]:
        lines = []
        for index, each in enumerate(drawn):
            values = sorted(each["pod_times_s"].get(job, ()))
            shown = values[:: max(1, len(values) // (2 * _BINS))]
            share = [(place + 1) / len(shown) for place in range(len(shown))]
            lines.append(charts.Line(label=each["contender"], colour=charts.colour(index), x=shown, y=share))
        chart = charts.Chart(
            title=f"{plan}: Pod times of {job}", x_label="Pod time, seconds", y_label="share of the Pods", lines=lines,
            top=1.0,
        )  # fmt: skip
        yield (
            f"Figure {figure}: Pod times of {job} in {plan}, cumulative (one seed).",
            charts.lines([chart]),
        )


def _over_time(plan: str, drawn: Sequence[Json], pods: str, used: str) -> Iterator[Plot]:
    for what, figure, label in (("pods", pods, "Pods on a node"), ("used", used, "share in use, mean of the nodes")):
        panels = [_panel(each, index, what, label) for index, each in enumerate(drawn)]
        caption = (
            f"Figure {figure}: Pods running on a node in {plan}: median and range of the nodes (one seed)."
            if what == "pods"
            else f"Figure {figure}: use of CPU (solid) and memory (dashed) in {plan}, mean of the nodes (one seed)."
        )
        yield caption, charts.lines(panels, name=f"{plan} {what}")


def _panel(each: Json, index: int, what: str, label: str) -> charts.Chart:
    times, rows = each["series"]["at_s"], each["series"][what]
    colour = charts.colour(index)
    if what == "pods":
        low, middle, high = (list(column) for column in zip(*rows, strict=True))
        lines = [charts.Line(label="", colour=colour, x=times, y=middle, low=low, high=high)]
    else:
        cpu, memory = (list(column) for column in zip(*rows, strict=True))
        lines = [
            charts.Line(label="", colour=colour, x=times, y=cpu),
            charts.Line(label="", colour=colour, x=times, y=memory, dashed=True),
        ]
    return charts.Chart(
        title=each["contender"], x_label="seconds", y_label=label, lines=lines, height_in=2.2,
        top=1.0 if what == "used" else 8.0,
    )  # fmt: skip
