"""Figures over seeds: mean and 95 % interval, geometric means over scenarios, and the best setting in hindsight."""

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from carico_twin import measures
from carico_twin.evaluate import runs

# Student's t at 97.5 %, by degrees of freedom from 1; beyond the table the normal quantile is within 2 %.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL = 1.96
# Overruns that differ by less than this count as equal: one node for half a second.
SAME_OVERRUN_NODE_S = 0.5

FIELDS = tuple(field.name for field in dataclasses.fields(measures.Measures) if field.name not in ("finished", "pods"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over `count` seeds and half the width of its 95 % interval; NaN if unknown (with one seed: the width)."""

    mean: float
    half: float
    count: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One contender on one scenario. finished: share of runs in which every Pod ended."""

    finished: float
    figures: Mapping[str, Interval]
    # By job: its time, and the figures of `runs.distribution` of its Pod times.
    job_s: Mapping[str, Interval]
    pod_s: Mapping[str, Mapping[str, Interval]]

    def mean(self, name: str) -> float:
        """Return mean of a figure; of times NaN where not every run finished."""
        return self.figures[name].mean


# By scenario, then by contender.
Table = Mapping[str, Mapping[str, Cell]]


def interval(values: Sequence[float]) -> Interval:
    """Return mean and 95 % interval by Student's t, ignoring values that are not finite.

    >>> interval([1.0, 2.0, 3.0]).half  # 4.303 x 1 / sqrt(3)
    2.484...
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Interval(mean=math.nan, half=math.nan, count=0)
    if len(known) == 1:
        return Interval(mean=known[0], half=math.nan, count=1)
    freedom = len(known) - 1
    factor = _T[freedom - 1] if freedom <= len(_T) else _NORMAL
    half = factor * float(np.std(known, ddof=1)) / math.sqrt(len(known))
    return Interval(mean=float(np.mean(known)), half=half, count=len(known))


def cell(outcomes: Sequence[runs.RunResult]) -> Cell:
    """Return the cell of one contender's runs of one scenario. Runs that did not finish have no times."""
    finished = [each.measures.finished for each in outcomes]
    figures = {name: interval([_figure(each.measures, name) for each in outcomes]) for name in FIELDS}
    jobs = sorted({job for each in outcomes for job in each.job_s})
    return Cell(
        finished=sum(finished) / len(finished),
        figures=figures,
        job_s={job: interval([each.job_s[job] for each in outcomes]) for job in jobs},
        pod_s={job: _pod_s([each.pod_s[job] for each in outcomes if job in each.pod_s]) for job in jobs},
    )


def _figure(found: measures.Measures, name: str) -> float:
    # A stopped job has no time: counting its progress would favour schedulers that start few Pods.
    if not found.finished and (name.endswith("_s") or name == "slowdown") and name != "overrun_node_s":
        return math.nan
    return float(getattr(found, name))


def _pod_s(found: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    names = found[0] if found else ()
    return {name: interval([each[name] for each in found]) for name in names}


def table(outcomes: Iterable[runs.RunResult]) -> dict[str, dict[str, Cell]]:
    """Return the cells by scenario and contender."""
    grouped: dict[str, dict[str, list[runs.RunResult]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for each in outcomes:
        grouped[each.plan][each.contender].append(each)
    return {
        plan: {name: cell(sorted(found, key=lambda each: each.seed)) for name, found in by.items()}
        for plan, by in grouped.items()
    }


def best(cells: Mapping[str, Cell], names: Iterable[str]) -> str | None:
    """Return the best of these contenders in hindsight: least job time x slowdown among those with least overrun.

    None if none of them finished.
    """
    able = [name for name in names if name in cells and cells[name].finished == 1.0]
    if not able:
        return None
    # Memory overrun: its duration or the Pods that it killed, depending on the scenario.
    over = {name: cells[name].mean("overrun_node_s") + cells[name].mean("oom_killed") for name in able}
    fair = [name for name in able if over[name] <= min(over.values()) + SAME_OVERRUN_NODE_S]
    return min(fair, key=lambda name: cells[name].mean("job_s") * cells[name].mean("slowdown"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A setting, or a family's best in hindsight, over scenarios: geometric means, and total overrun."""

    job_s: float
    slowdown: float
    overrun_node_s: float
    scenarios: int
    unfinished: tuple[str, ...] = ()


def summary(found: Table, chosen: Mapping[str, str | None]) -> Summary:
    """Return geometric means over scenarios with one chosen contender each (None: none of its family finished)."""
    cells = {plan: found[plan][name] for plan, name in chosen.items() if name is not None and name in found[plan]}
    whole = {plan: each for plan, each in cells.items() if each.finished == 1.0}
    return Summary(
        job_s=geometric_mean([each.mean("job_s") for each in whole.values()]),
        slowdown=geometric_mean([each.mean("slowdown") for each in whole.values()]),
        overrun_node_s=sum(each.mean("overrun_node_s") for each in cells.values()),
        scenarios=len(whole),
        unfinished=tuple(plan for plan in chosen if plan not in whole),
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Return exp(mean(log v)); NaN for no values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
