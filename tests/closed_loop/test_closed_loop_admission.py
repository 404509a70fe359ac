"""Whatever the cluster, its Pods and its bus: each bind keeps to the advertisement it went by, and no Pod is lost."""

import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.numerics import estimators
from carico_twin import scenario, world
from carico_twin.nodes import machine, work
from tests.closed_loop import clusters

ROUNDING = 1e-6
# The paper's: they know neither headroom nor classes.
SCALAR = ("delta", "dual", "joint")


@clusters.REPEATED
@hypothesis.given(plan=clusters.plans(), seed=clusters.SEEDS)
def test_at_each_bind_there_was_room_by_the_advertisement_acted_on(plan: scenario.Scenario, seed: int) -> None:
    watched = clusters.Watched(plan, clusters.options(), seed)
    run = watched.world.run()
    assert watched.binds
    assert run.overruns == 0
    for bind in watched.binds:
        assert bind.said.seq == bind.record.advertised_seq
        free = clusters.free_pods(bind.said, clusters.class_name(bind.record.job), bind.reserved)
        assert free >= 1.0 - ROUNDING, f"{bind.record.uid} on node {bind.record.node} at {bind.at_s:.3f} s"


@st.composite
def with_dead_agents(draw: st.DrawFn) -> scenario.Scenario:
    """A cluster of which any agents but one say nothing."""
    plan = draw(clusters.plans())
    dead = draw(st.integers(0, len(plan.hardware) - 1))
    return dataclasses.replace(plan, dead_agents=dead / len(plan.hardware))


@clusters.REPEATED
@hypothesis.given(plan=with_dead_agents(), seed=clusters.SEEDS)
def test_every_pod_is_bound_once_and_none_is_lost(plan: scenario.Scenario, seed: int) -> None:
    watched = clusters.Watched(plan, clusters.options(), seed)
    run = watched.world.run()
    assert run.finished
    assert len(run.pods) == watched.pods
    assert [pod.binds for pod in run.pods] == [1] * watched.pods
    assert all(pod.created_s < pod.bound_s < pod.started_s < pod.ended_s < pod.terminal_s for pod in run.pods)
    dead = {index for index, agent in enumerate(watched.world.agents) if not agent.alive}
    assert not dead & {pod.node for pod in run.pods}


@pytest.mark.parametrize("estimator", sorted(estimators.ESTIMATORS))
def test_a_cold_cluster_places_its_first_pods(estimator: str) -> None:
    job = scenario.Job(name="pi", work=work.PI, pods=10, at_s=clusters.FIRST_POD_S)
    plan = scenario.Scenario(name="cold", hardware=(machine.Hardware(),) * 2, jobs=(job,), limit_s=60.0)
    assert world.run(plan, clusters.options(estimator), seed=1).finished
