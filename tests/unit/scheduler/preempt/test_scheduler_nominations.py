"""A nomination ends in one stated way, whatever happens to the Pod, its victims and its node."""

from typing import Any

import pytest

from carico_scheduler.pods import demand
from carico_scheduler.preempt import nominations
from tests.unit.scheduler import objects

End = nominations.End


class Desk:
    """One nomination, and where Pods are."""

    def __init__(self) -> None:
        self.pods = {"uid-victim": "node-0"}
        self.binding: set[str] = set()
        self.waiting = {"uid-pod-0"}
        self.nodes = {"node-0", "node-1"}
        self.all = nominations.Nominations()
        self.one = nominations.Nomination(
            pod=objects.make_pod(), demand=demand.Demand(), node="node-0", victims=(objects.make_pod("victim"),),
            since_s=0.0,
        )  # fmt: skip
        self.all.add(self.one)

    def at(self, now_s: float) -> nominations.End | None:
        ended = self.all.refresh(
            now_s, node_of=self.pods.get, is_binding=self.binding.__contains__, waits=self.waiting.__contains__,
            nodes=self.nodes,
        )  # fmt: skip
        return ended[0][1] if ended else None


def test_room_is_held_until_the_pod_is_bound_there() -> None:
    desk = Desk()
    assert desk.at(30.0) is None
    del desk.pods["uid-victim"]
    assert desk.at(31.0) is None
    assert desk.one.state is nominations.State.FREED
    desk.pods["uid-pod-0"] = "node-0"
    desk.binding.add("uid-pod-0")
    assert desk.at(500.0) is None, "its bind is under way"
    desk.binding.clear()
    assert desk.at(501.0) is End.PLACED
    assert len(desk.all) == 0


@pytest.mark.parametrize("end", [End.ELSEWHERE, End.GONE, End.FAILED])
def test_it_ends(end: nominations.End) -> None:
    desk = Desk()
    match end:
        case End.ELSEWHERE:
            desk.pods["uid-pod-0"] = "node-1"
        case End.GONE:
            desk.waiting.clear()
        case _:
            desk.one.has_failed = True
    assert desk.at(1.0) is end


def test_it_ends_with_its_node() -> None:
    desk = Desk()
    desk.nodes.remove("node-0")
    assert desk.at(1.0) is End.GONE


def another(desk: Desk, **pod: Any) -> nominations.Nomination:
    """A nomination of Pod 1 on node-1."""
    made = nominations.Nomination(
        pod=objects.make_pod("pod-1", **pod), demand=demand.Demand(), node="node-1",
        victims=(objects.make_pod("victim-1"),), since_s=0.0,
    )  # fmt: skip
    desk.all.add(made)
    desk.pods["uid-victim-1"] = "node-1"
    desk.waiting.add("uid-pod-1")
    return made


def held(desk: Desk) -> dict[str, str]:
    """The nodes on which room is held, by Pod."""
    assert all(desk.all.find(each.pod.uid) is each for each in desk.all)
    return {each.pod.name: each.node for each in desk.all}


def test_a_pod_that_takes_the_room_of_one_like_it_gives_its_own_for_it() -> None:
    desk = Desk()
    another(desk)
    desk.pods["uid-pod-0"] = "node-1"
    desk.all.exchange("uid-pod-0", "node-1", node_of=desk.pods.get)
    assert held(desk) == {"pod-0": "node-1", "pod-1": "node-0"}
    del desk.pods["uid-victim-1"]
    assert desk.at(1.0) is End.PLACED
    assert held(desk) == {"pod-1": "node-0"}
    assert desk.at(2.0) is None, "its room is still being made"


@pytest.mark.parametrize("why", ["priority", "demand", "gang", "placed", "its own"])
def test_other_rooms_are_not_exchanged(why: str) -> None:
    desk = Desk()
    other = another(desk, priority=1 if why == "priority" else 0)
    if why == "demand":
        other.demand = demand.Demand(pod_class="other")
    if why == "gang":
        other.together = [other]
    if why == "placed":
        desk.pods["uid-pod-1"] = "node-1"
    node = "node-0" if why == "its own" else "node-1"
    desk.pods["uid-pod-0"] = node
    desk.all.exchange("uid-pod-0", node, node_of=desk.pods.get)
    assert held(desk) == {"pod-0": "node-0", "pod-1": "node-1"}


def test_a_victim_that_stays_holds_the_room_for_a_time_only() -> None:
    desk = Desk()
    assert desk.at(nominations.EVICTING_FOR_S) is None
    assert desk.at(nominations.EVICTING_FOR_S + 1.0) is End.EXPIRED


def test_room_that_is_not_enough_is_held_for_a_time_only() -> None:
    desk = Desk()
    desk.pods.clear()
    assert desk.at(100.0) is None
    assert desk.at(100.0 + nominations.FREED_FOR_S) is None
    assert desk.at(101.0 + nominations.FREED_FOR_S) is End.EXPIRED


def test_if_one_pod_of_a_gang_is_gone_no_further_victim_goes_for_the_others() -> None:
    desk = Desk()
    other = nominations.Nomination(
        pod=objects.make_pod("pod-1"), demand=demand.Demand(), node="node-1",
        victims=(objects.make_pod("victim-1"),), since_s=0.0,
    )  # fmt: skip
    desk.all.add(other)
    desk.one.together = other.together = [desk.one, other]
    desk.waiting = {"uid-pod-1"}
    desk.pods["uid-victim-1"] = "node-1"
    assert desk.at(1.0) is End.GONE
    desk.at(1.5)
    assert other.is_over
    assert len(desk.all) == 0
