"""The words of samples: any order, the kernel's names of pressure, and units."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_cli.recordings import sample_words
from carico_core.domain import messages

PARTS = {
    "cpu utilisation: 0.5": ("utilisation", 0.5),
    "cpu pressure 0.25": ("pressure", 0.25),
    "mem utilisation 0.1": ("memory", 0.1),
    "memory some: 9": ("memory pressure", 9.0),
    "memory full 8": ("memory full", 8.0),
    "io some: 436": ("io pressure", 436.0),
    "cpu full avg10=1.5": ("full avg10", 1.5),
    "cpu full 7": ("full", 7.0),
}


def times(count: int) -> messages.Array:
    """Ten samples a second."""
    return np.arange(count) / 10.0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cpu utilisation: 0.19 cpu pressure: 0.07 mem utilisation 0.05",
         {"utilisation": 0.19, "pressure": 0.07, "memory": 0.05}),
        ("cpu: 0.16 memory: 0.06", {"utilisation": 0.16, "memory": 0.06}),
        ("cpu some: 7063 full 0 memory some: 1 full 2 io some: 3 full 4",
         {"pressure": 7063.0, "full": 0.0, "memory pressure": 1.0, "memory full": 2.0, "io pressure": 3.0,
          "io full": 4.0}),
        ("cpu some avg10=1.50 avg60=2.00 avg300=3.00 total=123456",
         {"pressure avg10": 1.5, "pressure avg60": 2.0, "pressure avg300": 3.0, "pressure": 123456.0}),
    ],
)  # fmt: skip
def test_a_lines_columns(text: str, found: dict[str, float]) -> None:
    assert sample_words.columns(text) == found


@hypothesis.given(st.permutations(sorted(PARTS)), st.integers(1, len(PARTS)))
def test_the_order_of_the_words_changes_nothing(order: list[str], count: int) -> None:
    chosen = order[:count]
    assert sample_words.columns(" ".join(chosen)) == dict(PARTS[part] for part in chosen)


@pytest.mark.parametrize(
    "text",
    [
        "", "cpu", "0.5", "utilisation: 0.5", "cpu utilisation: 0.5 0.6", "cpu utilisation: 0.5 cpu: 0.6",
        "cpu utilisation: 0.5 cpu", "cpu load: 0.5", "cpu utilisation: 0.1.2", "cpu utilisation: NaN",
        "cpu utilisation: +Inf", "cpu utilisation: 1e999",
    ],
)  # fmt: skip
def test_what_is_no_sample(text: str) -> None:
    assert sample_words.columns(text) is None


def test_shares_are_of_100_ms_of_percent_or_as_they_are() -> None:
    names = ("utilisation", "pressure", "full avg10", "io pressure")
    raw = np.array([[0.5, 25_000.0, 12.5, 1.0], [1.2, 130_000.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        sample_words.shares(names, times(2), raw), [[0.5, 0.25, 0.125, 1e-5], [1.0, 1.0, 0.0, 0.0]]
    )
    # Shares of pressure exceed 1 by a scheduling delay, and are clipped.
    raw = np.array([[0.25], [1.02]])
    np.testing.assert_allclose(sample_words.shares(("pressure",), times(2), raw), [[0.25], [1.0]])


def test_totals_that_were_not_subtracted_are() -> None:
    added = np.array([1e4, 2e4, 0.0, 5e4, 1e5, 3e4, 0.0, 0.0, 1e4, 2e4, 4e4])
    total = 7e6 + np.cumsum(added)
    found = sample_words.shares(("pressure",), times(11), total[:, np.newaxis])[:, 0]
    np.testing.assert_allclose(found[1:], added[1:] / 1e5)
    assert found[0] == found[1]


@pytest.mark.parametrize("passed_s", [[1.0] * 20, [0.1] * 9 + [2.0] + [0.1] * 10], ids=["1 Hz", "a gap"])
def test_totals_are_shares_of_the_time_that_passed(passed_s: list[float]) -> None:
    at_s = 1.7e9 + np.cumsum(passed_s)
    # A tenth of the time a task waits for a CPU, a thousandth for memory.
    totals = 7e6 + np.outer(at_s - at_s[0], [1e5, 1e3]) - [0.0, 6.9e6]
    found = sample_words.shares(("pressure", "memory pressure"), at_s, totals)
    np.testing.assert_allclose(found, np.tile([0.1, 0.001], (20, 1)), rtol=1e-4)


def test_in_no_time_nothing_waits() -> None:
    at_s = times(12)
    at_s[5] = at_s[4]
    found = sample_words.shares(("pressure",), at_s, 1e6 + 1e4 * np.arange(12.0)[:, np.newaxis])[:, 0]
    assert found[5] == 0.0
    assert found[6] == pytest.approx(0.05)


def test_the_mean_over_10_s_stands_for_a_pressure_that_is_missing() -> None:
    assert sample_words.cpu(("pressure avg10", "utilisation")) == ("utilisation", "pressure avg10")
    assert sample_words.cpu(("pressure", "pressure avg10")) == ("pressure",)
    assert sample_words.cpu(("memory", "io pressure")) is None
