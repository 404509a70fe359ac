"""The report of a demo, as text and as one HTML file: the job's outcome, its figures, and charts as inline SVG."""

import html
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.output import charts, report
from carico_local.jobs import figures

Report = Mapping[str, Any]
# At most this many nodes have a chart of their own.
_NODES_DRAWN = 6


# The text's width, that of a small terminal.
_WIDTH = 80


def text(found: Report) -> str:
    """Return the outcome and the figures in lines of at most 80 columns."""
    times, targets = found["pod_s"], found["targets"]
    lines = [
        "",
        *textwrap.wrap(_outcome(found), _WIDTH),
        *textwrap.wrap(_compared(found), _WIDTH),
        f"  job time / reference: {_plain_verdict(targets['job_ratio'])}",
        f"  Pod time / time alone: {_plain_verdict(targets['pod_ratio'])}",
    ]
    if times["mean"] is not None:
        lines.append(
            f"  Pod time: sd {times['std']:.2f} s, p50 {times['p50']:.2f} s, p95 {times['p95']:.2f} s, "
            f"max {times['max']:.2f} s"
        )
    lines += [
        f"  most Pods on a node {found['max_running_per_node']}, overload {found['overload_node_s']:.1f} node-seconds",
        f"  must be 0: failed {found['failed']}, bound twice {found['bound_twice']}, never bound "
        f"{found['never_bound']}, without room {found['capacity_overrun']}",
    ]
    if (why := figures.short_job(found)) is not None:
        lines += textwrap.wrap(f"note: {why}", _WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def page(found: Report) -> str:
    """Return the whole page: the result, one picture, and the details folded."""
    setting = found["setting"]
    said = [*setting["notes"], *([why] if (why := figures.short_job(found)) is not None else [])]
    progress = report.figure(
        charts.figure(lambda drawn: _draw_progress(drawn, found), name="progress", height_in=3.0),
        "Pods that wait, run and have ended, over time.",
    )
    drawn = "\n".join(report.figure(svg, caption) for svg, caption in _charts(found))
    return report.document(
        report.Page(
            title=f"CARICO: {found['pods']} {setting['workload']} Pods on {found['nodes']} nodes",
            result=f"{_outcome(found)} {_compared(found)}",
            origin=report.origin(found),
            notes=said,
            picture=progress,
            details=[
                ("Figures", f"<p>{html.escape(_sentence(found))}</p>{_table(found)}"), ("Charts of the nodes", drawn),
            ],
        )
    )  # fmt: skip


def _outcome(found: Report) -> str:
    """Return the job's outcome in two sentences."""
    targets, mean_s = found["targets"], found["pod_s"]["mean"]
    said = f"The job took {found['job_s']:.1f} s, where no scheduler can take less than {targets['least_s']:.1f} s"
    if mean_s is not None and targets["pod_ratio"]["value"] is not None:
        said += f"; a Pod took {mean_s:.2f} s on average, {targets['pod_ratio']['value']:.2f} times its time alone"
    ended = f"{found['succeeded']} of {found['pods']} Pods succeeded"
    return f"{said}. {'All Pods succeeded' if found['succeeded'] == found['pods'] else ended}."


def _compared(found: Report) -> str:
    """Return what kube-scheduler would have done; empty where it is not known."""
    runs = [each for each in found.get("kube_scheduler", ()) if each["job_s"] is not None]
    if not runs:
        return ""
    each = " and ".join(
        f"{run['job_s']:.1f} s with {run['pod_mean_s']:.2f} s a Pod if each requests {run['request_millicores']}m"
        for run in runs
    )
    return f"kube-scheduler would have taken {each} CPU (simulated; `carico compare` runs it)."


def _sentence(found: Report) -> str:
    setting = found["setting"]
    ceiling = ", ".join(f"{dim} {share:g}" for dim, share in setting["ceiling"].items())
    on = setting["machine"]
    return (
        f"Estimator {setting['estimator']}, ceilings {ceiling}; nodes of {setting['cores']} emulated cores at scale "
        f"{found['scale']:g} on {on['cpus']:g} CPUs ({on['processor']}, Linux {on['kernel']})."
    )


def _table(found: Report) -> str:
    body = "".join(
        f'<tr><td>{html.escape(name)}</td><td class="n">{html.escape(value)}</td><td>{verdict}</td></tr>'
        for name, value, verdict in _rows(found)
    )
    return f"<table>{body}</table>"


def _rows(found: Report) -> list[tuple[str, str, str]]:
    """Return name, value and what is expected, as HTML, of each figure."""
    times, targets = found["pod_s"], found["targets"]
    return [
        ("job time", f"{found['job_s']:.1f} s", "from its submission to its last Pod's end"),
        (
            f"job time / reference ({targets['bound_s']:.1f} s: its work over all cores, plus one Pod's time)",
            _value(targets["job_ratio"]),
            _verdict(targets["job_ratio"]),
        ),
        ("Pod time, mean ± sd", f"{_s(times['mean'])} ± {_s(times['std'])}", "from its process's start to its exit"),
        ("Pod time, p50, p95, max", f"{_s(times['p50'])}, {_s(times['p95'])}, {_s(times['max'])}", ""),
        ("mean Pod time / its time alone on a node", _value(targets["pod_ratio"]), _verdict(targets["pod_ratio"])),
        ("most Pods on a node", str(found["max_running_per_node"]), ""),
        ("mean wait for a node", _s(found["placements"]["waited_s"]["mean"]), ""),
        ("waits by reason", _counts(found["placements"]["waits_by_reason"]), "why nodes were refused"),
        (
            "placements by mode",
            _counts(found["placements"]["by_mode"]),
            "how the chosen node knew its capacity",
        ),
        (
            "overload",
            f"{found['overload_node_s']:.1f} node-seconds",
            "with more Pods than their true cost and the ceiling allow",
        ),
        (
            "placements without room",
            str(found["capacity_overrun"]),
            "on a node with room for less than one Pod; must be 0",
        ),
        (
            "Pods that failed, were bound twice, were never bound",
            f"{found['failed']}, {found['bound_twice']}, {found['never_bound']}",
            "must be 0",
        ),
    ]


def _value(ratio: Mapping[str, Any]) -> str:
    return "unknown" if ratio["value"] is None else f"{ratio['value']:.3f}"


def _verdict(ratio: Mapping[str, Any]) -> str:
    return f'<span class="{ratio["verdict"]}">{ratio["verdict"]}</span> (target at most {ratio["target"]})'


def _plain_verdict(ratio: Mapping[str, Any]) -> str:
    return f"{_value(ratio)} (target at most {ratio['target']}: {ratio['verdict']})"


def _s(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f} s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _charts(found: Report) -> list[tuple[str, str]]:
    return [
        (charts.figure(lambda drawn: _draw_running(drawn, found), name="running"), "Pods running, by node."),
        (
            charts.lines(_capacities(found), name="capacity"),
            "Capacity of each node: the Pods that it counts (dashed), and these plus its advertised capacity (solid, "
            "one standard deviation shaded).",
        ),
        (
            charts.figure(lambda drawn: _draw_pod_times(drawn, found), name="times"),
            "Pod times, from process start to exit.",
        ),
        (
            charts.lines(_costs(found), name="cost"),
            "Learnt cost of one Pod: mean of the nodes; the range of the nodes is shaded.",
        ),
    ]


def _draw_progress(drawn: Any, found: Report) -> None:
    """Stack ended, running and waiting Pods, and mark what would be possible and what kube-scheduler would take."""
    axes = drawn.subplots()
    times, running, ended = _progress(found)
    waiting = [found["pods"] - now - done for now, done in zip(running, ended, strict=True)]
    axes.stackplot(
        times, [ended, running, waiting], labels=["ended", "running", "waiting"], step="post",
        colors=[charts.colour(6), charts.colour(0), charts.colour(4)], alpha=0.75,
    )  # fmt: skip
    marks = [(found["targets"]["least_s"], "least possible", 2, "--")]
    marks += [
        (run["job_s"], f"kube-scheduler, {run['request_millicores']}m", 1 + 2 * place, ":")
        for place, run in enumerate(found.get("kube_scheduler", ())) if run["job_s"] is not None
    ]  # fmt: skip
    for at_s, label, ink, style in marks:
        axes.axvline(at_s, color=charts.colour(ink), linewidth=1.6, linestyle=style, label=f"{label} {at_s:.0f} s")
    axes.set(xlabel="seconds since the job was submitted", ylabel="Pods", ylim=(0, max(found["pods"], 1)))
    axes.set_xlim(left=0.0)
    axes.yaxis.get_major_locator().set_params(integer=True)
    charts.legend(axes, columns=3)


def _progress(found: Report) -> tuple[list[float], list[float], list[float]]:
    """Return times, and how many Pods of all nodes run and have ended then."""
    changes = sorted(
        (at, after - before)
        for each in found["per_node"].values()
        for (_, before), (at, after) in itertools.pairwise([(0.0, 0), *each["running"]])
    )
    times, running, ended = [0.0], [0.0], [0.0]
    for at, change in changes:
        times.append(at)
        running.append(running[-1] + change)
        ended.append(ended[-1] + (1 if change < 0 else 0))
    times.append(max(found["job_s"], times[-1]))
    return times, [*running, running[-1]], [*ended, ended[-1]]


def _draw_running(drawn: Any, found: Report) -> None:
    """Stack the nodes' Pods: their sum is the job's."""
    axes = drawn.subplots()
    nodes = found["per_node"]
    times = sorted({0.0, *(at for each in nodes.values() for at, _ in each["running"])})
    rows = [_held([(0.0, 0.0), *each["running"]], times) for each in nodes.values()]
    if rows:
        colours = [charts.colour(index) for index in range(len(rows))]
        axes.stackplot(times, rows, labels=list(nodes), step="post", colors=colours, alpha=0.75)
    axes.set(xlabel="seconds since the job was submitted", ylabel="Pods running")
    axes.yaxis.get_major_locator().set_params(integer=True)
    charts.legend(axes)


def _held(series: Sequence[Sequence[float]], times: Sequence[float]) -> list[float]:
    """Return the values of a series of (time, value) at the given times.

    >>> _held([(0.0, 0.0), (2.0, 5.0)], [0.0, 1.0, 3.0])
    [0.0, 0.0, 5.0]
    """
    found, place = [], 0
    for at in times:
        while place + 1 < len(series) and series[place + 1][0] <= at:
            place += 1
        found.append(float(series[place][1]))
    return found


def _capacities(found: Report) -> list[charts.Chart]:
    nodes = list(found["per_node"].items())[:_NODES_DRAWN]
    drawn = []
    for index, (node, each) in enumerate(nodes):
        series = each["capacity"]
        times, pods = [row[0] for row in series], [row[3] for row in series]
        total = [row[3] + row[1] for row in series]
        low = [value - row[2] for value, row in zip(total, series, strict=True)]
        high = [value + row[2] for value, row in zip(total, series, strict=True)]
        ink = charts.colour(index)
        drawn.append(
            charts.Chart(
                title=node, x_label="seconds since the job was submitted" if index == len(nodes) - 1 else "",
                y_label="Pods", height_in=1.6,
                lines=[
                    charts.Line(label="", x=times, y=total, low=low, high=high, colour=ink, steps=True),
                    charts.Line(label="", x=times, y=pods, colour=ink, dashed=True, steps=True),
                ],
            )
        )  # fmt: skip
    return drawn


def _costs(found: Report) -> list[charts.Chart]:
    """Return a chart for each dimension."""
    series = [each["cost"] for each in found["per_node"].values() if each["cost"]]
    names = dict.fromkeys(name for each in series for _, cost in each for name in cost)
    drawn = [_cost(series, name, index) for index, name in enumerate(names)]
    return drawn or [charts.Chart(x_label="", y_label="nothing learnt", lines=[], height_in=1.0)]


def _cost(series: Sequence[Sequence[Any]], name: str, index: int) -> charts.Chart:
    label, factor = _UNITS.get(name, (name, 1.0))
    known = [[(at, cost[name][0] * factor) for at, cost in each if name in cost] for each in series]
    known = [each for each in known if each]
    begin = max(each[0][0] for each in known)
    times = sorted({at for each in known for at, _ in each if at >= begin})
    rows = list(zip(*(_held(each, times) for each in known), strict=True))
    line = charts.Line(
        label="", x=times, y=[sum(row) / len(row) for row in rows], low=[min(row) for row in rows],
        high=[max(row) for row in rows], colour=charts.colour(index),
    )  # fmt: skip
    x_label = "seconds since the job was submitted"
    return charts.Chart(title=name, x_label=x_label, y_label=label, lines=[line], height_in=2.0)


_UNITS = {"cpu": ("runnable tasks", 1.0), "memory": ("MiB", 2**-20)}


def _draw_pod_times(drawn: Any, found: Report) -> None:
    axes = drawn.subplots()
    times = found["pod_times_s"]
    if times:
        axes.hist(times, bins=min(40, max(5, len(times) // 4)), color=charts.colour(0), alpha=0.75)
        mean_s = found["pod_s"]["mean"]
        axes.axvline(mean_s, color=charts.colour(1), linewidth=1.5, label=f"mean {mean_s:.2f} s")
    alone_s = found["targets"]["pod_alone_s"]
    if alone_s:
        axes.axvline(alone_s, color=charts.colour(2), linewidth=1.5, label=f"alone on a node {alone_s:.2f} s")
    axes.set(xlabel="Pod time in seconds", ylabel="Pods")
    axes.yaxis.get_major_locator().set_params(integer=True)
    charts.legend(axes)
