"""Turns: a Pod that later small ones would starve gets room within the stated bound, and a turn in vain ends."""

import itertools
import random
from unittest import mock

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, messages, names
from carico_scheduler.decide import cycle, turns
from carico_scheduler.rules import policy as policies
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

# As the simulated scheduler has them, so that a test takes a minute of its time and not ten.
AFTER_S = 10.0
HELD_FOR_S = 40.0
NODE_TASKS = 8.0
STEP_S = 1.0


class Site:
    """Nodes of 8 tasks that are always full of small Pods, since there are more of these than fit."""

    def __init__(self, nodes: int, *, small_life_s: float = 8.0, seed: int = 0, has_turns: bool = True) -> None:
        self.now_s = 100.0
        self.rng = random.Random(seed)
        self.state = state.State(policies.Policy(), random.Random(seed))
        self.names = [f"node-{number}" for number in range(nodes)]
        self.state.put_nodes([objects.make_node(name, allocatable_cores=8.0) for name in self.names])
        self.cycle = cycle.Cycle(policies.Policy())
        self.turns = turns.Turns(self.state.fleet, self.state.queue)
        self.has_turns = has_turns
        self.small_life_s = small_life_s
        self.created = 0
        # UID -> node, tasks and when it ends.
        self.running: dict[str, tuple[str, float, float]] = {}
        self.tasks: dict[str, float] = {}
        self.placed_s: dict[str, float] = {}
        for _ in range(3):
            self.step()

    def offer(self, kind: str, tasks: float, **changes: object) -> str:
        """Create a Pod of a kind that takes so many tasks; return its UID."""
        self.created += 1
        pod = objects.make_pod(f"{kind}-{self.created}", image=kind, created_at_s=self.now_s, **changes)
        self.tasks[names.class_of(pod)] = tasks
        self.state.put_pod(pod, self.now_s)
        return pod.uid

    def step(self) -> None:
        """A second passes: Pods end, others come, nodes advertise, and the scheduler decides."""
        self.now_s += STEP_S
        for uid, (_, _, end_s) in list(self.running.items()):
            if end_s <= self.now_s:
                del self.running[uid]
                self.state.remove_pod(uid)
        small = sum(waiting.pod.image == "small" for waiting in self.state.queue)
        for _ in range(int(NODE_TASKS) * len(self.names) - small):
            self.offer("small", 1.0)
        for name in self.names:
            self.advertise(name)
        if self.has_turns and self.turns.refresh(self.now_s):
            self.state.queue.unpark()
        while self.state.queue.may_take(self.now_s):
            found = self.cycle.run(
                self.state.fleet.snapshot(self.now_s), self.state.queue, most=32, nominees=self.turns.nominees()
            )
            for placed in found.placed:
                self.place(placed.waiting.pod, placed)
            if len(found.placed) < 32:
                return

    def place(self, pod: cluster.Pod, placed: cycle.Placement) -> None:
        node = placed.row.node.name
        self.state.confirm(pod.uid, self.state.assume(placed.waiting, node, self.now_s))
        life_s = self.rng.uniform(1.0, self.small_life_s)
        self.running[pod.uid] = (node, self.tasks[names.class_of(pod)], self.now_s + life_s)
        self.placed_s[pod.uid] = self.now_s

    def advertise(self, node: str) -> None:
        here = {uid: tasks for uid, (name, tasks, _) in self.running.items() if name == node}
        classes = {
            name: messages.ClassCapacity(cost_plus={"cpu": tasks}, pods=0)
            for name, tasks in {messages.ANY_CLASS: 1.0, **self.tasks}.items()
        }
        free = NODE_TASKS - sum(here.values())
        said = objects.make_advertisement(node, capacity=free, pods=len(here), covers=frozenset(here), seq=self.created)
        said = said._replace(headroom={"cpu": free}, classes=classes)
        self.state.put_advertisement(node_state.Heard(advertisement=said, sampled_s=self.now_s), self.now_s)

    def waits_s(self, uid: str, most_s: float) -> float | None:
        """How long a Pod that was just created waits; None if it still waits after `most_s`."""
        begin_s = self.now_s
        while self.now_s - begin_s < most_s and uid not in self.placed_s:
            self.step()
        return self.placed_s[uid] - begin_s if uid in self.placed_s else None


@pytest.fixture(autouse=True)
def short() -> object:
    with mock.patch.multiple(turns, AFTER_S=AFTER_S, HELD_FOR_S=HELD_FOR_S, AGAIN_S=HELD_FOR_S):
        yield


def test_without_turns_a_large_pod_starves_next_to_small_ones() -> None:
    site = Site(2, has_turns=False)
    assert site.waits_s(site.offer("large", 8.0), 20 * AFTER_S) is None


@hypothesis.settings(max_examples=12, deadline=None)
@hypothesis.given(
    nodes=st.integers(1, 4),
    tasks=st.sampled_from((2.0, 5.0, 8.0)),
    # Whole seconds: Pods end only once a second.
    life_s=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_a_large_pod_waits_no_longer_than_the_bound(nodes: int, tasks: float, life_s: int, seed: int) -> None:
    site = Site(nodes, small_life_s=life_s, seed=seed)
    waited_s = site.waits_s(site.offer("large", tasks), 10 * (AFTER_S + life_s))
    assert waited_s is not None
    # A step until the turn begins, one until the last end is advertised, and one until the Pod is placed.
    assert waited_s <= AFTER_S + life_s + 3 * STEP_S
    assert len(site.turns) == 0 or site.turns.find("uid-large") is None


def test_a_pod_that_has_waited_for_another_scheduler_gets_its_turn_at_once() -> None:
    site = Site(1, small_life_s=30.0)
    uid = site.offer("large", NODE_TASKS, priority=1)
    waiting = site.state.queue.find(uid)
    assert waiting is not None
    waiting.before_s = AFTER_S
    waited_s = site.waits_s(uid, AFTER_S + 30.0)
    assert waited_s is not None
    assert waited_s <= 30.0 + 3 * STEP_S


def test_of_several_demands_the_first_gets_the_only_turn_and_then_the_next() -> None:
    site = Site(3, small_life_s=6.0)
    first, second = site.offer("large", 6.0), site.offer("larger", 7.0)
    while len(site.turns) == 0:
        site.step()
    turn = site.turns.find(first)
    assert turn is not None
    assert site.turns.find(second) is None, "a tenth of three nodes, and one at least"
    waited_s = [site.waits_s(uid, 10 * AFTER_S) for uid in (first, second)]
    assert None not in waited_s
    assert site.placed_s[first] < site.placed_s[second]


def test_pods_that_come_before_it_still_get_the_room() -> None:
    site = Site(1, small_life_s=6.0)
    large = site.offer("large", 8.0)
    while site.turns.find(large) is None:
        site.step()
    high = site.offer("small", 1.0, priority=5)
    assert site.waits_s(high, 8.0) is not None
    assert large not in site.placed_s


def test_a_turn_in_vain_ends_and_the_next_one_comes_later() -> None:
    site = Site(1, small_life_s=1.0)
    site.small_life_s = 100 * HELD_FOR_S
    site.step()
    large = site.offer("large", 6.0)
    begun: list[float] = []
    for _ in range(300):
        site.step()
        turn = site.turns.find(large)
        if turn is not None and turn.since_s not in begun:
            begun.append(turn.since_s)
    # One of 40 s, a pause of 40 s, another one, and a pause of 80 s.
    first_s, second_s = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert HELD_FOR_S + HELD_FOR_S <= first_s < second_s
    assert second_s >= HELD_FOR_S + 2 * HELD_FOR_S
    assert large not in site.placed_s


def test_demands_that_had_a_turn_in_vain_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSES_KEPT", 2)
    site = Site(1, small_life_s=1.0)
    site.small_life_s = 1000 * HELD_FOR_S
    site.step()
    # They wait for ever, each with a demand of its own.
    uids = [site.offer(f"large-{number}", 6.0) for number in range(5)]
    had = set[str]()
    while len(had) < len(uids):
        site.step()
        had |= {uid for uid in uids if site.turns.find(uid) is not None}
        assert len(site.turns._pauses) <= 2
    assert len(site.turns._pauses) == 2


def test_a_pod_that_requests_more_than_a_node_has_gets_no_turn() -> None:
    site = Site(1, small_life_s=6.0)
    never = site.offer("never", 1.0, request_bytes=2.0**60)
    later = site.offer("large", 6.0)
    assert site.waits_s(later, 10 * AFTER_S) is not None
    assert site.turns.find(never) is None


def test_pods_that_no_node_can_take_keep_no_other_from_its_turn() -> None:
    site = Site(1, small_life_s=6.0)
    for number in range(3 * turns.EXAMINED_MAX):
        site.offer(f"never-{number}", 1.0, request_bytes=2.0**60)
    site.step()
    large = site.offer("large", NODE_TASKS)
    assert site.waits_s(large, 10 * AFTER_S) is not None


def test_a_turn_ends_with_its_pod_and_with_its_node() -> None:
    site = Site(2)
    large = site.offer("large", 6.0)
    while site.turns.find(large) is None:
        site.step()
    turn = site.turns.find(large)
    assert turn is not None
    assert [each.uid for each in site.turns.on(turn.node)] == [large]
    site.state.remove_node(turn.node)
    assert site.turns.refresh(site.now_s)
    (other,) = [name for name in site.names if name != turn.node]
    begun = site.turns.find(large)
    assert begun is not None
    assert begun.node == other
    site.state.remove_pod(large)
    assert site.turns.refresh(site.now_s)
    assert len(site.turns) == 0


def test_a_turn_ends_once_others_are_evicted_for_its_pod() -> None:
    site = Site(2)
    served: set[str] = set()
    site.turns = turns.Turns(site.state.fleet, site.state.queue, is_served=served.__contains__)
    large = site.offer("large", 6.0)
    while site.turns.find(large) is None:
        site.step()
    served.add(large)
    assert site.turns.refresh(site.now_s), "room is held for it on one node alone"
    assert site.turns.find(large) is None
    served.clear()
    site.turns.refresh(site.now_s)
    assert site.turns.find(large) is not None, "it did not get that room, and no turn was in vain"


def test_pods_of_one_demand_need_no_turn_of_each() -> None:
    site = Site(1, small_life_s=6.0)
    uids = [site.offer("large", 6.0) for _ in range(3)]
    while len(site.turns) == 0:
        site.step()
    assert [site.turns.find(uid) is not None for uid in uids] == [True, False, False]
