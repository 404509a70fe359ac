"""The report as one HTML file: the table of figures, and pictures as inline SVG. Nothing is loaded from elsewhere."""

import html
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

from carico_local.report import figures

Report = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2340; --paper: #ffffff; --line: #d5daea; --good: #1a7f37; --bad: #b42318 }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9f5; --paper: #14182a; --line: #353c5c; --good: #57c27a; --bad: #ff8b7e }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.met { color: var(--good) } .missed { color: var(--bad); font-weight: 600 }
figure { margin: 2rem 0; background: #fff; border-radius: 8px; padding: .5rem } figure svg { width: 100%; height: auto }
figcaption { color: #46507a; padding: 0 .5rem .3rem }
@media print { tr, figure { break-inside: avoid } }
"""


def page(report: Report) -> str:
    """The whole page."""
    setting = report["setting"]
    title = f"CARICO: {report['pods']} {setting['workload']} Pods on {report['nodes']} nodes"
    pictures = "\n".join(figure(caption, draw, report) for caption, draw in _PICTURES)
    said = [*setting["notes"], *([why] if (why := figures.short_job(report)) is not None else [])]
    notes = "".join(f"<p>Note: {html.escape(note)}</p>" for note in said)
    return document(title, f"<p>{html.escape(_sentence(report))}</p>{notes}\n{_table(report)}\n{pictures}")


def document(title: str, body: str) -> str:
    """A whole page under its title; `body` is HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def _sentence(report: Report) -> str:
    setting = report["setting"]
    ceiling = ", ".join(f"{dim} {share:g}" for dim, share in setting["ceiling"].items())
    on = setting["machine"]
    return (
        f"Estimator {setting['estimator']}, ceilings {ceiling}; nodes of {setting['cores']} emulated cores at scale "
        f"{report['scale']:g} on {on['cpus']:g} CPUs ({on['processor']}, Linux {on['kernel']})."
    )


def _table(report: Report) -> str:
    times, targets = report["pod_s"], report["targets"]
    rows: list[tuple[str, str, str]] = [
        ("Pods: succeeded, failed", f"{report['succeeded']}, {report['failed']}", ""),
        ("bound twice, never bound", f"{report['bound_twice']}, {report['never_bound']}", ""),
        ("job time", f"{report['job_s']:.1f} s", "from its submission to its last Pod's end"),
        (
            f"job time / at best ({targets['bound_s']:.1f} s: its work over all cores, and one Pod's time)",
            _value(targets["job_ratio"]),
            _verdict(targets["job_ratio"]),
        ),
        ("mean Pod time / its time alone on a node", _value(targets["pod_ratio"]), _verdict(targets["pod_ratio"])),
        ("Pod time mean ± std", f"{_s(times['mean'])} ± {_s(times['std'])}", "from its process's start to its exit"),
        ("Pod time p50, p95, max", f"{_s(times['p50'])}, {_s(times['p95'])}, {_s(times['max'])}", ""),
        ("most Pods on a node", str(report["max_running_per_node"]), ""),
        (
            "placements without room",
            str(report["capacity_overrun"]),
            "on a node that had less room than one Pod; must be 0",
        ),
        (
            "overload",
            f"{report['overload_node_s']:.1f} node-seconds",
            "with more Pods than true cost and ceiling allow",
        ),
        (
            "placements by mode of the advertisement",
            _counts(report["placements"]["by_mode"]),
            "how the capacity was known",
        ),
        ("waits by reason", _counts(report["placements"]["waits_by_reason"]), "why Pods found no node at first"),
        ("wait for a node, mean", _s(report["placements"]["waited_s"]["mean"]), ""),
    ]
    body = "".join(
        f'<tr><td>{html.escape(name)}</td><td class="n">{html.escape(value)}</td><td>{verdict}</td></tr>'
        for name, value, verdict in rows
    )
    return f"<table>{body}</table>"


def _value(ratio: Mapping[str, Any]) -> str:
    return "unknown" if ratio["value"] is None else f"{ratio['value']:.3f}"


def _verdict(ratio: Mapping[str, Any]) -> str:
    return f'<span class="{ratio["verdict"]}">{ratio["verdict"]}</span> (target at most {ratio["target"]})'


def _s(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f} s"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def figure(caption: str, draw: Callable[[Any, Report], None], report: Report) -> str:
    """A picture with its caption; `draw` is given matplotlib's axes and the report."""
    # Imported here: half a second that only a report costs.
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "axes.grid": True, "grid.alpha": 0.3}):
        drawn, axes = pyplot.subplots(figsize=(9, 3.6), layout="constrained")
        draw(axes, report)
        out = io.StringIO()
        drawn.savefig(out, format="svg", metadata={"Date": None})
        pyplot.close(drawn)
    # Inline: without the prologue, and with ids of its own, as several stand in one page.
    svg = out.getvalue()[out.getvalue().index("<svg") :]
    prefix = re.sub(r"\W+", "-", caption[:24].lower())
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _draw_running(axes: Any, report: Report) -> None:
    for node, found in report["per_node"].items():
        times = [0.0, *(at for at, _ in found["running"])]
        axes.step(times, [0, *(count for _, count in found["running"])], where="post", label=node, linewidth=1.2)
    axes.set(xlabel="seconds since the job was submitted", ylabel="Pods running")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="upper right", ncols=4, fontsize=8)


def _draw_capacity(axes: Any, report: Report) -> None:
    for index, (node, found) in enumerate(report["per_node"].items()):
        series = found["capacity"]
        times = [row[0] for row in series]
        total = [row[3] + row[1] for row in series]
        colour = f"C{index}"
        axes.step(times, total, where="post", color=colour, label=f"{node}: Pods + capacity", linewidth=1.2)
        axes.fill_between(
            times, [t - row[2] for t, row in zip(total, series, strict=True)],
            [t + row[2] for t, row in zip(total, series, strict=True)], step="post", color=colour, alpha=0.12,
        )  # fmt: skip
        axes.step(times, [row[3] for row in series], where="post", color=colour, linestyle=":", linewidth=1.2)
    axes.set(xlabel="seconds since the job was submitted", ylabel="Pods")
    axes.legend(loc="upper right", fontsize=8)


def _draw_pod_times(axes: Any, report: Report) -> None:
    times = report["pod_times_s"]
    if times:
        axes.hist(times, bins=min(40, max(5, len(times) // 4)), color="#6b7fc0")
        axes.axvline(
            report["pod_s"]["mean"], color="#b42318", linewidth=1.5, label=f"mean {report['pod_s']['mean']:.2f} s"
        )
    alone_s = report["targets"]["pod_alone_s"]
    if alone_s:
        axes.axvline(alone_s, color="#1a7f37", linewidth=1.5, label=f"alone {alone_s:.2f} s")
    axes.set(xlabel="Pod time in seconds", ylabel="Pods")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=8)


def _draw_cost(axes: Any, report: Report) -> None:
    other = None
    for index, (node, found) in enumerate(report["per_node"].items()):
        series = [(at, cost["cpu"]) for at, cost in found["cost"] if "cpu" in cost]
        times = [at for at, _ in series]
        axes.plot(times, [mean for _, (mean, _) in series], color=f"C{index}", label=f"{node}: CPU", linewidth=1.2)
        axes.fill_between(
            times, [mean - sd for _, (mean, sd) in series], [mean + sd for _, (mean, sd) in series],
            color=f"C{index}", alpha=0.12,
        )  # fmt: skip
        memory = [(at, cost["memory"][0] / 2**20) for at, cost in found["cost"] if "memory" in cost]
        if memory:
            other = other or axes.twinx()
            other.plot(*zip(*memory, strict=True), color=f"C{index}", linestyle=":", linewidth=1.2)
    axes.set(xlabel="seconds since the job was submitted", ylabel="runnable tasks a Pod (solid)")
    if other is not None:
        other.set_ylabel("MiB a Pod (dotted)")
    axes.legend(loc="best", fontsize=8)


_PICTURES: tuple[tuple[str, Callable[[Any, Report], None]], ...] = (
    ("Pods running on each node.", _draw_running),
    (
        "Capacity against what was placed: Pods counted by each node (dotted), and that plus its advertised capacity "
        "(solid, one standard deviation shaded).",
        _draw_capacity,
    ),
    ("Pod times, from process start to exit.", _draw_pod_times),
    ("Learnt cost of one Pod per dimension, one standard deviation shaded.", _draw_cost),
)
