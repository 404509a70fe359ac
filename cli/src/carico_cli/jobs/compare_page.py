"""The report of a comparison, as text and as one HTML file: the result, one picture, and the details folded."""

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.output import charts, formats, report, words
from carico_core.domain import amounts
from carico_local.compare import contender as contenders
from carico_local.compare import servers

Report = Mapping[str, Any]
_LATENCY_HEAD = ("servers, ms", *servers.QUANTILES)
_HEAD = ("", "job s", "min", "max", "Pod s", "min", "max", "p95 s", "most per node", "p99 ms")


def text(found: Report) -> str:
    """Return the result, a table of medians, the servers' latency, the agents' cost, and the targets."""
    targets = [f"{one['verdict']:<7} {_target(one)}" for one in found["targets"]]
    parts = [
        *textwrap.wrap(_result(found), words.WIDTH),
        "",
        _sentence(found),
        *formats.aligned(_HEAD, _rows(found)),
        "",
    ]
    if latency := _latency(found):
        parts += [*formats.aligned(_LATENCY_HEAD, latency), ""]
    parts += [*_overhead(found), *targets]
    return "\n".join(parts)


def page(found: Report) -> str:
    """Return the whole page."""
    setting = found["setting"]
    latency = _latency(found)
    tables = report.table(_HEAD, _rows(found)) + (report.table(_LATENCY_HEAD, latency) if latency else "")
    overhead = "".join(f"<p>{html.escape(line)}</p>" for line in _overhead(found))
    targets = report.verdicts((one["verdict"], _target(one)) for one in found["targets"])
    runs = charts.figure(lambda drawn: _draw_runs(drawn, found), name="runs")
    return report.document(
        report.Page(
            title=f"CARICO and kube-scheduler: {_job(setting)}",
            result=_result(found),
            origin=report.origin(found),
            notes=setting["notes"],
            picture=report.figure(_picture(found), "Median of the runs; lines: shortest and longest. Less is better."),
            details=[
                ("Figures", f"<p>{html.escape(_sentence(found))}</p>{tables}{overhead}{targets}"),
                ("Each run", report.figure(runs, "Mean Pod time against job time; lower left is better.")),
            ],
        )
    )  # fmt: skip


def _job(setting: Mapping[str, Any]) -> str:
    return f"{setting['pods']} {setting['workload']} Pods on {setting['nodes']} nodes"


def _result(found: Report) -> str:
    """Return what CARICO took, and kube-scheduler with the requests that gave the shortest job or the shortest Pods."""
    rows = found["contenders"]
    ours = rows.get(contenders.CARICO)
    has_times = ours is not None and ours["job_s"]["median"] is not None
    parts = [f"The job took {_took(ours)} under CARICO."] if has_times else []
    kube = _of_kube(found)
    if kube:
        fastest, lightest = (min(kube, key=lambda name: rows[name][figure]["median"]) for figure in _FIGURES)
        others = [f"{_took(rows[name])} {kube[name]}" for name in dict.fromkeys((fastest, lightest))]
        best = "at its best " if len(others) == 1 and len(kube) > 1 else ""
        parts.append(f"kube-scheduler {best}took {' (its shortest job) and '.join(others)}{_SHORTEST[len(others)]}.")
    if lost := sum(row["failed"] for row in rows.values()):
        parts.append(f"{amounts.plural(lost, 'Pod')} failed.")
    return " ".join(parts)


_FIGURES = ("job_s", "pod_mean_s")
_SHORTEST = {1: "", 2: " (its shortest Pods)"}


def _took(row: Mapping[str, Any]) -> str:
    job_s, pod_s = (row[figure]["median"] for figure in _FIGURES)
    return f"{formats.number(job_s, 1)} s with {formats.number(pod_s, 1)} s a Pod"


def _of_kube(found: Report) -> dict[str, str]:
    """Return the contenders of kube-scheduler, and with which requests; without agents only where no other ran."""
    parsed = [contenders.parse(name, cores=found["setting"]["offered_cores"]) for name in found["contenders"]]
    others = [each for each in parsed if each.scheduler_name == contenders.KUBE_SCHEDULER]
    chosen = [each for each in others if each.agents] or others
    return {
        each.name: f"if each requests {each.request_millicores}m CPU" for each in chosen
        if found["contenders"][each.name]["pod_mean_s"]["median"] is not None
    }  # fmt: skip


def _picture(found: Report) -> str:
    """Return job time and Pod time of each contender as small multiples."""
    rows, setting = found["contenders"], found["setting"]

    def panel(figure: str, title: str, mark: tuple[float, str] | None) -> charts.Panel:
        spreads = [row[figure] for row in rows.values()]
        return charts.Panel(
            title=title, values=[each["median"] for each in spreads], mark=mark,
            spread=[(each["least"] or 0.0, each["most"] or 0.0) for each in spreads],
        )  # fmt: skip

    alone_s = setting["pod_alone_s"]
    marks = (None, None) if alone_s is None else ((setting["bound_s"], "reference"), (alone_s, "alone on a node"))
    titles = ("job time in seconds", "mean Pod time in seconds")
    shown = [panel(*each) for each in zip(_FIGURES, titles, marks, strict=True)]
    return charts.panels(list(rows), shown, ours=contenders.CARICO, name="contenders")


def _latency(found: Report) -> list[tuple[str, ...]]:
    """Return the servers' latency while each job ran, as in table 5.1 of the dissertation; empty without servers."""
    rows = {"no job": found["idle_server_ms"], **{name: row["server_ms"] for name, row in found["contenders"].items()}}
    return [
        (name, *(formats.number(row[quantile]) for quantile in servers.QUANTILES))
        for name, row in rows.items() if row is not None
    ]  # fmt: skip


def _overhead(found: Report) -> list[str]:
    """Return by how much agents lengthened a job, as in table 5.2 of the dissertation."""
    lines = []
    for name, each in found["agent_overhead"].items():
        spread = "" if each["sd"] is None else f" ± {100.0 * each['sd']:.2f}"
        runs = "1 run" if each["runs"] == 1 else f"{each['runs']} runs"
        lines.append(f"agents lengthen the job of {name} by {100.0 * each['mean']:+.2f}{spread} % ({runs})")
    return lines


def _sentence(found: Report) -> str:
    setting = found["setting"]
    most = max((row["runs"] for row in found["contenders"].values()), default=0)
    return (
        f"{amounts.plural(setting['pods'], 'Pod')}{_work(setting)} on {setting['nodes']} nodes of {setting['cores']} "
        f"emulated cores at scale {setting['scale']:g}{_bound(setting)}. "
        f"{'One run of each' if most == 1 else f'Medians of {most} runs in turn'}.{_servers(found)}"
    )


def _work(setting: Mapping[str, Any]) -> str:
    alone_s = setting["pod_alone_s"]
    return f" of {setting['workload']}" if alone_s is None else f" of {alone_s:g} s"


def _bound(setting: Mapping[str, Any]) -> str:
    return "" if setting["bound_s"] is None else f"; bound {setting['bound_s']:.1f} s"


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


def _draw_runs(drawn: Any, found: Report) -> None:
    axes = drawn.subplots()
    for index, name in enumerate(found["contenders"]):
        runs: Sequence[Mapping[str, Any]] = [
            one for one in found["trials"] if one["contender"] == name and not one["failed"]
        ]  # fmt: skip
        axes.plot(
            [one["pod_s"]["mean"] for one in runs], [one["job_s"] for one in runs],
            linestyle="none", marker="o" if name == "carico" else "x", color=charts.colour(index), label=name,
        )  # fmt: skip
    setting = found["setting"]
    if setting["pod_alone_s"] is not None:
        axes.axvline(setting["pod_alone_s"], color=charts.colour(2), linewidth=1, label="Pod alone")
        axes.axhline(setting["bound_s"], color=charts.colour(6), linewidth=1, linestyle=":", label="bound")
    axes.set(xlabel="mean Pod time in seconds", ylabel="job time in seconds")
    charts.legend(axes)
