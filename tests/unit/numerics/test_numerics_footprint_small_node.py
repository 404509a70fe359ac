"""`footprint` on a node of one core that is never empty: work that nobody knows must still get in somewhere."""

import numpy as np
import pytest

from carico_core.domain import messages
from carico_core.numerics.estimators import base, footprint

DIMS = ("cpu", "memory")
MEMORY_BYTES = 2e9


def standing(cpu: float, memory: float, *, pods: int = 1, cores: float = 1.0) -> base.CapacityEstimate:
    """The estimate of a node that has run the same Pods since its agent started, at this usage."""
    config = base.EstimatorConfig(
        dims=DIMS, scale=np.array([2 * cores, MEMORY_BYTES]), cores=cores, ceiling=np.array([0.8, 0.95]),
        guard=base.default_guard(DIMS),
    )  # fmt: skip
    estimator = footprint.Footprint(config)
    seen = base.Observation(
        dt_s=1.0, y=np.array([cpu, memory]), gains=np.full(2, 0.3), pods=pods, signal=1.0,
        direction=np.array([1.0, 0.0]), peak_pods_per_core=float(pods),
    )  # fmt: skip
    for _ in range(30):
        estimate = estimator.update(seen)
    return estimate


def fits_of_new_class(estimate: base.CapacityEstimate) -> float:
    assert estimate.headroom is not None
    assert estimate.cost_plus is not None
    costs = estimate.cost_plus[messages.NEW_CLASS]
    return min(estimate.headroom[dim] / costs[dim] for dim in DIMS)


def test_one_unknown_pod_gets_in_beside_a_standing_one() -> None:
    assert fits_of_new_class(standing(0.05, 0.2)) == 1.0


@pytest.mark.parametrize(("cpu", "memory"), [(0.5, 0.2), (0.05, 0.6)])
def test_not_on_a_node_that_is_more_than_half_full(cpu: float, memory: float) -> None:
    assert fits_of_new_class(standing(cpu, memory)) < 1.0


def test_four_cores_take_what_they_took() -> None:
    # c+ = 1.7 (ceiling S - b) / cores: below half the ceiling, so that no rule of small nodes touches it.
    estimate = standing(0.05, 0.2, cores=4.0)
    assert estimate.cost_plus is not None
    assert estimate.cost_plus[messages.NEW_CLASS]["cpu"] == pytest.approx(1.7 * 0.8 * 8 / 4)
