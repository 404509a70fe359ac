"""The Pods of a gang in one cycle: all that must be placed together, or none."""

import random
from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import constraints, gangs, selectors
from carico_scheduler.decide import cycle, parties
from carico_scheduler.gangs import gang
from carico_scheduler.rules import policy
from carico_scheduler.state.state import State
from tests.unit.scheduler import objects


class Desk:
    """A state with nodes of some room, and the gangs of its Pods."""

    def __init__(self, rooms: list[float], zones: str = "") -> None:
        self.state = State(policy.Policy(), random.Random(0))
        self.cycle = cycle.Cycle(policy.Policy())
        for index, room in enumerate(rooms):
            labels = {"zone": zones[index]} if zones else {}
            self.state.put_node(objects.make_node(f"node-{index}", labels=labels))
            self.state.fleet.put_advertisement(objects.make_advertisement(f"node-{index}", room), 0.0)

    def gang(self, name: str, pods: int, *, topology_key: str = "", **more: Any) -> None:
        """Pods that need each other."""
        asks = gangs.Asks(more.pop("least", pods), None, topology_key)
        member = gangs.PodGang(gangs.Key("default", name), asks)
        for index in range(pods):
            self.state.put_pod(objects.make_pod(f"{name}-{index}", gang=member, **more), 0.0)

    def run(self, most: int = 1000, nominees: Sequence[cycle.Nominee] = ()) -> dict[str, str]:
        """Run one cycle; return the node of each Pod that it placed."""
        made = self.cycle.run(
            self.state.fleet.snapshot(1.0), self.state.queue, most=most, nominees=nominees,
            gangs=self.state.waiting_gangs,
        )  # fmt: skip
        return {each.waiting.pod.name: each.row.node.name for each in made.placed}


@hypothesis.given(
    rooms=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4),
)
def test_of_each_gang_at_least_the_minimum_is_placed_or_none(
    rooms: list[int], sizes: list[tuple[int, int]]
) -> None:  # fmt: skip
    desk = Desk([float(each) for each in rooms])
    for index, (pods, least) in enumerate(sizes):
        desk.gang(f"g{index}", pods, least=least)
    placed = desk.run()
    left = sum(rooms)
    for index, (pods, least) in enumerate(sizes):
        count = sum(name.startswith(f"g{index}-") for name in placed)
        # In the order of the queue: by UID, of equal age.
        assert count == (min(pods, left) if least <= min(pods, left) else 0)
        left -= count
    assert len(desk.state.queue) == sum(pods for pods, _ in sizes) - len(placed)


def test_a_gang_that_is_too_large_states_for_how_many_of_its_pods_there_is_room() -> None:
    desk = Desk([2.0, 1.0])
    desk.gang("a", 5)
    assert desk.run() == {}
    assert desk.state.gangs.why(gangs.Key("default", "a")) == (
        "gang default/a: 5 Pods must be placed together; there was room for 3"
    )


def test_a_gang_beyond_the_binds_in_flight_is_placed_whole() -> None:
    desk = Desk([10.0, 10.0])
    desk.gang("a", 12)
    desk.state.put_pod(objects.make_pod("z"), 0.0)
    assert len(desk.run(most=4)) == 12
    assert "z" in desk.run()


def test_a_cycle_tries_some_gangs_and_the_next_ones_the_others() -> None:
    desk = Desk([3.0])
    for index in range(cycle.PARTIES_MOST + 2):
        desk.gang(f"large-{index:02}", 4)
    desk.gang("small", 3)
    cuts = 0
    while not (placed := desk.run()):
        cuts += 1
    assert cuts == 1
    assert len(placed) == 3
    # None of the others is tried again before something wakes it.
    assert desk.run() == {}
    assert desk.state.queue.take(1.0) is None


def test_room_held_for_a_gang_is_there_for_it_also_if_another_of_the_same_age_is_tried_first() -> None:
    desk = Desk([2.0])
    desk.state.put_pod(objects.make_pod("later", created_at_s=9.0), 0.0)
    # The Pods of both gangs take turns in the queue; the first gang finds no room.
    for name, times in (("large", (0, 2, 4)), ("served", (1, 3))):
        member = gangs.PodGang(gangs.Key("default", name), gangs.Asks(len(times)))
        for at_s in times:
            desk.state.put_pod(objects.make_pod(f"{name}-{at_s}", gang=member, created_at_s=float(at_s)), 0.0)
    nominees = [
        cycle.Nominee(each.pod.uid, each.key, 0, each.demand)
        for each in sorted(desk.state.queue, key=lambda each: each.key)
        if each.pod.name.startswith("served")
    ]
    assert desk.run(nominees=nominees) == {"served-1": "node-0", "served-3": "node-0"}


@pytest.mark.parametrize(("selector", "placed"), [({}, {"served": "node-0"}), ({"no": "node"}, {})])
def test_room_held_for_a_pod_is_there_for_it_also_if_a_gang_with_younger_pods_is_tried_first(
    selector: dict[str, str], placed: dict[str, str]
) -> None:
    """It was refused the room that others had left for it, and waited until that was no longer held."""
    desk = Desk([1.0])
    member = gangs.PodGang(gangs.Key("default", "large"), gangs.Asks(2))
    for at_s in (0, 4):
        desk.state.put_pod(objects.make_pod(f"large-{at_s}", gang=member, created_at_s=float(at_s)), 0.0)
    desk.state.put_pod(objects.make_pod("served", created_at_s=2.0, node_selector=selector), 0.0)
    desk.state.put_pod(objects.make_pod("later", created_at_s=9.0), 0.0)
    served = desk.state.queue.find("uid-served")
    assert served is not None
    assert desk.run(nominees=[cycle.Nominee(served.pod.uid, served.key, 0, served.demand)]) == placed


def test_room_held_for_a_pod_while_a_gang_is_tried_is_there_for_older_pods() -> None:
    """It was held against them too, and the report had them tried again and again."""
    desk = Desk([1.0])
    member = gangs.PodGang(gangs.Key("default", "large"), gangs.Asks(2))
    for at_s in (0, 4):
        desk.state.put_pod(objects.make_pod(f"large-{at_s}", gang=member, created_at_s=float(at_s)), 0.0)
    desk.state.put_pod(objects.make_pod("older", created_at_s=1.0, image="other"), 0.0)
    desk.state.put_pod(objects.make_pod("served", created_at_s=2.0), 0.0)
    served = desk.state.queue.find("uid-served")
    assert served is not None
    assert desk.run(nominees=[cycle.Nominee(served.pod.uid, served.key, 0, served.demand)]) == {"older": "node-0"}


@hypothesis.given(st.integers(0, 2**32))
def test_single_pods_get_what_room_those_before_them_leave_and_none_that_is_held_for_those(seed: int) -> None:
    rng = random.Random(seed)
    rooms = [float(rng.randrange(4)) for _ in range(rng.randrange(1, 4))]
    desk = Desk(rooms)
    times = rng.sample(range(40), 40)
    for number in range(rng.randrange(3)):
        pods = rng.randrange(2, 4)
        member = gangs.PodGang(gangs.Key("default", f"g{number}"), gangs.Asks(pods))
        for index in range(pods):
            pod = objects.make_pod(f"g{number}-{index}", gang=member, created_at_s=float(times.pop()))
            desk.state.put_pod(pod, 0.0)
    for index in range(rng.randrange(1, 6)):
        selector = {"no": "node"} if rng.random() < 0.2 else {}
        image, at_s = f"image-{rng.randrange(3)}", float(times.pop())
        desk.state.put_pod(objects.make_pod(f"s{index}", created_at_s=at_s, image=image, node_selector=selector), 0.0)
    waiting = sorted(desk.state.queue, key=lambda each: each.key)
    nominees = [
        cycle.Nominee(each.pod.uid, each.key, rng.randrange(len(rooms)), each.demand, rng.choice((each.pod, None)))
        for each in waiting
        if rng.random() < 0.35
    ]
    placed = {f"uid-{name}": node for name, node in desk.run(nominees=nominees).items()}
    # A gang has its turn with the first of its Pods.
    first = {each.demand.gang: each.key for each in reversed(waiting)}
    turns = {each.pod.uid: each.key if each.demand.gang is None else first[each.demand.gang] for each in waiting}
    for slot, room in enumerate(rooms):
        there = {uid for uid, node in placed.items() if node == f"node-{slot}"}
        taken = there | {each.uid for each in nominees if each.slot == slot and each.uid not in placed}
        assert len(there) <= room
        for each in waiting:
            uid = each.pod.uid
            fits = sum(turns[other] < each.key for other in taken - {uid}) < room
            if each.demand.gang is None and uid in there:
                assert fits
            if each.demand.gang is None and uid not in placed and not each.demand.node_selector:
                assert not fits


def test_the_pod_with_fewest_nodes_comes_first() -> None:
    desk = Desk([1.0, 3.0], zones="ab")
    key = gangs.PodGang(gangs.Key("default", "g"), gangs.Asks(3))
    # Its UID comes last.
    desk.state.put_pod(objects.make_pod("z", gang=key, node_selector={"zone": "b"}), 0.0)
    for name in "wxy":
        desk.state.put_pod(objects.make_pod(name, gang=key), 0.0)
    assert desk.run()["z"] == "node-1"


def test_a_pod_that_must_be_near_another_of_its_gang_is_placed_after_it() -> None:
    desk = Desk([3.0, 3.0], zones="ab")
    key = gangs.PodGang(gangs.Key("default", "g"), gangs.Asks(2))
    web = (selectors.Requirement(key="app", operator=selectors.IN, values=("web",)),)
    near = constraints.PodTerm(topology_key="zone", selector=web, namespaces=("default",))
    desk.state.put_pod(objects.make_pod("worker", gang=key, constraints=constraints.Constraints(affinity=(near,))), 0.0)
    desk.state.put_pod(objects.make_pod("web", gang=key, labels={"app": "web"}), 0.0)
    placed = desk.run()
    assert len(placed) == 2
    assert len(set(placed.values())) == 1


def test_the_domain_with_most_room_is_tried_first_and_others_follow() -> None:
    desk = Desk([2.0, 2.0, 3.0], zones="aab")
    # Zone a has more room in all, but none of its nodes has a label that one Pod needs.
    key = gangs.PodGang(gangs.Key("default", "g"), gangs.Asks(3, None, "zone"))
    desk.state.put_node(objects.make_node("node-2", labels={"zone": "b", "disk": "ssd"}))
    desk.state.put_pod(objects.make_pod("ssd", gang=key, node_selector={"disk": "ssd"}), 0.0)
    for name in "xy":
        desk.state.put_pod(objects.make_pod(name, gang=key), 0.0)
    assert set(desk.run().values()) == {"node-2"}


def test_the_one_domain_that_takes_all_is_tried_among_many_with_more_room() -> None:
    zones = "abcdefghijklmnopqrstuvwxyz"
    desk = Desk([9.0] * (len(zones) - 1) + [2.0], zones=zones)
    desk.state.put_node(objects.make_node(f"node-{len(zones) - 1}", labels={"zone": "z", "disk": "ssd"}))
    key = gangs.PodGang(gangs.Key("default", "g"), gangs.Asks(2, None, "zone"))
    desk.state.put_pod(objects.make_pod("ssd", gang=key, node_selector={"disk": "ssd"}), 0.0)
    desk.state.put_pod(objects.make_pod("any", gang=key), 0.0)
    assert len(zones) > parties.DOMAINS_MOST
    assert set(desk.run().values()) == {f"node-{len(zones) - 1}"}


def test_a_later_pod_follows_the_domain_of_those_that_are_placed() -> None:
    desk = Desk([3.0, 9.0], zones="ab")
    asks = gangs.Asks(2, None, "zone")
    for index in range(2):
        member = gangs.PodGang(gangs.Key("default", "g"), asks)
        desk.state.put_pod(objects.make_pod(f"g-{index}", gang=member, node_name="node-0"), 0.0)
    desk.state.put_pod(objects.make_pod("g-9", gang=gangs.PodGang(gangs.Key("default", "g"), asks)), 0.0)
    assert desk.run()["g-9"] == "node-0"


def test_the_count_of_places_never_rules_out_what_fits() -> None:
    desk = Desk([0.5, 1.0, 2.9])
    # An empty node takes one Pod if its whole capacity allows it, whatever the class costs.
    scores = desk.cycle.explain(desk.state.fleet.snapshot(1.0), desk.state.demand_of(objects.make_pod()))
    places = parties.places(desk.state.fleet.snapshot(1.0), scores.demand, scores)
    assert places.tolist() == [0.0, 1.0, 2.0]


def test_the_decision_of_a_gang_names_the_nodes_that_it_does_not_go_to() -> None:
    desk = Desk([2.0, 1.0], zones="ab")
    desk.gang("g", 2, topology_key="zone")
    made = desk.cycle.run(desk.state.fleet.snapshot(1.0), desk.state.queue, most=9, gangs=desk.state.waiting_gangs)
    (first, _) = made.placed
    assert first.refused == {"gang": 1}
    rejection = first.scores.rejection(desk.state.fleet.row(1, 1.0))
    assert rejection is not None
    assert rejection.detail == "its gang goes to other nodes"


def test_a_pod_of_another_scheduler_belongs_to_no_gang_here() -> None:
    desk = Desk([2.0])
    desk.gang("g", 2, scheduler_name="scheduler-plugins")
    assert len(desk.state.gangs) == 0
    assert len(desk.run()) == 0


def test_a_step_that_must_not_happen_is_refused() -> None:
    made = gang.Gang(key=gangs.Key("default", "g"))
    with pytest.raises(gang.ImpossibleGangStep, match="gang default/g: GATHERING cannot become GIVEN_BACK"):
        made.step(gang.GIVEN_BACK)
    assert made.state is gang.GATHERING
