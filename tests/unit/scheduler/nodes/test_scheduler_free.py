"""What the fleet caches of free Pods by slot is what each row says."""

import math
import random

from carico_core.domain import messages
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects

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
