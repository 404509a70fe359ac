"""What a replay's picture shows: figures that can be read, and whatever the table compares with."""

import pathlib
from typing import Any

import numpy as np
import pytest
from matplotlib import figure

from carico_cli.recordings import engine, plot, reading
from carico_core.numerics.estimators import base
from tests.unit.cli.recordings import author_logs

EVALUATED = (
    "2025/05/21 21:26:54.{at} (signal) y: [0.1 0.05]\n"
    "2025/05/21 21:26:54.{at} (signal) U: []float64{{0.1, 0.05}}\n"
    "2025/05/21 21:26:54.{at} (capacity) podCount = 1\n"
    "2025/05/21 21:26:54.{at} ({build}) capacity: 1.9 {bar}cost: -0.8\n"
)


def drawn(run: engine.Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> figure.Figure:
    made: list[figure.Figure] = []
    save = figure.Figure.savefig

    def kept(self: figure.Figure, path: pathlib.Path, **named: Any) -> None:
        made.append(self)
        save(self, path, **named)

    monkeypatch.setattr(figure.Figure, "savefig", kept)
    plot.draw(run, tmp_path / "o.png")
    return made[0]


def labels(found: figure.Figure) -> set[str]:
    return {str(line.get_label()) for ax in found.axes for line in ax.lines}


@pytest.mark.parametrize(
    ("build", "bar", "label"),
    [("two-kalman-1d", "", "cost, logged"), ("capacity", "| ", "cost, logged (published)")],
)
def test_the_estimates_that_the_table_compares_with_are_drawn(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, build: str, bar: str, label: str
) -> None:
    more = "".join(EVALUATED.format(at=f"{at}00000", build=build, bar=bar) for at in (2, 4, 6))
    run = engine.run(reading.parse(author_logs.log(more=more), name="x"), engine.Setup(estimator="dual"))
    found = drawn(run, tmp_path, monkeypatch)
    assert label in labels(found)
    # The scale has room for what was logged, too.
    assert found.axes[1].get_ylim()[1] > 1.9


def test_unknown_costs_do_not_squeeze_known_ones(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node never seen without Pods has a baseline of anything up to itself: 8 tasks, of which a Pod costs one."""
    run = engine.run(reading.parse(author_logs.log(), name="x"), engine.Setup(estimator="footprint"))
    step = run.steps[-1]
    estimate = step.estimate._replace(
        baseline={"cpu": (0.0, 8.0), "memory": (0.0, 8e9)}, cost={"cpu": (1.0, 0.1), "memory": (1e7, 1e6)}
    )
    known = engine.Step(
        at_s=step.at_s, pods=step.pods, churning=False, usage=step.usage, level=np.nan, estimate=estimate, innovation={}
    )
    found = drawn(
        engine.Run(trace=run.trace, setup=run.setup, inputs=run.inputs, steps=(known,)), tmp_path, monkeypatch
    )
    low, high = found.axes[1].get_ylim()
    assert base.SIGNAL not in estimate.cost
    assert -0.1 < low < 0.0
    assert 1.1 <= high < 2.0
