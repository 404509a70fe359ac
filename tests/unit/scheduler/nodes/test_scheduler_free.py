"""What the fleet caches of free Pods by slot is what each row says."""

import math
import random
from typing import Any

import pytest

from carico_core.domain import messages
from carico_scheduler.nodes import fleet, headroom
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects

ANY = messages.ClassCapacity(cost_plus={"cpu": 1.0}, pods=1)
CLASSES = ("Job/default/a", "Job/default/b", messages.ANY_CLASS)


def drawn(rng: random.Random, name: str) -> messages.Advertisement:
    """An advertisement of any kind."""
    made = objects.make_advertisement(name, rng.uniform(0.0, 9.0), pods=rng.randrange(3))
    if rng.random() < 0.3:
        return made
    classes = {
        key: messages.ClassCapacity(
            cost_plus={dim: rng.choice([0.0, rng.uniform(0.1, 2.0)]) for dim in ("cpu", "memory")}, pods=0
        )
        for key in rng.sample(CLASSES, rng.randrange(4))
    }
    headroom = {"cpu": rng.uniform(-1.0, 9.0), "memory": rng.uniform(0.0, 9.0)}
    changes = {"headroom": headroom, "classes": classes, "limit": rng.choice([None, 2, 20])}
    return objects.make_advertisement(name, made.capacity, pods=made.pods, **changes)


def drawn_fleet(rng: random.Random, nodes: int) -> fleet.Fleet:
    made = fleet.Fleet(policy.Policy())
    for index in range(nodes):
        name = f"node-{index}"
        count = rng.randrange(4)
        classes = {rng.choice(CLASSES): count} if count else {}
        load = reservations.Load(placed=count + 1, workloads=count, reserved=count, classes=classes)
        made.put_node(objects.make_node(name, pod_limit=rng.choice([3, 110])), load)
        if rng.random() < 0.9:
            made.put_advertisement(drawn(rng, name), 0.0)
    made.remove_node("node-1")
    return made


def test_free_pods_are_those_of_the_rows() -> None:
    for seed in range(40):
        made = drawn_fleet(random.Random(seed), 20)
        for pod_class in (*CLASSES, "Job/default/other"):
            free = made.free(pod_class).tolist()
            for name in made.names():
                slot = made.slot_of(name)
                assert slot is not None
                assert free[slot] == made.row(slot).free(pod_class)
            assert free[1] == -math.inf


def check_free(made: fleet.Fleet) -> None:
    for offset in (0.0, 0.1):
        for pod_class in (*CLASSES, "Job/default/other", "Job/default/another"):
            free = made.free(pod_class, offset).tolist()
            for name in made.names():
                slot = made.slot_of(name)
                assert slot is not None
                assert free[slot] == made.row(slot).free(pod_class, offset), (name, pod_class)


def test_free_pods_stay_those_of_the_rows_while_nodes_name_other_classes_come_and_go() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        made = drawn_fleet(rng, 6)
        for _ in range(30):
            name = f"node-{rng.randrange(8)}"
            happens = rng.random()
            if happens < 0.15:
                made.remove_node(name)
            elif happens < 0.4:
                made.put_node(objects.make_node(name, pod_limit=rng.choice([3, 110])), reservations.Load())
            else:
                made.put_advertisement(drawn(rng, name), 0.0)
            if rng.random() < 0.5:
                check_free(made)
        check_free(made)


def test_classes_that_no_node_names_are_computed_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of Jobs that wait are as many classes: 10,000 on 1,000 nodes took a minute of each cycle."""
    made, computed = fleet.Fleet(policy.Policy()), []
    real = headroom.NodeRoom.free

    def counted(room: headroom.NodeRoom, pod_class: str) -> float:
        computed.append(pod_class)
        return real(room, pod_class)

    monkeypatch.setattr(headroom.NodeRoom, "free", counted)

    def advertise(index: int, **more: Any) -> None:
        named = {key: messages.ClassCapacity(cost_plus={"cpu": cost}, pods=1) for key, cost in more.items()}
        said = objects.make_advertisement(f"node-{index}", headroom={"cpu": 3.0}, classes={"*": ANY, **named})
        made.put_advertisement(said, 0.0)

    for index in range(50):
        made.put_node(objects.make_node(f"node-{index}"), reservations.Load())
        advertise(index)
    for number in range(1000):
        assert made.free(f"Job/default/{number}x").tolist() == [3.0] * 50
    assert len(computed) == 50
    advertise(7, known=1.5)
    for pod_class, there in [("Job/default/1x", 3.0), ("known", 2.0)]:
        assert made.free(pod_class)[[6, 7]].tolist() == [3.0, there]
    assert len(computed) == 52, "what one node names is computed for that node"
    advertise(7)
    assert made.free("known").tolist() == [3.0] * 50
    assert len(computed) == 53 and made.free("known") is made.free("Job/default/1x")
