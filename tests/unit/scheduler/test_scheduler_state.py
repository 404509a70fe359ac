"""The state follows the API and the advertisements, in whatever order they come."""

import random

import pytest

from carico_core.domain import cluster, constraints, messages
from carico_scheduler.pods import queue
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

NOW_S = 1000.0
# When Pods were created, in Unix seconds.
CREATED_S = 0.0
PORT = constraints.Constraints(host_ports=(constraints.HostPort(address="0.0.0.0", protocol="TCP", port=80),))


def make() -> state.State:
    made = state.State(policy.Policy(), random.Random(0))
    made.put_nodes([objects.make_node()])
    return made


def hear(made: state.State, capacity: float = 4.0, node: str = "node-0", **changes: object) -> None:
    advertisement = objects.make_advertisement(node, capacity, **changes)
    made.put_advertisement(node_state.Heard(advertisement=advertisement, sampled_s=NOW_S), NOW_S)


def take(made: state.State) -> queue.Waiting:
    waiting = made.queue.take(NOW_S)
    assert waiting is not None
    return waiting


def reserved(made: state.State, slot: int = 0) -> int:
    return made.fleet.snapshot(NOW_S).row(slot).reserved


def test_only_pods_that_wait_for_us_are_queued() -> None:
    made = make()
    pods = [
        objects.make_pod("ours"),
        objects.make_pod("theirs", scheduler_name="default-scheduler"),
        objects.make_pod("bound", node_name="node-0"),
        objects.make_pod("ended", phase="Succeeded"),
        objects.make_pod("leaving", deleting=True),
        objects.make_pod("gated", scheduling_gates=("wait",)),
    ]
    made.put_pods(pods, NOW_S, CREATED_S)
    assert [each.pod.name for each in made.queue] == ["ours"]
    assert reserved(made) == 1


def test_a_pod_that_another_has_bound_waits_no_more() -> None:
    made = make()
    made.put_pod(objects.make_pod(), NOW_S)
    made.put_pod(objects.make_pod(node_name="node-0"), NOW_S)
    assert (len(made.queue), reserved(made)) == (0, 1)


def test_nodes_that_are_not_listed_are_gone_and_the_others_stay() -> None:
    made = make()
    made.put_nodes([objects.make_node("node-0"), objects.make_node("node-1")])
    hear(made, node="node-1")
    slot = made.fleet.slot_of("node-1")
    made.put_nodes([objects.make_node("node-1"), objects.make_node("node-2")])
    assert sorted(made.fleet.names()) == ["node-1", "node-2"]
    assert made.fleet.slot_of("node-1") == slot


def test_a_bind_from_decision_to_covered() -> None:
    made = make()
    hear(made)
    made.put_pod(objects.make_pod(), NOW_S)
    waiting = take(made)
    attempt = made.assume(waiting, "node-0", NOW_S)
    assert reserved(made) == 1
    made.put_pod(objects.make_pod(resource_version="2"), NOW_S)
    assert len(made.queue) == 0, "a late event of before the bind does not queue it again"
    assert made.send(waiting.pod.uid, attempt)
    assert made.is_open(waiting.pod.uid, attempt)
    made.confirm(waiting.pod.uid, attempt)
    made.put_pod(objects.make_pod(resource_version="3"), NOW_S)
    assert len(made.queue) == 0
    assert not made.is_open(waiting.pod.uid, attempt)
    made.put_pod(objects.make_pod(node_name="node-0", phase="Running"), NOW_S)
    hear(made, 3.0, seq=2, pods=1, covers=frozenset({waiting.pod.uid}))
    row = made.fleet.snapshot(NOW_S).row(0)
    assert (row.reserved, row.placed, row.free("")) == (0, 1, 3.0)
    made.put_pod(objects.make_pod(node_name="node-0", phase="Succeeded"), NOW_S)
    assert made.fleet.snapshot(NOW_S).row(0).placed == 0


def test_a_failed_bind_gives_the_room_back_and_queues_the_pod_again() -> None:
    made = make()
    made.put_pod(objects.make_pod(), NOW_S)
    waiting = take(made)
    waiting.attempts = 1
    attempt = made.assume(waiting, "node-0", NOW_S)
    assert made.refuse(waiting.pod.uid, attempt, NOW_S)
    assert reserved(made) == 0
    assert made.queue.take(NOW_S) is None
    assert made.queue.take(NOW_S + 0.1) is waiting


def test_a_pod_deleted_while_it_is_bound_leaves_nothing() -> None:
    made = make()
    made.put_pod(objects.make_pod(), NOW_S)
    waiting = take(made)
    attempt = made.assume(waiting, "node-0", NOW_S)
    made.remove_pod(waiting.pod.uid)
    assert reserved(made) == 0
    assert not made.refuse(waiting.pod.uid, attempt, NOW_S)
    made.confirm(waiting.pod.uid, attempt)
    assert (reserved(made), len(made.queue), len(made.reservations)) == (0, 0, 0)


def test_a_bind_that_failed_here_but_was_seen_bound_is_not_tried_again() -> None:
    made = make()
    made.put_nodes([objects.make_node(), objects.make_node("node-1")])
    made.put_pod(objects.make_pod(), NOW_S)
    waiting = take(made)
    attempt = made.assume(waiting, "node-0", NOW_S)
    made.put_pod(objects.make_pod(node_name="node-1"), NOW_S)
    assert not made.refuse(waiting.pod.uid, attempt, NOW_S)
    assert (reserved(made, 0), reserved(made, 1), len(made.queue)) == (0, 1, 0)


def test_a_pod_that_began_to_leave_meanwhile_is_not_queued_again() -> None:
    made = make()
    made.put_pod(objects.make_pod(), NOW_S)
    waiting = take(made)
    attempt = made.assume(waiting, "node-0", NOW_S)
    made.put_pod(objects.make_pod(deleting=True), NOW_S)
    assert not made.refuse(waiting.pod.uid, attempt, NOW_S)
    assert (reserved(made), len(made.queue)) == (0, 0)


def test_a_new_list_drops_what_is_gone() -> None:
    made = make()
    made.put_pods([objects.make_pod("a"), objects.make_pod("b", node_name="node-0")], NOW_S, CREATED_S)
    made.put_pods([objects.make_pod("c")], NOW_S, CREATED_S)
    assert [each.pod.name for each in made.queue] == ["c"]
    assert (reserved(made), len(made.reservations)) == (0, 0)


def test_a_listed_pod_has_waited_since_it_was_created_and_one_that_arrives_since_then() -> None:
    made = make()
    made.put_pods([objects.make_pod("listed"), objects.make_pod("gated", scheduling_gates=("wait",))], NOW_S, 300.0)
    made.put_pod(objects.make_pod("arrived"), NOW_S + 1.0)
    made.put_pod(objects.make_pod("gated"), NOW_S + 2.0)
    began_s = {"listed": NOW_S - 300.0, "arrived": NOW_S + 1.0, "gated": NOW_S + 2.0}
    assert {each.pod.name: each.began_s for each in made.queue} == began_s
    # A later list changes nothing, nor does another attempt.
    waiting = take(made)
    made.refuse(waiting.pod.uid, made.assume(waiting, "node-0", NOW_S + 3.0), NOW_S + 4.0)
    made.put_pods([objects.make_pod(name) for name in began_s], NOW_S + 5.0, 305.0)
    assert {each.pod.name: each.began_s for each in made.queue} == began_s


def test_a_pod_of_a_clock_that_is_ahead_has_not_waited_yet() -> None:
    made = make()
    made.put_pods([objects.make_pod(created_at_s=60.0)], NOW_S, 1.0)
    assert take(made).began_s == NOW_S


def test_a_node_that_leaves_and_returns_starts_without_its_old_advertisement() -> None:
    made = make()
    hear(made)
    made.remove_node("node-0")
    made.put_node(objects.make_node("node-9"))
    made.put_node(objects.make_node("node-0"))
    view = made.fleet.snapshot(NOW_S)
    assert view.count == 2
    assert not any(view.row(slot).is_advertised for slot in range(2))


def park(made: state.State, **pod: object) -> None:
    made.put_pod(objects.make_pod("waits", **pod), NOW_S)
    made.queue.park(take(made))
    assert made.queue.take(NOW_S) is None


def test_room_opens_the_queue_and_news_without_room_does_not() -> None:
    made = make()
    hear(made, 0.5)
    park(made)
    hear(made, 0.9, seq=2)
    assert made.queue.take(NOW_S) is None
    hear(made, 1.0, seq=3)
    assert take(made).pod.name == "waits"


def test_an_advertisement_opens_the_queue_to_whom_it_helps_alone() -> None:
    made = make()
    costs = {"Job/default/small": 1.0, "Job/default/large": 3.0, "Job/default/gone": 2.0}
    classes = {key: messages.ClassCapacity(cost_plus={"cpu": cost}, pods=1) for key, cost in costs.items()}

    def told(room: float, seq: int) -> None:
        hear(made, 1.0, seq=seq, pods=1, headroom={"cpu": room}, classes=classes)

    told(0.5, 1)
    for name in ("small", "large"):
        owner = cluster.Owner(kind="Job", name=name, uid=name)
        made.put_pod(objects.make_pod(name, owner=owner), NOW_S)
        made.queue.park(take(made))
    told(1.5, 2)
    small = take(made)
    assert (small.pod.name, made.queue.take(NOW_S)) == ("small", None)
    made.queue.park(small)
    # Of a kind of which no Pod waits, and of one that had room before.
    told(2.5, 3)
    assert made.queue.take(NOW_S) is None
    told(3.5, 4)
    assert (take(made).pod.name, made.queue.take(NOW_S)) == ("large", None)


def test_what_else_opens_the_queue() -> None:
    for event in ("node", "end", "unreserve", "fresh"):
        made = make()
        hear(made, 4.0)
        made.put_pod(objects.make_pod("other", node_name="node-0"), NOW_S)
        made.put_pod(objects.make_pod("bad"), NOW_S)
        bad = take(made)
        bad.attempts = 50
        attempt = made.assume(bad, "node-0", NOW_S)
        park(made)
        if event == "node":
            made.put_node(objects.make_node("node-0", labels={"new": "label"}))
        elif event == "end":
            made.put_pod(objects.make_pod("other", node_name="node-0", phase="Failed"), NOW_S)
        elif event == "unreserve":
            made.refuse("uid-bad", attempt, NOW_S)
        else:
            made.put_advertisement(
                node_state.Heard(advertisement=objects.make_advertisement(seq=2), sampled_s=NOW_S + 20), NOW_S + 20
            )
        assert take(made).pod.name == "waits", event


@pytest.mark.parametrize(
    ("capacity", "ends", "waits", "fallback", "opens"),
    [
        (1.0, {}, {}, policy.Fallback.WAIT, True),
        (0.5, {}, {}, policy.Fallback.WAIT, False),
        (None, {}, {}, policy.Fallback.WAIT, False),
        (0.5, {"constraints": PORT}, {"constraints": PORT}, policy.Fallback.WAIT, True),
        (None, {"constraints": PORT}, {"constraints": PORT}, policy.Fallback.WAIT, True),
        (0.5, {}, {"constraints": PORT}, policy.Fallback.WAIT, False),
        (1.0, {}, {"constraints": PORT}, policy.Fallback.WAIT, True),
        (0.5, {}, {"constraints": constraints.NONE}, policy.Fallback.WAIT, False),
        (0.5, {}, {}, policy.Fallback.REQUESTS, True),
    ],
)
def test_an_end_opens_the_queue_to_whom_the_room_could_help(
    capacity: float | None, ends: dict[str, object], waits: dict[str, object], fallback: policy.Fallback, opens: bool
) -> None:
    made = state.State(policy.Policy(fallback=fallback), random.Random(0))
    made.put_nodes([objects.make_node(), objects.make_node("node-1")])
    hear(made, 9.0, node="node-1")
    if capacity is not None:
        hear(made, capacity, pods=1, covers=frozenset({"uid-other"}))
    made.put_pod(objects.make_pod("other", node_name="node-0", **ends), NOW_S)
    park(made, **waits)
    made.put_pod(objects.make_pod("other", node_name="node-0", phase="Succeeded", **ends), NOW_S)
    assert (made.queue.take(NOW_S) is not None) is opens


def test_an_end_on_a_node_that_has_gone_opens_nothing() -> None:
    made = make()
    hear(made)
    made.put_pod(objects.make_pod("other", node_name="node-0"), NOW_S)
    made.remove_node("node-0")
    park(made)
    made.remove_pod("uid-other")
    assert made.queue.take(NOW_S) is None


@pytest.mark.parametrize(
    ("change", "capacity", "opens"),
    [
        ({}, 4.0, False),
        ({"phase": "Running"}, 4.0, False),
        ({"labels": {"seen": "yes"}}, 4.0, False),
        ({"node_name": "node-1"}, 4.0, True),
        ({"request_cores": 0.5}, 4.0, True),
        ({"request_cores": 0.5}, 1.0, False),
        ({"request_cores": 2.0}, 4.0, False),
    ],
)
def test_a_claim_that_changes_opens_the_queue_only_where_it_leaves_room(
    change: dict[str, object], capacity: float, opens: bool
) -> None:
    made = make()
    made.put_node(objects.make_node("node-1"))
    hear(made, capacity)
    made.put_pod(objects.make_pod("bound", request_cores=1.0), NOW_S)
    made.assume(take(made), "node-0", NOW_S)
    park(made)
    made.put_pod(objects.make_pod("bound", **({"request_cores": 1.0, "node_name": "node-0"} | change)), NOW_S)
    assert (made.queue.take(NOW_S) is not None) is opens


def test_a_pod_bound_by_another_scheduler_takes_room_and_opens_nothing() -> None:
    made = make()
    park(made)
    made.put_pod(objects.make_pod("other", node_name="node-0", scheduler_name="default-scheduler"), NOW_S)
    assert made.queue.take(NOW_S) is None


def test_in_the_papers_release_a_pod_that_leaves_pending_opens_the_queue() -> None:
    made = state.State(policy.Policy(release=policy.Release.PAPER), random.Random(0))
    made.put_nodes([objects.make_node()])
    hear(made, 1.0)
    made.put_pod(objects.make_pod("other", node_name="node-0"), NOW_S)
    park(made)
    made.put_pod(objects.make_pod("other", node_name="node-0", phase="Running"), NOW_S)
    assert take(made).pod.name == "waits"


def test_a_heartbeat_of_a_node_is_no_news() -> None:
    made = make()
    park(made)
    version = made.fleet.snapshot(NOW_S).nodes_version
    made.put_node(objects.make_node())
    assert made.fleet.snapshot(NOW_S).nodes_version == version
    assert made.queue.take(NOW_S) is None


def test_an_advertisement_of_a_node_that_the_api_does_not_show_is_not_kept() -> None:
    made = make()
    for index in range(5000):
        hear(made, node=f"stranger-{index}")
    assert not made.heard


def test_pods_of_every_name_are_queued() -> None:
    made = state.State(policy.Policy(names=frozenset({"carico", "default-scheduler"})), random.Random(0))
    made.put_pod(objects.make_pod("ours"), NOW_S)
    made.put_pod(objects.make_pod("taken-over", scheduler_name="default-scheduler"), NOW_S)
    made.put_pod(objects.make_pod("theirs", scheduler_name="volcano"), NOW_S)
    assert sorted(each.pod.name for each in made.queue) == ["ours", "taken-over"]


def test_the_lowest_priority_is_that_of_the_pods_that_may_be_evicted() -> None:
    made = make()
    assert made.placements.lowest_priority() is None
    owner = cluster.Owner(kind="DaemonSet", name="agent", uid="d")
    made.put_pod(objects.make_pod("daemon", node_name="node-0", priority=-5, owner=owner), NOW_S)
    made.put_pod(objects.make_pod("system", node_name="node-0", priority=-9, namespace="kube-system"), NOW_S)
    made.put_pod(objects.make_pod("low", node_name="node-0", priority=1), NOW_S)
    assert made.placements.lowest_priority() == -5, "its DaemonSet is not known"
    daemons = cluster.DaemonSet("default", "d")
    made.demands.put_daemon_set(daemons, NOW_S)
    assert made.placements.lowest_priority() == 1
    made.demands.remove_daemon_set("d", NOW_S)
    assert made.placements.lowest_priority() == -5
    made.demands.put_daemon_set(daemons, NOW_S)
    for pod in made.pods():
        made.remove_pod(pod.uid)
    assert made.placements.lowest_priority() is None


def test_the_outcome_of_an_earlier_decision_changes_nothing() -> None:
    made = state.State(policy.Policy(), random.Random(0))
    made.put_node(objects.make_node())
    pod = objects.make_pod()
    made.put_pod(pod, 0.0)
    attempts = []
    for now_s in (0.0, 30.0):
        waiting = made.queue.take(now_s)
        assert waiting is not None
        attempts.append(made.assume(waiting, "node-0", now_s))
        if now_s == 0.0:
            assert made.refuse(pod.uid, attempts[0], now_s)
    first, second = attempts
    assert not made.is_open(pod.uid, first) and not made.send(pod.uid, first)
    assert not made.refuse(pod.uid, first, 30.0)
    made.confirm(pod.uid, first)
    assert made.is_open(pod.uid, second) and made.is_binding(pod.uid) and made.node_of(pod.uid) == "node-0"
