"""Plan after plan, a cluster comes to rest, in a state that does not depend on where it began."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from carico_core.numerics.rescheduling.containers import carico, gains
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, planning
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.rescheduler.plan import placing

NODES = tuple(f"node-{number}" for number in range(6))
WEIGHTS = gains.Weights(task_bytes=1e7)
RULE = decision.Rule(least_bytes=1e5, least_tasks=1.0, most_moves=20, weights=WEIGHTS)
ROUNDS = 60
# Where each Pod is, by name.
Places = Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Applications:
    """Applications whose Pods exchange much within and some between them."""

    tasks: Mapping[str, float]
    traffic: Mapping[tuple[str, str], float]

    def loads(self, places: Places) -> dict[str, float]:
        """The tasks of each node."""
        return {node: sum(self.tasks[pod] for pod, at in places.items() if at == node) for node in NODES}

    def context(self, places: Places, capacity: Callable[[float], float]) -> contexts.Context:
        """The problem with these Pods where they are."""
        known = world.make({node: capacity(load) for node, load in self.loads(places).items()})
        made = {name: world.deploy(known, name, [places[name]], tasks=tasks)[0] for name, tasks in self.tasks.items()}
        known.flows = tuple(
            clusters.Flow(one=made[one].uid, other=made[other].uid, bytes_per_s=rate)
            for (one, other), rate in self.traffic.items()
        )
        return contexts.build(world.judge(known), world.CEILINGS)


def applications(count: int, each: int, *, seed: int = 0) -> Applications:
    """So many applications of so many Pods, of half a task to one and a half."""
    random = np.random.default_rng(seed)
    pods = [f"app-{number}" for number in range(count * each)]
    traffic = {}
    for one in range(len(pods)):
        for other in range(one):
            if one // each == other // each:
                traffic[pods[one], pods[other]] = float(random.uniform(1e6, 5e6))
            elif random.uniform() < 0.1:
                traffic[pods[one], pods[other]] = float(random.uniform(1e5, 1e6))
    return Applications(tasks={pod: float(random.uniform(0.5, 1.5)) for pod in pods}, traffic=traffic)


def rest(
    apps: Applications, places: Places, *, begin: int, capacity: Callable[[float], float],
    is_placed: Callable[[Mapping[str, float], str, str], bool],
) -> float:  # fmt: skip
    """Carry out plans until none moves anything; return the cost."""
    problem = apps.context(
        at_rest(apps, places, begin=begin, capacity=capacity, is_placed=is_placed), capacity
    ).problem  # fmt: skip
    return gains.cost(problem, problem.present, WEIGHTS)


def at_rest(
    apps: Applications, places: Places, *, begin: int, capacity: Callable[[float], float],
    is_placed: Callable[[Mapping[str, float], str, str], bool],
) -> Places:  # fmt: skip
    """Carry out plans until none moves anything; return where the Pods are.

    is_placed: whether the scheduler places a Pod on a node, with these tasks on each. A plan ends where it does not.
    """
    for number in range(ROUNDS):
        context = apps.context(places, capacity)
        asked = planning.PlanRequest(
            effort=carico.Effort(proposals=3000), seed=100 * begin + number, rule=RULE, budget=1000, at_ns=0
        )
        plan, moved = planning.make(context, asked), dict(places)
        for move in plan.moves:
            name = move.pod.pod.name.rpartition("-")[0]
            if not is_placed(apps.loads(moved), name, move.target):
                break
            moved[name] = move.target
        if moved == places:
            return places
        places = moved
    raise AssertionError("it does not come to rest")


def test_ten_random_starts_of_a_full_cluster_end_within_5_percent_of_each_other() -> None:
    # They have all cores in use, up to the ceiling.
    apps = applications(7, 5, seed=1)
    assert sum(apps.tasks.values()) == pytest.approx(36.0, rel=0.01)

    def cost(begin: int) -> float:
        random = np.random.default_rng(begin)
        places = {name: str(random.choice(NODES)) for name in apps.tasks}
        return rest(apps, places, begin=begin, capacity=lambda _: 20.0, is_placed=lambda *_: True)

    costs = [cost(begin) for begin in range(1, 11)]
    assert max(costs) <= 1.05 * min(costs)


@pytest.mark.parametrize(("count", "each"), [(6, 5)])
def test_with_the_scheduler_ten_orders_of_pods_end_within_5_percent_of_each_other(count: int, each: int) -> None:
    apps = applications(count, each)

    def cost(begin: int) -> float:
        places = dict[str, str]()
        for name in np.random.default_rng(begin).permutation(list(apps.tasks)).tolist():
            node = placing.node_for(apps.loads(places), name, seed=begin)
            assert node is not None
            places[name] = node
        return rest(apps, places, begin=begin, capacity=placing.capacity, is_placed=is_placed)

    costs = [cost(begin) for begin in range(1, 11)]
    assert max(costs) <= 1.05 * min(costs)


def is_placed(tasks: Mapping[str, float], name: str, target: str) -> bool:
    """Whether the scheduler places the new Pod of a move on its target."""
    return placing.node_for(tasks, name, target=target) == target
