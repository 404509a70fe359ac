"""Spikes against the rule written out, and the Reject-Job signal on a node that fills and empties."""

import math
import pickle

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.numerics import arrays, fpca, spikes

Matrix = npt.NDArray[np.float64]
FLAT = spikes.SpikeConstants(window=10)


def written_out(values: list[float], constants: spikes.SpikeConstants) -> list[int]:
    """The smoothed z-score over the whole list at once, with arrays."""
    lag = constants.window
    filtered, signals = np.array(values, dtype=float), [0] * len(values)
    for index in range(lag, len(values)):
        before = filtered[index - lag : index]
        apart = values[index] - before.mean()
        if abs(apart) > constants.threshold * max(float(before.std()), constants.least_sd):
            signals[index] = 1 if apart > 0 else -1
            filtered[index] = constants.influence * values[index] + (1 - constants.influence) * filtered[index - 1]
    return signals


@settings(deadline=None)
@given(
    # Sixty-fourths and a threshold between them, so that no comparison hangs on rounding.
    st.lists(st.integers(0, 64).map(lambda value: value / 64), min_size=1, max_size=80),
    st.integers(2, 12),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
def test_spikes_are_those_of_the_rule(values: list[float], window: int, influence: float) -> None:
    constants = spikes.SpikeConstants(window=window, threshold=2.718281828, influence=influence)
    detector = spikes.SpikeDetector(constants)
    assert [detector.observe(value) for value in values] == written_out(values, constants)


def test_a_step_is_a_spike_up_then_the_new_level_then_a_spike_down() -> None:
    detector = spikes.SpikeDetector(FLAT)
    found = [detector.observe(value) for value in [0.1] * 15 + [0.8] * 30 + [0.1] * 15]
    assert found[:15] == [0] * 15
    assert found[15] == 1
    assert found[30:45] == [0] * 15
    assert found[45] == -1
    assert set(found[45:]) <= {-1, 0}


def test_nothing_spikes_before_the_window_is_full() -> None:
    detector = spikes.SpikeDetector(FLAT)
    assert [detector.observe(value) for value in [0.0, 1.0] * 5] == [0] * 10


def test_a_ripple_below_the_least_deviation_is_no_spike() -> None:
    detector = spikes.SpikeDetector(FLAT)
    assert {detector.observe(0.5) for _ in range(20)} == {0}
    assert detector.observe(0.5 + 0.99 * FLAT.threshold * FLAT.least_sd) == 0


def test_white_noise_spikes_seldom() -> None:
    values = np.random.default_rng(4).normal(0.5, 0.05, 20_000).tolist()
    detector = spikes.SpikeDetector(spikes.SpikeConstants())
    share = sum(detector.observe(value) != 0 for value in values) / len(values)
    # Beyond 3.5 sd lie .05 %; a window of 30 knows its own sd only to 13 %, which makes it about .2 %.
    assert share < 0.005


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(), max_size=80))
def test_any_float_gives_an_answer(values: list[float]) -> None:
    detector = spikes.SpikeDetector(spikes.SpikeConstants(window=3))
    assert {detector.observe(value) for value in values} <= {-1, 0, 1}


def test_what_is_no_number_leaves_no_trace() -> None:
    plain, holed = spikes.SpikeDetector(FLAT), spikes.SpikeDetector(FLAT)
    for value in np.random.default_rng(6).random(40).tolist():
        assert holed.observe(math.nan) == 0
        assert plain.observe(value) == holed.observe(value)
    assert pickle.dumps(plain) == pickle.dumps(holed)


# --- Reject-Job ---


def model(sigma: list[float]) -> fpca.Centred:
    """Directions along the axes."""
    size = len(sigma)
    return fpca.Centred(
        model=arrays.Subspace(u=np.eye(size), sigma=np.array(sigma)), mean=np.full(size, 0.2), weight=10.0
    )


def after_calm(held: fpca.Centred, last: Matrix) -> spikes.Verdict:
    signal = spikes.RejectJob(held.model.rank)
    for _ in range(40):
        assert not signal.observe(np.full(held.model.dimensions, 0.2), held).rejected
    return signal.observe(last, held)


@pytest.mark.parametrize(
    ("sigma", "last", "score", "rejected"),
    [
        ([3.0, 1.0], [0.9, 0.2], 0.75, True),
        ([3.0, 1.0], [0.2, 0.9], 0.25, False),
        ([3.0, 1.0], [0.9, 0.9], 1.0, True),
        ([3.0, 1.0], [0.9, 0.0], 0.5, False),
        ([3.0, 1.0], [0.0, 0.2], -0.75, False),
        ([1.0, 1.0, 1.0], [0.9, 0.9, 0.2], 2 / 3, True),
        ([0.0, 0.0], [0.9, 0.9], 0.0, False),
    ],
)
def test_spikes_count_by_sigma_and_both_ways(
    sigma: list[float], last: list[float], score: float, rejected: bool
) -> None:
    verdict = after_calm(model(sigma), np.array(last))
    assert verdict.score == pytest.approx(score)
    assert verdict.rejected is rejected


def test_a_reading_that_is_no_number_rejects() -> None:
    for bad in ([math.nan, 0.2], [0.2, math.inf]):
        verdict = after_calm(model([3.0, 1.0]), np.array(bad))
        assert verdict == (0.0, True)


def usages(seconds: int, busy: range, seed: int = 0) -> Matrix:
    """(n, 2) usages at 10 Hz of a node that is busy for a while."""
    rng = np.random.default_rng(seed)
    load = np.array([0.7 if second in busy else 0.15 for second in range(seconds)]).repeat(10)
    return np.column_stack([load, 0.2 + 0.1 * load]) + rng.normal(0, [0.02, 0.002], (10 * seconds, 2))


def test_on_a_stream_it_rejects_when_a_node_fills_and_neither_before_nor_long_after_nor_when_it_empties() -> None:
    signal, samples = spikes.RejectJob(2), usages(90, range(30, 60))
    held: fpca.Centred | None = None
    rejected = []
    for index, y in enumerate(samples, start=1):
        if index % 10 == 0:
            held = fpca.merge_block(held, samples[index - 10 : index].T, rank=2, gamma=fpca.GAMMA)
        rejected.append(held is not None and signal.observe(y, held).rejected)
    per_second = np.array(rejected).reshape(-1, 10).max(axis=1)
    assert not per_second[10:29].any()
    assert per_second[30]
    # Its weakness for scheduling: a node that stays full looks like any other as soon as the window has seen it.
    assert not per_second[40:60].any()
    assert not per_second[60:63].any()


def test_its_state_does_not_grow_and_goes_on_alike_after_a_pickle() -> None:
    signal, held, sizes = spikes.RejectJob(2), model([3.0, 1.0]), []
    rng = np.random.default_rng(9)
    for count in (1_000, 9_000):
        for _ in range(count):
            signal.observe(rng.random(2), held)
        sizes.append(len(pickle.dumps(signal)))
    assert sizes[0] == sizes[1]
    other: spikes.RejectJob = pickle.loads(pickle.dumps(signal))
    for y in rng.random((50, 2)):
        before = y.tobytes()
        assert signal.observe(y, held) == other.observe(y, held)
        assert y.tobytes() == before


def test_what_makes_no_sense_is_refused() -> None:
    for bad in ({"window": 1}, {"threshold": 0.0}, {"influence": 1.1}, {"least_sd": 0.0}):
        with pytest.raises(ValueError, match="spikes"):
            spikes.SpikeConstants(**bad)
    with pytest.raises(ValueError, match="rank"):
        spikes.RejectJob(0)
    with pytest.raises(ValueError, match="rank 1, got 2"):
        spikes.RejectJob(1).observe(np.zeros(2), model([1.0, 1.0]))
