"""The scheduler's gauges: nodes by the age of what they say, the room there is, Pods that wait, and covering."""

import random

import pytest

from carico_core.runtime.observe import metrics as metric
from carico_core.wire import freshness
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import queue, reservations
from carico_scheduler.report import instruments
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects

NOW_S = 1000.0
# On both sides of each bound, and on it; None: nothing was ever said.
AGES_S = (0.0, 2.5, 2.6, 5.0, 5.1, 9.9, 10.0, 10.1, 500.0, None)


@pytest.mark.parametrize("lease_s", [10.0, 3.0])
def test_nodes_are_counted_as_their_advertisements_are_judged(lease_s: float) -> None:
    metrics = metric.Metrics("scheduler")
    nodes = fleet.Fleet(policy.Policy(lease_s=lease_s))
    expected = dict.fromkeys(freshness.Freshness, 0)
    capacity = 0.0
    for number, age_s in enumerate(AGES_S):
        name = f"node-{number}"
        nodes.put_node(objects.make_node(name), reservations.Load())
        kind = freshness.Freshness.ABSENT
        if age_s is not None:
            nodes.put_advertisement(objects.make_advertisement(name, capacity=2.0), NOW_S - age_s)
            kind = freshness.classify(age_s, lease_s=lease_s)
        expected[kind] += 1
        capacity += 2.0 * (kind in (freshness.Freshness.FRESH, freshness.Freshness.AGEING))
    instruments.Instruments(metrics).count_nodes(nodes.snapshot(NOW_S))
    counted = {each: metrics.value("nodes", {"freshness": each.value}) for each in freshness.Freshness}
    assert counted == expected
    assert metrics.value("capacity_pods") == capacity
    assert metrics.value("free_pods") == capacity


def test_reserved_pods_are_room_that_is_gone_and_never_less_than_none() -> None:
    metrics = metric.Metrics("scheduler")
    nodes = fleet.Fleet(policy.Policy())
    for name, reserved in (("node-0", 1), ("node-1", 5)):
        nodes.put_node(
            objects.make_node(name), reservations.Load(placed=reserved, workloads=reserved, reserved=reserved)
        )
        nodes.put_advertisement(objects.make_advertisement(name, capacity=3.0), NOW_S)
    instruments.Instruments(metrics).count_nodes(nodes.snapshot(NOW_S))
    assert metrics.value("capacity_pods") == 6.0
    assert metrics.value("free_pods") == 2.0


def test_nodes_that_may_have_no_pods_have_no_room() -> None:
    metrics = metric.Metrics("scheduler")
    nodes = fleet.Fleet(policy.Policy())
    for name, changes in (("node-0", {}), ("node-1", {"ready": False}), ("node-2", {"unschedulable": True})):
        nodes.put_node(objects.make_node(name, **changes), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(name, capacity=3.0), NOW_S)
    instruments.Instruments(metrics).count_nodes(nodes.snapshot(NOW_S))
    assert metrics.value("nodes", {"freshness": "fresh"}) == 3.0
    assert (metrics.value("capacity_pods"), metrics.value("free_pods")) == (3.0, 3.0)


def test_the_oldest_reservation_is_that_of_the_pod_that_its_node_does_not_start() -> None:
    metrics = metric.Metrics("scheduler")
    counted, ledger = instruments.Instruments(metrics), reservations.Reservations(policy.Release.COVERS)
    seen = []
    for name, at_s in (("pod-0", NOW_S - 700.0), ("pod-1", NOW_S - 1.0)):
        ledger.place(reservations.booking_of(objects.make_pod(name), node="node-0", now_s=at_s))
    for covered in (frozenset[str](), frozenset({"uid-pod-0"}), frozenset({"uid-pod-0", "uid-pod-1"})):
        ledger.cover("node-0", covered, NOW_S)
        counted.count_reservations(ledger, NOW_S)
        seen.append((metrics.value("reservations"), metrics.value("oldest_reservation_seconds")))
    assert seen == [(2.0, 700.0), (1.0, 1.0), (0.0, 0.0)]


def test_a_pod_that_runs_where_no_node_advertises_waits_for_nothing() -> None:
    metrics = metric.Metrics("scheduler")
    ledger = reservations.Reservations(policy.Release.COVERS)
    for name, phase in (("runs", "Running"), ("waits", "Pending")):
        pod = objects.make_pod(name, phase=phase, node_name="node-0")
        at_s = NOW_S - 700.0 * (phase == "Running")
        ledger.place(reservations.booking_of(pod, node="node-0", now_s=at_s))
    instruments.Instruments(metrics).count_reservations(ledger, NOW_S + 5.0)
    assert (metrics.value("reservations"), metrics.value("oldest_reservation_seconds")) == (2.0, 5.0)


def test_the_longest_wait_is_that_of_the_oldest_in_the_queue() -> None:
    metrics = metric.Metrics("scheduler")
    counted = instruments.Instruments(metrics)
    source = queue.Queue(random.Random(0))
    counted.count_queue(source, NOW_S)
    assert metrics.value("oldest_waiting_seconds") == 0.0
    source.offer(objects.make_pod("pod-0"), NOW_S - 7.0)
    source.offer(objects.make_pod("pod-1"), NOW_S - 3.0)
    counted.count_queue(source, NOW_S)
    assert metrics.value("oldest_waiting_seconds") == 7.0
    assert metrics.value("waiting_pods") == 2.0


def test_each_pod_is_reported_once_when_its_node_comes_to_account_for_it() -> None:
    told: list[tuple[str, float]] = []
    ledger = reservations.Reservations(policy.Release.COVERS)
    ledger.on_covered = lambda uid, since_s: told.append((uid, since_s))
    for name, at_s in (("pod-0", 1.0), ("pod-1", 2.0)):
        pod = objects.make_pod(name)
        ledger.place(reservations.booking_of(pod, node="node-0", now_s=at_s))
    ledger.cover("node-0", frozenset(), 3.0)
    assert told == []
    ledger.cover("node-0", frozenset({"uid-pod-0"}), 4.0)
    ledger.cover("node-0", frozenset({"uid-pod-0"}), 5.0)
    assert told == [("uid-pod-0", 1.0)]
    ledger.cover("node-0", frozenset({"uid-pod-0", "uid-pod-1"}), 6.0)
    assert told == [("uid-pod-0", 1.0), ("uid-pod-1", 2.0)]
