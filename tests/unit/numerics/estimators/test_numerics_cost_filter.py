"""The filters over the costs of classes: each belief learns as it would by itself."""

import numpy as np
import pytest

from carico_core.numerics import arrays, kalman
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import cost_filter

KNOWN: list[base.Evidence] = [(1.0, 0.5), (0.2, 0.1), (0.0, 2.0)]
NOTHING: list[base.Evidence] = [(0.0, 100.0)] * 3
SHOWS = np.array([True, False, True])


def test_two_beliefs_learn_together_as_each_would_alone() -> None:
    rng = np.random.default_rng(3)
    both, alone = cost_filter.CostFilters(2), [cost_filter.CostFilters(1), cost_filter.CostFilters(1)]
    both.resize([], [KNOWN, NOTHING])
    alone[0].resize([], [KNOWN])
    alone[1].resize([], [NOTHING])
    for step in range(40):
        design, level, at_least = rng.random(3) * 4.0, float(rng.random() * 3.0), step % 3 == 0
        for each in (both, *alone):
            each.drift(0.02, SHOWS if step % 2 else None, 1.0)
            each.step(design, level, 0.01, at_least=at_least)
            each.clip(2.0)
    for belief, each in enumerate(alone):
        assert both.mean[belief].tolist() == each.mean[0].tolist()
        assert both.covariance[belief].tolist() == each.covariance[0].tolist()


def test_a_step_is_kalmans() -> None:
    filters = cost_filter.CostFilters(1)
    filters.resize([], [KNOWN])
    design = np.array([2.0, 1.0, 0.5])
    mean, covariance = kalman.update_vector(
        filters.mean[0], filters.covariance[0], innovation=3.0 - float(design @ filters.mean[0]), h=design, r=0.01
    )
    filters.step(design, 3.0, 0.01, at_least=False)
    np.testing.assert_allclose(filters.mean[0], mean, rtol=1e-12)
    np.testing.assert_allclose(filters.covariance[0], covariance, rtol=1e-9, atol=1e-15)


def test_a_step_of_many_rows_is_kalmans_too() -> None:
    rng = np.random.default_rng(5)
    size, variance = 3 * arrays.BLOCK_ROWS + 1, 0.04
    filters = cost_filter.CostFilters(1)
    filters.resize([], [[(0.1, 1.0)] * size])
    root = rng.normal(size=(size, size))
    filters.covariance[0] = before = root @ root.T
    design = rng.random(size)
    gain = before @ design / (design @ before @ design + variance)
    kept = np.eye(size) - np.outer(gain, design)
    filters.step(design, 3.0, variance, at_least=False)
    np.testing.assert_allclose(
        filters.covariance[0], kept @ before @ kept.T + variance * np.outer(gain, gain), rtol=1e-9, atol=1e-9
    )


def test_a_reading_that_says_at_least_teaches_only_who_expected_less() -> None:
    filters = cost_filter.CostFilters(2)
    filters.resize([], [[(5.0, 1.0)], [(1.0, 1.0)]])
    filters.step(np.array([1.0]), 3.0, 0.01, at_least=True)
    assert filters.mean[0].tolist() == [5.0]
    assert filters.mean[1, 0] == pytest.approx(3.0, abs=0.05)
    before = filters.covariance.copy()
    filters.step(np.array([1.0]), 0.5, 0.01, at_least=True)
    assert (filters.covariance == before).all()


def test_a_reading_that_is_just_what_was_expected_says_nothing_either() -> None:
    filters = cost_filter.CostFilters(1)
    filters.resize([], [[(2.0, 1.0)]])
    filters.step(np.array([1.5]), 3.0, 0.01, at_least=True)
    assert (filters.mean.item(), filters.covariance.item()) == (2.0, 1.0)


def test_what_shows_may_have_changed_and_what_is_bounded_stays_so() -> None:
    filters = cost_filter.CostFilters(2)
    filters.resize([], [KNOWN, NOTHING])
    filters.drift(0.1, SHOWS, 3.0)
    # (.1 c)^2 a second, of what shows.
    assert filters.covariance[0].tolist() == np.diag([0.5 + 0.1**2 * 3.0, 0.1, 2.0]).tolist()
    assert filters.covariance[1].tolist() == np.diag([100.0] * 3).tolist()
    filters = cost_filter.CostFilters(1)
    filters.resize([], [[(1.0, 0.5), (1.0, 0.1), (1.0, 2.0)]])
    filters.drift(2.0, None, 0.2, kept_below=0.6)
    assert filters.covariance[0].diagonal().tolist() == [0.6, 0.6, 2.8]
    filters.drift(2.0, None, 0.2, kept_below=0.6)
    assert filters.covariance[0].diagonal() == pytest.approx([0.6, 0.6, 3.6])


def test_what_is_narrowed_keeps_its_correlations() -> None:
    filters = cost_filter.CostFilters(2)
    filters.resize([], [KNOWN, NOTHING])
    filters.step(np.array([2.0, 1.0, 0.5]), 3.0, 0.2, at_least=False)
    before = filters.covariance.copy()
    deviations = np.sqrt(before[0].diagonal())
    # Only the first is above what is left to it, and not above what is narrowed at all.
    most, within = 0.8 * before[0, 0, 0], before[0, 0, 0]
    assert before[0, 1, 1] < most < within < before[0, 2, 2]
    filters.narrow(0, within, most)
    after = np.sqrt(filters.covariance[0].diagonal())
    assert filters.covariance[0, 0, 0] == most
    assert after[1:].tolist() == deviations[1:].tolist()
    np.testing.assert_allclose(
        filters.covariance[0] / np.outer(after, after), before[0] / np.outer(deviations, deviations), rtol=1e-12
    )
    assert filters.covariance[1].tolist() == before[1].tolist()


def test_no_cost_is_negative_or_more_than_a_node() -> None:
    filters = cost_filter.CostFilters(2)
    filters.resize([], [[(-1.0, 1.0), (0.5, 1.0)], [(9.0, 1.0), (2.0, 1.0)]])
    filters.clip(2.0)
    assert filters.mean.tolist() == [[0.0, 0.5], [2.0, 2.0]]


def test_rows_that_are_kept_stay_and_new_ones_begin_on_their_own() -> None:
    filters = cost_filter.CostFilters(1)
    filters.resize([], [KNOWN])
    filters.step(np.array([2.0, 1.0, 0.5]), 3.0, 0.01, at_least=False)
    mean, covariance = filters.mean[0], filters.covariance[0]
    filters.resize([2, 0], [[(7.0, 3.0)]])
    assert filters.mean[0].tolist() == [mean[2], mean[0], 7.0]
    assert filters.covariance[0, 0].tolist() == [covariance[2, 2], covariance[2, 0], 0.0]
    assert filters.covariance[0, 2].tolist() == [0.0, 0.0, 3.0]
    filters.begin(0, slice(1, 2), [(4.0, 9.0)])
    assert filters.mean[0].tolist() == [mean[2], 4.0, 7.0]
    assert filters.covariance[0].tolist() == [[covariance[2, 2], 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 3.0]]
