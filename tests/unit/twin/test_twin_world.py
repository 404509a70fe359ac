"""Runs of the twin repeat by seed, and every scheduler in it places each Pod once and loses none."""

import dataclasses
import gc
import itertools
from typing import Any

import pytest

from carico_twin import agents, measures, scenario, virtual_time, world
from carico_twin.nodes import machine
from carico_twin.nodes import work as works
from carico_twin.schedulers import load_aware, slots

CHOICES: dict[str, world.Choice] = {
    "kube least": slots.KubeOptions(request_cores=0.5),
    "kube most": slots.KubeOptions(request_cores=0.5, strategy="MostAllocated"),
    "constant": world.ConstantOptions(pods_per_core=1.5),
    "trimaran": load_aware.LoadAwareOptions(way="trimaran"),
    "koordinator": load_aware.LoadAwareOptions(way="koordinator"),
    "oracle": world.OracleOptions(),
    "footprint": world.CaricoOptions(agent=agents.AgentOptions(estimator="footprint")),
}


def plan(pods: int = 40, nodes: int = 3, **changes: Any) -> scenario.Scenario:
    job = scenario.Job(name="pi", work=works.PI, pods=pods, request_cores=1.0)
    made = scenario.Scenario(name="small", hardware=(machine.Hardware(),) * nodes, jobs=(job,))
    return dataclasses.replace(made, **changes)


@pytest.mark.parametrize("name", ["kube least", "trimaran", "oracle", "footprint"])
def test_a_run_leaves_no_cycles_that_only_the_collector_would_find(name: str) -> None:
    # What is imported at first use (numpy.ma by the aggregator's median) leaves cycles of its own.
    world.run(plan(pods=4), CHOICES[name], seed=1)
    running = world.World(plan(pods=12), CHOICES[name], seed=1)
    gc.collect()
    with world.no_garbage_collection():
        running.run()
        assert gc.collect() == 0
    assert gc.isenabled()


@pytest.mark.parametrize("name", CHOICES)
def test_every_pod_runs_once_and_ends(name: str) -> None:
    run = world.run(plan(), CHOICES[name], seed=1)
    assert run.finished
    assert [pod.binds for pod in run.pods] == [1] * 40
    assert all(pod.created_s <= pod.bound_s < pod.started_s < pod.ended_s < pod.terminal_s for pod in run.pods)
    found = measures.measure(run)
    assert found.capacity_overrun == 0
    # Work is conserved: the nodes cannot have done it faster than all their cores together.
    assert found.job_s > sum(pod.cpu_s for pod in run.pods) / 12.0


@pytest.mark.parametrize("name", ["kube least", "footprint"])
def test_what_a_node_has_carried_is_what_its_pods_have_run(name: str) -> None:
    """With agents that read the node, and without: no Pod counts before its start or after its end."""
    jobs = (
        scenario.Job(name="server", work=dataclasses.replace(works.SERVER, lifetime_s=20.0), pods=3),
        scenario.Job(name="pi", work=works.PI, pods=10, request_cores=1.0),
    )
    run = world.run(plan(jobs=jobs), CHOICES[name], seed=1)
    assert run.finished
    for index, node in enumerate(run.nodes):
        there = [pod for pod in run.pods if pod.node == index]
        assert node.pod_s == pytest.approx(sum(pod.pod_s for pod in there))
        servers = [(pod.started_s, pod.ended_s) for pod in there if pod.job == "server"]
        # At least one of them, not how many.
        moments = sorted({each for span in servers for each in span})
        spans = itertools.pairwise(moments)
        assert node.server_s == pytest.approx(
            sum(end - begin for begin, end in spans if any(a <= begin and end <= b for a, b in servers))
        )


@pytest.mark.parametrize("name", ["kube least", "trimaran", "footprint"])
def test_runs_repeat_by_seed_and_differ_between_seeds(name: str) -> None:
    def times(seed: int) -> list[float]:
        return [pod.terminal_s for pod in world.run(plan(), CHOICES[name], seed=seed).pods]

    assert times(1) == times(1)
    assert times(1) != times(2)


def test_kube_fills_seven_pods_of_500m_on_four_cores_and_37_of_100m() -> None:
    for cores, most in ((0.5, 7), (0.1, 37)):
        run = world.run(plan(pods=200), slots.KubeOptions(request_cores=cores), seed=1)
        assert max(node.most_pods for node in run.nodes) == most


def test_messages_that_are_late_or_lost_delay_a_job_and_lose_no_pod() -> None:
    good = measures.measure(world.run(plan(), CHOICES["footprint"], seed=1))
    bad = measures.measure(world.run(plan(link=virtual_time.Link(delay_s=1.0, loss=0.3)), CHOICES["footprint"], seed=1))
    assert bad.finished
    assert bad.bound_twice == 0
    assert bad.job_s > good.job_s


def test_nothing_goes_to_a_node_whose_agent_is_dead() -> None:
    run = world.run(plan(dead_agents=0.34), CHOICES["footprint"], seed=1)
    assert run.finished
    assert sorted(node.most_pods > 0 for node in run.nodes) == [False, True, True]


def test_an_impossible_cluster_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="nodes: expected at least one"):
        plan(hardware=())
    with pytest.raises(ValueError, match="loss: expected a share"):
        virtual_time.Link(loss=1.5)
    with pytest.raises(ValueError, match="pods: expected 1 or more, got 0"):
        scenario.Job(name="none", work=works.PI, pods=0)
