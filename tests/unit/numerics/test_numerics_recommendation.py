"""Requests and limits from measured usage: the rule by hand, its properties, and what is flagged."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.domain import usage
from carico_core.numerics import distribution, recommendation

Flag = recommendation.Flag
Confidence = recommendation.Confidence
DAY_S = 24 * 3600.0
MIB = 2.0**20


def of(amounts: list[float], *, dimension: str = "cpu", peak: float | None = None) -> distribution.Distribution:
    array = np.zeros(usage.BUCKETS)
    for amount in amounts:
        array[distribution.bucket(dimension, amount)] += 1.0
    return distribution.Distribution(dimension, array, peak=peak)


def memory(peak: float | None) -> distribution.Distribution:
    return of([50 * MIB] * 100, dimension="memory", peak=peak)


def measured(**changed: Any) -> recommendation.Measured:
    values: dict[str, Any] = {
        "cpu": of([0.1] * 80 + [0.5] * 20), "memory": memory(100 * MIB), "pod_means": of([0.2] * 40),
        "memory_before": 100 * MIB, "pods": 40, "failed": 0, "failed_share": 0.0, "nodes": 3, "has_new_image": False,
        "measured_s": 1000.0, "age_s": 2 * DAY_S,
    }  # fmt: skip
    return recommendation.Measured(**(values | changed))


def test_cpu_is_the_percentile_plus_the_margin_and_memory_the_peak_plus_the_margin() -> None:
    found = recommendation.recommend(measured(), recommendation.Rule())
    assert found.requests["cpu"] == pytest.approx(0.5 * 1.15, rel=distribution.RELATIVE_ERROR + 0.002)
    assert found.requests["memory"] == 115 * MIB
    assert found.limits == {"memory": 115 * MIB}
    assert (found.confidence, found.flags) == (Confidence.HIGH, ())


def test_a_percentile_is_at_most_the_highest_amount_that_was_measured() -> None:
    found = recommendation.recommend(measured(cpu=of([0.5], peak=0.5)), recommendation.Rule(margin=0.0))
    assert found.requests["cpu"] == 0.5


def test_cpu_is_at_most_half_the_margin_above_the_highest_amount_that_was_measured() -> None:
    steady = recommendation.recommend(measured(cpu=of([0.5], peak=0.5)), recommendation.Rule())
    assert steady.requests["cpu"] == 0.538
    # Far below its peak the percentile counts.
    spiky = recommendation.recommend(measured(cpu=of([0.1] * 80 + [0.5] * 20, peak=4.0)), recommendation.Rule())
    assert spiky.requests["cpu"] == pytest.approx(0.5 * 1.15, rel=distribution.RELATIVE_ERROR + 0.002)


def test_another_percentile_and_margin() -> None:
    found = recommendation.recommend(measured(), recommendation.Rule(percentile=0.5, margin=0.0))
    assert found.requests["cpu"] == pytest.approx(0.1, rel=distribution.RELATIVE_ERROR + 0.01)
    assert found.requests["memory"] == 100 * MIB


def test_small_pods_are_recommended_memory_in_smaller_steps() -> None:
    for peak, expected in ((3.0, 3.5), (0.1, 1.0), (13.9, 16.0), (14.0, 17.0)):
        found = recommendation.recommend(measured(memory=memory(peak * MIB)), recommendation.Rule())
        assert found.requests["memory"] == expected * MIB


def test_the_interval_of_a_percentile_counts_pods_not_samples() -> None:
    few = recommendation.recommend(measured(pods=4), recommendation.Rule()).cpu_bounds
    many = recommendation.recommend(measured(pods=4000), recommendation.Rule()).cpu_bounds
    assert few is not None and many is not None
    # .95 +- 1.96 sqrt(.0475 / 4) = .736 to 1;  .95 +- .0068
    assert few == pytest.approx((0.1, 0.5), rel=0.03)
    assert many[0] == many[1] == pytest.approx(0.5, rel=0.03)


@given(
    st.floats(1.0, 1e13), st.floats(0.0, 2.0), st.lists(st.floats(0.0, 100.0), min_size=1, max_size=50),
    st.floats(0.01, 1.0),
)  # fmt: skip
def test_memory_is_never_below_a_peak_and_nothing_is_below_the_smallest_unit(
    peak: float, margin: float, cpu: list[float], percentile: float
) -> None:
    rule = recommendation.Rule(percentile=percentile, margin=margin)
    found = recommendation.recommend(measured(memory=memory(peak), cpu=of(cpu)), rule)
    assert found.requests["memory"] >= peak
    step = MIB / 16 if found.requests["memory"] <= 16 * MIB else MIB
    assert found.requests["memory"] % step == 0.0 and found.requests["memory"] >= MIB
    assert found.requests["cpu"] >= recommendation.CPU_UNIT


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.lists(st.floats(0.0, 100.0), min_size=1, max_size=50))
def test_a_higher_percentile_never_recommends_less(first: float, second: float, cpu: list[float]) -> None:
    found = measured(cpu=of(cpu))
    least, most = (
        recommendation.recommend(found, recommendation.Rule(percentile=each)).requests["cpu"]
        for each in sorted((first, second))
    )
    assert least <= most


@pytest.mark.parametrize(
    ("changed", "flags"),
    [
        ({"pods": 1}, (Flag.ONE_POD,)),
        ({"failed_share": 0.75}, (Flag.ALL_FAILED,)),
        ({"failed_share": 0.74}, ()),
        ({"has_new_image": True}, (Flag.IMAGE_CHANGED,)),
        ({"memory_before": 92 * MIB}, (Flag.GROWING,)),
        ({"memory_before": 94 * MIB}, ()),
        ({"memory_before": None}, ()),
        ({"pod_means": of([0.1] * 20 + [1.0] * 20)}, (Flag.TWO_KINDS,)),
        ({"measured_s": 4.0}, (Flag.BRIEF,)),
    ],
)
def test_what_must_not_be_applied_without_a_look_is_flagged(changed: dict[str, Any], flags: tuple[Flag, ...]) -> None:
    found = recommendation.recommend(measured(**changed), recommendation.Rule())
    assert found.flags == flags


def test_the_two_kinds_of_pods_are_named() -> None:
    found = recommendation.recommend(
        measured(pod_means=of([0.1] * 20 + [1.0] * 20)), recommendation.Rule()
    ).kinds  # fmt: skip
    assert found == pytest.approx((0.1, 1.0), rel=0.03)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Confidence.HIGH), ({"nodes": 1}, Confidence.MEDIUM), ({"age_s": 600.0}, Confidence.MEDIUM),
        ({"pods": 29}, Confidence.MEDIUM), ({"pods": 4}, Confidence.LOW), ({"measured_s": 59.0}, Confidence.LOW),
        ({"pod_means": of([])}, Confidence.LOW),
    ],
)  # fmt: skip
def test_confidence_counts_pods_their_means_nodes_and_time(
    changed: dict[str, Any], expected: recommendation.Confidence
) -> None:
    assert recommendation.confidence(measured(**changed)) is expected


def test_the_risk_of_a_higher_peak_falls_with_the_number_of_pods() -> None:
    found = [recommendation.recommend(measured(pods=pods), recommendation.Rule()).memory_risk for pods in (1, 9)]
    assert found == [0.5, 0.1]


def test_what_was_not_measured_is_not_recommended() -> None:
    found = recommendation.recommend(
        measured(cpu=of([]), memory=memory(None)), recommendation.Rule()
    )  # fmt: skip
    assert (found.requests, found.limits, found.cpu_bounds) == ({}, {}, None)


@pytest.mark.parametrize("wrong", [{"percentile": 0.0}, {"percentile": 1.1}, {"margin": -0.1}, {"margin": 11.0}])
def test_a_rule_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        recommendation.Rule(**wrong)
