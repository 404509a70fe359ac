"""What a plan gains must have lasted: readings that vary move nothing, and a change does once it is seen again."""

import dataclasses

import numpy as np
import pytest

from carico_core.numerics.rescheduling.containers import carico
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, lasting, planning
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.rescheduler.plan import test_rescheduler_convergence as convergence

RULE = convergence.RULE


def plan_for(context: contexts.Context, seed: int = 1) -> decision.Plan:
    asked = planning.PlanRequest(
        effort=carico.Effort(proposals=3000), seed=seed, rule=RULE, budget=1000, at_ns=0
    )  # fmt: skip
    return planning.make(context, asked)


def test_readings_that_vary_by_5_percent_move_nothing_in_a_full_cluster() -> None:
    apps = convergence.applications(7, 5, seed=1)
    random = np.random.default_rng(4)
    begin = {name: str(random.choice(convergence.NODES)) for name in apps.tasks}
    places = convergence.at_rest(
        apps, begin, begin=4, capacity=lambda _: 20.0, is_placed=lambda *_: True
    )  # fmt: skip
    kept, planned, carried_out = lasting.Lasting(every_s=60.0), 0, 0
    for round_number in range(6):
        read = convergence.Applications(
            tasks={name: each * random.normal(1.0, 0.05) for name, each in apps.tasks.items()},
            traffic={pair: each * random.normal(1.0, 0.05) for pair, each in apps.traffic.items()},
        )
        context = read.context(places, lambda _: 20.0)
        plan = plan_for(context, seed=round_number)
        # Before, there is nothing to compare with.
        if round_number >= 2 and plan.moves:
            planned += 1
            carried_out += not kept.why_not(context, plan, RULE, 60.0 * round_number)
        kept.note(context, 60.0 * round_number)
    assert planned >= 2 and carried_out == 0


def overloaded(tasks: float) -> tuple[clusters.Cluster, contexts.Context]:
    """Six Pods on one of two nodes, which is saturated at six tasks."""
    known = world.make({"node-a": 8.0, "node-b": 8.0})
    world.deploy(known, "web", ["node-a"] * 6, tasks=tasks)
    return known, contexts.build(world.judge(known), world.CEILINGS)


def test_a_change_moves_pods_once_each_of_the_last_rounds_has_seen_it() -> None:
    kept, said = lasting.Lasting(every_s=60.0), []
    _, calm = overloaded(0.5)
    for number in range(4):
        kept.note(calm, 60.0 * number)
    _, busy = overloaded(2.0)
    plan = plan_for(busy)
    assert plan.moves
    for number in range(4, 8):
        said.append(kept.why_not(busy, plan, RULE, 60.0 * number))
        kept.note(busy, 60.0 * number)
    assert said[0] == "what would be moved did not pay by the readings of a round before: it has not lasted"
    assert "3 rounds before" in said[2] and said[3] == ""


def test_readings_that_are_old_or_forgotten_count_for_nothing() -> None:
    _, calm = overloaded(0.5)
    _, busy = overloaded(2.0)
    plan, kept = plan_for(busy), lasting.Lasting(every_s=60.0)
    assert kept.why_not(busy, plan, RULE, 0.0) == ""
    kept.note(calm, 0.0)
    assert kept.why_not(busy, plan, RULE, 240.0)
    assert kept.why_not(busy, plan, RULE, 241.0) == ""
    kept.note(calm, 300.0)
    kept.forget()
    assert kept.why_not(busy, plan, RULE, 301.0) == ""


@pytest.mark.parametrize("every_s", [1.0, 3600.0])
def test_readings_are_old_after_four_rounds_however_long_these_are(every_s: float) -> None:
    _, calm = overloaded(0.5)
    _, busy = overloaded(2.0)
    plan, kept = plan_for(busy), lasting.Lasting(every_s=every_s)
    kept.note(calm, 0.0)
    assert kept.why_not(busy, plan, RULE, 4.0 * every_s)
    assert kept.why_not(busy, plan, RULE, 4.0 * every_s + 1.0) == ""


def test_pods_without_earlier_readings_count_as_they_are() -> None:
    known, busy = overloaded(2.0)
    one, other = world.deploy(known, "new", ["node-a", "node-b"], tasks=0.1)
    world.talk(known, one, other, 4e7)
    plan = plan_for(contexts.build(world.judge(known), world.CEILINGS))
    kept = lasting.Lasting(every_s=60.0)
    kept.note(busy, 0.0)
    assert {each.pod.pod.name.partition("-")[0] for each in plan.moves} >= {"web"}
    assert kept.why_not(contexts.build(world.judge(known), world.CEILINGS), plan, RULE, 60.0) == ""
    # Of those that had readings, the earlier ones count: nothing was overloaded then.
    kept.note(overloaded(0.5)[1], 60.0)
    alone = dataclasses.replace(plan, moves=tuple(each for each in plan.moves if each.pod.pod.name.startswith("web")))
    assert kept.why_not(contexts.build(world.judge(known), world.CEILINGS), alone, RULE, 120.0)


@pytest.mark.parametrize("others", [0, 3])
def test_pods_that_are_gone_since_are_left_out(others: int) -> None:
    known, _ = overloaded(2.0)
    gone = world.deploy(known, "gone", ["node-b"] * others, tasks=1.0) if others else []
    kept = lasting.Lasting(every_s=60.0)
    kept.note(contexts.build(world.judge(known), world.CEILINGS), 0.0)
    for each in gone:
        known.pods.remove((each.pod.namespace, each.pod.name))
    context = contexts.build(world.judge(known), world.CEILINGS)
    assert kept.why_not(context, plan_for(context), RULE, 60.0) == ""
