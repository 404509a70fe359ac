"""The report of a demo, as text and as one HTML file: the job's outcome, its figures, and charts as inline SVG."""

import html
import textwrap
from collections.abc import Mapping
from typing import Any

from carico_cli.clusters import starting
from carico_cli.jobs import demo_charts
from carico_cli.output import charts, report, words
from carico_local.jobs import figures

Report = Mapping[str, Any]


def text(found: Report) -> str:
    """Return the outcome and the figures in lines of at most 80 columns."""
    times, targets = found["pod_s"], found["targets"]
    lines = [
        "",
        *textwrap.wrap(_outcome(found), words.WIDTH),
        *textwrap.wrap(_compared(found), words.WIDTH),
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
        lines += textwrap.wrap(f"note: {why}", words.WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def page(found: Report) -> str:
    """Return the whole page: the result, one picture, and the details folded."""
    setting = found["setting"]
    said = [*setting["notes"], *([why] if (why := figures.short_job(found)) is not None else [])]
    progress = report.figure(
        charts.figure(lambda drawn: demo_charts.draw_progress(drawn, found), name="progress", height_in=3.0),
        "Pods that wait, run and have ended, over time.",
    )
    drawn = "\n".join(report.figure(svg, caption) for svg, caption in demo_charts.of_nodes(found))
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
    """Return the job's outcome in one sentence."""
    targets, mean_s, pods = found["targets"], found["pod_s"]["mean"], found["pods"]
    took = f"succeeded in {found['job_s']:.1f} s"
    if found["succeeded"] == pods:
        said = f"All {pods} Pods {took}, where no scheduler can take less than {targets['least_s']:.1f} s"
    else:
        said = f"{found['succeeded']} of {pods} Pods {took}"
    if mean_s is not None and targets["pod_ratio"]["value"] is not None:
        said += f"; a Pod took {mean_s:.2f} s on average, {targets['pod_ratio']['value']:.2f} times its time alone"
    return f"{said}."


def _compared(found: Report) -> str:
    """Return what kube-scheduler would have done, or did with `--compare`; empty where it is not known."""
    runs = [each for each in found.get("kube_scheduler", ()) if None not in (each["job_s"], each["pod_mean_s"])]
    if not runs:
        return ""
    took = " and ".join(
        f"{run['job_s']:.1f} s with {run['pod_mean_s']:.2f} s a Pod if each requests {run['request_millicores']}m"
        for run in runs
    )
    if runs[0]["simulated"]:
        said = f"kube-scheduler would have taken {took} CPU (simulated as on an idle machine; "
        said += "`carico demo --compare` runs it)."
        is_busy = any(note.startswith(starting.BUSY) for note in found["setting"]["notes"])
        return said + (" This machine was busy: that cannot be compared." if is_busy else "")
    failed = sum(run["failed"] for run in runs)
    lost = f"; {failed} of its Pods failed" if failed else ""
    return f"kube-scheduler took {took} CPU (the same job on the same nodes, after it{lost})."


def _sentence(found: Report) -> str:
    setting = found["setting"]
    ceiling = ", ".join(f"{dim} {share:g}" for dim, share in setting["ceiling"].items())
    on = setting["machine"]
    return (
        f"Estimator {setting['estimator']}, ceilings {ceiling}; nodes of {setting['cores']} emulated cores at scale "
        f"{found['scale']:g} on {on['cpus']:g} CPUs ({on['processor']}, Linux {on['kernel']})."
    )


def _table(found: Report) -> str:
    return report.table((), [(name, value, report.Html(verdict)) for name, value, verdict in _rows(found)])


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
    return f"{report.verdict(ratio['verdict'])} (target at most {ratio['target']})"


def _plain_verdict(ratio: Mapping[str, Any]) -> str:
    return f"{_value(ratio)} (target at most {ratio['target']}: {ratio['verdict']})"


def _s(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f} s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
