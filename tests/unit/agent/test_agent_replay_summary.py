"""What is said of a replay: numbers of its innovation and of its capacity."""

import dataclasses

import numpy as np
import pytest

from carico_agent.replay import engine, fit, reading
from carico_core.numerics.estimators import base
from tests.unit.agent import author_logs


def steps(*surprises: float | None) -> list[engine.Step]:
    over = reading.parse(author_logs.log(), name="x")
    (one,) = engine.run(over, engine.Setup(estimator="dual")).steps
    return [
        dataclasses.replace(one, surprise={} if surprise is None else {base.SIGNAL: surprise}) for surprise in surprises
    ]


def summary(found: list[engine.Step]) -> dict[str, object]:
    over = reading.parse(author_logs.log(), name="x")
    run = engine.Run(trace=over, setup=engine.Setup(estimator="dual"), inputs="samples", steps=tuple(found))
    moments: dict[str, object] = fit.summary(run)["innovation"][base.SIGNAL]
    return moments


def test_the_statistics_of_the_innovation_are_those_of_numpy() -> None:
    values = np.random.default_rng(3).standard_normal(500).cumsum().tolist()
    found = summary(steps(*values))
    array = np.array(values)
    assert found["count"] == 500
    assert found["mean"] == pytest.approx(array.mean(), rel=1e-5)
    assert found["sd"] == pytest.approx(array.std(), rel=1e-5)
    # A random walk is almost its own neighbour.
    assert found["lag1"] == pytest.approx(np.corrcoef(array[:-1], array[1:])[0, 1], abs=0.02)


def test_neighbours_across_a_gap_are_none() -> None:
    assert summary(steps(1.0, None, -1.0, None, 1.0))["lag1"] is None
    assert summary(steps(1.0, -1.0, 1.0, -1.0, None))["lag1"] == pytest.approx(-1.0)


def test_a_capacity_is_useful_once_it_is_measured_and_holds_a_pod() -> None:
    (one,) = steps(0.0)
    modes: list[tuple[base.Mode, float]] = [("warming", 3.0), ("predicted", 3.0), ("measured", 0.9), ("measured", 1.0)]
    found = [
        dataclasses.replace(one, at_s=float(second), estimate=one.estimate._replace(mode=mode, capacity=capacity))
        for second, (mode, capacity) in enumerate(modes)
    ]
    assert fit.first_useful_s(found) == 3.0
    assert fit.first_useful_s(found[:3]) is None
