"""`vector`: what it does on a node of four cores, step by step and in a closed loop."""

import math

import numpy as np
import pytest

from carico_core.numerics.estimators import base, vector
from tests.unit.numerics import simulated_node


def node(**settings: float) -> simulated_node.SimulatedNode:
    return simulated_node.SimulatedNode(vector.Vector(simulated_node.config()), **settings)


def cpu_cost(estimate: base.CapacityEstimate) -> float:
    return estimate.cost["cpu"][0]


# --- steps 5, 7, 11 and 12: nothing is known yet ---


def test_an_empty_cold_node_of_four_cores_takes_two_unknown_pods() -> None:
    estimate = node().run(5)
    assert (estimate.mode, estimate.limit) == ("warming", 2)
    assert estimate.capacity == 2.0
    # c0 = (ceiling S - Y) / cores = (.9 x 8 - .05) / 4, sd .7 c0
    mean, spread = estimate.cost["cpu"]
    assert mean == pytest.approx((7.2 - 0.05) / 4, abs=0.03)
    assert spread == pytest.approx(0.7 * mean)


def test_a_known_peak_lets_a_load_double_and_no_more() -> None:
    warm = node()
    warm.start(2, tasks=0.3)
    warm.run(10)
    for peak, limit in ((0.0, 4), (1.0, 8), (2.0, 16)):
        seen = warm.observation()
        estimate = warm.estimator.estimate(
            base.Observation(
                dt_s=seen.dt_s,
                y=seen.y,
                gains=seen.gains,
                pods=2,
                signal=1.0,
                direction=seen.direction,
                peak_pods_per_core=peak,
            )
        )
        assert estimate.limit == limit
        assert estimate.capacity <= limit - 2


def test_an_empty_node_takes_one_pod_that_would_not_fit_unless_it_is_at_its_guard() -> None:
    # 7.4 of 8 tasks: above the ceiling of 7.2, below the guard of 7.6.
    estimate = node(idle_tasks=7.4).run(20)
    assert estimate.headroom is not None
    assert estimate.headroom["cpu"] < 0
    assert estimate.capacity == 1.0
    full = node(idle_tasks=8.0)
    assert full.run(20).capacity == 0.0


def test_a_node_that_starts_with_pods_is_on_the_safe_side() -> None:
    late = node()
    late.start(4)
    for _ in range(10):
        late.step()
    # The agent starts here: its baseline is unknown, so the Pods' cost holds it too.
    late.estimator = vector.Vector(simulated_node.config())
    estimate = late.run(10)
    assert cpu_cost(estimate) >= 1.0
    assert 1.0 < estimate.capacity <= 3.2


# --- steps 1, 3, 4 and 8 ---


def test_it_learns_baseline_and_cost_in_physical_units() -> None:
    quiet = node(idle_tasks=0.5)
    quiet.run(20)
    quiet.start(3, tasks=1.2, held_bytes=5e8)
    estimate = quiet.run(15)
    assert estimate.baseline["cpu"][0] == pytest.approx(0.5, abs=0.1)
    assert estimate.baseline["memory"][0] == pytest.approx(4e8, rel=0.1)
    assert cpu_cost(estimate) == pytest.approx(1.2, rel=0.05)
    assert estimate.cost["memory"][0] == pytest.approx(5e8, rel=0.05)
    assert estimate.mode == "measured"


def test_a_ramp_does_not_make_pods_look_cheap() -> None:
    """Without the count behind the same filter and lag, cost is learnt too low while usage still rises."""
    ramp = node()
    ramp.run(3)
    costs = []
    for _ in range(5):
        ramp.start(1)
        costs.append(cpu_cost(ramp.run(1)))
    assert min(costs[1:]) > 0.93


def test_pods_that_telemetry_does_not_show_yet_are_counted() -> None:
    warm = node()
    warm.run(3)
    warm.start(2)
    before = warm.run(10)
    warm.start(3)
    warm.step()
    ahead = warm.estimator.estimate(warm.observation())
    assert before.headroom is not None
    assert ahead.headroom is not None
    assert before.headroom["cpu"] - ahead.headroom["cpu"] == pytest.approx(3.0, rel=0.1)
    assert ahead.mode == "predicted"


def test_pods_that_have_left_but_still_show_are_taken_out() -> None:
    warm = node()
    warm.run(3)
    warm.start(6)
    before = warm.run(10)
    warm.pods = warm.pods[:3]
    warm.step()
    after = warm.estimator.estimate(warm.observation())
    assert before.headroom is not None
    assert after.headroom is not None
    assert after.headroom["cpu"] - before.headroom["cpu"] == pytest.approx(3.0, rel=0.15)


def test_a_full_node_teaches_at_least_and_not_at_most() -> None:
    """Ten Pods of one core on four read 8 tasks, as eight would: the cost must not fall to .8."""
    warm = node()
    warm.run(3)
    warm.start(4)
    learnt = cpu_cost(warm.run(10))
    warm.start(6)
    estimate = warm.run(30)
    assert estimate.mode == "saturated"
    assert cpu_cost(estimate) == pytest.approx(learnt, rel=0.03)
    assert estimate.headroom is not None
    # The model says 10 tasks where the reading ends at 8.
    assert estimate.headroom["cpu"] == pytest.approx(7.2 - 10.05, abs=0.3)


def test_a_full_node_raises_a_cost_that_was_too_low() -> None:
    warm = node()
    warm.run(3)
    warm.start(8, tasks=0.2)
    cheap = cpu_cost(warm.run(10))
    warm.pods.clear()
    warm.start(5, tasks=3.0)
    assert cpu_cost(warm.run(20)) > 4 * cheap


def test_costs_stay_between_a_pod_limits_share_and_the_whole_node() -> None:
    for tasks in (0.0, 100.0):
        odd = node()
        odd.run(3)
        odd.start(3, tasks=tasks, held_bytes=0.0)
        estimate = odd.run(20)
        assert 8 / 110 <= cpu_cost(estimate) <= 8.0
        assert estimate.cost["memory"][0] >= 8e9 / 110


# --- evidence ---


def test_evidence_is_the_nodes_own_without_the_cold_start() -> None:
    warm = node()
    assert warm.run(5).evidence is None
    warm.start(3)
    estimate = warm.run(3)
    assert estimate.evidence is not None
    mean, variance = estimate.evidence[base.ALL_PODS]["cpu"]
    assert mean == pytest.approx(1.0, abs=0.05)
    assert 0 < variance < 0.05
    assert math.sqrt(variance) >= 0.9 * estimate.cost["cpu"][1]


# --- idle Pods beside busy ones ---


def test_twenty_idle_servers_on_a_cold_node_change_its_capacity_little() -> None:
    cold = node()
    empty = cold.run(5).capacity
    cold.start(20, tasks=0.01, held_bytes=5e7)
    assert cold.run(15).capacity == pytest.approx(empty, rel=0.3)


def test_twenty_idle_servers_on_a_node_that_knows_pi_change_its_capacity_little() -> None:
    warm = node()
    warm.run(3)
    warm.start(4, work_s=8.0)
    empty = warm.run(20)
    assert len(warm.pods) == 0
    assert empty.capacity > 5.0
    warm.start(20, tasks=0.01, held_bytes=5e7)
    for _ in range(15):
        # Neither while they start nor after.
        assert warm.run(1).capacity <= empty.capacity * 1.3
    assert warm.run(1).capacity == pytest.approx(empty.capacity, rel=0.3)


@pytest.mark.parametrize("busy", [1, 3])
def test_idle_servers_beside_busy_pods_leave_the_cost_alone(busy: int) -> None:
    warm = node()
    warm.run(3)
    warm.start(busy)
    alone = cpu_cost(warm.run(12))
    warm.start(20, tasks=0.01, held_bytes=5e7)
    assert cpu_cost(warm.run(15)) == pytest.approx(alone, rel=0.3)
    warm.start(1)
    assert cpu_cost(warm.run(10)) == pytest.approx(alone, rel=0.3)


def test_idle_and_busy_pods_that_came_together_are_told_apart_at_the_next_one() -> None:
    mixed = node()
    mixed.run(3)
    mixed.start(20, tasks=0.01, held_bytes=5e7)
    mixed.start(3)
    mixed.run(10)
    mixed.start(1)
    assert cpu_cost(mixed.run(6)) == pytest.approx(1.0, rel=0.3)


def test_idle_servers_that_leave_are_no_loss() -> None:
    warm = node()
    warm.run(3)
    warm.start(20, tasks=0.01, held_bytes=5e7)
    warm.run(10)
    warm.start(2)
    with_servers = cpu_cost(warm.run(10))
    warm.pods = warm.pods[20:]
    assert cpu_cost(warm.run(15)) == pytest.approx(with_servers, rel=0.1)


# --- the closed loop ---


@pytest.mark.parametrize("ceiling", [0.5, 0.75, 0.9])
def test_a_greedy_scheduler_settles_within_one_of_the_ceiling(ceiling: float) -> None:
    result = simulated_node.close_loop(seconds=40, ceiling=ceiling, work_s=1e9)
    assert result.running[-1] == pytest.approx(math.floor(ceiling * 2 * simulated_node.CORES), abs=1)
    assert max(result.running) <= 2 * simulated_node.CORES


@pytest.mark.parametrize("ceiling", [0.5, 0.75, 0.9])
def test_a_greedy_scheduler_fills_to_the_ceiling_and_never_above_two_pods_a_core(ceiling: float) -> None:
    result = simulated_node.close_loop(seconds=60, ceiling=ceiling)
    full = math.floor(ceiling * 2 * simulated_node.CORES)
    assert max(result.running) <= min(full + 1, 2 * simulated_node.CORES)
    # A place that falls free is empty for the bind and the start (0.7 s of a Pod's 5 to 9 s), and then some.
    assert full - 1.6 <= np.mean(result.running[150:]) <= full
    # Four cores do 4 s of work a second: an eighth lost to the cold start and to Pods under way, no more.
    assert ceiling < 0.6 or result.finished >= 0.87 * 60 * simulated_node.CORES / 5.0


@pytest.mark.parametrize("start_lag_s", [0.0, 0.2])
@pytest.mark.parametrize("bind_s", [0.1, 1.0])
def test_the_loop_holds_at_other_lags(start_lag_s: float, bind_s: float) -> None:
    result = simulated_node.close_loop(seconds=45, start_lag_s=start_lag_s, bind_s=bind_s)
    assert max(result.running) <= 2 * simulated_node.CORES + 1
    assert np.mean(result.running[150:]) <= 2 * simulated_node.CORES
    assert result.finished >= 24


@pytest.mark.parametrize(("tasks", "most"), [(0.25, 30), (0.5, 15), (2.0, 4)])
def test_the_loop_holds_for_lighter_and_heavier_pods(tasks: float, most: int) -> None:
    result = simulated_node.close_loop(seconds=45, tasks=tasks)
    full = math.floor(0.9 * 2 * simulated_node.CORES / tasks)
    assert max(result.running) <= most
    assert np.mean(result.running[200:]) >= 0.8 * full
