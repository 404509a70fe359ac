"""The learnt margin: the published predictor until it is warm, better than it afterwards, and of no unit."""

import numpy as np
import pytest

from carico_core.numerics import arrays
from carico_core.numerics.overcommit import baselines, margin
from carico_core.numerics.overcommit import recent as recents

HISTORY, HORIZON = 12, 6
# Outcomes of a horizon, then a period of twelve samples: the first fit.
WARM = HORIZON + 12


def usage(*, machines: int = 80, samples: int = 110, seed: int = 1) -> arrays.Array:
    """Four series of each machine: slow waves with noise and peaks, below 100."""
    rng = np.random.default_rng(seed)
    shape = (machines, 4, samples)
    level = rng.uniform(10.0, 40.0, (machines, 4, 1))
    wave = 0.2 * level * np.sin(np.arange(samples) / rng.uniform(4.0, 20.0, (machines, 4, 1)))
    peaks = 20.0 * (rng.uniform(size=shape) < 0.02)
    return np.asarray(np.clip(level + wave + peaks + rng.normal(0.0, 2.0, shape), 0.0, 100.0))


def predicted(predictor: recents.Predictor, series: arrays.Array, *, limit: float = 100.0) -> arrays.Array:
    """Predictions (moments, machines)."""
    windows = [series[:, :, end - HISTORY : end] for end in range(HISTORY, series.shape[2] - HORIZON)]
    return np.array([predictor.predict(recents.Recent(series=window, limit=limit)) for window in windows])


def peaks_of(series: arrays.Array) -> arrays.Array:
    total = series.sum(axis=1)
    ends = range(HISTORY, series.shape[2] - HORIZON)
    return np.array([total[:, end : end + HORIZON].max(axis=1) for end in ends])


def test_it_predicts_as_the_published_predictor_until_enough_outcomes_are_resolved() -> None:
    series = usage()
    learnt = predicted(margin.Margin(HORIZON), series)
    published = predicted(baselines.BASELINES[baselines.PUBLISHED], series)
    np.testing.assert_allclose(learnt[: WARM - 1], published[: WARM - 1], rtol=1e-12)
    assert (np.abs(learnt[WARM:] - published[WARM:]) > 0.1).any()


def test_afterwards_it_saves_more_with_less_severity_and_no_more_violations() -> None:
    series = usage()
    peaks = peaks_of(series)[WARM:]
    learnt = predicted(margin.Margin(HORIZON), series)[WARM:]
    published = predicted(baselines.BASELINES[baselines.PUBLISHED], series)[WARM:]
    assert learnt.mean() < published.mean()
    assert np.maximum(1.0 - learnt / peaks, 0.0).mean() < np.maximum(1.0 - published / peaks, 0.0).mean()
    assert (learnt < peaks).mean() <= (published < peaks).mean()


def test_where_usage_becomes_less_predictable_it_violates_no_more() -> None:
    rng = np.random.default_rng(1)
    series = usage(samples=160)
    # Each fit promises more than it keeps: bursts become thirty times as frequent.
    bursts = rng.uniform(size=series.shape) < 0.002 + 0.06 * np.arange(160) / 160
    series = np.asarray(np.clip(series + 30.0 * bursts, 0.0, 100.0))
    peaks = peaks_of(series)
    learnt = predicted(margin.Margin(HORIZON), series)
    published = predicted(baselines.BASELINES[baselines.PUBLISHED], series)
    assert (learnt < peaks).mean() <= (published < peaks).mean()
    assert learnt.mean() < 0.95 * published.mean()


def test_the_unit_of_the_trace_changes_nothing() -> None:
    series = usage(samples=70)
    one = predicted(margin.Margin(HORIZON), series)
    other = predicted(margin.Margin(HORIZON), series / 64.0, limit=100.0 / 64.0)
    np.testing.assert_allclose(other * 64.0, one, rtol=1e-6)


def test_idle_machines_are_no_outcome() -> None:
    assert predicted(margin.Margin(HORIZON), np.zeros((80, 4, 60))).max() == 0.0


def test_some_idle_machines_do_not_disturb() -> None:
    series = usage(samples=70)
    series[:40] = 0.0
    found = predicted(margin.Margin(HORIZON), series)
    assert np.isfinite(found).all()
    assert (found >= 0.0).all()


@pytest.mark.parametrize("horizon", [1, 30])
def test_other_horizons_work(horizon: int) -> None:
    found = predicted(margin.Margin(horizon), usage(samples=90))
    assert np.isfinite(found).all()
    assert (found <= 400.0).all()
