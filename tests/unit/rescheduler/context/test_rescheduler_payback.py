"""What a move costs by how long Pods take to start, and in which time it must pay back."""

import dataclasses

import numpy as np
import pytest

from carico_core.numerics.rescheduling.containers import carico, gains
from carico_rescheduler.context import payback
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, planning
from tests.unit.rescheduler import cluster_objects as world

RULE = decision.Rule(least_bytes=1.0, least_tasks=1e-6, most_moves=10, weights=gains.Weights(task_bytes=1e7))


def test_a_cost_is_the_start_of_the_replica_that_was_ready_soonest() -> None:
    known = world.make({"node-a": 4.0})
    quick, late = world.deploy(known, "web", ["node-a"] * 2)
    # It was not ready for an hour, since it lost its database.
    late = world.put(known, late.pod, ready_at_s=3600.0)
    assert payback.costs([quick, late], np.array([0.5, 2.0])) == pytest.approx([2.0 * 1.5, 2.0 * 3.0])
    unknown = dataclasses.replace(late, started_at_s=None)
    assert payback.costs([unknown], np.array([1.0])) == pytest.approx([payback.START_MOST_S * 2.0])
    # Clocks of whole seconds, and one that was set back.
    early = dataclasses.replace(quick, ready_at_s=-5.0)
    assert payback.costs([early], np.array([0.0])) == pytest.approx([payback.START_LEAST_S])


def plan(*, bytes_per_s: float, start_s: float, life_s: float | None = None) -> decision.Plan:
    """Two Pods that talk, on two nodes."""
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    pods = [world.deploy(known, name, [node])[0] for name, node in (("web", "node-a"), ("db", "node-b"))]
    web, db = (world.put(known, each.pod, ready_at_s=start_s) for each in pods)
    world.talk(known, web, db, bytes_per_s)
    if life_s is not None:
        known.lifetimes_s = {"ReplicaSet/default/web": life_s, "ReplicaSet/default/db": life_s}
    context = contexts.build(world.judge(known), world.CEILINGS)
    effort = carico.Effort(proposals=1000)
    return planning.make(context, planning.PlanRequest(effort=effort, seed=1, rule=RULE, budget=100, at_ns=0))


# Both Pods have half a task: a start of ten seconds costs 15 task seconds, which 10 MB/s gain in 15 s.
@pytest.mark.parametrize(
    ("bytes_per_s", "start_s", "life_s", "moves"),
    [
        (1e7, 10.0, None, 1), (1e7, 10.0, 16.0, 1), (1e7, 10.0, 14.0, 0), (1e5, 10.0, None, 1), (1e5, 10.0, 1400.0, 0),
        (4e4, 10.0, None, 0), (4e4, 1.0, None, 1),
    ],
)  # fmt: skip
def test_a_move_is_made_if_it_pays_back_in_time(
    bytes_per_s: float, start_s: float, life_s: float | None, moves: int
) -> None:
    found = plan(bytes_per_s=bytes_per_s, start_s=start_s, life_s=life_s)
    assert len(found.moves) == moves
    for each in found.moves:
        assert each.pays_back_s == pytest.approx(1.5 * start_s * 1e7 / bytes_per_s)
    if not moves:
        assert found.verdict == "no move pays" and found.left_out[0].why is decision.Left.SMALL
        within_s = payback.HORIZON_S if life_s is None else life_s
        pays_s = 1.5 * start_s * 1e7 / bytes_per_s
        assert found.left_out[0].detail.endswith(f"pays back after {pays_s:.0f} s, not within {within_s:.0f}")
