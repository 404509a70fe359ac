"""`carico evaluate --rescheduler --problem FILE`: how much traffic is local for growing limits of moved containers.

The published figures are of M3, the smallest public problem of the RASA dataset (docs/rescheduling.md).
"""

import dataclasses
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.output import charts, formats, report
from carico_cli.rescheduling import planning, problem_file
from carico_core.numerics.rescheduling.services import search
from carico_core.runtime.process import clock as clocks

Json = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Seconds of a search, the limit as a share of the containers (None: none), and what M3 is to reach."""

    seconds: float
    share: float | None
    wanted: float


POINTS = (
    Point(seconds=5.0, share=0.05, wanted=0.49),
    Point(seconds=5.0, share=0.2, wanted=0.78),
    Point(seconds=5.0, share=None, wanted=0.86),
    Point(seconds=60.0, share=0.01, wanted=0.25),
    Point(seconds=60.0, share=0.05, wanted=0.5),
    Point(seconds=60.0, share=0.1, wanted=0.65),
    Point(seconds=60.0, share=0.2, wanted=0.79),
    Point(seconds=60.0, share=None, wanted=0.86),
)
SEEDS = 5
# Of M3: the share of local traffic (RASA, ICDE 2024); each of these placements moves 99 % of the containers.
PUBLISHED = {"POP": 0.134, "APPLSCI19": 0.582, "RASA": 0.849}


def curve(path: pathlib.Path, *, points: Sequence[Point], seeds: int, clock: clocks.Clock) -> dict[str, Any]:
    """Return the curve of a problem as JSON types. Raises `SettingsError`."""
    named = problem_file.read(path)
    search.prepare()
    rows = []
    for point in points:
        limit = None if point.share is None else int(point.share * named.problem.containers)
        plans = []
        for seed in range(1, seeds + 1):
            budget = planning.Budget(
                clock=clock, began_s=clock.monotonic_s(), seconds=point.seconds, proposals=None
            )  # fmt: skip
            plans.append(planning.plan(named.problem, limit=limit, seed=seed, budget=budget))
        local = [each.after for each in plans]
        formats.say(
            f"{path.name}: {point.seconds:g} s, {_limit(point)}: {statistics.median(local):.1%} local", err=True
        )
        rows.append(
            {
                **dataclasses.asdict(point), "local": statistics.median(local), "least": min(local), "most": max(local),
                "moved": statistics.median(each.moved for each in plans) / named.problem.containers,
                "blocked": max(each.order.blocked for each in plans),
            }
        )  # fmt: skip
    return {"problem": path.name, "containers": named.problem.containers, "before": plans[0].before, "seeds": seeds,
            "rows": rows, "published": PUBLISHED}  # fmt: skip


def table(found: Json) -> report.Table:
    """Return the curve as a table."""
    rows = [
        (
            f"{each['seconds']:g}", "no limit" if each["share"] is None else f"{each['share']:.0%}",
            f"{each['local']:.1%}", f"{each['least']:.1%} to {each['most']:.1%}", f"{each['wanted']:.0%}",
            f"{each['moved']:.1%}", str(each["blocked"]),
        )
        for each in found["rows"]
    ]  # fmt: skip
    published = [
        ("", "no limit", f"{local:.1%}", f"published: {name}", "", "99%", "") for name, local in PUBLISHED.items()
    ]
    title = (
        f"{found['problem']}: local traffic of {found['containers']:,} containers, {found['before']:.1%} before; "
        f"median and range of {found['seeds']} seeds (wanted and published: of RASA's M3)"
    )
    head = ("s", "moved at most", "local", "range", "wanted", "moved", "steps blocked")
    return report.Table(title, head, [*rows, *published])


def chart(found: Json) -> charts.Chart:
    """Return the curve as a picture."""
    lines = []
    for index, seconds in enumerate(sorted({each["seconds"] for each in found["rows"]})):
        own = [each for each in found["rows"] if each["seconds"] == seconds]
        lines.append(
            charts.Line(
                label=f"{seconds:g} s", x=[100.0 * each["moved"] for each in own],
                y=[100.0 * each["local"] for each in own], colour=charts.colour(index), marks=True,
            )
        )  # fmt: skip
    lines.append(
        charts.Line(
            label="published", x=[99.0] * len(PUBLISHED), y=[100.0 * each for each in PUBLISHED.values()],
            colour=charts.colour(4), line=False, marks=True, words=list(PUBLISHED),
        )
    )  # fmt: skip
    return charts.Chart(
        title=found["problem"], x_label="containers moved, %", y_label="local traffic, %", lines=lines
    )  # fmt: skip


def _limit(point: Point) -> str:
    return "no limit" if point.share is None else f"at most {point.share:.0%} moved"
