"""What one gang counts, event by event."""

import random
from typing import Any

from carico_core.domain import gangs
from carico_scheduler.gangs import gang
from carico_scheduler.rules import policy
from carico_scheduler.state import State
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
        member = gangs.Membership(KEY, asks, at_s)
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
    desk.state.put_pod_group(gangs.PodGroup(KEY, None), 0.0)
    assert desk.state.is_share_stale
