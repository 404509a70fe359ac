"""Which runs an evaluation of several schedulers makes: one sweep for each question."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_twin.evaluate.sharing import model
from carico_twin.evaluate.sharing import setup as setups


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is run: each setup once for every seed from 1 on; that of `OLD` with fewer seeds as by `FULL_RUN`."""

    base: setups.Setup = dataclasses.field(default_factory=lambda: setups.Setup(measured_s=10.0))
    seeds: int = 3


FULL_RUN = Selection()
QUICK = Selection(base=setups.Setup(warm_up_s=0.5, measured_s=2.0), seeds=1)
# How a node is chosen, and by how many Pods a node of another member counts as fuller.
CHOICES = (
    (setups.Choice.EMPTIEST, 0.0), (setups.Choice.RANDOM, 0.0), (setups.Choice.HOMES, 1.0), (setups.Choice.HOMES, 2.0)
)  # fmt: skip
# Nearly full, with views that are old.
OLD: Mapping[str, Any] = {"schedulers": 8, "fill": 0.9, "view_s": 0.05}
# The cases for which the design states conflicts.
CASES: Sequence[Mapping[str, Any]] = ({"schedulers": 2}, {"schedulers": 4}, {"schedulers": 8}, OLD)
_SOME = 8
FULL: Mapping[str, Any] = {"schedulers": _SOME, "fill": 0.95}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The runs of one setup, the only difference being their seeds. `setup` has the first."""

    setup: setups.Setup
    runs: Sequence[model.Figures]


def sweeps(base: setups.Setup) -> dict[str, list[setups.Setup]]:
    """Return the setups of each sweep by its name."""
    shared, leader, partitioned = setups.Mode.SHARED, setups.Mode.LEADER, setups.Mode.PARTITIONED
    vary = functools.partial(dataclasses.replace, base)
    # An atomic write of the paper is refused whenever the node has changed.
    paper = functools.partial(vary, mode=setups.Mode.PAPER, detection=setups.Detection.COARSE)
    return {
        "schedulers": [
            vary(mode=leader, schedulers=1),
            *(vary(mode=partitioned, schedulers=count) for count in (2, 4, 8, 16)),
            *(vary(mode=shared, schedulers=count) for count in (1, 2, 4, 8, 16)),
        ],
        "choice": [
            vary(burst=1, choice=how, fuller_pods=more, **case) for how, more in CHOICES for case in CASES
        ],
        "burst": [
            vary(schedulers=_SOME, burst=burst, choice=how, fuller_pods=more)
            for how, more in CHOICES for burst in (8, 32, 128)
        ],
        "old": [vary(burst=1, **OLD), vary(**OLD)],
        "fill": [
            vary(mode=mode, schedulers=1 if mode is leader else _SOME, fill=fill)
            for mode in (leader, partitioned, shared) for fill in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
        ],
        "batch": [vary(schedulers=4, burst=256, batch=size) for size in (1, 8, 32, 128)],
        "commit": [
            vary(schedulers=_SOME, choice=how, detection=detection, transaction=transaction)
            for how in (setups.Choice.EMPTIEST, setups.Choice.HOMES)
            for detection in setups.Detection for transaction in setups.Transaction
        ],
        "decision": [
            vary(mode=mode, schedulers=count, decision_s=decision_s)
            for mode, count in ((leader, 1), (shared, 4), (shared, 16))
            for decision_s in (0.0001, 0.0007, 0.0013, 0.0028, 0.01)
        ],
        "paper": [
            *(how(**each) for each in ({"schedulers": 4}, {"schedulers": 8}, {"schedulers": 16}, OLD, FULL)
              for how in (vary, paper)),
            *(paper(schedulers=_SOME, score_percent=percent) for percent in (5.0, 20.0, 100.0)),
        ],
        "delay": [
            *(vary(schedulers=_SOME, commit_s=commit_s) for commit_s in (0.00025, 0.001, 0.005, 0.02)),
            *(vary(schedulers=_SOME, view_s=view_s) for view_s in (0.002, 0.008, 0.05, 0.2)),
        ],
    }  # fmt: skip


def setups_of(selection: Selection) -> list[setups.Setup]:
    """Return the setups of all sweeps, each once."""
    return list(dict.fromkeys(each for cells in sweeps(selection.base).values() for each in cells))


def cells(selection: Selection) -> Iterator[Cell]:
    """Run every setup, and yield its figures."""
    for setup in setups_of(selection):
        seeds, times = selection.seeds, selection.base
        if setup == dataclasses.replace(selection.base, **OLD):
            # Conflicts are close to their target there, and come in bursts: one short run would show by chance whether
            # it is met.
            seeds = max(seeds, FULL_RUN.seeds)
            times = max(times, FULL_RUN.base, key=lambda each: each.measured_s)
        made = dataclasses.replace(setup, warm_up_s=times.warm_up_s, measured_s=times.measured_s)
        runs = [model.Model(dataclasses.replace(made, seed=setup.seed + more)).run() for more in range(seeds)]
        yield Cell(setup=setup, runs=runs)


def by_setup(found: Sequence[Cell]) -> Mapping[setups.Setup, Cell]:
    """Return the cells by their setup."""
    return {each.setup: each for each in found}
