"""The paper's queue: its equations by hand, its walk, and what its correction function does with Pods."""

import dataclasses
import functools

import numpy as np
import pytest

from carico_twin.evaluate.sharing import cluster, model, paper
from carico_twin.evaluate.sharing import setup as setups

PAPER = setups.Setup(
    mode=setups.Mode.PAPER, detection=setups.Detection.COARSE, schedulers=2, nodes=10, pods_per_node=1, fill=0.0,
    life_s=1e9, warm_up_s=0.0, measured_s=0.1,
)  # fmt: skip


def view(pods: list[int], limit: int) -> cluster.View:
    setup = dataclasses.replace(PAPER, nodes=len(pods), pods_per_node=limit)
    static = cluster.static(setup)
    found = cluster.View(cluster.Truth(setup), static, own="a", delay_s=0.0, usable=static.schedulable)
    found.pods[:] = pods
    return found


def walk(percent: float) -> paper.Walk:
    return paper.Walk(percent, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("wait_s", "expected_s"),
    # By hand, with Ta = R = 4 and I = 2: 8 + 4 + (1 - 4/8) 2; 4 + 4 + 0; 1 + 4 + (1 - 4) 2, below S; no wait: w = 0.
    [(8.0, 13.0), (4.0, 8.0), (1.0, -1.0), (0.0, 4.0)],
)
def test_urgency_is_the_papers_second_equation(wait_s: float, expected_s: float) -> None:
    assert paper.urgency_s(wait_s, 4.0, 4.0, 2.0) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("feasible", "ratio", "expected"),
    [
        (0.3, 0.3, paper.Case.RESCHEDULE),  # P_C = .7
        (0.8, 0.3, paper.Case.SUB_OPTIMAL),  # .2 < .3
        (0.2, 0.3, paper.Case.SUB_OPTIMAL),  # .2 < .3
        (0.0, 0.0, paper.Case.OPTIMAL),  # 1: only with no feasible node and no runtime
        (1.0, 1.5, paper.Case.OPTIMAL),  # 1: only if Pods end faster than they run
    ],
)
def test_collocation_is_the_papers_third_equation(feasible: float, ratio: float, expected: paper.Case) -> None:
    assert paper.case(feasible, ratio) is expected


def test_no_pod_is_ever_placed_optimally() -> None:
    # S' is at least the runtime while the weight is not negative, so the ratio is at most 1.
    shares = np.linspace(0.0, 1.0, 101)
    found = {paper.case(feasible, ratio) for feasible in shares for ratio in shares[1:]}
    assert found == {paper.Case.SUB_OPTIMAL, paper.Case.RESCHEDULE}
    # The whole queue is only rescheduled if waits are as long as runtimes.
    assert paper.Case.RESCHEDULE not in {paper.case(feasible, 0.51) for feasible in shares}


def test_the_walk_continues_where_it_stopped() -> None:
    seen = view([0] * 10, limit=1)
    searching = walk(30.0)
    # Three of ten are enough: nodes 0 to 2, then 3 to 5, then 6 to 8, then 9, 0 and 1.
    found = [searching.find(seen)[0] for _ in range(4)]
    assert [found[0] in (0, 1, 2), found[1] in (3, 4, 5), found[2] in (6, 7, 8), found[3] in (9, 0, 1)] == [True] * 4


def test_the_walk_takes_the_emptiest_of_the_nodes_that_it_looked_at() -> None:
    # Node 9 is emptier, and not looked at: two feasible nodes are enough.
    node, feasible = walk(20.0).find(view([3, 2, 1, 3, 3, 3, 3, 3, 3, 0], limit=3))
    assert node == 2
    assert feasible == pytest.approx(2 / 3)
    node, feasible = walk(100.0).find(view([3, 2, 1, 3, 3, 3, 3, 3, 3, 0], limit=3))
    assert node == 9
    assert feasible == pytest.approx(0.3)


def test_a_full_cluster_has_no_feasible_node() -> None:
    assert walk(50.0).find(view([1] * 4, limit=1)) == (None, 0.0)


def test_what_loses_its_claim_is_placed_by_the_correction_function() -> None:
    made = model.Model(dataclasses.replace(PAPER, nodes=2, score_percent=100.0, schedulers=8, measured_s=1.0))
    # Eight schedulers and two places: at most two win.
    made.timeline.at(0.01, lambda: made.arrive(8))
    for node in (0, 1):
        made.timeline.at(0.1, functools.partial(made.truth.end, node, 0.1))
    found = made.run()
    assert found.conflicts > 0
    assert (found.placed, found.corrected) == (4, 2)
    assert set(found.cases) == {paper.Case.SUB_OPTIMAL.value}


def test_the_queue_is_served_by_the_longest_wait_first() -> None:
    setup = dataclasses.replace(PAPER, nodes=3, pods_per_node=2, life_s=1.0, measured_s=0.001)
    made = model.Model(setup)
    made.arrive(2)
    long, short = made.pods
    # A full node's Pods end after life / 2; one with room has no wait.
    made.truth.pods[:] = [2, 0, 0]
    made.correction.correct(short, 1)
    made.correction.correct(long, 0)
    assert made.correction.order() == [long.uid, short.uid]


def test_nodes_are_chosen_among_less_with_a_lower_percentage() -> None:
    figures = [
        model.Model(
            setups.Setup(mode=setups.Mode.PAPER, nodes=200, score_percent=percent, warm_up_s=0.2, measured_s=1.0)
        ).run()
        for percent in (5.0, 100.0)
    ]
    assert figures[0].deviation > 1.2 * figures[1].deviation
