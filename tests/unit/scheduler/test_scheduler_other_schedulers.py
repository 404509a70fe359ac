"""Next to other schedulers: every Pod on a node counts, whichever bound it, until the node accounts for it."""

import random

import pytest

from carico_scheduler.decide import cycle
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

NOW_S = 1000.0
OTHERS = ["default-scheduler", "kube-carico", "volcano", ""]


def make(capacity: float, covers: frozenset[str] = frozenset(), pods: int = 0) -> state.State:
    made = state.State(policy.Policy(), random.Random(0))
    made.put_nodes([objects.make_node()])
    hear(made, 1, capacity, covers, pods)
    return made


def hear(made: state.State, seq: int, capacity: float, covers: frozenset[str] = frozenset(), pods: int = 0) -> None:
    said = objects.make_advertisement("node-0", capacity, seq=seq, covers=covers, pods=pods)
    made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=NOW_S), NOW_S)


def placed(made: state.State) -> list[str]:
    """The Pods that a cycle places now."""
    outcome = cycle.Cycle(policy.Policy()).run(made.fleet.snapshot(NOW_S), made.queue, most=8)
    return [each.waiting.pod.name for each in outcome.placed]


@pytest.mark.parametrize("scheduler", OTHERS)
def test_a_pod_that_another_bound_is_reserved_until_its_node_covers_it(scheduler: str) -> None:
    made = make(1.0)
    theirs = objects.make_pod("theirs", scheduler_name=scheduler, node_name="node-0")
    made.put_pod(objects.make_pod("theirs", scheduler_name=scheduler), NOW_S)
    assert len(made.queue) == 0, "it is not ours to place"
    made.put_pod(theirs, NOW_S)
    made.put_pod(objects.make_pod("ours"), NOW_S)
    assert placed(made) == []
    # Covered: what the node advertises now already excludes it.
    hear(made, 2, 1.0, frozenset({theirs.uid}), pods=1)
    assert placed(made) == ["ours"]


@pytest.mark.parametrize("scheduler", OTHERS)
def test_requests_and_pod_slots_of_others_count(scheduler: str) -> None:
    made = make(9.0)
    bound = objects.make_pod("theirs", scheduler_name=scheduler, node_name="node-0", request_cores=3.5)
    made.put_pod(bound, NOW_S)
    row = made.fleet.snapshot(NOW_S).row(0)
    assert (row.placed, row.workloads, row.used_cores, row.reserved) == (1, 1, 3.5, 1)
    made.put_pod(objects.make_pod("large", request_cores=1.0), NOW_S)
    assert placed(made) == []
    made.remove_pod(bound.uid)
    assert placed(made) == ["large"]


def test_one_that_ends_or_moves_gives_its_room_back() -> None:
    made = make(1.0)
    made.put_pod(objects.make_pod("theirs", scheduler_name="default-scheduler", node_name="node-0"), NOW_S)
    made.put_pod(objects.make_pod("ours"), NOW_S)
    assert placed(made) == []
    ended = objects.make_pod("theirs", scheduler_name="default-scheduler", node_name="node-0", phase="Succeeded")
    made.put_pod(ended, NOW_S)
    assert placed(made) == ["ours"]


def test_daemons_of_others_take_slots_and_requests_and_are_never_reserved() -> None:
    made = make(1.0)
    daemon = objects.make_pod("agent", scheduler_name="default-scheduler", node_name="node-0", is_mirror=True)
    made.put_pod(daemon, NOW_S)
    row = made.fleet.snapshot(NOW_S).row(0)
    assert (row.placed, row.workloads, row.reserved) == (1, 0, 0)


def test_a_new_leader_counts_what_the_old_one_bound_a_moment_ago() -> None:
    # A restart in miniature: lists first, in any order with the advertisement.
    bound = [objects.make_pod(f"pod-{index}", node_name="node-0") for index in range(3)]
    waiting = [objects.make_pod(f"pod-{index}") for index in range(3, 6)]
    early, late = make(4.0, frozenset({"uid-pod-0"}), 1), state.State(policy.Policy(), random.Random(0))
    early.put_pods([*bound, *waiting], NOW_S, 0.0)
    late.put_pods([*bound, *waiting], NOW_S, 0.0)
    late.put_nodes([objects.make_node()])
    hear(late, 1, 4.0, frozenset({"uid-pod-0"}), 1)
    for made in (early, late):
        assert made.fleet.snapshot(NOW_S).row(0).reserved == 2
        assert len(placed(made)) == 2
