"""The report of a comparison, as text and as one HTML file with a chart."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.output import charts, formats, report

Report = Mapping[str, Any]
_HEAD = ("", "job s", "min", "max", "Pod s", "min", "max", "p95 s", "most per node", "p99 ms")


def text(found: Report) -> str:
    """Return a table of medians, and the targets."""
    targets = [f"{one['verdict']:<7} {_target(one)}" for one in found["targets"]]
    return "\n".join([_sentence(found), *formats.aligned(_HEAD, _rows(found)), "", *targets])


def page(found: Report) -> str:
    """Return the whole page."""
    setting = found["setting"]
    head = "".join(f"<th{' class=n' if place else ''}>{cell}</th>" for place, cell in enumerate(_HEAD))
    body = "".join(
        f"<tr><td>{html.escape(row[0])}</td>" + "".join(f'<td class="n">{cell}</td>' for cell in row[1:]) + "</tr>"
        for row in _rows(found)
    )
    targets = "".join(
        f'<li><span class="{one["verdict"]}">{one["verdict"]}</span> {html.escape(_target(one))}</li>'
        for one in found["targets"]
    )
    notes = "".join(f"<p>Note: {html.escape(note)}</p>" for note in setting["notes"])
    svg = charts.figure(lambda drawn: _draw(drawn, found), name="runs")
    picture = report.figure(svg, "Each run: mean Pod time against job time; lower left is better.")
    return report.document(
        f"CARICO and kube-scheduler: {setting['pods']} pi Pods on {setting['nodes']} nodes",
        f"<p>{html.escape(report.day(found) + _sentence(found))}</p>{notes}<table><tr>{head}</tr>{body}</table>"
        f"<ul>{targets}</ul>{picture}",
    )


def _sentence(found: Report) -> str:
    setting = found["setting"]
    most = max((row["runs"] for row in found["contenders"].values()), default=0)
    return (
        f"{setting['pods']} Pods of {setting['pod_alone_s']:g} s on {setting['nodes']} nodes of {setting['cores']} "
        f"emulated cores at scale {setting['scale']:g}; bound {setting['bound_s']:.1f} s. "
        f"{'One run of each' if most == 1 else f'Medians of {most} runs in turn'}.{_servers(found)}"
    )


def _servers(found: Report) -> str:
    if found["idle_server_p99_ms"]["median"] is None:
        return ""
    millicores = found["setting"]["servers_millicores"]
    requests = "without requests" if millicores is None else f"with a request of {millicores}m CPU"
    return f" During each job a server ran on every node, {requests}."


def _rows(found: Report) -> list[tuple[str, ...]]:
    return [
        (
            name, *_three(row["job_s"]), *_three(row["pod_mean_s"]), formats.number(row["pod_p95_s"]["median"]),
            str(row["max_running_per_node"]), formats.number(row["server_p99_ms"]["median"]),
        )
        for name, row in found["contenders"].items()
    ]  # fmt: skip


def _three(spread: Mapping[str, float | None]) -> tuple[str, str, str]:
    return formats.number(spread["median"]), formats.number(spread["least"]), formats.number(spread["most"])


def _target(one: Mapping[str, Any]) -> str:
    return f"{one['what']}: {formats.number(one['value'])} (target: at most {formats.number(one['bound'])})"


def _draw(drawn: Any, found: Report) -> None:
    axes = drawn.subplots()
    for index, name in enumerate(found["contenders"]):
        runs: Sequence[Mapping[str, Any]] = [one for one in found["trials"] if one["contender"] == name]
        axes.plot(
            [one["pod_s"]["mean"] for one in runs], [one["job_s"] for one in runs],
            linestyle="none", marker="o" if name == "carico" else "x", color=charts.colour(index), label=name,
        )  # fmt: skip
    axes.axvline(found["setting"]["pod_alone_s"], color=charts.colour(2), linewidth=1, label="Pod alone")
    axes.axhline(found["setting"]["bound_s"], color=charts.colour(6), linewidth=1, linestyle=":", label="bound")
    axes.set(xlabel="mean Pod time in seconds", ylabel="job time in seconds")
    charts.legend(axes)
