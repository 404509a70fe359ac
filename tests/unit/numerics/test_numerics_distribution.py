"""Usage in buckets: percentiles against numpy within the stated error, adding in any order, decay, bounds in bytes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.domain import usage
from carico_core.numerics import distribution
from carico_core.wire import messages as wire

SHARES = st.floats(0.01, 1.0)
AMOUNTS = st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=200)
# Whole seconds, whose sums are exact.
WEIGHTS = st.dictionaries(st.integers(0, usage.BUCKETS - 1), st.integers(1, 1000).map(float), max_size=30)


def of_amounts(amounts: list[float], *, peak: float | None = None) -> distribution.Distribution:
    array = np.zeros(usage.BUCKETS)
    for amount in amounts:
        array[distribution.bucket("cpu", amount)] += 1.0
    return distribution.Distribution("cpu", array, peak=peak)


@given(AMOUNTS, SHARES)
def test_a_percentile_is_numpys_within_the_stated_error(amounts: list[float], share: float) -> None:
    found = of_amounts(amounts).percentiles([share])
    # Where share x count is a whole number up to rounding, either neighbour is a percentile.
    exact = [float(np.quantile(amounts, min(1.0, max(0.0, share + by)), method="inverted_cdf")) for by in (-1e-9, 1e-9)]
    assert found is not None
    error = distribution.RELATIVE_ERROR * 1.0001
    assert exact[0] * (1.0 - error) <= found[0] <= exact[1] * (1.0 + error)


@pytest.mark.parametrize(("dimension", "largest"), [("cpu", 20_000.0), ("memory", 20e12)])
def test_every_amount_is_in_a_bucket_that_stands_for_it(dimension: str, largest: float) -> None:
    for amount in np.geomspace(usage.LOWEST[dimension], largest, 5000).tolist():
        found = distribution.amount(dimension, distribution.bucket(dimension, amount))
        assert found == pytest.approx(amount, rel=distribution.RELATIVE_ERROR * 1.0001)


@pytest.mark.parametrize("amount", [-1.0, 0.0, math.nan])
def test_what_is_no_amount_is_in_the_first_bucket(amount: float) -> None:
    assert distribution.bucket("cpu", amount) == 0


def test_more_than_any_machine_has_is_in_the_last_bucket() -> None:
    assert distribution.bucket("cpu", 1e300) == usage.BUCKETS - 1


@given(WEIGHTS, WEIGHTS, WEIGHTS)
def test_adding_is_commutative_and_associative(
    first: usage.Buckets, second: usage.Buckets, third: usage.Buckets
) -> None:
    a, b, c = (distribution.weights(each) for each in (first, second, third))
    assert (a + b).tolist() == (b + a).tolist()
    assert ((a + b) + c).tolist() == (a + (b + c)).tolist()


@given(WEIGHTS)
def test_buckets_and_weights_are_inverse(found: usage.Buckets) -> None:
    assert distribution.buckets(distribution.weights(found)) == found


def test_without_weight_there_is_no_percentile_mean_or_level() -> None:
    empty = of_amounts([])
    assert empty.percentiles([0.9]) is None
    assert empty.mean() is None
    assert empty.levels() is None


def test_nothing_that_is_read_is_above_the_highest_amount_that_was_measured() -> None:
    found = of_amounts([0.5], peak=0.5)
    assert (found.percentiles([0.5, 1.0]), found.mean()) == ([0.5, 0.5], 0.5)


def test_a_day_halves_weights_and_a_clock_that_was_set_back_changes_none() -> None:
    assert distribution.decay(86400.0, half_life_s=86400.0) == 0.5
    assert distribution.decay(-5.0, half_life_s=86400.0) == 1.0


@given(AMOUNTS)
def test_a_mean_is_within_the_stated_error(amounts: list[float]) -> None:
    found = of_amounts(amounts).mean()
    assert found == pytest.approx(float(np.mean(amounts)), rel=distribution.RELATIVE_ERROR * 1.0001)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([0.1] * 50 + [1.0] * 50, (0.1, 1.0)),
        ([0.1] * 90 + [1.0] * 10, None),
        # A fifth on either side, in spite of rounding.
        ([0.1] + [1.0] * 4, (0.1, 1.0)),
        ([0.1] * 4 + [1.0], (0.1, 1.0)),
        ([0.5] * 50 + [0.7] * 50, None),
        (np.geomspace(0.1, 1.0, 100).tolist(), None),
    ],
)
def test_two_levels_are_two_large_groups_with_a_wide_gap(
    amounts: list[float], expected: tuple[float, float] | None
) -> None:
    found = of_amounts(amounts).levels()
    assert found == (None if expected is None else pytest.approx(expected, rel=distribution.RELATIVE_ERROR * 1.01))


@given(WEIGHTS)
def test_levels_are_those_on_both_sides_of_the_first_wide_gap(found: usage.Buckets) -> None:
    # A gap by a factor of two, with at most 2 % of the weight in it, and at least a fifth on either side.
    wide, total = math.ceil(math.log(2.0) / math.log(usage.GROWTH)), sum(found.values())
    expected = None
    for last in range(usage.BUCKETS - wide):
        below = sum(weight for index, weight in found.items() if index <= last)
        above = sum(weight for index, weight in found.items() if index > last + wide)
        if found and 5 * min(below, above) >= total and 50 * (total - below - above) <= total:
            expected = tuple(
                sum(weight * distribution.amount("cpu", index) for index, weight in side) / sum(w for _, w in side)
                for side in (
                    [each for each in found.items() if each[0] <= last],
                    [each for each in found.items() if each[0] > last],
                )
            )
            break
    levels = distribution.Distribution("cpu", distribution.weights(found)).levels()
    assert levels == (None if expected is None else pytest.approx(expected))


def test_the_largest_class_has_a_bounded_size() -> None:
    full = dict.fromkeys(range(usage.BUCKETS), 1234567.891)
    each = usage.ClassUsage(
        pods=10**6, failed=10**6, running=10**6, seconds=dict.fromkeys(usage.DIMS, full), pod_means=full,
        peaks=dict.fromkeys(usage.DIMS, 1e18),
    )  # fmt: skip
    report = usage.UsageReport(node="n", boot="0" * 16, seq=1, ts_ns=1, classes={"Job/default/pi": each})
    assert len(wire.encode_usage(report)) < 20_000
