"""The twin compared with emulated nodes, as text and as a section of the page."""

import html
from collections.abc import Iterator, Mapping
from typing import Any

from carico_cli.output import formats, report

Json = Mapping[str, Any]
HEAD = ("", "", "emulated", "min", "max", "twin", "error")
_TITLES = {
    "job_s": "job time, s", "pod_mean_s": "Pod time, s", "pod_p95_s": "p95, s",
    "max_running_per_node": "most Pods per node",
}  # fmt: skip


def sentence(found: Json) -> str:
    """Return what ran on both, and what on emulated nodes alone."""
    setting = found["setting"]
    left_out = "".join(f"; left out: {each}" for each in found["left_out"])
    return (
        f"{setting['pods']} Pods of {setting['pod_alone_s']:g} s on {setting['nodes']} nodes of "
        f"{setting['cores']} cores: "
        f"emulated at scale {setting['scale']:g} (median of the runs), and in the twin (mean over seeds){left_out}"
    )


def rows(found: Json) -> Iterator[tuple[str, ...]]:
    """Yield a row for each figure of each scheduler, under HEAD."""
    for each in found["figures"]:
        spread = (formats.number(each["emulated"][name]) for name in ("median", "least", "most"))
        twin = formats.number(each["twin"][0])
        if each["twin"][1] is not None:
            twin += f" ± {formats.number(each['twin'][1])}"
        error = "-" if each["error"] is None else f"{each['error']:+.0%}"
        yield (each["contender"], _TITLES[each["figure"]], *spread, twin, error)


def section(found: Json | None) -> str:
    """Return the section of the page; empty where no comparison was given."""
    if found is None:
        return ""
    return (
        f"<p>{html.escape(sentence(found))}. The twin is not fitted to them, and other work on their machine is not "
        f"simulated.</p>{report.table(HEAD, rows(found), texts=2)}"
    )
