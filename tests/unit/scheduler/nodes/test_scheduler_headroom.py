"""How many Pods fit: both kinds of advertisement, the caps, and the one Pod of an empty node."""

import math
from typing import Any

import pytest

from carico_core.domain import messages
from carico_scheduler.nodes import fleet, headroom
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects


def free_of(
    advertisement: messages.Advertisement, load: reservations.Load, pod_class: str = "Job/default/x", **node: Any
) -> float:
    nodes = fleet.Fleet(policy.Policy())
    nodes.put_node(objects.make_node(**node), load)
    nodes.put_advertisement(advertisement, 0.0)
    return nodes.snapshot(0.0).row(0).free(pod_class)


def reserved(count: int) -> reservations.Load:
    classes = {"Job/default/x": count} if count else {}
    return reservations.Load(placed=count, workloads=count, reserved=count, classes=classes)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_one_class_equals_capacity_minus_reserved(count: int) -> None:
    scalar = objects.make_advertisement(capacity=3.5, pods=1)
    vector = objects.with_headroom(scalar, {"cpu": 7.0, "memory": 8e9}, {"cpu": 2.0, "memory": 1e9})
    assert free_of(scalar, reserved(count)) == pytest.approx(3.5 - count)
    assert free_of(vector, reserved(count)) == pytest.approx(3.5 - count)


def test_the_scarcest_dimension_decides_whatever_the_headline_says() -> None:
    made = objects.with_headroom(
        objects.make_advertisement(capacity=9.0, pods=1), {"cpu": 7.0, "memory": 1e9}, {"cpu": 1.0, "memory": 2e9}
    )
    assert free_of(made, reserved(0)) == pytest.approx(0.5)


def test_the_limit_counts_running_and_reserved_pods() -> None:
    made = objects.with_headroom(objects.make_advertisement(pods=3), {"cpu": 50.0}, {"cpu": 1.0}, limit=5)
    assert free_of(made, reserved(0)) == 2.0
    assert free_of(made, reserved(2)) == 0.0


def test_an_empty_node_takes_one_and_not_two() -> None:
    made = objects.with_headroom(objects.make_advertisement(capacity=1.0), {"cpu": 3.0}, {"cpu": 4.0}, limit=1)
    assert free_of(made, reserved(0)) == 1.0
    assert free_of(made, reserved(1)) < 1.0


def test_an_empty_node_at_its_guard_takes_none() -> None:
    made = objects.with_headroom(objects.make_advertisement(capacity=0.0), {"cpu": -0.1}, {"cpu": 4.0})
    assert free_of(made, reserved(0)) == 0.0


def test_caps_on_what_is_believed() -> None:
    boast = objects.make_advertisement(capacity=1000.0)
    assert free_of(boast, reservations.Load()) == 16 * 4.0
    assert free_of(boast, reservations.Load(placed=9, workloads=9)) == 16 * 4.0 - 9
    assert free_of(boast, reservations.Load(placed=9), pod_limit=10) == 1.0


def test_nothing_advertised_is_not_zero() -> None:
    nodes = fleet.Fleet(policy.Policy())
    nodes.put_node(objects.make_node(), reservations.Load())
    assert nodes.snapshot(0.0).row(0).free("x") == -math.inf


def test_of_too_many_dimensions_the_scarcest_are_looked_at() -> None:
    names = [f"dim-{index}" for index in range(12)]
    made = objects.with_headroom(
        objects.make_advertisement(),
        {name: 100.0 - index for index, name in enumerate(names)} | {"of no cost": 0.0},
        dict.fromkeys(names, 1.0),
    )
    assert headroom.offer_of(made).headroom == tuple(89.0 + index for index in range(headroom.DIMENSIONS_MAX))


def by_class() -> messages.Advertisement:
    classes = {
        "Job/a": messages.ClassCapacity(cost_plus={"cpu": 1.0, "memory": 4.0}, pods=1),
        "Job/b": messages.ClassCapacity(cost_plus={"cpu": 2.0, "memory": 0.0}, pods=1),
        messages.NEW_CLASS: messages.ClassCapacity(cost_plus={"cpu": 4.0, "memory": 8.0}, pods=0),
    }
    return objects.make_advertisement(pods=2, headroom={"cpu": 8.0, "memory": 8.0}, classes=classes)


@pytest.mark.parametrize(("pod_class", "fits"), [("Job/a", 2.0), ("Job/b", 4.0), ("Job/never seen", 1.0)])
def test_each_class_fits_by_its_own_cost(pod_class: str, fits: float) -> None:
    assert free_of(by_class(), reserved(0), pod_class) == fits


def test_pods_whose_class_is_not_known_yet_say_nothing_of_a_class_that_is_new() -> None:
    """A light `*` is measured where agents have heard of Pods later than they started; a new class may be heavy."""
    said = by_class()
    light = messages.ClassCapacity(cost_plus={"cpu": 0.1, "memory": 0.1}, pods=3)
    assert said.classes is not None
    found = said._replace(classes={**said.classes, messages.ANY_CLASS: light})
    assert free_of(found, reserved(0), "Job/never seen") == 1.0
    general = {messages.ANY_CLASS: light, messages.NEW_CLASS: said.classes[messages.NEW_CLASS]}
    alike = said._replace(classes=general)
    assert free_of(alike, reserved(0), "Job/never seen") == 64.0, "classes are not distinguished: the limit per core"


def test_reserved_pods_take_what_their_own_class_costs() -> None:
    load = reservations.Load(placed=3, workloads=3, reserved=1, classes={"Job/b": 1})
    # cpu: (8 - 2) / 1, memory: (8 - 0) / 4
    assert free_of(by_class(), load, "Job/a") == 2.0
    load = reservations.Load(placed=4, workloads=4, reserved=2, classes={"Job/a": 1, "Job/b": 1})
    # cpu: (8 - 1 - 2) / 2; b takes no memory
    assert free_of(by_class(), load, "Job/b") == 2.5


def test_a_placement_of_one_class_leaves_less_for_another() -> None:
    nodes = fleet.Fleet(policy.Policy())
    nodes.put_node(objects.make_node(), reservations.Load())
    nodes.put_advertisement(by_class(), 0.0)
    row = nodes.snapshot(0.0).row(0).with_pod(demands.Demand(pod_class="Job/a"))
    assert row.free("Job/a") == 1.0
    assert row.free("Job/b") == 3.5


def test_a_placement_of_a_baseline_pod_takes_its_requests_and_nothing_that_is_advertised() -> None:
    nodes = fleet.Fleet(policy.Policy())
    nodes.put_node(objects.make_node(), reservations.Load())
    nodes.put_advertisement(by_class()._replace(limit=4), 0.0)
    before = nodes.snapshot(0.0).row(0)
    row = before.with_pod(demands.Demand(pod_class="Job/a", is_baseline=True, request_cores=1.0))
    for pod_class in ("Job/a", "Job/b"):
        assert row.free(pod_class) == before.free(pod_class)
    assert (row.placed, row.used_cores) == (before.placed + 1, before.used_cores + 1.0)
    assert row.room.pod_limit == before.room.pod_limit - 1.0
    assert (row.workloads, row.reserved) == (before.workloads, before.reserved)
    booking = reservations.Booking("uid-a", "default/a", "node-0", 1.0, 0.0, (), True, "Job/a", False, 0.0)
    back = row.counting([(booking, False)], -1)
    assert (back.placed, back.workloads, back.reserved) == (before.placed, before.workloads, before.reserved)


def test_free_pods_by_class_follow_every_change() -> None:
    nodes = fleet.Fleet(policy.Policy())
    nodes.put_node(objects.make_node("a"), reservations.Load())
    assert nodes.free("Job/a").tolist() == [-math.inf]
    nodes.put_advertisement(objects.make_advertisement("a", capacity=2.0, pods=1), 0.0)
    nodes.put_node(objects.make_node("b"), reservations.Load())
    assert nodes.free("Job/a").tolist() == [2.0, -math.inf]
    nodes.put_load("a", reservations.Load(placed=1, workloads=1, reserved=1, classes={"Job/a": 1}))
    assert nodes.free("Job/a").tolist() == [1.0, -math.inf]
    nodes.remove_node("a")
    assert nodes.free("Job/a").tolist() == [-math.inf, -math.inf]


def test_several_classes_without_a_general_one_cost_as_the_dearest() -> None:
    classes = {
        "Job/a": messages.ClassCapacity(cost_plus={"cpu": 2.0, "memory": 1.0}, pods=1),
        "Job/b": messages.ClassCapacity(cost_plus={"cpu": 1.0, "memory": 4.0}, pods=1),
    }
    made = objects.make_advertisement(pods=2, headroom={"cpu": 8.0, "memory": 8.0}, classes=classes)
    assert headroom.offer_of(made).other == (2.0, 4.0)
    assert free_of(made, reserved(0)) == 2.0
    del classes["Job/b"]
    assert headroom.offer_of(made).other == (2.0, 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"headroom": {"cpu": 8.0}},
        {"classes": {"Job/a": messages.ClassCapacity(cost_plus={"cpu": 1.0}, pods=1)}},
        {"headroom": {"cpu": 8.0}, "classes": {"Job/a": messages.ClassCapacity(cost_plus={"cpu": 0.0}, pods=1)}},
    ],
)
def test_without_headroom_or_any_cost_the_capacity_is_the_offer(changes: dict[str, Any]) -> None:
    made = objects.make_advertisement(capacity=3.0, pods=1, **changes)
    assert headroom.offer_of(made).dimensions == (headroom.PODS,)
    assert free_of(made, reserved(0)) == 3.0


def test_a_dimension_without_a_cost_limits_nothing() -> None:
    made = objects.with_headroom(
        objects.make_advertisement(pods=1), {"cpu": 4.0, "disk": 0.0}, {"cpu": 1.0, "disk": 0.0}
    )
    assert free_of(made, reserved(0)) == 4.0
