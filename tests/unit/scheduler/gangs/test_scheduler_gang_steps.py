"""What one gang counts, event by event."""

import collections
import random
from typing import Any

import pytest

from carico_core.domain import gangs
from carico_scheduler.gangs import gang
from carico_scheduler.rules import policy
from carico_scheduler.state.state import State
from tests.unit.scheduler import objects

KEY = gangs.Key("default", "train")
ASKS = gangs.Asks(2)


class Desk:
    """A state with one gang, of which two Pods are needed, and the attempts of its Pods."""

    def __init__(self) -> None:
        self.state = State(policy.Policy(), random.Random(0))
        self.state.put_node(objects.make_node())
        self.steps: list[gang.GangState] = []
        self.state.gangs.on_step = lambda each: self.steps.append(each.state)

    def show(self, name: str, *, asks: gangs.Asks = ASKS, at_s: float = 0.0, **changes: Any) -> None:
        """The watch shows a Pod of the gang; `at_s`: when it was bound."""
        member = gangs.PodGang(KEY, asks, at_s)
        self.state.put_pod(objects.make_pod(name, gang=member, **changes), 0.0)

    def place(self, *names: str) -> None:
        """Choose the node for these Pods."""
        for name in names:
            waiting = self.state.queue.find(f"uid-{name}")
            assert waiting is not None
            self.state.assume(waiting, "node-0", 0.0)

    @property
    def gang(self) -> gang.Gang:
        found = self.state.gangs.find(KEY)
        assert found is not None
        return found


def test_a_bind_that_the_watch_shows_leaves_the_gang_as_it_is() -> None:
    desk = Desk()
    desk.show("a")
    desk.show("b")
    desk.place("a", "b")
    desk.show("a", node_name="node-0", at_s=5.0)
    desk.show("a", node_name="node-0", at_s=5.0, phase="Succeeded")
    assert (desk.gang.state, desk.gang.done) == (gang.PLACING, 1)
    before = desk.gang
    desk.show("b", node_name="node-0", at_s=5.0)
    assert desk.gang is before
    assert desk.gang.state is gang.COMPLETE, "the Pod that ended well still counts"
    assert desk.steps.count(gang.COMPLETE) == 1


def test_annotations_that_change_on_a_pod_count_once() -> None:
    desk = Desk()
    desk.show("a", asks=gangs.Asks(3))
    desk.show("b")
    assert desk.gang.least == 3
    desk.show("a")
    assert desk.gang.least == 2
    assert dict(desk.gang.annotated) == {ASKS: 2}
    assert desk.gang.state is gang.WAITING


def test_what_is_created_while_a_whole_gang_is_deleted_is_a_new_gang() -> None:
    desk = Desk()
    for name in "ab":
        desk.show(name, node_name="node-0")
    assert desk.gang.state is gang.COMPLETE
    for name in "ab":
        desk.show(name, node_name="node-0", deleting=True)
    desk.show("c")
    assert (desk.gang.state, desk.gang.missing) == (gang.GATHERING, 2)
    desk.show("d")
    assert desk.gang.state is gang.WAITING


def test_a_pod_that_replaces_one_of_a_gang_whose_others_have_ended_well_is_placed_by_itself() -> None:
    desk = Desk()
    for name in "ab":
        desk.show(name, node_name="node-0")
    desk.show("a", node_name="node-0", phase="Succeeded")
    desk.show("b", node_name="node-0", deleting=True)
    desk.show("c")
    assert (desk.gang.state, desk.gang.missing) == (gang.COMPLETE, 0)


def test_a_gang_that_is_given_back_is_judged_again_by_what_it_has_once_its_leader_is_another() -> None:
    desk = Desk()
    desk.show("a")
    desk.show("a", node_name="node-0")
    desk.show("b")
    desk.state.gangs.give_back(desk.gang)
    desk.show("b", node_name="node-0")
    assert desk.gang.state is gang.GIVEN_BACK
    desk.state.gangs.end_giving_back()
    assert desk.gang.state is gang.COMPLETE
    assert not desk.gang.is_found


def test_pods_are_shared_out_again_when_a_pod_group_has_them_placed_one_by_one() -> None:
    desk = Desk()
    desk.show("a")
    desk.state.is_share_stale = False
    desk.state.waiting_gangs.put_pod_group(gangs.PodGroup(KEY, None), 0.0)
    assert desk.state.is_share_stale


NAMES = "abcd"
ASKED = (None, gangs.Asks(1), gangs.Asks(2), gangs.Asks(3), gangs.Asks(0, wrong="bad"))


class Storm(Desk):
    """The same with events in any order."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.attempts: dict[str, int] = {}
        self.serial = 0

    def event(self) -> None:
        """Let one thing happen to a Pod or to the gang."""
        self.rng.choices([self._show, self._decide, self._answer, self._remove, self._change], [3, 2, 1, 1, 2])[0]()

    @property
    def _name(self) -> str:
        return self.rng.choice(NAMES) + str(self.serial // 20)

    def _show(self) -> None:
        name, rng = self._name, self.rng
        record = self.state.records.find(f"uid-{name}")
        is_placed = record is not None and record.is_placed and rng.random() < 0.7
        self.show(
            name, asks=rng.choice(ASKED[1:]), at_s=5.0 if is_placed else 0.0, deleting=rng.random() < 0.2,
            phase=rng.choice(["Pending", "Running", "Running", "Succeeded", "Failed"]) if is_placed else "Pending",
            node_name="node-0" if is_placed else None,
        )  # fmt: skip

    def _decide(self) -> None:
        found = self.state.gangs.find(KEY)
        for waiting in list(self.state.queue) if found is not None and found.may_place else ():
            self.attempts[waiting.pod.uid] = self.state.assume(waiting, "node-0", 0.0)

    def _answer(self) -> None:
        for uid, attempt in self.attempts.items():
            if self.rng.random() < 0.5:
                self.state.confirm(uid, attempt)
            else:
                self.state.refuse(uid, attempt, 0.0)

    def _remove(self) -> None:
        self.state.remove_pod(f"uid-{self._name}")
        self.serial += 5

    def _change(self) -> None:
        found = self.state.gangs.find(KEY)
        match self.rng.randrange(5):
            case 0:
                self.state.waiting_gangs.put_pod_group(gangs.PodGroup(KEY, self.rng.choice(ASKED)), 0.0)
            case 1:
                self.state.waiting_gangs.remove_pod_group(KEY, 0.0)
            case 2 if found is not None and found.state is gang.INCOMPLETE:
                self.state.gangs.give_back(found)
            case 3 if found is not None and found.state is gang.INCOMPLETE:
                self.state.gangs.settle(found)
            case 4:
                self.state.gangs.end_giving_back()

    def check(self) -> None:
        """Compare what is counted with the records."""
        found = self.state.gangs.find(KEY)
        records = [each for each in self.state.records if each.pod is not None]
        roles = {each.uid: gang.role_of(each) for each in records}
        assert (found.roles if found is not None else {}) == roles
        if found is None:
            return
        assert found.held == sum(role in (gang.Role.ASSUMED, gang.Role.BOUND) for role in roles.values())
        assert found.waits == sum(role is gang.Role.WAITS for role in roles.values()) == len(self.state.queue)
        asked = collections.Counter(each.pod.gang.asks for each in records if each.pod and each.pod.gang)
        assert +found.annotated == asked
        assert {each.demand.gang for each in self.state.queue} <= {None if found.is_single else KEY}
        # Room without an end: what holds room has a state from which it is completed or given back.
        assert not found.held or found.is_single or found.state not in (gang.GATHERING, gang.WAITING)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_each_pod_counts_once_and_nothing_is_left(seed: int) -> None:
    storm = Storm(random.Random(seed))
    for _ in range(300):
        storm.event()
        storm.check()
    for record in list(storm.state.records):
        storm.state.remove_pod(record.uid)
    assert len(storm.state.gangs) == 0
    assert storm.state.queue._by_gang.keys() <= {None}
    assert len(storm.state.reservations) == 0
