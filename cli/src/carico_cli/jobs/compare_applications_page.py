"""The report of `carico compare --applications`, as text and as one HTML file."""

import html
import textwrap
from collections.abc import Mapping
from typing import Any

from carico_cli.output import charts, formats, report
from carico_core.domain import amounts
from carico_local.applications import users as people
from carico_local.compare.applications import contender as contenders

Report = Mapping[str, Any]
_HEAD = ("load", "contender", "application", "before ms", "after ms", "better", "p95 ms", "failed")
_TRAFFIC_HEAD = ("load", "contender", "moves", "kB/s before", "kB/s after", "less", "failed of all")
_PLACES_HEAD = ("service", "before", "after")
_PUBLISHED = "published"
# The width of a small terminal.
_WIDTH = 80


def text(found: Report) -> str:
    """Return the result, tables of service times and of traffic between nodes, next to the published, and targets."""
    parts = [*textwrap.wrap(_result(found), _WIDTH), "", *textwrap.wrap(_sentence(found), _WIDTH), ""]
    parts += [*formats.aligned(_HEAD, _times(found), left=3), ""]
    parts += [*formats.aligned(_TRAFFIC_HEAD, _traffic(found), left=2), ""]
    parts += [line for each in _missing(found) for line in textwrap.wrap(each, _WIDTH)]
    return "\n".join([*parts, *(f"{each['verdict']:<7} {_target(each)}" for each in found["targets"])])


def page(found: Report) -> str:
    """Return the whole page."""
    targets = "".join(
        f'<li><span class="{each["verdict"]}">{each["verdict"]}</span> {html.escape(_target(each))}</li>'
        for each in found["targets"]
    )
    figures = (
        f"<p>{html.escape(_sentence(found))}</p>{report.table(_HEAD, _times(found), texts=3)}"
        f"{report.table(_TRAFFIC_HEAD, _traffic(found), texts=2)}<ul>{targets}</ul>"
    )
    return report.document(
        report.Page(
            title="Service times before and after Pods were moved",
            result=_result(found),
            origin=report.origin(found),
            notes=[*_missing(found), *found["setting"]["notes"]],
            picture=report.figure(_picture(found), "Mean service times after Pods were moved. Less is better."),
            details=[
                ("Figures", figures),
                *(
                    (
                        f"Nodes: {each['load']} load, {each['contender']}",
                        report.table(_PLACES_HEAD, _places(each), texts=3),
                    )
                    for each in found["runs"]
                ),
            ],
        )
    )  # fmt: skip


def _result(found: Report) -> str:
    """Return what came of it, of the last run of ours if there is one."""
    ours = [run for run in found["runs"] if run["contender"] == contenders.CARICO]
    if not ours:
        return f"{len(found['runs'])} runs, none of them of our rescheduler."
    run = ours[-1]
    times = ", ".join(f"{name} {_percent(each['improvement'])}" for name, each in run["applications"].items())
    before, after = (f"{run['traffic_bytes'][when] / 1e3:.1f}" for when in ("before", "after"))
    return (
        f"Under {run['load']} load, {run['moves']} moves of our rescheduler changed the traffic between nodes from "
        f"{before} to {after} kB/s, and service times for the better by: {times}. "
        f"{run['failed']} of {run['requests']} requests failed."
    )


def _missing(found: Report) -> list[str]:
    """Return what runs have no result, and why."""
    return [f"No result of {each['contender']} under {each['load']} load: {each['why']}." for each in found["missing"]]


def _picture(found: Report) -> str:
    """Return by how much service times and traffic fell, of each run, as small multiples."""
    runs = found["runs"]
    rows = [(run["applications"] | {"traffic between nodes": run["traffic_bytes"]}) for run in runs]
    shown = [
        charts.Panel(
            title=f"{name}: after / before", mark=(1.0, "as before"), unknown="not known",
            values=[None if (fell := row[name]["improvement"]) is None else 1.0 - fell for row in rows],
        )
        for name in (rows[0] if rows else ())
    ]  # fmt: skip
    names = [f"{run['contender']}, {run['load']}" for run in runs]
    ours = f"{contenders.CARICO}, {runs[-1]['load']}" if runs else ""
    return charts.panels(names, shown, ours=ours, name="service-times") if shown else ""


def _sentence(found: Report) -> str:
    setting = found["setting"]
    network = f"{setting['delay_ms']:g} ms and {setting['rate_mbit']:g} Mbit/s between nodes"
    spans = setting["spans_s"]
    return (
        f"{setting['nodes']} nodes of {setting['cores']} emulated cores at scale {setting['scale']:g}; {network}, "
        f"emulated by the applications' clients, since emulated nodes share one machine's loopback. Means of "
        f"{spans['before_s']:g} s before and {spans['after_s']:g} s after Pods were moved; one run each. "
        f"{_loads(setting['loads'])} All but "
        "kube-scheduler begin with the paper's placement (table 10). Published: tables 10 and 12, on nodes of 24 cores."
    )


def _loads(loads: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what load means: how many users there are, and when they send requests."""
    users = "; ".join(
        f"{name} load: {amounts.plural(each['browsers'], 'browser')} of boutique, "
        f"{amounts.plural(each['planners'], 'planner')} of vrp, {amounts.plural(each['devices'], 'device')} of hub"
        for name, each in loads.items()
    )
    pauses = " or ".join(dict.fromkeys(f"{each['pause_s']:g} s" for each in loads.values()))
    return (
        f"Load is the number of users ({users}). Browsers and planners send the next request {pauses} after an answer, "
        f"devices an event each {people.DEVICE_S:g} s."
    )


def _times(found: Report) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for run in found["runs"]:
        for name, each in run["applications"].items():
            failed = each["before"]["failed"] + each["after"]["failed"]
            rows.append(
                (
                    run["load"], run["contender"], name, formats.number(each["before"]["mean_ms"]),
                    formats.number(each["after"]["mean_ms"]), _percent(each["improvement"]),
                    formats.number(each["after"]["p95_ms"]), str(failed),
                )
            )  # fmt: skip
    loads = dict.fromkeys(run["load"] for run in found["runs"])
    published = found["published"]["service_times_ms"]
    rows += [
        (
            load, f"{_PUBLISHED}: ws-sa-pn-tb", name, formats.number(before), formats.number(after),
            _percent(1.0 - after / before), "", "",
        )
        for load in loads
        for name, (before, after) in published[load].items()
    ]  # fmt: skip
    if "high" in loads:
        rows += [
            ("high", f"{_PUBLISHED}: descheduler", name, "", "", f"{_percent(worst)} to {_percent(best)}", "", "")
            for name, (worst, best) in found["published"]["descheduler"].items()
        ]
    return rows


def _traffic(found: Report) -> list[tuple[str, ...]]:
    rows = [
        (
            run["load"], run["contender"], str(run["moves"]), f"{run['traffic_bytes']['before'] / 1e3:.1f}",
            f"{run['traffic_bytes']['after'] / 1e3:.1f}", _percent(run["traffic_bytes"]["improvement"]),
            f"{run['failed']} of {run['requests']}",
        )
        for run in found["runs"]
    ]  # fmt: skip
    loads = dict.fromkeys(run["load"] for run in found["runs"])
    published = found["published"]["traffic"]
    return rows + [
        (load, f"{_PUBLISHED}: ws-sa-pn-tb", "", "", "", _percent(published[load]), "") for load in loads
    ]  # fmt: skip


def _places(run: Mapping[str, Any]) -> list[tuple[str, ...]]:
    before, after = run["nodes"]["before"], run["nodes"]["after"]
    return [(name, before.get(name, "-"), after.get(name, "-")) for name in sorted({*before, *after})]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:+.1f} %"


def _target(each: Mapping[str, Any]) -> str:
    if each["what"] == "failed requests":
        return f"{each['load']} load: {each['value']} failed requests (target: none)"
    what = "traffic between nodes" if each["what"] == "traffic" else f"service time of {each['what']}"
    return f"{each['load']} load: {what} {_percent(each['value'])} (target: at least {_percent(each['bound'])})"
