"""How many Pods fit once costs are known, what an unmeasured load may grow to, and when a node tries one."""

import math

import numpy as np
import pytest

from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import admission


def node(*, cores: float = 4.0) -> base.EstimatorConfig:
    return base.EstimatorConfig(
        dims=("cpu", "memory"), scale=np.array([4.0, 8e9]), ceiling=np.array([0.8, 0.8]),
        cores=cores, pod_limit=100,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "per_core", "growth", "expected"),
    [
        # max(4 / 2, 2 x 3) = 6: the node's own peak; the cluster's; the larger of both; neither.
        (3.0, 0.0, 2.0, 6),
        (0.0, 1.25, 2.0, 10),
        (3.0, 1.25, 2.0, 10),
        (3.0, math.nan, 2.0, 6),
        (0.0, math.nan, 2.0, 2),
        # A filter only approaches a whole Pod.
        (2.96, 0.0, 2.0, 6),
        (2.94, 0.0, 2.0, 5),
        (70.0, 0.0, 2.0, 100),
        (3.0, 1.25, 0.0, 100),
    ],
)
def test_an_unmeasured_load_may_grow_by_a_factor(own: float, per_core: float, growth: float, expected: int) -> None:
    found = admission.limit(node(), own_peak_pods=own, peak_pods_per_core=per_core, growth=growth, unknown_per_core=2.0)
    assert found == expected


def test_one_pod_is_always_allowed() -> None:
    small = node(cores=0.5)
    assert admission.limit(small, own_peak_pods=0.0, peak_pods_per_core=0.0, growth=2.0, unknown_per_core=1.7) == 1


@pytest.mark.parametrize(
    ("headroom", "pods", "most", "closed", "expected"),
    [
        ([3.0, 8.0], 2.0, 100, False, admission.Fit(1.5, 0)),
        ([9.0, 4.0], 2.0, 100, False, admission.Fit(1.0, 1)),
        ([-1.0, 8.0], 2.0, 100, False, admission.Fit(0.0, 0)),
        # An empty node takes one, but not at its guard, and no more than fit where more do.
        ([1.0, 8.0], 0.0, 100, False, admission.Fit(1.0, 0)),
        ([1.0, 8.0], 0.0, 100, True, admission.Fit(0.5, 0)),
        ([1.0, 8.0], 0.5, 100, False, admission.Fit(0.5, 0)),
        ([3.0, 8.0], 0.0, 100, False, admission.Fit(1.5, 0)),
        # The limit counts the Pods there are; no dimension is named for it.
        ([6.0, 40.0], 2.0, 4, False, admission.Fit(2.0, None)),
        ([6.0, 40.0], 1.0, 4, False, admission.Fit(3.0, 0)),
        ([6.0, 40.0], 9.0, 4, False, admission.Fit(0.0, None)),
    ],
)
def test_how_many_fit(headroom: list[float], pods: float, most: int, closed: bool, expected: admission.Fit) -> None:
    assert admission.fit(headroom, [2.0, 4.0], pods=pods, most_pods=most, closed=closed) == expected


@pytest.mark.parametrize(("usages", "expected"), [((0.94, 0.94), False), ((0.95, 0.0), True), ((0.0, 0.95), True)])
def test_a_node_is_guarded_from_the_guard_on(usages: tuple[float, float], expected: bool) -> None:
    assert admission.is_guarded(usages) is expected


@pytest.mark.parametrize(
    ("full", "measured", "ahead", "expected"),
    [
        (True, False, 9.0, "saturated"), (False, False, 9.0, "warming"), (False, True, 0.5, "measured"),
        (False, True, 0.6, "predicted"), (False, True, -0.6, "predicted"),
    ],
)  # fmt: skip
def test_which_equation_made_it(full: bool, measured: bool, ahead: float, expected: str) -> None:
    assert admission.mode(full=full, measured=measured, ahead_pods=ahead) == expected


def test_a_known_class_is_tried_on_a_node_that_stands_still_and_does_not_run_it() -> None:
    found = admission.Trial()
    found.tick(14.0)
    assert not found.is_due(is_unknown=False, runs=False)
    assert found.is_due(is_unknown=True, runs=True)
    found.tick(1.0)
    assert found.is_due(is_unknown=False, runs=False)
    assert not found.is_due(is_unknown=False, runs=True)
    found.changed()
    assert not found.is_due(is_unknown=False, runs=False)


@pytest.mark.parametrize(
    ("plus", "room", "half", "least", "expected"),
    [(2.0, 4.0, 0.8, 0.0, 2.0), (9.0, 4.0, 0.8, 0.0, 3.0), (9.0, 4.0, 3.5, 0.0, 3.5), (9.0, 4.0, 0.8, 3.7, 3.7)],
)
def test_a_tried_pod_takes_more_than_half_of_the_room(
    plus: float, room: float, half: float, least: float, expected: float
) -> None:
    assert admission.cost_plus(plus, room=room, half=half, least=least) == expected
