"""Scores of peak predictors: by hand, against figures of another implementation, and what no predictor may know."""

import dataclasses
import math

import numpy as np
import pytest

from carico_core.domain import errors
from carico_core.numerics import arrays
from carico_twin.evaluate.trace import reading, scoring

# Of an independent, sample by sample implementation of the published definitions, on `waves` with GOLDEN_SETUP.
GOLDEN = {
    "borg-default": (0.0, 0.0, 0.10000000000000013),
    "percentile-99": (0.36666666666666664, 0.05237887267810523, 0.4571946698745989),
    "percentile-80": (0.44285714285714284, 0.0970513817001555, 0.5531846793597668),
    "n-sigma-5": (0.14285714285714285, 0.031572049792068374, 0.2491320235277008),
    "n-sigma-3": (0.2619047619047619, 0.06014323475337868, 0.42380916562177656),
    "max-of-history": (0.41904761904761906, 0.11251920655285624, 0.5032162909890545),
    "eurosys21": (0.14285714285714285, 0.024565274786924378, 0.24506176808241972),
    "oracle": (0.0, 0.0, 0.5512087391305246),
}
GOLDEN_SETUP = scoring.Setup(interval_s=1, per_machine=4, horizon_s=6, history_s=12, machines=5, seed=3)


def waves() -> arrays.Array:
    """Twelve series of 60 samples: waves with peaks."""

    def value(series: int, sample: int) -> float:
        peak = 25.0 if (sample * (series + 3)) % 17 == 0 else 0.0
        return 30.0 + 20.0 * math.sin(0.3 * sample * (1 + 0.1 * series) + series) + peak

    return np.array([[value(series, sample) for sample in range(60)] for series in range(12)])


def test_every_predictor_scores_as_in_another_implementation() -> None:
    scores = scoring.score(waves(), scoring.draw(12, GOLDEN_SETUP), GOLDEN_SETUP)
    found = {name: (scores[name].violations, scores[name].severity, scores[name].savings) for name in GOLDEN}
    for name, expected in GOLDEN.items():
        assert found[name] == pytest.approx(expected, abs=1e-12), name


def test_scores_by_hand() -> None:
    """One machine of two series with limit 10; history 2, horizon 1, so samples 2 and 3 are predicted.

    Totals 4, 8, 10, 4, 4. The maximum of the history is 8 and then 10, where the peaks are 10 and 4.
    """
    series = np.array([[1.0, 4.0, 5.0, 2.0, 2.0], [3.0, 4.0, 5.0, 2.0, 2.0]])
    setup = scoring.Setup(interval_s=1, per_machine=2, horizon_s=1, history_s=2, limit=10.0, machines=1)
    scores = scoring.score(series, scoring.draw(2, setup), setup)
    assert scores["max-of-history"].violations == 0.5
    assert scores["max-of-history"].severity == pytest.approx((0.2 + 0.0) / 2)
    assert scores["max-of-history"].savings == pytest.approx((12 / 20 + 10 / 20) / 2)
    assert scores["oracle"].savings == pytest.approx((10 / 20 + 16 / 20) / 2)


@pytest.mark.parametrize(("value", "limit"), [(1e9 / 7, 1e9 / 7 * 12), (1e12 / 7, 1e13), (1e9 / 7, 1e11), (0.1, 2.0)])
def test_rounding_is_no_violation_whatever_the_unit(value: float, limit: float) -> None:
    series = value * np.ones((12, 60)) * np.arange(1, 13)[:, np.newaxis]
    setup = dataclasses.replace(GOLDEN_SETUP, machines=30, limit=limit)
    scores = scoring.score(series, scoring.draw(12, setup), setup)
    assert {name for name, each in scores.items() if each.violations} <= {"agent"}


def test_usage_above_the_limits_has_its_own_rounding() -> None:
    series = np.full((12, 60), 1e9 / 7)
    scores = scoring.score(series, scoring.draw(12, GOLDEN_SETUP), GOLDEN_SETUP)
    assert scores[scoring.DEFAULT].violations == scores["percentile-99"].violations == 0.0


@pytest.mark.parametrize(("scale", "limit"), [(1e-160, 1.0), (1e-100, 1e100), (1e100, 1e-100), (1e100, 1e100)])
def test_every_scale_has_finite_scores(scale: float, limit: float) -> None:
    setup = dataclasses.replace(GOLDEN_SETUP, machines=30, limit=limit)
    series = scale / 100.0 * waves()
    for each in scoring.score(series, scoring.draw(12, setup), setup).values():
        assert np.isfinite(dataclasses.astuple(each)).all()


def test_idle_machines_have_no_severity() -> None:
    setup = scoring.Setup(interval_s=1, per_machine=2, horizon_s=1, history_s=2, limit=10.0, machines=1)
    scores = scoring.score(np.zeros((2, 6)), scoring.draw(2, setup), setup)
    assert scores["eurosys21"] == scoring.Score(violations=0.0, severity=0.0, savings=1.0)


@pytest.mark.parametrize("cut", [33, 50])
def test_no_prediction_knows_the_future(cut: int) -> None:
    """What follows a moment does not change what was predicted before it, also where the margin is learnt."""
    setup = dataclasses.replace(GOLDEN_SETUP, machines=60)
    series, drawn = waves(), scoring.draw(12, setup)
    other = series.copy()
    other[:, cut:] = 99.0 - other[:, cut:]
    before, after = (scoring.predictions(each, drawn, setup) for each in (series, other))
    # The prediction at place p is made from the samples before history + p.
    known = cut - setup.history + 1
    assert (before[scoring.ORACLE][:known] != after[scoring.ORACLE][:known]).any()
    for name in before.keys() - {scoring.ORACLE}:
        np.testing.assert_array_equal(before[name][:known], after[name][:known], err_msg=name)


def test_the_shipped_predictor_is_warm_in_the_test_above() -> None:
    setup = dataclasses.replace(GOLDEN_SETUP, machines=60)
    found = scoring.predictions(waves(), scoring.draw(12, setup), setup)
    difference = np.abs(found[scoring.DEFAULT] - found["eurosys21"]).max(axis=1)
    assert difference[25] > 1e-6
    assert difference[:17].max() < 1e-9


def test_a_machine_has_distinct_series_and_the_draw_follows_from_the_seed() -> None:
    setup = scoring.Setup(per_machine=7, machines=50, seed=4)
    drawn = scoring.draw(7, setup)
    assert drawn.shape == (50, 7)
    assert all(sorted(machine) == list(range(7)) for machine in drawn.tolist())
    np.testing.assert_array_equal(drawn, scoring.draw(7, setup))
    assert (drawn != scoring.draw(7, scoring.Setup(per_machine=7, machines=50, seed=5))).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"horizon_s": 100}, r"--horizon: got 100 s, expected a multiple of the interval \(300 s, --interval\)"),
        ({"history_s": 301}, r"--history: got 301 s, expected a multiple of the interval \(300 s, --interval\)"),
        ({"history_s": 300}, r"--history: got 300 s, expected at least 2 intervals \(600 s\)"),
        ({"limit": 0.0}, "--limit: got 0, expected a positive number"),
        ({"limit": math.nan}, "--limit: got nan, expected a positive number"),
    ],
)
def test_a_setup_that_cannot_be(given: dict[str, float], message: str) -> None:
    with pytest.raises(errors.SettingsError, match=message):
        scoring.Setup(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"per_machine": 13}, "--per-machine: got 13, expected at most 12, the series of a.csv"),
        ({"history_s": 12000, "horizon_s": 6000}, "got 12000 s and 6000 s, expected less than 18000 s in all"),
    ],
)
def test_a_setup_that_does_not_fit_the_trace(given: dict[str, int], message: str) -> None:
    trace = reading.Trace(names=tuple("abcdefghijkl"), series=waves())
    with pytest.raises(errors.SettingsError, match=message):
        scoring.evaluate("a.csv", trace, scoring.Setup(**given))
