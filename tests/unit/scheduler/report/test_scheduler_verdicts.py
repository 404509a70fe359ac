"""Whether more nodes would help a Pod that fits nowhere."""

from typing import Any

import pytest

from carico_core.domain import cluster, messages
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.decide import cycle
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import demand, reservations
from carico_scheduler.report import verdicts
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects

NOW_S = 1000.0
Verdict = verdicts.Verdict


class Desk:
    """Nodes, and the verdict on a Pod that fits none of them."""

    def __init__(self) -> None:
        self.fleet = fleet.Fleet(policy.Policy())

    def add(
        self, name: str, advertised: messages.Advertisement | None = None, *, age_s: float = 0.1, reserved: int = 0,
        **node: Any,
    ) -> None:  # fmt: skip
        """Add a node."""
        load = reservations.Load(placed=reserved, workloads=reserved, reserved=reserved, classes={"job": reserved})
        self.fleet.put_node(objects.make_node(name, **node), load)
        if advertised is not None:
            self.fleet.put_advertisement(advertised._replace(node=name), NOW_S - age_s)

    def verdict(self, **pod: Any) -> verdicts.Verdict:
        """Return the verdict on a Pod."""
        made = demand.demand_of(objects.make_pod(**pod))
        return verdicts.verdict_of(cycle.Cycle(self.fleet.policy).explain(self.fleet.snapshot(NOW_S), made))


def test_full_nodes_and_rules_are_a_cause_and_an_empty_cluster_is() -> None:
    desk = Desk()
    assert desk.verdict() is Verdict.UNSCHEDULABLE
    desk.add("full", objects.make_advertisement(capacity=0.2))
    desk.add("tainted", taints=(cluster.Taint(key="a", value="", effect="NoSchedule"),))
    desk.add("away", ready=False)
    assert desk.verdict() is Verdict.UNSCHEDULABLE
    assert desk.verdict(node_selector={"no": "such"}) is Verdict.UNSCHEDULABLE
    assert desk.verdict(request_cores=64.0) is Verdict.UNSCHEDULABLE


@pytest.mark.parametrize("age_s", [None, 7.0, 60.0])
def test_a_node_that_is_not_known_keeps_the_verdict_open(age_s: float | None) -> None:
    desk = Desk()
    desk.add("unknown", None if age_s is None else objects.make_advertisement(), age_s=age_s or 0.0)
    assert desk.verdict() is Verdict.UNKNOWN
    assert desk.verdict(node_selector={"no": "such"}) is Verdict.UNSCHEDULABLE, "the node does not count then"
    desk.add("full", objects.make_advertisement(capacity=0.2))
    assert desk.verdict() is Verdict.OPEN


def test_a_node_whose_load_grows_in_steps_is_still_being_tried() -> None:
    desk = Desk()
    desk.add("cold", objects.make_advertisement(capacity=50.0, pods=2, limit=2))
    assert desk.verdict() is Verdict.OPEN
    assert desk.verdict(request_cores=64.0) is Verdict.UNSCHEDULABLE, "it would not fit there afterwards either"
    desk.add("cold", objects.make_advertisement(capacity=0.2, pods=2, limit=8))
    assert desk.verdict() is Verdict.UNSCHEDULABLE


def test_a_node_that_refuses_the_pod_for_another_pod_too_is_not_being_tried_for_it() -> None:
    desk = Desk()
    port = {"name": "main", "image": "pi", "ports": [{"hostPort": 80, "containerPort": 80}]}
    obj = objects.pod_object("other", containers=[port])
    obj["metadata"]["uid"] = "uid-other"
    other = api_objects.parse_pod(obj)
    desk.fleet.pod_counts.put(other, "cold")
    desk.add("cold", objects.make_advertisement(capacity=50.0, pods=2, limit=2))
    assert desk.verdict() is Verdict.OPEN
    assert desk.verdict(constraints=other.constraints) is Verdict.UNSCHEDULABLE, "it has the same host port"
    desk.add("next", objects.make_advertisement(capacity=50.0, pods=2, limit=2))
    assert desk.verdict(constraints=other.constraints) is Verdict.OPEN


def test_a_node_that_tries_the_first_pod_of_a_class_is_still_being_tried() -> None:
    desk = Desk()
    advertised = objects.with_headroom(objects.make_advertisement(), {"cpu": 1.0}, {"cpu": 1.0})
    desk.add("trying", advertised, reserved=1)
    assert desk.verdict() is Verdict.OPEN
    measured = messages.ClassCapacity(cost_plus={"cpu": 2.0}, pods=1)
    classes = {**(advertised.classes or {}), "image/default/pi": measured}
    desk.add("trying", advertised._replace(classes=classes), reserved=1)
    assert desk.verdict() is Verdict.UNSCHEDULABLE


def test_a_node_that_runs_a_class_unmeasured_is_still_being_tried() -> None:
    desk = Desk()
    advertised = objects.with_headroom(objects.make_advertisement(capacity=0.2, pods=1), {"cpu": 1.0}, {"cpu": 5.0})
    measured = messages.ClassCapacity(cost_plus={"cpu": 1.5}, pods=1)
    classes = {**(advertised.classes or {}), "Job/default/other": measured._replace(measured=False)}
    desk.add("trying", advertised._replace(classes=classes))
    assert desk.verdict() is Verdict.OPEN
    desk.add("trying", advertised._replace(classes={**classes, "image/default/pi": measured}))
    assert desk.verdict() is Verdict.UNSCHEDULABLE, "what this Pod costs is known there"
    desk.add("trying", advertised._replace(classes={**classes, "Job/default/other": measured}))
    assert desk.verdict() is Verdict.UNSCHEDULABLE, "nothing is guessed there any more"
