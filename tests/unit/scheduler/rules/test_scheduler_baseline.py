"""Who belongs to its node: by what the API server vouches for, and nothing that a tenant may write."""

import random
from typing import Any

import pytest

from carico_core.domain import cluster
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.decide import cycle
from carico_scheduler.rules import admission, policy
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

NOW_S = 1000.0
FORGED: dict[str, dict[str, Any]] = {
    "label": {"labels": {"carico.dev/baseline": "true"}},
    "source": {"annotations": {"kubernetes.io/config.source": "file"}},
    "mirror": {"annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x"}},
    "daemon": {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "no", "controller": True}]},
}


def site() -> state.State:
    """Two nodes with room for 2 Pods each."""
    made = state.State(policy.Policy(), random.Random(0))
    for name in ("node-0", "node-1"):
        made.put_node(objects.make_node(name))
        heard = node_state.Heard(advertisement=objects.make_advertisement(name, 2.0), sampled_s=NOW_S)
        made.put_advertisement(heard, NOW_S)
    return made


@pytest.mark.parametrize("kind", FORGED)
def test_what_a_tenant_writes_on_a_pod_frees_it_from_nothing(kind: str) -> None:
    made = site()
    for number in range(80):
        obj = objects.pod_object(f"p{number}")
        obj["metadata"] |= {"uid": f"u{number}"} | FORGED[kind]
        made.put_pod(api_objects.parse_pod(obj), NOW_S)
    cycles, placed = cycle.Cycle(made.fleet.policy), 0
    for _ in range(3):
        for each in cycles.run(made.fleet.snapshot(NOW_S), made.queue, most=100).placed:
            attempt = made.assume(each.waiting, each.row.node.name, NOW_S)
            made.confirm(each.waiting.pod.uid, attempt)
            made.put_pod(each.waiting.pod._replace(node_name=each.row.node.name, phase="Running"), NOW_S)
            placed += 1
    assert placed == 4


def daemon(name: str = "agent", **changes: Any) -> cluster.Pod:
    owner = cluster.Owner(kind="DaemonSet", name="agent", uid="ds")
    return objects.make_pod(name, owner=owner, node_name="node-0", scheduler_name="default-scheduler", **changes)


def test_pods_of_a_daemon_set_belong_to_their_node_while_it_exists() -> None:
    made = site()
    made.put_pod(daemon(), NOW_S)

    def reserved() -> int:
        return made.fleet.row(0).reserved

    assert reserved() == 1
    made.demands.put_daemon_sets([cluster.DaemonSet(namespace="default", uid="ds")], NOW_S)
    assert (reserved(), made.fleet.row(0).placed, made.fleet.row(0).workloads) == (0, 1, 0)
    made.put_pod(daemon("second"), NOW_S)
    assert reserved() == 0
    made.demands.remove_daemon_set("ds", NOW_S)
    assert reserved() == 2
    made.demands.put_daemon_set(cluster.DaemonSet(namespace="default", uid="ds"), NOW_S)
    assert reserved() == 0
    made.demands.put_daemon_sets([], NOW_S)
    assert reserved() == 2


def test_only_a_daemon_set_of_the_pods_namespace_and_uid_counts() -> None:
    rule = admission.Baseline(frozenset({"kube-system"}))
    assert rule.put(cluster.DaemonSet(namespace="default", uid="ds"))
    assert not rule.put(cluster.DaemonSet(namespace="default", uid="ds"))
    assert rule.includes(daemon())
    assert not rule.includes(daemon(namespace="other"))
    assert not rule.includes(daemon()._replace(owner=cluster.Owner(kind="DaemonSet", name="agent", uid="older")))
    assert not rule.includes(daemon()._replace(owner=cluster.Owner(kind="ReplicaSet", name="agent", uid="ds")))
    assert rule.includes(objects.make_pod(namespace="kube-system"))
    assert rule.includes(objects.make_pod(is_mirror=True))
    assert not rule.includes(objects.make_pod())
    assert rule.remove("ds")
    assert not rule.remove("ds")


def placed_on(made: state.State) -> list[str]:
    outcome = cycle.Cycle(made.fleet.policy).run(made.fleet.snapshot(NOW_S), made.queue, most=100)
    return [each.row.node.name for each in outcome.placed]


def test_a_waiting_pod_of_a_daemon_set_waits_for_no_room_and_no_ready_node() -> None:
    made = state.State(policy.Policy(names=frozenset({"default-scheduler"})), random.Random(0))
    made.put_node(objects.make_node("node-0", ready=False))
    made.put_pod(daemon()._replace(node_name=None), NOW_S)
    assert placed_on(made) == [], "nothing advertises, and the DaemonSet is not known yet"
    made.demands.put_daemon_set(cluster.DaemonSet(namespace="default", uid="ds"), NOW_S)
    assert placed_on(made) == ["node-0"]


def test_a_waiting_pod_of_a_daemon_set_needs_what_it_requests() -> None:
    made = state.State(policy.Policy(names=frozenset({"default-scheduler"})), random.Random(0))
    made.demands.put_daemon_set(cluster.DaemonSet(namespace="default", uid="ds"), NOW_S)
    made.put_node(objects.make_node("node-0", allocatable_cores=1.0))
    made.put_pod(daemon(request_cores=2.0)._replace(node_name=None), NOW_S)
    assert placed_on(made) == []
    made.put_node(objects.make_node("node-0", allocatable_cores=2.0))
    assert placed_on(made) == ["node-0"], "the change of the node opens its lane"


def test_a_waiting_pod_that_is_no_longer_of_a_daemon_set_waits_for_room() -> None:
    made = state.State(policy.Policy(names=frozenset({"default-scheduler"})), random.Random(0))
    made.demands.put_daemon_set(cluster.DaemonSet(namespace="default", uid="ds"), NOW_S)
    made.put_node(objects.make_node("node-0"))
    made.put_pod(daemon()._replace(node_name=None), NOW_S)
    made.demands.remove_daemon_set("ds", NOW_S)
    assert placed_on(made) == []
