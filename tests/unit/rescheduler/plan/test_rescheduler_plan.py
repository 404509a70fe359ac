"""Plans: moves that pay, the one with the largest gain first, and nothing where nothing pays."""

import asyncio
import types
from typing import Any

import numpy as np
import orjson
import pytest

from carico_core.numerics.rescheduling.containers import carico, gains, model
from carico_rescheduler import answers
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, generator, ordering, planning
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.scheduler import objects as parts

EFFORT = carico.Effort(proposals=3000)
WEIGHTS = gains.Weights(task_bytes=1e7)
RULE = decision.Rule(least_bytes=1e5, least_tasks=1.0, most_moves=10, weights=WEIGHTS)


def plan(known: clusters.Cluster, *, budget: int = 100, rule: decision.Rule = RULE, **changes: Any) -> decision.Plan:
    """The plan for a cluster."""
    context = contexts.build(world.judge(known, **changes), world.CEILINGS)
    return planning.make(context, planning.PlanRequest(effort=EFFORT, seed=1, rule=rule, budget=budget, at_ns=0))


def random_context(*, seed: int, nodes: int, pods: int, pairs: int) -> contexts.Context:
    """Pods of random loads on random nodes, of which random pairs talk."""
    random = np.random.default_rng(seed)
    known = world.make({f"node-{number}": 20.0 for number in range(nodes)})
    made = [
        world.deploy(known, f"app-{number}", [f"node-{random.integers(nodes)}"], tasks=float(random.uniform(0.5, 3.0)))[
            0
        ]
        for number in range(pods)
    ]
    for _ in range(pairs):
        one, other = random.choice(pods, size=2, replace=False)
        world.talk(known, made[one], made[other], float(random.uniform(1e5, 1e7)))
    return contexts.build(world.judge(known), world.CEILINGS)


def test_a_pod_moves_to_where_it_talks() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    (web,) = world.deploy(known, "web", ["node-a"])
    (db,) = world.deploy(known, "db", ["node-b"])
    world.talk(known, web, db)
    found = plan(known)
    (link,) = found.links
    assert (link.one, link.other) == ("node-a", "node-b") and link.bytes_per_s == pytest.approx(1e7)
    (move,) = found.moves
    assert {move.source, move.target} == {"node-a", "node-b"} and move.bytes_per_s == pytest.approx(1e7)
    assert found.traffic_bytes == pytest.approx((1e7, 0.0))
    assert move.gain == pytest.approx(1.0) and move.why == "10.0 MB/s less between nodes"


def test_the_traffic_between_nodes_is_stated_by_pairs_of_nodes() -> None:
    context = random_context(seed=3, nodes=5, pods=40, pairs=120)
    problem = context.problem
    expected: dict[tuple[str, str], float] = {}
    within = 0.0
    for (one, other), amount in zip(problem.pairs, problem.traffic, strict=True):
        first, second = sorted(context.nodes[int(problem.present[each])] for each in (one, other))
        if first == second:
            within += amount
        else:
            expected[first, second] = expected.get((first, second), 0.0) + amount
    found = planning.describe(context, [], left=[], weights=WEIGHTS, verdict="", at_ns=0)
    assert {(each.one, each.other): each.bytes_per_s for each in found.links} == pytest.approx(expected)
    amounts = [each.bytes_per_s for each in found.links]
    assert amounts == sorted(amounts, reverse=True)
    assert found.within_bytes == pytest.approx(within)
    assert found.traffic_bytes[0] == pytest.approx(sum(amounts))


def test_of_many_pairs_of_nodes_those_with_most_traffic_are_stated() -> None:
    context = random_context(seed=4, nodes=30, pods=120, pairs=300)
    found = planning.describe(context, [], left=[], weights=WEIGHTS, verdict="", at_ns=0)
    assert len(found.links) == planning.LINKS_MOST
    assert found.traffic_bytes[0] > sum(each.bytes_per_s for each in found.links)
    asked: Any = types.SimpleNamespace(last=found)
    said = orjson.loads(asyncio.run(answers.Answers(rounds=asked, plans=asked).traffic_list(b"")))
    assert said["has_traffic"] and said["between_bytes"] == found.traffic_bytes[0]
    first = found.links[0]
    assert said["links"][0] == {"one": first.one, "other": first.other, "bytes_per_s": first.bytes_per_s}
    asked.last = None
    said = orjson.loads(asyncio.run(answers.Answers(rounds=asked, plans=asked).traffic_list(b"")))
    assert said == {"plan_at_ns": None, "has_traffic": False, "links": []}


def test_an_overloaded_node_gives_pods_away() -> None:
    known = world.make({"node-a": 0.0, "node-b": 8.0})
    world.deploy(known, "web", ["node-a"] * 9, tasks=1.0)
    found = plan(known)
    # A node of four cores is saturated at six tasks.
    assert found.excess_tasks == pytest.approx((3.0, 0.0)) and len(found.moves) == 3
    assert {move.target for move in found.moves} == {"node-b"}
    assert [each.pods_after for each in found.nodes] == [6, 3]


def test_a_pod_that_came_after_the_plan_was_not_planned_for() -> None:
    known = world.make({"node-a": 4.0})
    (web,) = world.deploy(known, "web", ["node-a"])
    found = plan(known)
    new = world.put(known, parts.make_pod("new", node_name="node-a", phase="Running"))
    assert answers.said_of(web, found)["planned"] and answers.said_of(web, found)["stays"] is None
    assert not answers.said_of(new, found)["planned"]
    assert not answers.said_of(web, None)["planned"]


def test_nothing_moves_where_nothing_is_overloaded_and_nothing_talks() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    world.deploy(known, "web", ["node-a"] * 6, tasks=1.0)
    found = plan(known)
    assert found.moves == () and found.verdict == "no move pays"


def test_little_traffic_is_worth_no_move() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    (web,), (db,) = world.deploy(known, "web", ["node-a"]), world.deploy(known, "db", ["node-b"])
    world.talk(known, web, db, 1000.0)
    found = plan(known)
    assert found.moves == () and [each.why for each in found.left_out] == [decision.Left.SMALL]


def test_two_pods_that_talk_move_together() -> None:
    known = world.make({"node-a": 0.0, "node-b": 8.0})
    pods = world.deploy(known, "web", ["node-a"] * 8, tasks=1.0)
    world.talk(known, pods[0], pods[1], 1e9)
    found = plan(known)
    moved = {move.pod.uid for move in found.moves}
    assert found.excess_tasks[1] == 0.0 and found.traffic_bytes == (0.0, 0.0)
    assert (pods[0].uid in moved) == (pods[1].uid in moved)


def test_the_budget_cuts_the_curve_after_its_best_moves() -> None:
    known = world.make({"node-a": 0.0, "node-b": 8.0})
    world.deploy(known, "web", ["node-a"] * 9, tasks=1.0)
    found = plan(known, budget=1)
    assert len(found.moves) == 1 and found.excess_tasks == pytest.approx((3.0, 2.0))
    assert [each.why for each in found.left_out] == [decision.Left.BUDGET] * 2
    assert plan(known, budget=0).verdict == "the budget of moves is used up"


def pair_on_an_overloaded_node(known: clusters.Cluster, bytes_per_s: float) -> set[str]:
    """Two Pods that talk, of half a task each, on a node with a task too many; return their UIDs."""
    (one,), (other,) = (world.deploy(known, name, ["node-a"], tasks=0.5) for name in ("one", "other"))
    fixed = world.put(known, parts.make_pod("fixed", node_name="node-a", phase="Running"))
    known.loads["node-a", fixed.uid] = clusters.Load(6.0, 0.0)
    world.talk(known, one, other, bytes_per_s)
    return {one.uid, other.uid}


def test_the_budget_does_not_part_two_that_go_together() -> None:
    known = world.make({"node-a": 0.0, "node-b": 8.0, "node-c": 0.0})
    pair = pair_on_an_overloaded_node(known, 6e6)
    (large,) = world.deploy(known, "large", ["node-c"], tasks=3.0)
    fixed = world.put(known, parts.make_pod("heavy", node_name="node-c", phase="Running"))
    known.loads["node-c", fixed.uid] = clusters.Load(6.0, 0.0)
    assert plan(known).moves[0].pod.uid == large.uid
    assert {move.pod.uid for move in plan(known).moves} == {large.uid, *pair}
    cut = plan(known, budget=2)
    assert [move.pod.uid for move in cut.moves] == [large.uid]
    assert sorted(each.why for each in cut.left_out) == [decision.Left.BUDGET, decision.Left.SMALL]


def test_a_move_that_pays_only_with_a_refused_one_is_not_made() -> None:
    known = world.make({"node-a": 0.0, "node-b": 8.0})
    pair = pair_on_an_overloaded_node(known, 1e9)
    context = contexts.build(world.judge(known), world.CEILINGS)
    made = planning.make(context, planning.PlanRequest(effort=EFFORT, seed=1, rule=RULE, budget=9, at_ns=0))
    assert {move.pod.uid for move in made.moves} == pair
    kept, refused = made.moves[:1], decision.left_out(made.moves[1], decision.Left.SCHEDULER, "capacity: full")
    found = planning.without_others(context, made, kept, rule=RULE, refused=[refused])
    assert found.moves == () and found.verdict == "no move pays" and found.traffic_bytes == (0.0, 0.0)
    assert refused in found.left_out
    none = planning.without_others(context, made, [], rule=RULE, refused=[refused])
    assert none.verdict.startswith("the scheduler would place none")


@pytest.mark.parametrize(("tasks", "moves"), [(0.6, 0), (1.2, 1)])
def test_a_large_share_of_little_overload_is_worth_no_move(tasks: float, moves: int) -> None:
    known = world.make({"node-a": 0.0, "node-b": 8.0})
    world.deploy(known, "web", ["node-a"], tasks=tasks)
    fixed = world.put(known, parts.make_pod("fixed", node_name="node-a", phase="Running"))
    known.loads["node-a", fixed.uid] = clusters.Load(6.0, 0.0)
    found = plan(known)
    assert len(found.moves) == moves
    assert ("less than 100 kB/s and 1.00 tasks" in found.verdict) is (moves == 0)


def test_no_step_exceeds_the_room_that_its_target_advertises() -> None:
    known = world.make({"node-a": 0.0, "node-b": 2.0})
    world.deploy(known, "web", ["node-a"] * 9, tasks=1.0)
    found = plan(known)
    assert len(found.moves) == 2
    assert [each.why for each in found.left_out] == [decision.Left.BLOCKED]


@pytest.mark.parametrize(
    ("on_each", "expected"), [((50, 0), (50, 0)), ((51, 0), (50, 1)), ((60, 19), (50, 29)), ((60, 20), (60, 20))]
)
def test_the_thresholds_count_pods_and_not_what_belongs_to_the_node(
    on_each: tuple[int, int], expected: tuple[int, int]
) -> None:
    """Over-used are nodes above 50 Pods, under-used those below 20."""
    known = world.make({"node-a": 200.0, "node-b": 200.0})
    world.deploy(known, "web", ["node-a"] * on_each[0] + ["node-b"] * on_each[1], tasks=0.01, memory_bytes=0.0)
    context = contexts.build(world.judge(known), world.CEILINGS)
    (aim,) = generator._aims(context, EFFORT, WEIGHTS, seed=1, algorithm=generator.THRESHOLD)
    assert tuple(np.bincount(aim[: len(context.pods)], minlength=2)) == expected


def test_each_step_gains_what_the_costs_say() -> None:
    context = random_context(seed=3, nodes=5, pods=20, pairs=30)
    curve = next(generator.curves(context, EFFORT, seed=2, weights=WEIGHTS, most=50))
    placed = context.problem.present.copy()
    assert len(curve.steps) > 3
    for step in curve.steps:
        before = model.cntc(context.problem, placed), gains.excess_tasks(context.problem, placed)
        placed[step.container] = step.target
        after = model.cntc(context.problem, placed), gains.excess_tasks(context.problem, placed)
        assert step.bytes_per_s == pytest.approx(before[0] - after[0], abs=1e-3)
        assert step.tasks == pytest.approx(before[1] - after[1], abs=1e-9)
        assert list(model.violations(context.problem, placed)) == []


def test_gains_that_are_kept_are_those_of_the_placement_so_far() -> None:
    context = random_context(seed=5, nodes=4, pods=24, pairs=40)
    target = carico.solve(context.problem, EFFORT, seed=3).placement
    made = ordering._Ordering(context, target, WEIGHTS)
    steps = 0
    while (found := made.best()) is not None:
        for container in found:
            made.make(container)
        steps += len(found)
        assert set(made._gains) == set(made._groups())
        assert all(kept == pytest.approx(made._gain(group)) for group, kept in made._gains.items())
    assert steps > 5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_idle_nodes_and_other_pods_change_no_decision(seed: int) -> None:
    few, many = (decided(seed=seed, others=others) for others in (0, 40))
    assert few == many and few[0]


def strangers(known: clusters.Cluster, count: int) -> None:
    """Add idle nodes, and overloaded ones whose Pods exchange much traffic and stay."""
    for number in range(count):
        for kind in ("idle", "other"):
            known.nodes.put(("", f"{kind}-{number}"), parts.make_node(f"{kind}-{number}"))
            known.advertisements[f"{kind}-{number}"] = parts.make_advertisement(f"{kind}-{number}", 20.0)
    added = [
        world.put(known, parts.make_pod(f"other-{number}", node_name=f"other-{number}", phase="Running"))
        for number in range(count)
    ]
    for each, previous in zip(added[1:], added, strict=False):
        known.loads[each.pod.node_name or "", each.uid] = clusters.Load(9.0, 0.0)
        world.talk(known, each, previous, 1e9)


def decided(*, seed: int, others: int) -> tuple[list[tuple[str, str, str, float]], str]:
    """What is decided for the same Pods and the same aim, with idle nodes and Pods that talk and overload others."""
    random = np.random.default_rng(seed)
    known = world.make({f"node-{number}": 20.0 for number in range(4)})
    made = [
        world.deploy(known, f"app-{number}", [f"node-{random.integers(4)}"], tasks=float(random.uniform(0.5, 3.0)))[0]
        for number in range(16)
    ]
    for _ in range(20):
        one, other = random.choice(16, size=2, replace=False)
        world.talk(known, made[one], made[other], float(random.uniform(1e3, 1e6)))
    aims = {each.pod.name: f"node-{random.integers(4)}" for each in made}
    strangers(known, others)
    context = contexts.build(world.judge(known), world.CEILINGS)
    target = context.problem.present.copy()
    for number, pod in enumerate(context.pods):
        if pod.pod.name in aims:
            target[number] = context.nodes.index(aims[pod.pod.name])
    curve = ordering.towards(context, target, WEIGHTS, most=50)
    moves, _, verdict = decision.within(decision.moves_of(context, curve.steps), 10, RULE)
    return [(each.pod.pod.name, each.source, each.target, each.gain) for each in moves], verdict


def test_a_pair_of_a_large_cluster_moves_together() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    (web,), (db,) = world.deploy(known, "web", ["node-a"]), world.deploy(known, "db", ["node-b"])
    world.talk(known, web, db, 1e6)
    strangers(known, 30)
    found = plan(known)
    assert len(found.moves) == 1 and {found.moves[0].pod.uid} <= {web.uid, db.uid}
