"""Each filter refuses what it should, over all nodes and for one node alike."""

import random
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, decision
from carico_scheduler.decide import masks
from carico_scheduler.nodes import fleet, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import admission, policy, protocol, registry, scorers
from carico_scheduler.rules.filters import node_selector
from tests.unit.scheduler import objects

NOW_S = 1000.0
STAGES = registry.by_capacity(policy.Policy())
ALL = (*STAGES.by_node, *STAGES.by_room)


def refuse(node: cluster.Node, pod: cluster.Pod, *, load: reservations.Load | None = None, age_s: float = 0.0,
           advertised: float | None = 4.0, rules: policy.Policy | None = None) -> list[decision.Reason]:  # fmt: skip
    """Every reason for which a fleet of this one node is refused; masks and rows must say the same."""
    nodes = fleet.Fleet(rules or policy.Policy())
    nodes.put_node(node, load or reservations.Load())
    if advertised is not None:
        nodes.put_advertisement(objects.make_advertisement(node.name, advertised), NOW_S - age_s)
    view = nodes.snapshot(NOW_S)
    return [each.reason for each in ALL if not _agreed(each, view, demands.demand_of(pod), 0)]


def _agreed(each: Any, view: snapshot.Snapshot, demand: demands.Demand, slot: int) -> bool:
    """Whether the node of a slot passes: by the mask, and by its row if the filter is asked for rows."""
    by_mask = bool(np.broadcast_to(each.passes(view, demand), len(view.present))[slot])
    if each in STAGES.by_room:
        by_row = each.passes(view.row(slot), demand)
        assert by_mask == by_row, f"{each.reason} on slot {slot}: mask {by_mask}, row {by_row}"
    return by_mask


def test_all_reasons_have_one_filter_each() -> None:
    by_peers = [each.reason for each in registry.without_capacity().by_peers]
    # A gang refuses the nodes that would take one of its Pods.
    assert sorted([each.reason for each in ALL] + by_peers) == sorted(set(decision.Reason) - {decision.Reason.GANG})


def by_slot(scorer: protocol.Scorer, view: snapshot.Snapshot) -> list[float]:
    """The scores of a Pod that asks for nothing."""
    scores: list[float] = np.asarray(scorer.score(view, demands.Demand())).tolist()
    return scores


TAINT = cluster.Taint(key="gpu", value="yes", effect="NoSchedule")
SOFT = cluster.Taint(key="gpu", value="yes", effect="PreferNoSchedule")


def toleration(key: str = "", operator: str = "Equal", value: str = "", effect: str = "") -> cluster.Toleration:
    return cluster.Toleration(key=key, operator=operator, value=value, effect=effect)


@pytest.mark.parametrize(
    ("node", "pod", "reasons"),
    [
        ({}, {}, []),
        ({"ready": False}, {}, ["not_ready"]),
        ({"unschedulable": True}, {}, ["unschedulable"]),
        ({"deleting": True}, {}, ["unschedulable"]),
        ({"unschedulable": True}, {"tolerations": (toleration(operator="Exists"),)}, []),
        ({"deleting": True}, {"tolerations": (toleration(operator="Exists"),)}, ["unschedulable"]),
        ({"taints": (TAINT,)}, {}, ["taint"]),
        ({"taints": (SOFT,)}, {}, []),
        ({"taints": (TAINT,)}, {"tolerations": (toleration("gpu", value="yes"),)}, []),
        ({"labels": {"disk": "ssd"}}, {"node_selector": {"disk": "ssd"}}, []),
        ({"labels": {"disk": "hdd"}}, {"node_selector": {"disk": "ssd"}}, ["node_selector"]),
        ({}, {"node_selector": {"disk": "ssd"}}, ["node_selector"]),
        ({}, {"request_cores": 4.0}, []),
        ({}, {"request_cores": 4.1}, ["requests"]),
        ({}, {"request_bytes": 9 * 2.0**30}, ["requests"]),
        ({}, {"unsupported": ("hostPorts",)}, ["unsupported"]),
        ({}, {"required_features": ("A",)}, ["unsupported"]),
        ({"declared_features": frozenset("AC")}, {"required_features": ("A", "B")}, ["unsupported"]),
        ({"declared_features": frozenset("ABC")}, {"required_features": ("A", "B")}, []),
        ({"declared_features": frozenset("AB")}, {"required_features": ("A",), "unsupported": ("x",)}, ["unsupported"]),
        ({}, {"node_name": "node-0"}, []),
        ({}, {"node_name": "node-1"}, ["node_name"]),
    ],
)
def test_facts_of_node_and_pod(node: dict[str, Any], pod: dict[str, Any], reasons: list[str]) -> None:
    assert refuse(objects.make_node(**node), objects.make_pod(**pod)) == reasons


@pytest.mark.parametrize(
    ("load", "advertised", "age_s", "reasons"),
    [
        ({}, 1.0, 0.0, []),
        ({}, 0.99, 0.0, ["capacity"]),
        ({"placed": 1, "workloads": 1, "reserved": 1, "classes": {"x": 1}}, 1.9, 0.0, ["capacity"]),
        ({"placed": 1, "workloads": 1, "reserved": 1, "classes": {"x": 1}}, 2.0, 0.0, []),
        ({"placed": 1, "workloads": 1}, 1.0, 0.0, []),
        ({"placed": 110}, 4.0, 0.0, ["pod_limit", "capacity"]),
        ({"workloads": 64, "placed": 64}, 100.0, 0.0, ["capacity"]),
        ({}, 4.0, 5.0, []),
        ({}, 4.0, 5.1, ["stale"]),
        ({}, 4.0, 10.0, ["stale"]),
        ({}, 4.0, 10.1, ["no_advertisement", "stale"]),
        ({}, None, 0.0, ["no_advertisement", "stale", "capacity"]),
        ({"uncovered_since_s": NOW_S - 30.0}, 4.0, 0.0, []),
        ({"uncovered_since_s": NOW_S - 30.1}, 4.0, 0.0, ["suspect"]),
    ],
)
def test_what_is_placed_and_advertised(
    load: dict[str, Any], advertised: float | None, age_s: float, reasons: list[str]
) -> None:
    found = refuse(
        objects.make_node(), objects.make_pod(), load=reservations.Load(**load), advertised=advertised, age_s=age_s
    )
    assert found == reasons


def test_a_node_selector_with_labels_that_no_node_has_displaces_no_answers() -> None:
    """Each label took the place of one that other Pods ask about, and 10,000 of them 5 s."""
    pool = fleet.Fleet(policy.Policy())
    pool.put_node(objects.make_node(labels={"zone": "a"}), reservations.Load())
    view = pool.snapshot(NOW_S)
    view.labels.domains("zone")
    wanted = objects.make_pod(node_selector={"zone": "a"} | {str(each): "x" for each in range(2000)})
    passes = node_selector.NodeSelector().passes(view, demands.demand_of(wanted))
    assert not isinstance(passes, bool) and not passes.any()
    assert list(view.labels._kept) == [("domains", "zone")]


def test_requests_already_made_count_against_a_pod_that_states_them() -> None:
    load = reservations.Load(placed=1, used_cores=3.5)
    assert refuse(objects.make_node(), objects.make_pod(request_cores=0.5), load=load) == []
    assert refuse(objects.make_node(), objects.make_pod(request_cores=0.6), load=load) == ["requests"]
    assert refuse(objects.make_node(), objects.make_pod(), load=load) == []
    gib = 2.0**30
    load = reservations.Load(placed=1, used_cores=4.5, used_bytes=9 * gib, used_others={"gpu": 1.0})
    node = objects.make_node(allocatable_others={"gpu": 2.0})
    assert refuse(node, objects.make_pod(), load=load) == []
    assert refuse(node, objects.make_pod(request_bytes=1.0), load=load) == ["requests"]
    assert refuse(node, objects.make_pod(request_others=(("gpu", 1.0),)), load=load) == []
    assert refuse(node, objects.make_pod(request_others=(("gpu", 2.0),)), load=load) == ["requests"]
    assert refuse(node, objects.make_pod(request_others=(("npu", 1.0),)), load=load) == ["requests"]
    load = reservations.Load(placed=1, used_bytes=7 * gib)
    assert refuse(node, objects.make_pod(request_bytes=gib, request_cores=4.0), load=load) == []
    assert refuse(node, objects.make_pod(request_bytes=gib + 1, request_cores=4.0), load=load) == ["requests"]


def said(load: reservations.Load, pod: cluster.Pod, *, advertised: float | None, age_s: float = 0.0) -> list[str]:
    """Every reason in words."""
    nodes = fleet.Fleet(policy.Policy())
    nodes.put_node(objects.make_node(allocatable_others={"gpu": 2.0}), load)
    if advertised is not None:
        nodes.put_advertisement(objects.make_advertisement(capacity=advertised), NOW_S - age_s)
    view, demand = nodes.snapshot(NOW_S), demands.demand_of(pod)
    return [each.why(view.row(0), demand) for each in ALL if not _agreed(each, view, demand, 0)]


def test_refusals_in_words() -> None:
    assert said(reservations.Load(), objects.make_pod(), advertised=None)[::2] == [
        "no advertisement seen: is its agent running?", "nothing advertised",
    ]  # fmt: skip
    assert said(reservations.Load(), objects.make_pod(), advertised=0.5, age_s=20.0) == [
        "no advertisement for 20 s: is its agent running?", "advertisement 20.0 s old, used up to 5 s",
        "0.5 free of threshold 1, 0 reserved",
    ]  # fmt: skip
    load = reservations.Load(
        placed=110, used_cores=3.5, used_bytes=7 * 2.0**30, used_others={"gpu": 1.0}, uncovered_since_s=NOW_S - 40.0
    )
    asked: list[dict[str, Any]] = [
        {"request_cores": 1.0}, {"request_bytes": 2.0**31}, {"request_others": (("gpu", 2.0),)},
        {"request_others": (("ephemeral-storage", 2.0**20),)},
    ]  # fmt: skip
    found = [said(load, objects.make_pod(**each), advertised=4.0) for each in asked]
    assert {each for one in found for each in one} == {
        "1 cores requested, 0.5 of 4 left", "2048 MiB requested, 1024 of 8192 MiB left", "2 gpu requested, 1 of 2 left",
        "1 MiB of ephemeral-storage requested, 0 of 0 MiB left",
        "110 Pods of at most 110", "a Pod placed 40 s ago is still not in its advertisements",
        "0 free of threshold 1, 0 reserved",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tolerations", "tolerated"),
    [
        ((), False),
        ((toleration(operator="Exists"),), True),
        ((toleration("gpu", "Exists"),), True),
        ((toleration("gpu", "Exists", effect="NoExecute"),), False),
        ((toleration("gpu", value="no"),), False),
        ((toleration("cpu", "Exists"),), False),
        ((toleration(value="yes"),), False),
        ((toleration("gpu", "Gt", value="yes"),), False),
        ((toleration("cpu", "Exists"), toleration("gpu", value="yes", effect="NoSchedule")), True),
    ],
)
def test_tolerations_match_as_kubernetes_says(tolerations: tuple[cluster.Toleration, ...], tolerated: bool) -> None:
    assert cluster.tolerates(tolerations, TAINT) is tolerated


def random_fleet(rng: random.Random, rules: policy.Policy, count: int) -> fleet.Fleet:
    """Nodes of every kind."""
    nodes = fleet.Fleet(rules)
    for index in range(count):
        reserved = rng.choice([0, 0, 1, 2])
        node = objects.make_node(
            f"node-{index}", ready=rng.random() < 0.8, unschedulable=rng.random() < 0.2, deleting=rng.random() < 0.1,
            taints=rng.choice([(), (), (TAINT,), (SOFT,)]), labels=rng.choice([{}, {"disk": "ssd"}, {"disk": "hdd"}]),
            pod_limit=rng.choice([2, 110]), allocatable_others=rng.choice([{}, {"gpu": 1.0}, {"gpu": 2.0}]),
        )  # fmt: skip
        load = reservations.Load(
            placed=reserved + rng.choice([0, 1]), workloads=reserved, reserved=reserved,
            classes={"x": reserved} if reserved else {}, used_cores=rng.uniform(0, 5),
            used_bytes=rng.uniform(0, 9 * 2**30), used_others=rng.choice([{}, {"gpu": 1.0}]),
            uncovered_since_s=rng.choice([float("inf"), NOW_S - 1, NOW_S - 40]),
        )  # fmt: skip
        nodes.put_node(node, load)
        if rng.random() < 0.9:
            made = objects.make_advertisement(node.name, rng.uniform(0, 5), pods=rng.randint(0, 3))
            if rng.random() < 0.5:
                cost = {"cpu": rng.uniform(0.5, 2.0), "memory": rng.uniform(1e8, 2e9)}
                room = {"cpu": rng.uniform(-1, 8), "memory": rng.uniform(-1e9, 9e9)}
                made = objects.with_headroom(made, room, cost, rng.choice([None, 3, 9]))
            nodes.put_advertisement(made, NOW_S - rng.choice([0.1, 3.0, 7.0, 20.0]))
    return nodes


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32), mode=st.sampled_from(policy.ScoreMode))
def test_masks_and_rows_agree_on_every_node(seed: int, mode: policy.ScoreMode) -> None:
    rng = random.Random(seed)
    rules = policy.Policy(score=mode, threshold=rng.choice([0.5, 1.0, 2.0]))
    view = random_fleet(rng, rules, 12).snapshot(NOW_S)
    demand = demands.Demand(
        node_selector=rng.choice([(), (("disk", "ssd"),)]), request_cores=rng.choice([0.0, 1.0]),
        request_bytes=rng.choice([0.0, 2.0**31]), request_others=rng.choice([(), (("gpu", 1.0),)]),
        tolerations=rng.choice([(), (toleration(operator="Exists"),)]), node_name=rng.choice([None, "node-3"]),
    )  # fmt: skip
    for each in ALL:
        for slot in range(12):
            _agreed(each, view, demand, slot)
    for scorer in (scorers.scorer_of(mode), registry.without_capacity().scorer):
        by_row = [float(scorer.score(view.row(slot), demand)) for slot in range(12)]
        np.testing.assert_allclose(np.asarray(scorer.score(view, demand)), by_row, rtol=1e-12)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_rules_about_age_hold_for_each_node_as_nodes_come_advertise_and_go(seed: int) -> None:
    rng, rules, now_s = random.Random(seed), policy.Policy(), NOW_S
    nodes = fleet.Fleet(rules)
    for _ in range(60):
        now_s += rng.choice([0.0, 0.1, 3.0])
        name, uncovered_s = f"node-{rng.randrange(5)}", now_s - rng.choice([0.0, 20.0, 40.0, -float("inf")])
        match rng.randrange(5):
            case 0:
                nodes.remove_node(name)
            case 1:
                nodes.put_node(objects.make_node(name), reservations.Load())
            case 2:
                nodes.put_load(name, reservations.Load(uncovered_since_s=uncovered_s))
            case _:
                age_s = rng.choice([0.1, 0.1, 7.0, 20.0])
                nodes.put_advertisement(objects.make_advertisement(name, 3.0), now_s - age_s)
        view = nodes.snapshot(now_s)
        for each in admission.BELIEVED:
            for slot in view.present.nonzero()[0].tolist():
                _agreed(each, view, demands.Demand(), slot)


def test_ages_are_not_compared_node_by_node_while_all_are_fresh() -> None:
    """They were in each cycle, in a seventh of the time that a decision on one Pod takes."""
    nodes = fleet.Fleet(policy.Policy())
    for name in ("a", "b", "gone"):
        nodes.put_node(objects.make_node(name), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(name, 3.0), NOW_S)
    nodes.remove_node("gone")
    view = nodes.snapshot(NOW_S + 2.0)
    assert all(each.passes(view, demands.Demand()) is True for each in admission.BELIEVED)
    nodes.put_advertisement(objects.make_advertisement("a", 3.0), NOW_S - 100.0)
    assert [np.ndim(each.passes(nodes.snapshot(NOW_S + 2.0), demands.Demand())) for each in admission.BELIEVED] == [
        1,
        1,
        0,
    ]
    nodes.put_advertisement(objects.make_advertisement("a", 3.0), NOW_S)
    assert admission.Fresh().passes(nodes.snapshot(NOW_S + 4.0), demands.Demand()) is True, "looked up again"


def test_a_row_with_a_pod_is_what_the_fleet_works_out() -> None:
    rng = random.Random(7)
    rules = policy.Policy()
    nodes = random_fleet(rng, rules, 30)
    for slot in range(30):
        row = nodes.snapshot(NOW_S).row(slot)
        ahead = row.with_pod(demands.Demand(pod_class="x", request_cores=0.5, request_bytes=1e6))
        expected, room = objects.row_values(ahead), ahead.room
        gpus = row.node.allocatable_others.get("gpu", 0.0)
        before = {"x": row.reserved} if row.reserved else {}
        load = reservations.Load(
            placed=row.placed + 1, workloads=row.workloads + 1, reserved=row.reserved + 1,
            used_cores=row.used_cores + 0.5, used_bytes=row.used_bytes + 1e6,
            used_others={"gpu": gpus - row.left("gpu")},
            classes={"x": before.get("x", 0) + 1}, uncovered_since_s=row.uncovered_since_s,
        )  # fmt: skip
        nodes.put_load(row.node.name, load)
        again = nodes.snapshot(NOW_S).row(slot)
        # Sums of costs differ by rounding only.
        np.testing.assert_allclose(again.room.taken, room.taken, rtol=1e-12)
        assert objects.row_values(again) == expected


def test_who_tolerates_a_cordon_has_no_place_on_a_node_that_is_gone() -> None:
    nodes = fleet.Fleet(policy.Policy())
    for name in ("gone", "cordoned"):
        nodes.put_node(objects.make_node(name, unschedulable=True), reservations.Load())
    nodes.remove_node("gone")
    demand = demands.Demand(tolerations=(toleration(operator="Exists"),))
    found = masks.NodeMasks().of(demand, nodes.snapshot(NOW_S), STAGES)
    assert found.mask.tolist()[:2] == [False, True]


@pytest.mark.parametrize("mode", policy.ScoreMode)
def test_a_node_without_any_room_has_a_score(mode: policy.ScoreMode) -> None:
    nodes = fleet.Fleet(policy.Policy())
    nodes.put_node(objects.make_node(), reservations.Load())
    nodes.put_advertisement(objects.make_advertisement(capacity=0.0), NOW_S)
    view, scorer = nodes.snapshot(NOW_S), scorers.scorer_of(mode)
    assert by_slot(scorer, view) == [scorer.score(view.row(0), demands.Demand())]


def test_relative_score_does_not_fill_the_big_node_first() -> None:
    nodes = fleet.Fleet(policy.Policy())
    for name, room, pods in (("big", 10.0, 10), ("small", 4.0, 0)):
        nodes.put_node(objects.make_node(name), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(name, room, pods=pods), NOW_S)
    view = nodes.snapshot(NOW_S)
    assert int(np.argmax(by_slot(scorers.AbsoluteScore(), view))) == 0
    assert int(np.argmax(by_slot(scorers.RelativeScore(), view))) == 1


@hypothesis.given(free=st.lists(st.floats(1.0, 16.0), min_size=2, max_size=12), cores=st.sampled_from((1, 3, 4, 64)))
def test_of_equal_nodes_the_score_per_core_chooses_as_the_absolute_one(free: list[float], cores: int) -> None:
    nodes = fleet.Fleet(policy.Policy())
    for number, room in enumerate(free):
        nodes.put_node(objects.make_node(f"n{number}", allocatable_cores=float(cores)), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(f"n{number}", room, pods=1), NOW_S)
    view = nodes.snapshot(NOW_S)
    chosen = int(np.argmax(by_slot(scorers.PerCoreScore(), view)))
    # Within rounding: on cores that are no power of two, neighbouring numbers may come out equal.
    assert free[chosen] == pytest.approx(max(free), rel=1e-12)


def test_by_the_score_per_core_nodes_fill_in_step_with_their_size() -> None:
    scorer = scorers.PerCoreScore()
    sizes = {"2": 2.0, "4": 4.0, "8": 8.0, "16": 16.0}
    held = dict.fromkeys(sizes, 0)
    for _ in range(15):
        nodes = fleet.Fleet(policy.Policy())
        for name, cores in sizes.items():
            nodes.put_node(objects.make_node(name, allocatable_cores=cores), reservations.Load())
            nodes.put_advertisement(objects.make_advertisement(name, cores - held[name], pods=held[name]), NOW_S)
        view = nodes.snapshot(NOW_S)
        held[list(sizes)[int(np.argmax(by_slot(scorer, view)))]] += 1
    # Half of the cores: each has half of its own.
    assert held == {"2": 1, "4": 2, "8": 4, "16": 8}
