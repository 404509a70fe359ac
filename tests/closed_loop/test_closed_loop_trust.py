"""A node that lies harms only itself, up to the cap; one that accounts for nothing, or is silent, gets nothing."""

import collections
import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.wire import freshness
from carico_scheduler.rules import policy as policies
from carico_twin import scenario, virtual_time
from carico_twin.nodes import machine, work
from tests.closed_loop import clusters

LIAR = 0
# The Pod limit that Kubernetes sets by default, and the twin's nodes have.
POD_LIMIT = 110
RULES = policies.Policy()
# When the API shows that a Pod runs, after its program has started.
SHOWN_S = 0.71 + clusters.STEP_S
# By then the last Pod drawn has been created, and every lie was believed for as long as it may be.
LOOKED_S = 130.0
LONG = work.Work(name="long", threads=0.5, lifetime_s=120.0)


@st.composite
def with_a_liar(draw: st.DrawFn) -> scenario.Scenario:
    """A drawn cluster in which one agent advertises room for a thousand Pods."""
    return dataclasses.replace(draw(clusters.plans()), lying_agents=(scenario.LyingAgent(node=LIAR),))


@st.composite
def with_a_node_that_covers_none(draw: st.DrawFn) -> scenario.Scenario:
    """The same with one that accounts for no Pod besides, some Pods that live long, and some that come late."""
    plan = draw(clusters.plans())
    long = scenario.Job(name="long", work=LONG, pods=draw(st.integers(1, 10)), at_s=clusters.FIRST_POD_S)
    late_s = draw(st.sampled_from((30.0, 45.0, 80.0)))
    late = scenario.Job(name="late", work=work.QUARTER_CORE, pods=10, at_s=late_s, create_per_s=1.0)
    liar = scenario.LyingAgent(node=LIAR, covers=False)
    return dataclasses.replace(plan, jobs=(*plan.jobs, long, late), lying_agents=(liar,))


def on_node(watched: clusters.Watched, node: int) -> list[clusters.Bind]:
    """The binds to one node, in order."""
    return [bind for bind in watched.binds if bind.record.node == node]


def cap(plan: scenario.Scenario, per_core: float) -> int:
    """Most Pods that the liar's node may hold."""
    return min(int(per_core * plan.hardware[LIAR].cores), POD_LIMIT)


@clusters.REPEATED
@hypothesis.given(plan=with_a_liar(), per_core=st.sampled_from((1.0, 2.5, 4.0)), seed=clusters.SEEDS)
def test_a_node_that_lies_never_holds_more_than_the_cap(plan: scenario.Scenario, per_core: float, seed: int) -> None:
    watched = clusters.Watched(plan, clusters.options(max_pods_per_core=per_core), seed)
    watched.world.run_until(LOOKED_S)
    for bind in on_node(watched, LIAR):
        assert len(bind.neighbours) + 1 <= cap(plan, per_core)


@pytest.mark.parametrize(("cores", "held"), [(2.0, 32), (4.0, 64), (8.0, POD_LIMIT)])
def test_a_node_that_lies_is_filled_up_to_the_cap_and_the_rest_goes_elsewhere(cores: float, held: int) -> None:
    hardware = tuple(each for each in clusters.HARDWARE if each.cores == cores) * 3
    job = scenario.Job(name="long", work=LONG, pods=held + 14, at_s=clusters.FIRST_POD_S)
    plan = scenario.Scenario(
        name="liar", hardware=hardware, jobs=(job,), lying_agents=(scenario.LyingAgent(node=LIAR),)
    )
    watched = clusters.Watched(plan, clusters.options(), 1)
    watched.world.run_until(60.0)
    nodes = collections.Counter(bind.record.node for bind in watched.binds)
    assert nodes[LIAR] == held
    assert nodes.total() > held


@hypothesis.settings(clusters.REPEATED, max_examples=8)
@hypothesis.given(plan=with_a_node_that_covers_none(), seed=clusters.SEEDS)
def test_a_node_that_accounts_for_none_of_its_pods_gets_none_after_30_s(plan: scenario.Scenario, seed: int) -> None:
    watched = clusters.Watched(plan, clusters.options(), seed)
    watched.world.run_until(LOOKED_S)
    assert all(pod.binds <= 1 for pod in watched.world.pods)
    for bind in on_node(watched, LIAR):
        # Since when the API shows a Pod of the node as running that the node has not accounted for.
        since_s = min((pod.started_s for pod in bind.neighbours if pod.started_s <= bind.at_s), default=bind.at_s)
        assert bind.at_s - since_s <= RULES.suspect_after_s + SHOWN_S
        assert len(bind.neighbours) + 1 <= cap(plan, RULES.max_pods_per_core)


def test_a_suspect_node_is_passed_over_while_others_are_not() -> None:
    first = scenario.Job(name="first", work=LONG, pods=6, at_s=clusters.FIRST_POD_S)
    late = scenario.Job(name="late", work=work.QUARTER_CORE, pods=10, at_s=60.0)
    plan = scenario.Scenario(
        name="liar", hardware=clusters.HARDWARE, jobs=(first, late),
        lying_agents=(scenario.LyingAgent(node=LIAR, covers=False),),
    )  # fmt: skip
    watched = clusters.Watched(plan, clusters.options(), 1)
    watched.world.run_until(120.0)
    assert [bind.record.node for bind in watched.binds if bind.record.job == "first"] == [LIAR] * 6
    assert LIAR not in {bind.record.node for bind in watched.binds if bind.record.job == "late"}
    assert len(watched.binds) == 16


@st.composite
def with_dying_agents(draw: st.DrawFn) -> scenario.Scenario:
    """A drawn cluster in which every agent but the first may fall silent while Pods come and go."""
    plan = draw(clusters.plans())
    dying = draw(st.lists(st.integers(1, len(plan.hardware) - 1), min_size=1, unique=True))
    deaths = tuple((node, clusters.FIRST_POD_S + draw(st.sampled_from((0.0, 1.5, 6.0, 15.0)))) for node in dying)
    return dataclasses.replace(plan, agents_die_at_s=deaths)


@clusters.REPEATED
@hypothesis.given(plan=with_dying_agents(), seed=clusters.SEEDS)
def test_a_node_whose_agent_died_gets_nothing_after_its_lease(plan: scenario.Scenario, seed: int) -> None:
    watched = clusters.Watched(plan, clusters.options(), seed)
    run = watched.world.run()
    assert run.finished
    assert all(pod.binds == 1 for pod in run.pods)
    for node, died_s in plan.agents_die_at_s:
        assert all(bind.at_s <= died_s + RULES.lease_s for bind in on_node(watched, node))


def test_the_pods_of_a_job_go_round_a_node_whose_agent_died() -> None:
    job = scenario.Job(name="pi", work=work.PI, pods=60, at_s=clusters.FIRST_POD_S)
    plan = scenario.Scenario(
        name="dies",
        hardware=(machine.Hardware(),) * 2,
        jobs=(job,),
        link=virtual_time.Link(delay_s=0.05),
        agents_die_at_s=((1, 8.0),),
    )
    watched = clusters.Watched(plan, clusters.options(), 1)
    assert watched.world.run().finished
    dead = [bind.at_s for bind in on_node(watched, 1)]
    alive = [bind.at_s for bind in on_node(watched, 0)]
    assert dead and max(dead) < 8.0 + freshness.AGEING_S + 0.2
    assert max(alive) > 8.0 + RULES.lease_s
