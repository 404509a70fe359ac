"""The start lag, measured: the delay of the Pod count by which the changes of usage are explained best."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.numerics import arrays
from carico_core.numerics.estimators import counts, start_lag

LAGS_S = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5)


class Plain:
    """Every change so far, and of each lag what the least squares over all of them leave unexplained."""

    def __init__(self, lag_s: float) -> None:
        self.value_s = lag_s
        self._lags_s = sorted({*LAGS_S, lag_s})
        self._counts = [counts.FilteredCount(1, start_lag_s=each) for each in self._lags_s]
        self._before = np.zeros(len(self._lags_s))
        self._level: float | None = None
        # Seconds, change of usage, and of each filtered count.
        self._changes: list[tuple[float, float, arrays.Array]] = []

    def tick(self, gain: float, pods: float, dt_s: float) -> None:
        for count in self._counts:
            count.tick([gain], pods, dt_s)

    def judge(self, level: float, *, informative: bool, dt_s: float) -> float:
        shown = np.array([count.value(0) for count in self._counts])
        if informative and self._level is not None:
            self._changes.append((dt_s, level - self._level, shown - self._before))
            self._choose()
        self._level, self._before = level if informative else None, shown
        return self.value_s

    def _choose(self) -> None:
        seconds, changes, came = (np.array(each) for each in zip(*self._changes, strict=True))
        weights = np.exp(-(np.cumsum(seconds[::-1])[::-1] - seconds) / 120.0)
        squares = weights @ came**2
        slopes = np.maximum(weights * changes @ came, 0.0) / np.where(squares > 1e-9, squares, math.inf)
        errors = weights @ (changes[:, np.newaxis] - came * slopes) ** 2
        best, used = int(np.argmin(errors)), self._lags_s.index(self.value_s)
        if squares[best] >= 1.5 and errors[best] < 0.7 * errors[used]:
            self.value_s = self._lags_s[best]


@settings(max_examples=40)
@given(
    st.integers(0, 10_000), st.sampled_from((0.2, 0.3)), st.sampled_from((0.0, 0.2, 0.4, 1.0)),
    st.sampled_from((2, 10, 20)), st.floats(0.05, 1.0), st.sampled_from((0.02, 1.0)),
)  # fmt: skip
def test_a_lag_is_that_of_least_squares(
    seed: int, first_s: float, true_s: float, ticks: int, noise: float, cost: float
) -> None:
    rng = np.random.default_rng(seed)
    made, plain = start_lag.StartLag(first_s), Plain(first_s)
    truth = counts.FilteredCount(1, start_lag_s=true_s)
    pods = int(rng.integers(0, 3))
    for step in range(40):
        # It stands still at first: of a single change without noise before it, every lag explains all.
        for tick in range(ticks):
            if step >= 3 and tick % 5 == 0 and rng.random() < 0.5:
                pods = int(np.clip(pods + rng.integers(-2, 3), 0, 7))
            sample = (float(rng.uniform(0.1, 0.5)), float(pods), 0.1)
            made.tick(*sample)
            plain.tick(*sample)
            truth.tick([sample[0]], *sample[1:])
        # Nothing at all is a reading as well.
        nothing = step >= 3 and rng.random() < 0.1
        level = 0.0 if nothing else cost * abs(truth.value(0) + noise * float(rng.standard_normal()))
        informative = step < 3 or bool(rng.random() < 0.8)
        dt_s = ticks / 10 * float(rng.choice((1.0, 5.0)))
        expected_s = plain.judge(level, informative=informative, dt_s=dt_s)
        assert made.judge(level, informative=informative, dt_s=dt_s) == expected_s


def test_samples_that_nobody_judges_do_not_heap_up() -> None:
    lag = start_lag.StartLag(0.2)
    sizes = []
    for ticks in (160, 1600):
        for _ in range(ticks):
            lag.tick(0.3, 2.0, 0.1)
        sizes.append(len(pickle.dumps(lag)))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(("pods", "expected_s"), [(1.0, 0.2), (2.0, 0.8)])
def test_two_pods_are_enough_to_take_another_lag_and_one_is_not(pods: float, expected_s: float) -> None:
    lag = start_lag.StartLag(0.2)
    for tick in range(30):
        lag.tick(1.0, pods if tick >= 10 else 0.0, 0.1)
        lag.judge(pods if tick >= 18 else 0.0, informative=True, dt_s=0.1)
    assert lag.value_s == expected_s


def test_a_lag_is_not_changed_by_usage_that_has_nothing_to_do_with_pods() -> None:
    rng = np.random.default_rng(4)
    lag = start_lag.StartLag(0.2)
    for second in range(600):
        for _ in range(10):
            lag.tick(0.3, 3.0, 0.1)
        assert lag.judge(float(rng.random()), informative=second % 3 != 0, dt_s=1.0) == 0.2


@pytest.mark.parametrize("true_lag_s", [0.0, 0.4, 1.0])
def test_a_lag_is_found_through_noise(true_lag_s: float) -> None:
    rng = np.random.default_rng(9)
    lag, truth = start_lag.StartLag(0.2), counts.FilteredCount(1, start_lag_s=true_lag_s)
    pods = 0
    for second in range(120):
        pods = int(np.clip(pods + rng.integers(-2, 3), 0, 7))
        for _ in range(10):
            lag.tick(0.25, float(pods), 0.1)
            truth.tick([0.25], float(pods), 0.1)
        lag.judge(truth.values[0] + 0.1 * float(rng.standard_normal()), informative=second % 7 != 0, dt_s=1.0)
    assert lag.value_s == pytest.approx(true_lag_s, abs=0.21)
