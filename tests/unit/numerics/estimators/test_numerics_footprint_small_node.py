"""`footprint` on a node of one core that is never empty: Pods of an unknown class must still be placed somewhere."""

import numpy as np
import pytest

from carico_core.domain import messages
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import footprint

DIMS = ("cpu", "memory")
MEMORY_BYTES = 2e9
GAIN = 0.3
TICK_S = 0.1


class Node:
    """A node that has run the same small Pod since its agent started, at this usage."""

    def __init__(self, cpu: float, memory: float, *, cores: float = 1.0) -> None:
        config = base.EstimatorConfig(
            dims=DIMS, scale=np.array([2 * cores, MEMORY_BYTES]), cores=cores, ceiling=np.array([0.8, 0.95]),
        )  # fmt: skip
        self.estimator = footprint.Footprint(config)
        self._used = np.array([cpu, memory])
        self._shown = self._used
        self.estimate = self.run(30.0)

    def run(self, for_s: float, more: tuple[float, float] = (0.0, 0.0), **pods: str) -> base.CapacityEstimate:
        """The estimate after so long with these Pods next to it, and what they use."""
        self.estimator.follow({"standing": "standing"} | pods)
        for number in range(1, round(for_s / TICK_S) + 1):
            sample = self._used + np.array(more)
            self._shown = self._shown + GAIN * (sample - self._shown)
            self.estimator.tick(sample.tolist(), [GAIN] * 2, 1 + len(pods), TICK_S)
            seen = base.Observation(
                dt_s=1.0, y=self._shown, gains=np.full(2, GAIN), pods=1 + len(pods), signal=1.0,
                peak_pods_per_core=1.0,
            )  # fmt: skip
            self.estimate = self.estimator.update(seen) if number % 10 == 0 else self.estimator.estimate(seen)
        return self.estimate


def fits(estimate: base.CapacityEstimate, name: str = messages.NEW_CLASS, *, promised: float = 0.0) -> float:
    """Pods of a class that fit where this share of the headroom is promised to others."""
    assert estimate.headroom is not None
    assert estimate.cost_plus is not None
    costs = estimate.cost_plus[name]
    return min((1.0 - promised) * estimate.headroom[dim] / costs[dim] for dim in DIMS)


def test_one_unknown_pod_gets_in_next_to_a_standing_one() -> None:
    assert 1.0 <= fits(Node(0.05, 0.2).estimate) < 2.0


def test_one_unknown_pod_gets_in_next_to_a_small_one_that_waits_for_its_image() -> None:
    assert fits(Node(0.05, 0.2).estimate, promised=0.2) >= 1.0


@pytest.mark.parametrize(("cpu", "memory"), [(0.5, 0.2), (0.05, 0.6)])
def test_not_on_a_node_that_is_more_than_half_full(cpu: float, memory: float) -> None:
    assert fits(Node(cpu, memory).estimate) < 1.0


def test_half_of_the_ceiling_is_what_has_to_be_left() -> None:
    # Of a ceiling of .8.
    assert fits(Node(0.39, 0.2).estimate) >= 1.0
    assert fits(Node(0.41, 0.2).estimate) < 1.0


def test_four_cores_take_what_they_took() -> None:
    # c+ = 1.7 (ceiling S - b) / cores: below half the ceiling, so that no rule of small nodes touches it.
    estimate = Node(0.05, 0.2, cores=4.0).estimate
    assert estimate.cost_plus is not None
    assert estimate.cost_plus[messages.NEW_CLASS]["cpu"] == pytest.approx(1.7 * 0.8 * 8 / 4)


def test_a_pod_that_ended_before_it_showed_leaves_its_class_unknown() -> None:
    node = Node(0.05, 0.2)
    node.run(0.2, job="job")
    assert fits(node.run(1.0), "job") >= 1.0


def test_a_class_that_was_measured_too_large_is_tried_again_once_the_node_stands_still() -> None:
    node = Node(0.05, 0.2)
    # What it used was the host's: the node read full while it ran.
    node.run(5.0, (0.9, 0.0), job="job")
    assert fits(node.run(3.0), "job") < 1.0
    assert fits(node.run(16.0), "job") >= 1.0
    # While one of them runs, what it uses tells.
    assert node.run(1.0, (0.4, 0.0), job="job").headroom is not None
    assert fits(node.estimate, "job") < 1.0


def test_what_a_class_holds_is_not_squeezed() -> None:
    node = Node(0.05, 0.2)
    node.run(40.0, (0.0, 0.75), job="job")
    assert fits(node.run(30.0), "job") < 1.0


def test_what_a_class_costs_is_a_guess_until_one_of_its_pods_shows() -> None:
    node = Node(0.05, 0.2)
    assert node.estimate.guessed == frozenset()
    assert node.run(0.2, (0.1, 0.0), job="job").guessed == {"job"}
    assert node.run(5.0, (0.1, 0.0), job="job").guessed == frozenset()
    assert node.run(0.2).guessed == frozenset()


@pytest.mark.parametrize("apart_s", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_what_two_classes_hold_that_started_together_is_what_both_show(apart_s: float) -> None:
    node = Node(0.05, 0.05)
    if apart_s:
        node.run(apart_s, (0.01, 0.02), first="first")
    young = node.run(5.0, (0.02, 0.04), first="first", second="second")
    stood = node.run(40.0, (0.02, 0.04), first="first", second="second")
    assert young.headroom is not None
    assert stood.headroom is not None
    assert stood.headroom["memory"] == pytest.approx((0.95 - 0.09) * MEMORY_BYTES, rel=0.02)
    assert young.headroom["memory"] <= stood.headroom["memory"]
    assert fits(stood, "second") >= 1.0, "another replica may begin, and shows which of them holds what"


def test_of_classes_that_started_together_and_one_more_the_young_one_counts_at_its_prior_cost() -> None:
    node = Node(0.05, 0.05, cores=8.0)
    both = {"first": "first", "second": "second"}
    stood = node.run(60.0, (0.02, 0.04), **both)
    started = node.run(0.3, (0.02, 0.04), third="third", fourth="fourth", **both)
    assert stood.headroom is not None
    assert started.headroom is not None
    assert started.headroom["memory"] < stood.headroom["memory"] - 0.1 * MEMORY_BYTES


def test_memory_that_one_of_two_classes_keeps_filling_is_counted_as_it_is_read() -> None:
    node = Node(0.05, 0.05)
    for step in range(1, 13):
        used = 0.04 + 0.05 * step
        estimate = node.run(10.0, (0.02, used), first="first", second="second")
        assert estimate.headroom is not None
        assert estimate.headroom["memory"] <= (0.95 - 0.05 - used + 0.02) * MEMORY_BYTES
