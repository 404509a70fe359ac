"""The charts of a demo's report, as inline SVG."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.output import charts

Report = Mapping[str, Any]
# At most this many nodes have a chart of their own.
_NODES_DRAWN = 6


def of_nodes(found: Report) -> list[tuple[str, str]]:
    """Return each chart with its caption."""
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


def draw_progress(drawn: Any, found: Report) -> None:
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
