"""What a burst leaves behind: overload that ends with the Pods that made it, and a node that is as free as before."""

import dataclasses

import hypothesis
import pytest

from carico_core.numerics.estimators import base
from carico_twin import records, scenario
from tests.closed_loop import clusters

# What the runtime does after a Pod's end, and a step of looking.
AFTERMATH_S = 0.25 + 2 * clusters.STEP_S
# A job's last Pod stays in the model of the cluster for its lease of 10 s; the filters need less.
SETTLING_S = 15.0
NEAR = 0.1


@dataclasses.dataclass(slots=True, kw_only=True)
class Overload:
    """A span in which a node had more runnable tasks than its ceiling allows."""

    node: int
    from_s: float
    to_s: float


def overloads(watched: clusters.Watched) -> list[Overload]:
    """Every overload of a run, in order of its end."""
    found: list[Overload] = []
    lasting: dict[int, Overload] = {}

    def look(now_s: float) -> None:
        for node in watched.world.nodes:
            if node.machine.tasks <= clusters.ceiling_tasks(node.machine.hardware.cores) + 1e-9:
                lasting.pop(node.index, None)
                continue
            if node.index not in lasting:
                lasting[node.index] = Overload(node=node.index, from_s=now_s, to_s=now_s)
                found.append(lasting[node.index])
            lasting[node.index].to_s = now_s

    clusters.step_through(watched, look)
    return found


def causes(each: Overload, pods: list[records.PodRecord]) -> list[records.PodRecord]:
    """Pods with work that were on the node, or on their way to it, as the overload began."""
    return [
        pod
        for pod in pods
        if pod.node == each.node
        and pod.bound_s <= each.from_s <= pod.ended_s + AFTERMATH_S
        and pod.work.lifetime_s is None
    ]


@clusters.REPEATED
@hypothesis.given(plan=clusters.plans(), seed=clusters.SEEDS)
def test_an_overload_ends_with_its_pods_and_an_emptied_node_has_the_room_it_had(
    plan: scenario.Scenario, seed: int
) -> None:
    watched = clusters.Watched(plan, clusters.options(), seed)
    nodes = range(len(plan.hardware))
    watched.world.run_until(clusters.FIRST_POD_S - clusters.STEP_S)
    before = [estimate(watched, node) for node in nodes]
    for each in overloads(watched):
        last_s = max((pod.ended_s for pod in causes(each, watched.world.pods)), default=each.from_s)
        assert each.to_s <= last_s + AFTERMATH_S, f"{each}, though the last of its Pods ended at {last_s:.1f} s"
    watched.world.run_until(watched.world.now_s + SETTLING_S)
    for node in nodes:
        now = estimate(watched, node)
        # Whatever class it is counted in, capacity is headroom over a cost that both have in common.
        assert now.headroom == pytest.approx(before[node].headroom, rel=NEAR), f"node {node}"
        # No Pod runs any more, so the headline is in Pods of an unknown class, as it was; its bound has only opened.
        assert now.capacity >= before[node].capacity * (1.0 - NEAR), f"node {node}"


def estimate(watched: clusters.Watched, node: int) -> base.CapacityEstimate:
    """An empty node's newest estimate, from its agent itself: on a slow bus its advertisement may be on its way."""
    state = watched.world.agents[node].state
    assert state is not None
    assert state.pods == 0
    assert state.estimate.headroom is not None
    return state.estimate
