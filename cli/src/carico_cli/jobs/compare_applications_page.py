"""The report of `carico compare --applications`, as text and as one HTML file."""

import html
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from carico_cli.output import charts, formats, report, words
from carico_core.domain import amounts
from carico_local.applications import catalog
from carico_local.applications import users as people
from carico_local.compare.applications import contender as contenders

Report = Mapping[str, Any]
_HEAD = ("load", "contender", "application", "before ms", "after ms", "better", "p95 ms", "failed")
_TRAFFIC_HEAD = ("load", "contender", "moves", "kB/s before", "kB/s after", "less", "failed of all")
_PLACES_HEAD = ("service", "before", "published", "after", "published")
_PUBLISHED = "published"


def text(found: Report) -> str:
    """Return the result, the tables next to the published ones, and targets."""
    parts = [*textwrap.wrap(_result(found), words.WIDTH), "", *textwrap.wrap(_sentence(found), words.WIDTH), ""]
    for table in _tables(found):
        parts += [*textwrap.wrap(table.title, words.WIDTH), *table.lines(), ""]
    parts += [line for each in _missing(found) for line in textwrap.wrap(each, words.WIDTH)]
    return "\n".join([*parts, *(f"{each['verdict']:<7} {_target(each)}" for each in found["targets"])])


def page(found: Report) -> str:
    """Return the whole page."""
    targets = report.verdicts((each["verdict"], _target(each)) for each in found["targets"])
    tables = "".join(f"<h3>{html.escape(each.title)}</h3>{each.as_html()}" for each in _tables(found))
    figures = f"<p>{html.escape(_sentence(found))}</p>{targets}{tables}"
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
                        f"Table 10, nodes: {each['load']} load, {_name(found, number)}",
                        report.table(_PLACES_HEAD, _places(found, each), texts=5),
                    )
                    for number, each in enumerate(found["runs"])
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
    names = [f"{_name(found, number)}, {run['load']}" for number, run in enumerate(runs)]
    last = max((number for number, run in enumerate(runs) if run["contender"] == contenders.CARICO), default=None)
    ours = "" if last is None else names[last]
    return charts.panels(names, shown, ours=ours, name="service-times") if shown else ""


def _sentence(found: Report) -> str:
    setting = found["setting"]
    network = f"{setting['delay_ms']:g} ms and {setting['rate_mbit']:g} Mbit/s between nodes"
    spans = setting["spans_s"]
    return (
        f"{setting['nodes']} nodes of {setting['cores']} emulated cores at scale {setting['scale']:g}; {network}, "
        f"emulated by the applications' clients, since emulated nodes share one machine's loopback. Means of "
        f"{spans['before_s']:g} s before and {spans['after_s']:g} s after Pods were moved; "
        f"{amounts.plural(setting['repeats'], 'run')} of each contender. {_loads(setting['loads'])} All but "
        "kube-scheduler begin with the paper's placement (table 10). Published: tables 8 to 12, on nodes of 24 cores."
    )


def _name(found: Report, number: int) -> str:
    """Return the contender of a run, with a number where it has several under that load."""
    run = found["runs"][number]
    same = [place for place, each in enumerate(found["runs"]) if _which(each) == _which(run)]
    return run["contender"] if len(same) == 1 else f"{run['contender']} {same.index(number) + 1}"


def _which(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["contender"], run["load"]


def _tables(found: Report) -> Iterator[report.Table]:
    """Yield the tables of the paper, measured and published."""
    yield report.Table(
        title="Tables 10 and 12: mean service times before and after Pods were moved", head=_HEAD, rows=_times(found),
        texts=3,
    )  # fmt: skip
    yield report.Table(
        title="Figure 13: traffic between nodes before and after", head=_TRAFFIC_HEAD, rows=_traffic(found), texts=2
    )
    yield report.Table(
        title="Table 8: users; of the hub, messages a second",
        head=("application", "low", _PUBLISHED, "high", _PUBLISHED), rows=_users(found), texts=1,
    )  # fmt: skip
    yield report.Table(
        title="Table 9: requests under kube-scheduler and descheduler, as shares of our nodes, without limits (other "
        "contenders request nothing); published: of nodes of 24 cores and 24 GB, with limits of 24 cores",
        head=("application", "service", "CPU", "memory", "published cores", "GB", "at most GB"), rows=_requests(found),
        texts=2,
    )  # fmt: skip
    yield report.Table(
        title="Table 11: per cent of nodes that is requested before the descheduler acts; published with Kubernetes' "
        "own Pods, of which emulated nodes have none",
        head=("", "", *map(str, range(1, 1 + catalog.NODES))), rows=_node_requests(found), texts=2,
    )  # fmt: skip


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
    published = found["published"]["10"]["service_times_ms"]
    rows += [
        (
            load, f"{_PUBLISHED}: ws-sa-pn-tb", name, formats.number(before), formats.number(after),
            _percent(1.0 - after / before), "", "",
        )
        for load in loads
        for name, (before, after) in published[load].items()
    ]  # fmt: skip
    if "high" in loads:
        of_runs = f"{contenders.DESCHEDULER}: {amounts.plural(found['tables']['12']['runs'], 'run')}"
        for who, ranges in (
            (of_runs, found["tables"]["12"]["improvement"]),
            (f"{_PUBLISHED}: descheduler", found["published"]["12"]["improvement"]),
        ):
            rows += [
                ("high", who, name, "", "", f"{_percent(worst)} to {_percent(best)}", "", "")
                for name, (worst, best) in ranges.items()
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
    published = found["published"]["10"]["traffic"]
    return rows + [
        (load, f"{_PUBLISHED}: ws-sa-pn-tb", "", "", "", _percent(published[load]), "") for load in loads
    ]  # fmt: skip


def _users(found: Report) -> list[tuple[str, ...]]:
    published, loads = found["published"]["8"], found["setting"]["loads"]
    users = {"boutique": "browsers", "vrp": "planners", "hub": "devices"}
    return [
        (
            name,
            *(
                str(cell)
                for load in ("low", "high")
                for cell in (loads[load][of] if load in loads else "-", published[load][name])
            ),
        )
        for name, of in users.items()
    ]


def _requests(found: Report) -> list[tuple[str, ...]]:
    own = {(each["application"], each["service"]): each for each in found["tables"]["9"]}
    rows: list[tuple[str, ...]] = []
    for each in found["published"]["9"]:
        application, service = each["application"], each["service"]
        mine, amounts_gb = own[application, service], (each["cores"], each["memory_gb"], each["limit_gb"])
        rows.append((application, service, mine["cpu"], mine["memory"], *(f"{amount:g}" for amount in amounts_gb)))
    return rows


def _node_requests(found: Report) -> list[tuple[str, ...]]:
    return [
        (resource, who, *(f"{each:.1f}" for each in rows[resource]))
        for resource in ("CPU", "memory")
        for who, rows in (("", found["tables"]["11"]), (_PUBLISHED, found["published"]["11"]))
    ]


def _places(found: Report, run: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the nodes of each service; the published ones after the paper's rescheduler."""
    before, after = run["nodes"]["before"], run["nodes"]["after"]
    published = found["published"]["10"]["nodes"]
    place = {"low": 1, "high": 2}[run["load"]]

    def of_paper(name: str, when: int) -> str:
        return str(published[name][when]) if name in published else "-"

    return [
        (name, before.get(name, "-"), of_paper(name, 0), after.get(name, "-"), of_paper(name, place))
        for name in sorted({*before, *after})
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:+.1f} %"


def _target(each: Mapping[str, Any]) -> str:
    runs = "" if each["runs"] == 1 else f" in {each['runs']} runs"
    if each["what"] == "failed requests":
        return f"{each['load']} load: {each['value']} failed requests{runs} (target: none)"
    what = "traffic between nodes" if each["what"] == "traffic" else f"service time of {each['what']}"
    if each["without"] is not None:
        without = amounts.plural(each["without"], "run")
        least = f"no worse than the worst of {without} without moves, {_percent(each['bound'])}"
        return f"{each['load']} load: worst {what}{runs} {_percent(each['value'])} (target: {least})"
    median = "" if each["runs"] == 1 else "median "
    least = f"at least {_percent(each['bound'])}"
    return f"{each['load']} load: {median}{what}{runs} {_percent(each['value'])} (target: {least})"
