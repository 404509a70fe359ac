"""VerticalPodAutoscaler objects as records: whom they name, which class they mean, and policies."""

import re
from typing import Any

import pytest

from carico_core.domain import cluster, names
from carico_core.wire.kubernetes import api_objects
from carico_recommender.vpa import objects
from tests.unit.recommender import learnt


@pytest.mark.parametrize("spec", [{}, {"recommenders": []}, {"recommenders": [{"name": "other"}]}, {"recommenders": 3}])
def test_an_object_for_another_recommender_is_left_alone(spec: dict[str, Any]) -> None:
    obj = learnt.vpa() | {"spec": {"targetRef": {"kind": "Deployment", "name": "web"}, **spec}}
    assert objects.parse(obj, recommender="carico") is None


def pod(owner: str, name: str, labels: dict[str, str]) -> cluster.Pod:
    return api_objects.parse_pod(
        {
            "metadata": {
                "namespace": "shop", "name": "p", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": labels,
                "ownerReferences": [{"controller": True, "kind": owner, "name": name, "uid": "o"}],
            },
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "owner"),
    [
        ("Deployment", "web", pod("ReplicaSet", "web-5d9c7", {"pod-template-hash": "5d9c7"})),
        ("Deployment", "web-2026010203", pod("ReplicaSet", "web-2026010203-5d9c7", {"pod-template-hash": "5d9c7"})),
        ("ReplicaSet", "bare-x7k2q", pod("ReplicaSet", "bare-x7k2q", {})),
        ("StatefulSet", "db", pod("StatefulSet", "db", {})),
        ("CronJob", "backup", pod("Job", "backup-28391040", {})),
        ("CronJob", "nightly-20260102", pod("Job", "nightly-20260102-28391040", {})),
        ("Job", "pi-x7k2q", pod("Job", "pi-x7k2q", {})),
        ("ReplicationController", "rc", pod("ReplicationController", "rc", {})),
    ],
)
def test_the_class_of_a_target_is_that_of_its_pods(kind: str, name: str, owner: cluster.Pod) -> None:
    assert objects.class_of_target("shop", {"kind": kind, "name": name}) == names.class_of(owner)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"kind": "DaemonSet"}, r"got DaemonSet, expected one of CronJob, .*node's own load"),
        ({"kind": "Rollout"}, "got Rollout, expected one of"),
        ({"name": ""}, r"spec\.targetRef\.name: missing"),
    ],
)
def test_a_target_without_a_class_is_a_fault(target: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        objects.class_of_target("shop", {"kind": "Deployment", "name": "web"} | target)
    assert learnt.autoscaler(**target).fault


def test_policies_hold_for_their_container_or_for_all_others() -> None:
    found = learnt.autoscaler(
        {"containerName": "proxy", "mode": "Off"},
        {"containerName": "*", "minAllowed": {"cpu": "100m"}, "maxAllowed": {"memory": "1Gi"}},
    )
    assert found.policy("proxy").is_off
    assert (found.policy("main").least, found.policy("main").most) == ({"cpu": 0.1}, {"memory": 2.0**30})
    assert learnt.autoscaler().policy("main") == objects.NO_POLICY


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}}, r"\[0\]\.minAllowed\.cpu of \* is above"),
        ({"minAllowed": {"cpu": "lots"}}, r"minAllowed\.cpu: got 'lots'"),
        ({"controlledResources": "cpu"}, r"controlledResources: got str"),
    ],
)
def test_a_policy_that_cannot_hold_is_a_fault(policy: dict[str, Any], expected: str) -> None:
    assert re.search(expected, learnt.autoscaler(policy).fault)


def test_a_maximum_of_zero_is_none_as_in_vpa() -> None:
    assert not learnt.autoscaler({"minAllowed": {"cpu": "1"}, "maxAllowed": {"cpu": "0"}}).fault
