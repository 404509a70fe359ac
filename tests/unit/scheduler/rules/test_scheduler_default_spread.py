"""Kubernetes' default spreading: who gets it, and that it spreads over zones of unequal size."""

import collections
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, constraints
from carico_scheduler.decide import cycle
from carico_scheduler.rules import default_spread, policy, preferences
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

NOW_S = 1000.0
OWNER = cluster.Owner(kind="ReplicaSet", name="web-5d4f8c7b9", uid="rs")
LABELS = {"app": "web", "pod-template-hash": "5d4f8c7b9"}
SPREAD = default_spread.DefaultSpread(is_on=True)
ZONE = "topology.kubernetes.io/zone"


def test_pods_of_one_stateful_set_are_one_group() -> None:
    found = set()
    for index in range(3):
        labels = {
            "app": "db", "statefulset.kubernetes.io/pod-name": f"db-{index}", "apps.kubernetes.io/pod-index": str(index)
        }  # fmt: skip
        owner = cluster.Owner(kind="StatefulSet", name="db", uid="s")
        found.add(SPREAD.constraints_of(objects.make_pod(f"db-{index}", owner=owner, labels=labels)))
    (only,) = found
    assert only is not None
    assert [each.topology_key for each in only.default_spreads] == ["kubernetes.io/hostname", ZONE]


@pytest.mark.parametrize(
    "pod",
    [
        objects.make_pod(labels=LABELS),
        objects.make_pod(owner=OWNER),
        objects.make_pod(owner=cluster.Owner(kind="Job", name="pi", uid="j"), labels=LABELS),
    ],
    ids=["no owner", "no labels", "a Job"],
)
def test_others_have_none(pod: cluster.Pod) -> None:
    assert SPREAD.constraints_of(pod) is None


def draw_labels(rng: random.Random, most: int) -> dict[str, str]:
    return {
        key: rng.choice("xy")
        for key in rng.sample(("app", "tier", "app.kubernetes.io/name", "z"), rng.randint(0, most))
    }


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_a_pod_is_spread_with_those_of_all_services_that_select_it(seed: int) -> None:
    rng = random.Random(seed)
    made, there = default_spread.DefaultSpread(is_on=True), dict[tuple[str, str], cluster.Service]()
    for _ in range(20):
        namespace, name = rng.choice(("a", "b")), rng.choice("12345")
        service = cluster.Service(namespace, name, tuple(sorted(draw_labels(rng, 3).items())))
        before = there.get((namespace, name))
        if rng.random() < 0.3:
            there.pop((namespace, name), None)
            assert made.remove(namespace, name) is (before is not None)
        elif rng.random() < 0.1:
            there = {("a", "1"): service._replace(namespace="a", name="1")}
            made.put_all(there.values())
        else:
            there[namespace, name] = service
            assert made.put(service) is (before != service)
        pod = objects.make_pod(namespace=rng.choice(("a", "b")), labels=draw_labels(rng, 4))
        selecting = [each.labels for each in there.values() if each.namespace == pod.namespace]
        wanted = {key for labels in selecting if labels and set(labels) <= set(pod.labels.items()) for key, _ in labels}
        found = made.constraints_of(pod)
        spreads = () if found is None else found.default_spreads
        assert {each.key for spread in spreads for each in spread.selector or ()} == wanted
    for namespace, name in list(there):
        made.remove(namespace, name)
    assert not made._by_mark


def test_thousands_of_services_and_labels_are_not_compared_with_each_pod() -> None:
    """15 ms for each Pod of a namespace with 10,000 Services, and 3 s for each change of one with 200 Pods waiting."""
    looked: list[str] = []

    class Labels(dict[str, str]):
        def get(self, key: str, default: Any = None) -> Any:
            looked.append(key)
            return super().get(key, default)

    made = default_spread.DefaultSpread(is_on=True)
    made.put_all(cluster.Service("default", f"s-{number}", (("app", f"x-{number}"),)) for number in range(1000))
    # All of these may select the Pod.
    made.put_all(
        cluster.Service("default", f"s-{number}", (("app", "x"), ("n", str(number)))) for number in range(1000)
    )
    pod = objects.make_pod(labels={})._replace(labels=Labels({"app": "x", "n": "5"}))
    assert made.constraints_of(pod) is not None
    assert len(looked) <= 200
    many = {str(number): "x" for number in range(65)}
    assert made.constraints_of(objects.make_pod(owner=OWNER, labels=many)) is None
    del many["0"]
    assert made.constraints_of(objects.make_pod(owner=OWNER, labels=many)) is not None


def test_a_pod_with_spread_constraints_keeps_them() -> None:
    own = constraints.Constraints(
        spreads=(constraints.Spread(namespace="default", topology_key=ZONE, selector=(), max_skew=1),)
    )
    pod = objects.make_pod(owner=OWNER, labels=LABELS, constraints=own)
    assert SPREAD.constraints_of(pod) is own


def zones(*, is_on: bool, labelled: bool = True) -> collections.Counter[str]:
    """How many of 8 Pods each zone gets: one node with room for 10 in `a`, three with as much in `b`."""
    made = state.State(policy.Policy(default_spread=is_on), random.Random(0))
    for index, zone in enumerate("abbb"):
        name = f"{zone}{index}"
        labels = {ZONE: zone, "kubernetes.io/hostname": name} if labelled else {}
        made.put_node(objects.make_node(name, labels=labels))
        heard = node_state.Heard(advertisement=objects.make_advertisement(name, 10.0), sampled_s=NOW_S)
        made.put_advertisement(heard, NOW_S)
    for index in range(8):
        made.put_pod(objects.make_pod(f"web-{index}", owner=OWNER, labels=LABELS), NOW_S)
    outcome = cycle.Cycle(made.fleet.policy).run(made.fleet.snapshot(NOW_S), made.queue, most=100)
    assert len(outcome.placed) == 8
    return collections.Counter(each.row.node.name[0] for each in outcome.placed)


def test_zones_of_unequal_size_get_similar_numbers() -> None:
    assert zones(is_on=False) == {"a": 2, "b": 6}
    found = zones(is_on=True)
    assert found["a"] >= 3
    assert found["b"] >= 4


def test_a_node_without_a_zone_is_spread_over_by_its_name() -> None:
    made = state.State(policy.Policy(fallback=policy.Fallback.REQUESTS), random.Random(0))
    for name, zone in (("a", "a"), ("b", "b"), ("bare", "")):
        labels = {"kubernetes.io/hostname": name} | ({ZONE: zone} if zone else {})
        made.put_node(objects.make_node(name, labels=labels))

    def met() -> dict[str, float]:
        view = made.fleet.snapshot(NOW_S)
        found = preferences.preferences_of(view, made.demand_of(objects.make_pod("new", owner=OWNER, labels=LABELS)))
        assert found is not None
        return dict(zip(["a", "b", "bare"], found.parts(view.present)["spread"].tolist(), strict=True))

    for node in "ab":
        made.put_pod(objects.make_pod(node, owner=OWNER, labels=LABELS, node_name=node), NOW_S)
    assert met() == {"a": 0.0, "b": 0.0, "bare": 1.0}
    for index in range(3):
        made.put_pod(objects.make_pod(f"bare-{index}", owner=OWNER, labels=LABELS, node_name="bare"), NOW_S)
    # Three by the name of the node, next to one by name and one by zone.
    assert met() == {"a": 1.0, "b": 1.0, "bare": 0.0}


def test_without_labels_nothing_changes() -> None:
    assert zones(is_on=True, labelled=False) == zones(is_on=False, labelled=False)


def test_pods_of_a_service_are_a_group_while_it_selects_them() -> None:
    made = state.State(policy.Policy(default_spread=True), random.Random(0))
    pod = objects.make_pod("a", labels={"app": "web", "tier": "front", "own": "1"})
    made.put_pod(pod, NOW_S)

    def group() -> dict[str, str]:
        (waiting,) = made.queue
        limits = waiting.demand.constraints
        spreads = () if limits is None else limits.default_spreads
        return {each.key: each.values[0] for each in spreads[0].selector or ()} if spreads else {}

    assert group() == {}
    services = [
        cluster.Service(pod.namespace, "web", (("app", "web"),)), cluster.Service(pod.namespace, "none", ()),
        cluster.Service("other", "front", (("own", "1"),)), cluster.Service(pod.namespace, "db", (("app", "db"),)),
    ]  # fmt: skip
    made.demands.put_services(services, NOW_S)
    assert group() == {"app": "web"}
    made.demands.put_service(cluster.Service(pod.namespace, "front", (("tier", "front"),)), NOW_S)
    assert group() == {"app": "web", "tier": "front"}, "all Services that select it, as in kube-scheduler"
    made.demands.remove_service(pod.namespace, "web", NOW_S)
    assert group() == {"tier": "front"}
    made.demands.put_services([], NOW_S)
    assert group() == {}


def test_services_change_nothing_unless_it_is_on() -> None:
    kept = default_spread.DefaultSpread(is_on=False)
    assert not kept.put(cluster.Service("default", "web", (("app", "web"),)))
    assert kept.constraints_of(objects.make_pod(labels=LABELS)) is None


def services_on(
    recovered: float, rules: policy.Policy, *, replicas: int = 3, before: tuple[int, int] = (0, 0)
) -> list[int]:  # fmt: skip
    """How many new replicas of each of three services a node with so much room gets, next to two with room for 5.

    `before`: how many replicas of each service these two have already.
    """
    made = state.State(rules, random.Random(0))
    for name, room in (("a", 5.0), ("b", 5.0), ("recovered", recovered)):
        made.put_node(objects.make_node(name, labels={"kubernetes.io/hostname": name}))
        heard = node_state.Heard(advertisement=objects.make_advertisement(name, room), sampled_s=NOW_S)
        made.put_advertisement(heard, NOW_S)
    for service in "xyz":
        owner = cluster.Owner(kind="ReplicaSet", name=service, uid=service)
        for node, count in zip("ab", before, strict=True):
            for index in range(count):
                pod = objects.make_pod(f"{node}-{service}-{index}", owner=owner, labels={"app": service})
                made.put_pod(pod._replace(node_name=node), NOW_S)
        for index in range(replicas):
            made.put_pod(objects.make_pod(f"{service}-{index}", owner=owner, labels={"app": service}), NOW_S)
    outcome = cycle.Cycle(made.fleet.policy).run(made.fleet.snapshot(NOW_S), made.queue, most=100)
    assert len(outcome.placed) == 3 * replicas
    here = [each.waiting.pod.name[0] for each in outcome.placed if each.row.node.name == "recovered"]
    return [here.count(service) for service in "xyz"]


def test_a_node_that_has_recovered_is_not_filled_with_the_replicas_of_one_service() -> None:
    by_default = policy.Policy()
    assert max(services_on(10.0, by_default)) == 2
    assert services_on(8.0, by_default) == [1, 1, 1]
    # Whatever its room: no third replica there while another node has none.
    assert max(services_on(20.0, by_default)) == 2
    assert services_on(60.0, by_default) == [2, 2, 2]
    assert services_on(1000.0, by_default) == [2, 2, 2]
    # Where each of the others has a replica already, three of six.
    assert services_on(60.0, by_default, before=(2, 1)) == [3, 3, 3]
    # A large service may use a large node: four there, next to one on each of the others.
    assert services_on(60.0, by_default, replicas=6) == [4, 4, 4]
    assert max(services_on(10.0, policy.Policy(default_spread=False))) == 3


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(
    # All Pods would fit on one node, unless it has no room at all; no node takes more than 64.
    rooms=st.lists(st.sampled_from([0.0, 12.0, 30.0, 60.0]), min_size=2, max_size=6),
    before=st.lists(st.integers(0, 3), min_size=6, max_size=6), replicas=st.integers(1, 8),
)  # fmt: skip
def test_a_node_gets_no_replica_while_it_has_more_than_twice_those_of_the_emptiest_and_one(
    rooms: list[float], before: list[int], replicas: int
) -> None:
    """Whatever its room, as that of a node that has recovered, next to all nodes that have room."""
    made = state.State(policy.Policy(), random.Random(0))
    counts: dict[str, int] = {}
    for index, (room, count) in enumerate(zip(rooms, before, strict=False)):
        name = f"node-{index}"
        made.put_node(objects.make_node(name, labels={"kubernetes.io/hostname": name}))
        heard = node_state.Heard(advertisement=objects.make_advertisement(name, room), sampled_s=NOW_S)
        made.put_advertisement(heard, NOW_S)
        for number in range(count):
            pod = objects.make_pod(f"web-{name}-{number}", owner=OWNER, labels=LABELS, node_name=name)
            made.put_pod(pod, NOW_S)
        if room:
            counts[name] = count
    for index in range(replicas):
        made.put_pod(objects.make_pod(f"web-{index}", owner=OWNER, labels=LABELS), NOW_S)
    outcome = cycle.Cycle(made.fleet.policy).run(made.fleet.snapshot(NOW_S), made.queue, most=100)
    assert len(outcome.placed) == (replicas if counts else 0)
    for each in outcome.placed:
        chosen = each.row.node.name
        assert counts[chosen] <= 2 * min(counts.values()) + 1
        counts[chosen] += 1


def test_a_profile_that_ignores_preferences_ignores_spreads() -> None:
    ignoring = policy.Policy(profiles={"carico": policy.Profile(lean=0.0)})
    assert services_on(60.0, ignoring) == [3, 3, 3]
