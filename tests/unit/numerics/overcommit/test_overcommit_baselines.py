"""The published predictors, on samples whose figures are computed by hand."""

import math

import numpy as np
import pytest

from carico_core.numerics.overcommit import agent, baselines
from carico_core.numerics.overcommit import recent as recents


def recent(*series: list[float], limit: float = 10.0) -> recents.Recent:
    """One machine."""
    return recents.Recent(series=np.array([series]), limit=limit)


# Totals 3, 5, 7: mean 5, sd of a sample 2. 99th percentiles by linear interpolation: 1.98 of the way from 1 to 3 in two
# steps of 1, and from 2 to 4.
STEPS = recent([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])


def test_n_sigma_is_the_mean_and_sigmas_of_the_total() -> None:
    assert baselines.n_sigma(STEPS, 3.0).tolist() == pytest.approx([11.0])
    assert baselines.n_sigma(STEPS, 5.0).tolist() == pytest.approx([15.0])


def test_n_sigma_is_at_most_the_limits() -> None:
    assert baselines.n_sigma(recent([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], limit=7.0), 5.0).tolist() == [14.0]


def test_a_percentile_sum_adds_the_percentiles_of_the_series() -> None:
    assert baselines.percentile_sum(STEPS, 99.0).tolist() == pytest.approx([2.98 + 3.98])


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        # A moving total: N-sigma is higher.
        (([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]), 15.0),
        # The total is constant at 4, and each series reaches 2.96 of 3.
        (([1.0, 3.0, 1.0], [3.0, 1.0, 3.0]), 2.96 + 3.0),
    ],
)
def test_the_published_predictor_is_the_maximum_of_both(series: tuple[list[float], ...], expected: float) -> None:
    assert baselines.BASELINES["eurosys21"].predict(recent(*series)).tolist() == pytest.approx([expected])


def test_the_default_of_borg_is_a_share_of_the_limits() -> None:
    assert baselines.BASELINES["borg-default"].predict(STEPS).tolist() == pytest.approx([18.0])


def test_each_machine_is_predicted_from_its_own_samples() -> None:
    both = recents.Recent(series=np.array([[[1.0, 2.0], [2.0, 2.0]], [[5.0, 5.0], [4.0, 4.0]]]), limit=10.0)
    alone = [recents.Recent(series=both.series[[index]], limit=10.0) for index in range(2)]
    for name, each in baselines.BASELINES.items():
        assert each.predict(both).tolist() == [*each.predict(alone[0]), *each.predict(alone[1])], name


def test_the_agent_counts_a_pod_at_its_cost_and_risk() -> None:
    """Ten Pods that use 2 each: the cost is learnt from the total, and its risk is the filter's."""
    predictor = agent.Agent(interval_s=300.0)
    steady = recents.Recent(series=np.full((1, 10, 24), 2.0), limit=10.0)
    (peak,) = predictor.predict(steady).tolist()
    assert 20.0 < peak < 30.0
    (later,) = predictor.predict(steady).tolist()
    assert math.isclose(later, peak, rel_tol=0.05)


def test_the_agent_allows_at_most_the_limits() -> None:
    full = recents.Recent(series=np.full((2, 3, 4), 10.0), limit=10.0)
    assert agent.Agent(interval_s=60.0).predict(full).tolist() == [30.0, 30.0]
