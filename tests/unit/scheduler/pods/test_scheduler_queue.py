"""The queue hands out the highest priority first, then the oldest, and each Pod to one place at a time."""

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import gangs
from carico_scheduler.pods import demand, label_index, queue
from tests.unit.scheduler import objects


def make() -> queue.Queue:
    return queue.Queue(random.Random(0))


def names(source: queue.Queue, now_s: float = 0.0) -> list[str]:
    taken = []
    while (waiting := source.take(now_s)) is not None:
        taken.append(waiting.pod.name)
    return taken


def test_priority_then_age_then_uid_across_demands() -> None:
    source = make()
    source.offer(objects.make_pod("young", created_at_s=9.0), 0.0)
    source.offer(objects.make_pod("old", created_at_s=1.0, node_selector={"a": "b"}), 0.0)
    source.offer(objects.make_pod("high", created_at_s=10.0, priority=5, request_cores=1.0), 0.0)
    source.offer(objects.make_pod("b", created_at_s=5.0), 0.0)
    source.offer(objects.make_pod("a", created_at_s=5.0), 0.0)
    assert names(source) == ["high", "old", "a", "b", "young"]
    assert len(source) == 0


def test_a_parked_lane_waits_and_others_go_on() -> None:
    source = make()
    for name in ("a", "b"):
        source.offer(objects.make_pod(name, node_selector={"disk": "ssd"}), 0.0)
    source.offer(objects.make_pod("c", created_at_s=1.0), 0.0)
    first = source.take(0.0)
    assert first is not None
    assert first.pod.name == "a"
    source.park(first)
    assert names(source) == ["c"]
    source.offer(objects.make_pod("d"), 0.0)
    assert sorted(each.pod.name for each in source.parked()) == ["a", "b"]
    assert names(source) == ["d"]
    source.offer(objects.make_pod("later", node_selector={"disk": "ssd"}), 0.0)
    assert source.take(0.0) is None
    source.unpark()
    assert names(source) == ["a", "b", "later"]


def keys_kept(source: queue.Queue) -> int:
    return sum(len(lane.heap) for lane in source._lanes.values())


def test_pods_that_come_and_go_behind_one_that_waits_for_ever_leave_nothing() -> None:
    source = make()
    source.offer(objects.make_pod("for-ever"), 0.0)
    source.park(next_of(source))
    for index in range(5000):
        source.offer(objects.make_pod(f"short-{index}", created_at_s=1.0 + index), 0.0)
        if index >= 10:
            source.forget(f"uid-short-{index - 10}")
    assert keys_kept(source) <= 2 * queue.SWEEP_ABOVE + 11
    assert source.take(0.0) is None, "a sweep opens no lane"
    source.unpark()
    assert names(source) == ["for-ever", *(f"short-{index}" for index in range(4990, 5000))]


def test_lanes_of_pods_that_are_gone_go_with_them() -> None:
    source = make()
    for index in range(300):
        source.offer(objects.make_pod(f"job-{index}", node_selector={"job": str(index)}), 0.0)
        source.park(next_of(source))
        source.forget(f"uid-job-{index}")
    assert (len(source._lanes), len(source._by_id), len(source.parked_classes())) == (0, 0, 0)


def test_lanes_whose_last_pod_was_taken_go_when_something_has_happened() -> None:
    source = make()
    for index in range(3):
        source.offer(objects.make_pod(f"job-{index}", node_selector={"job": str(index)}), 0.0)
    kept = next_of(source)
    assert names(source) == ["job-1", "job-2"]
    source.park(kept)
    source.unpark_if(lambda _: False)
    assert (len(source._lanes), len(source._by_id), len(source.parked_classes())) == (1, 1, 1)


def test_pods_that_change_their_priority_again_and_again_leave_no_keys() -> None:
    source = make()
    source.offer(objects.make_pod("a", priority=1000), 0.0)
    for priority in range(500):
        source.offer(objects.make_pod("b", priority=priority), 0.0)
    assert keys_kept(source) <= 2 * queue.SWEEP_ABOVE + 2
    assert names(source) == ["a", "b"]


def next_of(source: queue.Queue) -> queue.Waiting:
    waiting = source.take(0.0)
    assert waiting is not None
    return waiting


def test_a_pod_that_changes_its_demand_leaves_the_parked_lane() -> None:
    source = make()
    source.offer(objects.make_pod("a", node_selector={"disk": "ssd"}), 0.0)
    waiting = source.take(0.0)
    assert waiting is not None
    source.park(waiting)
    assert source.offer(objects.make_pod("a"), 0.0)
    assert names(source) == ["a"]
    source.unpark()
    assert names(source) == []


def test_an_update_that_changes_no_demand_is_no_news() -> None:
    source = make()
    assert source.offer(objects.make_pod("a"), 0.0)
    assert not source.offer(objects.make_pod("a", resource_version="2"), 0.0)
    waiting = source.take(0.0)
    assert waiting is not None
    assert waiting.pod.resource_version == "2"


def test_a_rise_in_priority_counts() -> None:
    source = make()
    source.offer(objects.make_pod("a"), 0.0)
    source.offer(objects.make_pod("b"), 0.0)
    source.offer(objects.make_pod("b", priority=1), 0.0)
    assert names(source) == ["b", "a"]


def test_a_failed_pod_rests_and_comes_back_once() -> None:
    source = make()
    source.offer(objects.make_pod("a"), 0.0)
    waiting = source.take(0.0)
    assert waiting is not None
    waiting.attempts = 1
    rest_s = source.retry(waiting, 10.0)
    assert 0.05 <= rest_s <= 0.1
    assert source.next_due_s() == 10.0 + rest_s
    assert names(source, 10.0) == []
    assert names(source, 10.0 + rest_s) == ["a"]
    assert source.next_due_s() is None


def test_a_pod_that_lost_a_claim_comes_back_at_once_until_it_has_lost_several() -> None:
    source = make()
    source.offer(objects.make_pod("a"), 0.0)
    waiting = source.take(0.0)
    assert waiting is not None
    for rival in ("b", "c"):
        waiting.note_lost(rival)
        assert source.retry(waiting, 0.0) == 0.0
        assert source.take(0.0) is waiting
    # A bind that fails is no lost claim.
    assert source.retry(waiting, 0.0) > 0.0
    assert source.take(1.0) is waiting
    waiting.note_lost("b")
    assert source.retry(waiting, 1.0) > 0.0
    assert waiting.lost == {"b": 2, "c": 1}


def test_a_resting_pod_that_is_updated_still_rests_and_a_forgotten_one_never_returns() -> None:
    source = make()
    for name in ("a", "b"):
        source.offer(objects.make_pod(name), 0.0)
    for waiting in [source.take(0.0), source.take(0.0)]:
        assert waiting is not None
        waiting.attempts = 3
        source.retry(waiting, 0.0)
    source.offer(objects.make_pod("a", resource_version="2", priority=2), 0.0)
    assert names(source, 0.0) == []
    source.forget("uid-b")
    assert names(source, 10.0) == ["a"]


def test_backoff_doubles_to_ten_seconds() -> None:
    rng = random.Random(1)
    for attempts, full_s in ((1, 0.1), (2, 0.2), (5, 1.6), (8, 10.0), (500, 10.0)):
        waits = [queue.backoff_s(attempts, rng) for _ in range(200)]
        assert max(waits) <= full_s
        assert min(waits) >= full_s / 2
        assert max(waits) - min(waits) == pytest.approx(full_s / 2, rel=0.1)


@hypothesis.settings(deadline=None)
@hypothesis.given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["offer", "take", "park", "retry", "forget", "unpark", "pass", "ask"]), st.integers(0, 7)
        )
    )
)
def test_any_history_keeps_each_pod_in_one_place_and_in_order(steps: list[tuple[str, int]]) -> None:
    source, now_s = make(), 0.0
    inside: set[str] = set()
    outside: dict[str, queue.Waiting] = {}
    is_asked = False
    for step, (verb, number) in enumerate(steps):
        uid = f"uid-p{number}"
        if verb == "offer" and uid not in outside:
            selector = {"a": "b"} if number % 2 else {}
            labels = {"app": str((number + step) % 3), "tier": str(number % 2)}
            pod = objects.make_pod(f"p{number}", priority=number % 3, node_selector=selector, labels=labels)
            source.offer(pod, now_s)
            inside.add(uid)
        elif verb == "take" and (waiting := source.take(now_s)) is not None:
            assert waiting.pod.uid in inside
            inside.discard(waiting.pod.uid)
            outside[waiting.pod.uid] = waiting
        elif verb in ("park", "retry") and uid in outside:
            waiting = outside.pop(uid)
            waiting.attempts += 1
            source.park(waiting) if verb == "park" else source.retry(waiting, now_s)
            inside.add(uid)
        elif verb == "forget":
            assert source.forget(uid) == (uid in inside)
            inside.discard(uid)
        elif verb == "unpark":
            source.unpark()
        elif verb == "pass":
            now_s += 3.0
        assert {each.pod.uid for each in source} == inside
        is_asked |= verb == "ask"
        if is_asked:
            found = [each.pod.uid for each in source.labelled([("app", "1"), ("tier", "0"), ("tier", "2")])]
            assert len(found) == len(set(found))
            assert set(found) == {
                each.pod.uid for each in source if each.pod.labels["app"] == "1" or each.pod.labels["tier"] == "0"
            }
    source.unpark()
    taken = []
    while (waiting := source.take(now_s + 20.0)) is not None:
        taken.append(waiting)
    assert {each.pod.uid for each in taken} == inside
    assert [each.key for each in taken] == sorted(each.key for each in taken)


def test_a_pod_of_very_many_labels_takes_one_entry_and_is_always_looked_at() -> None:
    source = queue.Queue(random.Random(0))
    many = {str(index): "x" for index in range(label_index.LABELS_MOST + 1)}
    source.offer(objects.make_pod("few", labels={"app": "a"}), 0.0)
    source.offer(objects.make_pod("many", labels=many), 0.0)
    assert [each.pod.name for each in source.labelled([("app", "b")])] == ["many"]
    assert {each.pod.name for each in source.labelled([("app", "a"), ("1", "x")])} == {"few", "many"}
    assert list(source._labels._by_label or ()) == [("app", "a")]
    source.offer(objects.make_pod("many", labels={"app": "b"}), 0.0)
    source.offer(objects.make_pod("few", labels=many), 0.0)
    assert [each.pod.name for each in source.labelled([("app", "a")])] == ["few"]
    source.forget("uid-few")
    assert [each.pod.name for each in source.labelled([("app", "b")])] == ["many"]
    source.forget("uid-many")
    assert source.labelled([("app", "b")]) == []


@pytest.mark.parametrize("kinds", [1, 7])
def test_a_standby_that_takes_nothing_keeps_nothing_of_pods_that_come_and_go(kinds: int) -> None:
    source = queue.Queue(random.Random(0))
    for index in range(5000):
        source.offer(objects.make_pod(f"pod-{index}", node_selector={"kind": str(index % kinds)}), 0.0)
        if index >= 10:
            source.forget(f"uid-pod-{index - 10}")
    assert len(source) == 10
    assert len(source._open) <= 2 * queue.SWEEP_ABOVE
    assert [source.take(0.0) is not None for _ in range(11)] == [True] * 10 + [False]


def test_a_gang_is_woken_by_its_name_alone() -> None:
    key = gangs.Key("default", "train")
    made = queue.Queue(random.Random(0), lambda pod: demand.demand_of(pod, gang=key))
    made.offer(objects.make_pod(), 0.0)
    waiting = made.take(0.0)
    assert waiting is not None
    made.park(waiting)
    made.unpark()
    made.unpark_if(lambda _: True)
    made.unpark_gangs({gangs.Key("default", "other")})
    assert made.take(0.0) is None
    assert made.parked_classes() == {}
    assert made.parked_heads() == []
    made.unpark_gangs({key})
    assert made.take(0.0) is waiting
    assert not made._lanes, "no other change would find it again"
    assert not made._by_gang


def test_lost_claims_are_counted_for_a_few_schedulers_by_name_and_for_the_rest_together() -> None:
    waiting = objects.make_waiting(objects.make_pod("p"), 0.0)
    for index in range(queue.RIVALS_MOST + 3):
        waiting.note_lost(f"scheduler-{index}")
    waiting.note_lost("scheduler-0")
    assert len(waiting.lost) == queue.RIVALS_MOST + 1
    assert (waiting.lost["scheduler-0"], waiting.lost["scheduler-1"], waiting.lost[queue.OTHER_RIVALS]) == (2, 1, 3)
