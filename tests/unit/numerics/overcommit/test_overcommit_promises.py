"""What predictors do worse than promised: measured, from a doubt at the beginning, as shares of the published one's."""

import numpy as np
import pytest

from carico_core.numerics.overcommit import promises


def record(violations: list[float], severity: list[float]) -> promises.Record:
    """Of two predictors and the published one."""
    return promises.Record(np.array(violations), np.array(severity), np.zeros(3))


PROMISED = record([0.08, 0.04, 0.1], [0.008, 0.004, 0.01])


def measured(found: promises.Record, *, moments: int) -> promises.Promises:
    made = promises.Promises(20.0)
    for _ in range(moments):
        made.settle(PROMISED, found, outcomes=100)
    return made


def test_it_begins_with_the_doubt() -> None:
    found = promises.Promises(20.0).excess(PROMISED, doubt=0.03, begins=1000.0)
    np.testing.assert_allclose(found, [0.3, 0.3])


def test_what_is_measured_replaces_the_doubt() -> None:
    # Violations .2 of the published predictor's more than promised, severity .4.
    broken = record([0.1, 0.06, 0.1], [0.012, 0.008, 0.01])
    np.testing.assert_allclose(measured(broken, moments=400).excess(PROMISED, doubt=0.03, begins=1e-9), [0.2, 0.4])
    # The sums are worth 20 / ln 2 moments of 100 outcomes, and the doubt counts as much.
    half = measured(broken, moments=400).excess(PROMISED, doubt=0.03, begins=100.0 / (1.0 - 0.5**0.05))
    np.testing.assert_allclose(half, [0.25, 0.35], rtol=1e-4)


def test_it_is_never_below_zero() -> None:
    better = record([0.0, 0.0, 0.1], [0.0, 0.0, 0.01])
    np.testing.assert_array_equal(measured(better, moments=400).excess(PROMISED, doubt=0.03, begins=1.0), [0.0, 0.0])


def test_a_promise_is_relative_to_the_published_predictor_at_the_same_time() -> None:
    # All are violated five times as often as when they were fitted.
    busy = record([0.4, 0.2, 0.5], [0.04, 0.02, 0.05])
    np.testing.assert_allclose(measured(busy, moments=400).excess(PROMISED, doubt=0.03, begins=1e-9), 0.0, atol=1e-9)


@pytest.mark.parametrize("quiet", [record([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]), record([0.1, 0.1, 0.0], [0.1, 0.1, 0.0])])
def test_outcomes_that_do_not_violate_the_published_predictor_compare_nothing(quiet: promises.Record) -> None:
    np.testing.assert_allclose(measured(quiet, moments=50).excess(PROMISED, doubt=0.03, begins=1000.0), [0.3, 0.3])


def test_predictors_that_are_never_chosen_or_hardly_ever_violated_are_not_compared() -> None:
    # The first promises four times the published predictor's violations, the last a tenth: neither says anything.
    promised = record([0.4, 0.01, 0.1], [0.04, 0.001, 0.01])
    made = promises.Promises(20.0)
    for _ in range(50):
        made.settle(promised, record([0.9, 0.1, 0.1], [0.09, 0.01, 0.01]), outcomes=100)
    np.testing.assert_allclose(made.excess(promised, doubt=0.03, begins=1000.0), [0.3, 0.3])
