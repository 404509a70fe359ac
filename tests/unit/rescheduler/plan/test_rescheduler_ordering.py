"""The order of moves: room for the old and the new Pod at every step, detours past full nodes, and what is blocked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.domain import constraints, selectors
from carico_core.numerics.rescheduling.containers import carico, gains, model
from carico_rescheduler.context import movable
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, ordering, planning
from tests.unit.rescheduler import cluster_objects as world

WEIGHTS = gains.Weights(task_bytes=1e7)
RULE = decision.Rule(least_bytes=1e5, least_tasks=1.0, most_moves=10, weights=WEIGHTS)
# A node has 7.6 GiB for Pods: one of these, and no second one.
GIANT = 5 * 2.0**30


def swap(*, nodes: int, is_third_full: bool = False) -> contexts.Context:
    """Two giants on full nodes, each of which talks to a small Pod of the other one's node."""
    known = world.make({f"node-{letter}": 4.0 for letter in "abcdefgh"[:nodes]})
    (one,) = world.deploy(known, "one", ["node-a"], memory_bytes=GIANT)
    (other,) = world.deploy(known, "other", ["node-b"], memory_bytes=GIANT)
    mates = [world.deploy(known, f"mate-{at}", [f"node-{at}"], memory_bytes=2.0**20)[0] for at in "ab"]
    world.talk(known, one, mates[1])
    world.talk(known, other, mates[0])
    if is_third_full:
        world.deploy(known, "full", ["node-c"], memory_bytes=GIANT)
    return contexts.build(world.judge(known), world.CEILINGS)


def swapped(context: contexts.Context) -> model.Ints:
    """The placement in which the giants have changed places."""
    index = {pod.pod.name: number for number, pod in enumerate(context.pods)}
    target = context.problem.present.copy()
    target[index["one-0"]], target[index["other-0"]] = 1, 0
    return target


def test_a_cycle_of_two_full_nodes_takes_a_detour_by_a_third() -> None:
    context = swap(nodes=3)
    curve = ordering.towards(context, swapped(context), WEIGHTS, most=10)
    assert [(each.source, each.target, each.goes_on) for each in curve.steps] in (
        [(0, 2, 1), (1, 0, None), (2, 1, None)], [(1, 2, 0), (0, 1, None), (2, 0, None)],
    )  # fmt: skip
    assert curve.blocked == () and sum(each.gain for each in curve.steps) == pytest.approx(2.0)
    moves, left = decision.worth(decision.moves_of(context, curve.steps))
    assert len(moves) == 3 and not left and moves[0].why == f"makes room, on the way to {moves[2].target}"


@pytest.mark.parametrize(("nodes", "is_third_full"), [(2, False), (3, True)])
def test_a_cycle_without_room_anywhere_is_blocked_and_reported(nodes: int, is_third_full: bool) -> None:
    context = swap(nodes=nodes, is_third_full=is_third_full)
    curve = ordering.towards(context, swapped(context), WEIGHTS, most=10)
    assert curve.steps == () and {context.pods[each].pod.name for each in curve.blocked} == {"one-0", "other-0"}


def test_where_a_mode_allows_no_detour_the_cycle_is_blocked() -> None:
    context = swap(nodes=3)
    curve = ordering.towards(context, swapped(context), WEIGHTS, most=10, detours=frozenset())
    assert curve.steps == () and len(curve.blocked) == 2


def test_a_budget_that_is_too_small_for_a_detour_begins_none() -> None:
    context = swap(nodes=3)
    curve = ordering.towards(context, swapped(context), WEIGHTS, most=10)
    moves, left, _ = decision.within(decision.moves_of(context, curve.steps), 2, RULE)
    assert moves == [] and len(left) == 3
    moves, _, _ = decision.within(decision.moves_of(context, curve.steps), 3, RULE)
    assert len(moves) == 3


def test_a_whole_plan_resolves_the_cycle_and_says_what_comes_of_it() -> None:
    context = swap(nodes=3)
    asked = planning.PlanRequest(effort=carico.Effort(proposals=3000), seed=1, rule=RULE, budget=10, at_ns=0)
    plan = planning.make(context, asked)
    assert plan.traffic_bytes == pytest.approx((2e7, 0.0))


def test_a_detour_that_the_scheduler_refuses_is_left_out_with_what_it_was_for() -> None:
    context = swap(nodes=3)
    curve = ordering.towards(context, swapped(context), WEIGHTS, most=10)
    moves, _ = decision.worth(decision.moves_of(context, curve.steps))
    plan = planning.describe(context, moves, left=[], weights=WEIGHTS, verdict="", at_ns=0)
    refused = [decision.left_out(moves[0], decision.Left.SCHEDULER, "taint: reserved")]
    found = planning.without_others(context, plan, moves[1:], rule=RULE, refused=refused)
    assert found.moves == () and found.verdict == "no move pays"
    assert sorted(each.why for each in found.left_out) == [decision.Left.BLOCKED] * 2 + [decision.Left.SCHEDULER]
    # Refused is another one: the detour stays.
    again = planning.without_others(context, plan, moves, rule=RULE, refused=[])
    assert [(each.pod.uid, each.target) for each in again.moves] == [(each.pod.uid, each.target) for each in moves]


def tight(seed: int) -> contexts.Context:
    """Nodes that are nearly full of Pods of many sizes, which talk, and some of which must not share a node."""
    random = np.random.default_rng(seed)
    nodes = int(random.integers(3, 6))
    known = world.make({f"node-{number}": float(random.choice([0.0, 1.0, 3.0])) for number in range(nodes)})
    free = np.full(nodes, 7.5)
    made = []
    for number in range(int(random.integers(4, 16))):
        name, gib = f"app-{number}", float(random.choice([0.5, 1.0, 2.0, 3.0]))
        places = [int(each) for each in random.permutation(nodes) if free[each] >= gib][: int(random.integers(1, 3))]
        free[places] -= gib
        mine = (selectors.Requirement(key="app", operator=selectors.IN, values=(name,)),)
        apart = constraints.PodTerm(topology_key=movable.HOSTNAME, selector=mine, namespaces=("default",))
        made += world.deploy(
            known, name, [f"node-{each}" for each in places], tasks=0.5, memory_bytes=gib * 2.0**30,
            constraints=constraints.Constraints(anti_affinity=(apart,)),
        )  # fmt: skip
    for _ in range(3 * len(made)):
        one, other = random.choice(len(made), size=2, replace=False)
        world.talk(known, made[one], made[other], float(random.uniform(1e5, 1e7)))
    return contexts.build(world.judge(known), world.CEILINGS)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_every_step_keeps_every_constraint_with_the_old_and_the_new_pod_present(seed: int) -> None:
    context = tight(seed)
    problem, random = context.problem, np.random.default_rng(seed)
    target = problem.present.copy()
    for each in np.flatnonzero(problem.movable):
        target[each] = random.choice(np.flatnonzero(problem.allowed[each]))
    curve = ordering.towards(context, target, WEIGHTS, most=100)
    placed, room = problem.present.copy(), context.room.copy()
    apart = {frozenset(pair) for pair in problem.apart.tolist()}
    goals: dict[int, int] = {}
    for step in curve.steps:
        assert step.source == placed[step.container] != step.target
        assert problem.movable[step.container] and problem.allowed[step.container, step.target]
        assert goals.pop(step.container, step.target) == step.target
        if step.goes_on is not None:
            goals[step.container] = step.goes_on
        used = [model.totals(placed, each, problem.servers) for each in problem.request.T]
        for total, each, capacity in zip(used, problem.request.T, problem.capacity.T, strict=True):
            assert total[step.target] + each[step.container] <= capacity[step.target] * (1.0 + model.ROUNDING)
        assert room[step.target] >= 1.0
        there = np.flatnonzero(placed == step.target).tolist()
        assert not any(frozenset((step.container, each)) in apart for each in there)
        room[step.source] += 1.0
        room[step.target] -= 1.0
        placed[step.container] = step.target
        assert list(model.violations(problem, placed)) == []
    # What was on its way has arrived, and all together has gained.
    assert not goals
    costs = [
        WEIGHTS.gain(model.cntc(problem, each), gains.excess_tasks(problem, each)) for each in (problem.present, placed)
    ]
    assert sum(each.gain for each in curve.steps) == pytest.approx(costs[0] - costs[1])
    assert not curve.steps or costs[1] < costs[0]
    # Each Pod makes one detour at most.
    assert all(count <= 2 for count in np.bincount([each.container for each in curve.steps] or [0]))
    assert all(placed[each] != target[each] for each in curve.blocked)
