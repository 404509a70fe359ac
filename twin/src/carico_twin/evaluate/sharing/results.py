"""An evaluation of several schedulers as JSON types: figures of each sweep, and what they are compared with."""

import collections
import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carico_twin.evaluate.sharing import setup as setups
from carico_twin.evaluate.sharing import study

VERSION = 1
Json = dict[str, Any]
# Conflicts as shares of commits, of the model that the design was made with: for 2, 4 and 8 schedulers, and for 8 at
# 90 % fill with views 50 ms old (`study.CASES`), with Pods that arrive one by one. None: not stated.
DESIGN: Mapping[tuple[setups.Choice, float], tuple[float | None, ...]] = {
    (setups.Choice.EMPTIEST, 0.0): (0.16, 0.27, 0.36, None),
    (setups.Choice.RANDOM, 0.0): (0.09, 0.13, 0.16, 0.52),
    (setups.Choice.HOMES, 1.0): (0.006, 0.016, 0.036, 0.18),
    (setups.Choice.HOMES, 2.0): (0.002, 0.003, 0.003, 0.028),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure and its bound."""

    name: str
    measured: float
    most: float

    @property
    def is_met(self) -> bool:
        """True if the figure is within its bound."""
        return self.measured <= self.most


def document(selection: study.Selection, found: Sequence[study.Cell]) -> Json:
    """Return an evaluation as JSON types. Times in seconds; shares from 0 to 1."""
    cells = study.by_setup(found)
    return {
        "version": VERSION,
        "seeds": selection.seeds,
        "base": dataclasses.asdict(selection.base),
        "sweeps": {
            name: [row(cells[each]) for each in each_sweep]
            for name, each_sweep in study.sweeps(selection.base).items()
        },
        "design": _design(selection, cells),
        "targets": [
            {**dataclasses.asdict(each), "is_met": each.is_met} for each in targets(selection.base, cells)
        ],
    }  # fmt: skip


def row(cell: study.Cell) -> Json:
    """Return the setup of a cell and its figures: counts summed over seeds, waiting times of all Pods together."""
    runs = cell.runs
    arrived = sum(each.arrived for each in runs)
    waits = np.concatenate([np.asarray(each.waiting_s, dtype=np.float64) for each in runs])
    return {
        **dataclasses.asdict(cell.setup),
        "pods": arrived,
        "placed": _share(sum(each.placed for each in runs), arrived),
        "conflicts": conflicts(cell),
        "retries": _share(sum(each.retries for each in runs), arrived),
        "given_up": _share(sum(each.given_up for each in runs), arrived),
        "requeued": _share(sum(each.requeued for each in runs), arrived),
        "busy": statistics.fmean(each.busy for each in runs),
        "waiting_s": float(np.median(waits)) if len(waits) else None,
        "waiting_p99_s": float(np.quantile(waits, 0.99)) if len(waits) else None,
        "chosen_pods": statistics.fmean(each.chosen_pods for each in runs),
        "deviation": statistics.fmean(each.deviation for each in runs),
        "corrected": _share(sum(each.corrected for each in runs), arrived),
        "cases": dict(sum((collections.Counter(each.cases) for each in runs), collections.Counter[str]())),
    }


def conflicts(cell: study.Cell) -> float:
    """Return the share of commits that were refused."""
    return _share(sum(each.conflicts for each in cell.runs), sum(each.commits for each in cell.runs))


def targets(base: setups.Setup, cells: Mapping[setups.Setup, study.Cell]) -> list[Target]:
    """Return the targets of several schedulers at once, with what was measured."""
    four = row(cells[dataclasses.replace(base, schedulers=4)])
    old = row(cells[dataclasses.replace(base, **study.OLD)])
    one = row(cells[dataclasses.replace(base, mode=setups.Mode.LEADER, schedulers=1)])
    return [
        Target(name="conflicts, of commits: 4 schedulers, 70 % fill", measured=four["conflicts"], most=0.02),
        Target(
            name="conflicts, of commits: 8 schedulers, 90 % fill, views 50 ms old", measured=old["conflicts"], most=0.03
        ),
        Target(name="Pods requeued: 4 schedulers, 70 % fill", measured=four["requeued"], most=0.001),
        Target(
            name="Pods requeued: 8 schedulers, 90 % fill, views 50 ms old", measured=old["requeued"], most=0.001
        ),
        Target(
            name="waiting p99 of 4 schedulers, of one leader's at half its load",
            measured=_ratio(four["waiting_p99_s"], one["waiting_p99_s"]), most=1.5,
        ),
        Target(
            name="deviation of Pods between nodes of 4 schedulers, of one leader's",
            measured=_ratio(four["deviation"], one["deviation"]), most=1.05,
        ),
    ]  # fmt: skip


def _design(selection: study.Selection, cells: Mapping[setups.Setup, study.Cell]) -> list[Json]:
    found = []
    for (choice, fuller_pods), stated in DESIGN.items():
        for case, expected in zip(study.CASES, stated, strict=True):
            setup = dataclasses.replace(selection.base, burst=1, choice=choice, fuller_pods=fuller_pods, **case)
            found.append({
                "choice": choice.value, "fuller_pods": fuller_pods, "schedulers": setup.schedulers,
                "fill": setup.fill, "view_s": setup.view_s, "stated": expected, "conflicts": conflicts(cells[setup]),
            })  # fmt: skip
    return found


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _ratio(value: float | None, of: float | None) -> float:
    return math.inf if value is None or not of else value / of
