"""Nodes that come while a job runs."""

import dataclasses

import pytest

from carico_twin import catalogue, scenario, world
from carico_twin.evaluate import ablation, contenders
from carico_twin.nodes import machine, work

JOIN_S = 8.0
PLAN = scenario.Scenario(
    name="late", hardware=(machine.Hardware(),) * 3, jobs=(catalogue.job(work.PI, 60),), nodes_join_at_s=((2, JOIN_S),)
)


@pytest.mark.parametrize(
    "name", ["kube-500m", "constant-1", "trimaran", "koordinator", "oracle", "node-local", contenders.DEFAULT]
)
def test_a_node_gets_pods_from_when_it_joins_and_none_before(name: str) -> None:
    run = world.run(PLAN, contenders.all_contenders()[name].choice, seed=1)
    bound_s = [pod.bound_s for pod in run.pods if pod.node == 2]
    assert run.finished
    assert JOIN_S < min(bound_s) < JOIN_S + 5.0
    assert len(bound_s) >= 5


def test_an_agent_that_is_not_there_yet_says_nothing() -> None:
    made = world.World(PLAN, world.CaricoOptions(), 1)
    made.run_until(JOIN_S - 0.1)
    before = made.agents[2].pipeline.samples
    made.run_until(JOIN_S + 2.0)
    # Ten a second from its start on.
    assert (before, 18 <= made.agents[2].pipeline.samples <= 20) == (0, True)


def test_a_join_leaves_what_went_before_as_it_was() -> None:
    def early(plan: scenario.Scenario) -> list[tuple[str, int, float]]:
        run = world.run(plan, contenders.all_contenders()["constant-1"].choice, seed=1)
        return [(pod.uid, pod.node, pod.bound_s) for pod in run.pods if pod.bound_s < JOIN_S]

    assert early(PLAN) == early(dataclasses.replace(PLAN, nodes_join_at_s=((2, 500.0),)))


def test_a_node_that_is_none_of_the_clusters_cannot_join() -> None:
    with pytest.raises(ValueError, match="nodes_join_at_s: node 3, expected 0 to 2"):
        dataclasses.replace(PLAN, nodes_join_at_s=((3, 1.0),))


def test_the_ablation_has_every_fault_that_was_promised() -> None:
    names = [plan.name for plan in ablation.faults(quick=False)]
    assert {f"messages {delay:g} s late" for delay in (0.01, 0.1, 0.5, 1.0, 2.0, 5.0)} <= set(names)
    assert {"1% of the messages lost", "10% of the messages lost", "30% of the messages lost"} <= set(names)
    assert "a tenth of the agents dead" in names
    assert "a tenth of the nodes joins in mid-job" in names
    assert "a node that never saw work" in names
    assert len(set(names)) == len(names)
    assert {"no federation of costs", "merge: none", ablation.BASE} <= set(ablation.fault_variants())


def test_a_node_that_never_saw_work_comes_after_the_first_job_and_before_the_second() -> None:
    plan = catalogue.newcomer()
    ((node, join_s),) = plan.nodes_join_at_s
    run = world.run(plan, contenders.all_contenders()["constant-1"].choice, seed=1)
    first, second = (job.name for job in plan.jobs)
    assert max(pod.ended_s for pod in run.pods if pod.job == first) < join_s
    assert any(pod.node == node for pod in run.pods if pod.job == second)
