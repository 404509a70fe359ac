"""Figures 4.6 and 4.7 of the dissertation as a closed loop: a node's signal before and while its peers have work."""

import statistics

from carico_core.numerics.estimators import scalar
from carico_twin.evaluate import contenders
from carico_twin.evaluate.comparisons import signals

Row = tuple[str, float, str, str]


def run(quick: bool) -> list[Row]:
    """The signal of the measured node as the author's agent computes it, and as today's does: means of seeds."""
    modes = {
        "paper": contenders.paper(scalar.LOGGED_IDLE_SIGNAL),
        contenders.DEFAULT: contenders.all_contenders()[contenders.DEFAULT],
    }
    rows: list[Row] = []
    for stress, number in signals.FIGURES.items():
        for name, mode in modes.items():
            found = [signals.run(stress, mode, seed=seed) for seed in range(1, 2 if quick else 4)]
            for when, values in (
                ("before", [each.before for each in found]),
                ("while peers work", [each.during for each in found]),
            ):
                rows.append((f"{number}, {stress}, {name}: {when}", statistics.mean(values), "", ""))
    return rows
