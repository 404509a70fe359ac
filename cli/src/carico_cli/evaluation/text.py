"""An evaluation in words: the means, the targets, the published shapes, and for few scenarios their tables."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_cli.evaluation import emulated
from carico_cli.output import tables

Json = Mapping[str, Any]
_COLUMNS = ("job_s", "pod_mean_s", "pod_max_s", "slowdown", "most_per_core", "overrun_node_s")
_TITLES = ("job s", "Pod s", "max s", "slowdown", "Pods/core", "overrun")
# With more, the page is the place to read them.
_TABLES_MOST = 3


def text(found: Json) -> str:
    """Print an evaluation."""
    parts = [
        *_scenarios(found),
        *_summaries(found),
        *_targets(found),
        *_calibration(found),
        *_beside(found),
        *_ablation(found),
    ]
    return "\n".join(parts)


def number(value: float | None, digits: int = 2) -> str:
    """Return the number, or a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def with_interval(found: Sequence[Any], digits: int = 2) -> str:
    """`mean ± half width`; without the width where one seed ran."""
    mean, half, _ = found
    return number(mean, digits) if half is None else f"{number(mean, digits)} ± {number(half, digits)}"


def _scenarios(found: Json) -> Iterator[str]:
    if len(found["scenarios"]) > _TABLES_MOST:
        return
    for plan, cells in found["scenarios"].items():
        rows = [
            [name, *(with_interval(cell["figures"][column]) for column in _COLUMNS), _ended(cell)]
            for name, cell in cells.items()
        ]
        yield from tables.aligned((plan, *_TITLES, ""), rows)
        yield ""


def _ended(cell: Json) -> str:
    return "" if cell["finished"] == 1.0 else f"finished in {cell['finished']:.0%} of the runs"


def _summaries(found: Json) -> Iterator[str]:
    if not found["summaries"]:
        return
    rows = [
        (
            f"{name}{' (default)' if name == found['default'] else ''}", number(each["job_s"]),
            number(each["slowdown"], 3), number(each["overrun_node_s"], 1), str(each["scenarios"]),
            f"not finished: {', '.join(each['unfinished'])}" if each["unfinished"] else "",
        )
        for name, each in found["summaries"].items()
    ]  # fmt: skip
    yield from tables.aligned(("over all scenarios run", "job s", "slowdown", "overrun", "scenarios", ""), rows)
    yield ""


def _targets(found: Json) -> Iterator[str]:
    known = [each for each in found["targets"] if each["verdict"] != "unknown"]
    for each in known:
        unit = f" {each['unit']}" if each["unit"] else ""
        value, bound = (f"{each[name]:.3g}" for name in ("value", "bound"))
        yield f"{each['verdict']:6s}  {each['name']}: {value}{unit} (at most {bound}; {each['detail']})"
    left = len(found["targets"]) - len(known)
    if left:
        yield f"{left} targets need scenarios or schedulers that were not run"
    if found["targets"]:
        yield ""


def _calibration(found: Json) -> Iterator[str]:
    for name, each in found["calibration_errors"].items():
        what = name.replace("job_s", "job time").replace("pod_s.mean", "mean Pod time")
        yield (
            f"against the published numbers: {what}: off by {each['mean']:.0%} on average, "
            f"{each['largest']:.0%} at most "
            f"({each['numbers']:.0f} numbers)"
        )
    for shape in found["shapes"]:
        if shape["reproduced"] is not None:
            verdict = "reproduced" if shape["reproduced"] else "NOT reproduced"
            mode = "" if shape["mode"] == "carico" else f" [{shape['mode']}]"
            yield f"{verdict}{mode}: {shape['says']}; measured: {shape['detail']}"
    if found["calibration"]:
        yield from (f"not in the twin: {each}" for each in found["not_in_the_twin"])


def _beside(found: Json) -> Iterator[str]:
    if found["beside"] is not None:
        yield ""
        yield emulated.sentence(found["beside"])
        yield from tables.aligned(emulated.HEAD, emulated.rows(found["beside"]))


def _ablation(found: Json) -> Iterator[str]:
    if not found["ablation"]:
        return
    rows = [
        (
            each["name"], number(each["total"]["job_s"]), number(each["total"]["slowdown"], 3),
            number(each["job_ratio"], 3), number(each["slowdown_ratio"], 3), number(each["total"]["overrun_node_s"], 1),
        )
        for each in found["ablation"]
    ]  # fmt: skip
    yield ""
    yield from tables.aligned(
        ("one thing changed", "job s", "slowdown", "job ratio", "slowdown ratio", "overrun"), rows
    )
