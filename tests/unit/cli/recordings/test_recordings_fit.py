"""What is said of a replay: numbers of its innovation and of its capacity."""

import dataclasses
import json

import numpy as np
import orjson
import pytest

from carico_cli.recordings import engine, fit, reading
from carico_core.domain import recording
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from tests.unit.cli.recordings import author_logs


def steps(*innovations: float | None) -> list[engine.Step]:
    over = reading.parse(author_logs.log(), name="x")
    (one,) = engine.run(over, engine.Setup(estimator="dual")).steps
    return [dataclasses.replace(one, innovation={} if value is None else {base.SIGNAL: value}) for value in innovations]


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


@pytest.mark.parametrize("estimator", sorted(estimators.ESTIMATORS))
def test_a_fit_is_json_also_where_pods_ran_from_the_first_sample_on(estimator: str) -> None:
    over = reading.parse(author_logs.log(), name="x")
    times_s = 100.0 + np.arange(60) / 10.0
    whole = dataclasses.replace(
        over.recording,
        samples=recording.Samples(
            times_s=times_s, values=np.full((60, 2), (0.8, 0.05)), parts=np.full((60, 3), (0.9, 0.7, 0.05))
        ),
        events=tuple(
            recording.PodEvent(at_s=99.0, kind=recording.EventKind.STARTED, uid=uid) for uid in ("one", "two")
        ),
    )
    found = fit.summary(engine.run(dataclasses.replace(over, recording=whole), engine.Setup(estimator=estimator)))
    assert json.loads(orjson.dumps(found))["capacity"]["last"] >= 0.0
