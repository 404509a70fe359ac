"""An evaluation as text: means, targets, published findings, and the tables of a few scenarios."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_cli.evaluation import emulated
from carico_cli.output import formats
from carico_core.domain import amounts

Json = Mapping[str, Any]
_COLUMNS = ("job_s", "pod_mean_s", "pod_max_s", "slowdown", "most_per_core", "overrun_node_s")
_TITLES = ("job s", "Pod s", "max s", "slowdown", "Pods/core", "overrun")
# The tables of more scenarios are only on the page.
_TABLES_MOST = 3


def text(found: Json) -> str:
    """Return an evaluation as text."""
    parts = [
        *_scenarios(found),
        *_summaries(found),
        *_targets(found),
        *_calibration(found),
        *_emulated(found),
        *_ablation(found),
    ]
    return "\n".join(parts)


def with_interval(found: Sequence[Any], digits: int = 2) -> str:
    """Return `mean ± half width`; only the mean where one seed ran."""
    mean, half, _ = found
    return (
        formats.number(mean, digits)
        if half is None
        else f"{formats.number(mean, digits)} ± {formats.number(half, digits)}"
    )


def _scenarios(found: Json) -> Iterator[str]:
    if len(found["scenarios"]) > _TABLES_MOST:
        return
    for plan, cells in found["scenarios"].items():
        rows = [
            [name, *(with_interval(cell["figures"][column]) for column in _COLUMNS), _ended(cell)]
            for name, cell in cells.items()
        ]
        yield from formats.aligned((plan, *_TITLES, ""), rows)
        yield ""


def _ended(cell: Json) -> str:
    return "" if cell["finished"] == 1.0 else f"finished in {cell['finished']:.0%} of the runs"


def _summaries(found: Json) -> Iterator[str]:
    if not found["summaries"]:
        return
    rows = [
        (
            f"{name}{' (default)' if name == found['default'] else ''}", formats.number(each["job_s"]),
            formats.number(each["slowdown"], 3), formats.number(each["overrun_node_s"], 1), str(each["scenarios"]),
            f"not finished: {', '.join(each['unfinished'])}" if each["unfinished"] else "",
        )
        for name, each in found["summaries"].items()
    ]  # fmt: skip
    yield from formats.aligned(("all scenarios that ran", "job s", "slowdown", "overrun", "scenarios", ""), rows)
    yield ""


def not_measured(found: Json) -> str:
    """Return how many targets were not measured, as a sentence; empty where all were."""
    count = sum(each["verdict"] == "unknown" for each in found["targets"])
    return (
        f"Not measured: {amounts.plural(count, 'target')}, whose scenarios or schedulers did not run." if count else ""
    )


def _targets(found: Json) -> Iterator[str]:
    known = [each for each in found["targets"] if each["verdict"] != "unknown"]
    for each in known:
        unit = f" {each['unit']}" if each["unit"] else ""
        value, bound = (f"{each[name]:.3g}" for name in ("value", "bound"))
        yield f"{each['verdict']:6s}  {each['name']}: {value}{unit} (at most {bound}; {each['detail']})"
    if left := not_measured(found):
        yield left
    if found["targets"]:
        yield ""


def _calibration(found: Json) -> Iterator[str]:
    for name, each in found["calibration_errors"].items():
        what = name.replace("job_s", "job time").replace("pod_s.mean", "mean Pod time")
        yield (
            f"error against published numbers: {what}: mean {each['mean']:.0%}, largest {each['largest']:.0%} "
            f"({each['numbers']:.0f} numbers)"
        )
    for name, each in found["calibration_differences"].items():
        what = name.replace("job_s", "job time").replace("pod_s.mean", "mean Pod time")
        yield f"today's CARICO against the author's: {what}: mean {each['mean']:+.0%} ({each['numbers']:.0f} numbers)"
    for shape in found["shapes"]:
        if shape["reproduced"] is not None:
            verdict = "reproduced" if shape["reproduced"] else "better" if shape["better"] else "NOT reproduced"
            mode = "" if shape["mode"] == "carico" else f" [{shape['mode']}]"
            yield f"{verdict}{mode}: {shape['says']}; measured: {shape['detail']}"
    if found["calibration"]:
        yield from (f"not in the twin: {each}" for each in found["not_in_the_twin"])


def _emulated(found: Json) -> Iterator[str]:
    if found["emulated"] is not None:
        yield ""
        yield emulated.sentence(found["emulated"])
        yield from formats.aligned(emulated.HEAD, emulated.rows(found["emulated"]))


def _ablation(found: Json) -> Iterator[str]:
    if not found["ablation"]:
        return
    rows = [
        (
            each["name"], formats.number(each["total"]["job_s"]), formats.number(each["total"]["slowdown"], 3),
            formats.number(each["job_ratio"], 3), formats.number(each["slowdown_ratio"], 3),
            formats.number(each["total"]["overrun_node_s"], 1),
        )
        for each in found["ablation"]
    ]  # fmt: skip
    yield ""
    yield from formats.aligned(("changed", "job s", "slowdown", "job ratio", "slowdown ratio", "overrun"), rows)
