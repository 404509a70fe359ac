"""Objects of the API as the rescheduler reads them, and the new Pod of a move as the scheduler reads it."""

from typing import Any

import pytest

from carico_core.domain import names
from carico_core.wire.kubernetes import api_objects
from carico_rescheduler.context import objects
from carico_rescheduler.moves import surge_pod

REPLICA_SET: dict[str, Any] = {
    "metadata": {"namespace": "default", "name": "web-5d9c7b8f6d", "uid": "uid-rs"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web", "pod-template-hash": "5d9c7b8f6d"}},
        "template": {
            "metadata": {"labels": {"app": "web", "pod-template-hash": "5d9c7b8f6d"}, "annotations": {"a": "b"}},
            "spec": {"schedulerName": "carico", "containers": [{"name": "main", "image": "web"}]},
        },
    },
}


def made(**affinity: Any) -> dict[str, Any]:
    """The new Pod of a move, as the API stores it."""
    template = REPLICA_SET["spec"]["template"]
    spec = {**template["spec"], **({"affinity": {"nodeAffinity": affinity}} if affinity else {})}
    changed = {**REPLICA_SET, "spec": {**REPLICA_SET["spec"], "template": {**template, "spec": spec}}}
    body = surge_pod.body(changed, old_uid="uid-old", source="node-a", target="node-b", why="less traffic")
    body["metadata"] |= {"uid": "uid-new", "creationTimestamp": "2025-01-01T00:00:00Z"}
    return body


def test_the_scheduler_takes_a_new_pod_for_one_of_its_replica_set_that_preempts_none() -> None:
    pod = api_objects.parse_pod(made())
    assert names.class_of(pod) == "ReplicaSet/default/web"
    assert pod.owner is not None and pod.owner.uid == "uid-rs" and not pod.preempts
    assert pod.constraints is not None and pod.constraints.node_terms is not None
    assert [term.matches("node-b", {}) for term in pod.constraints.node_terms] == [True]
    assert not any(term.matches("node-a", {}) for term in pod.constraints.node_terms)


def test_a_replica_set_does_not_select_a_new_pod_and_services_do() -> None:
    labels = made()["metadata"]["labels"]
    assert not REPLICA_SET["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert {"app": "web"}.items() <= labels.items()
    # The template itself is not changed.
    assert "pod-template-hash" in REPLICA_SET["spec"]["template"]["metadata"]["labels"]


def test_required_terms_of_the_template_hold_besides_the_node() -> None:
    disk = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    fast = {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}
    body = made(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": [disk, fast]})
    limits = api_objects.parse_pod(body).constraints
    assert limits is not None and limits.node_terms is not None

    def fits(node: str, **labels: str) -> bool:
        return any(term.matches(node, labels) for term in limits.node_terms or ())

    assert fits("node-b", disk="ssd") and fits("node-b", fast="")
    assert not fits("node-b") and not fits("node-a", disk="ssd")


def test_a_new_pod_is_known_by_its_marks() -> None:
    found = objects.parse_pod(made())
    assert found.is_surge and found.replaces == "uid-old" and found.moved_at_s is None
    assert found.annotations[objects.REASON] == "less traffic" and made()["metadata"]["annotations"]["a"] == "b"


@pytest.mark.parametrize(
    ("volume", "is_local"),
    [
        ({"emptyDir": {}}, True), ({"emptyDir": None}, True), ({"hostPath": {"path": "/x"}}, True),
        ({"emptyDir": {"medium": "Memory"}}, False), ({"configMap": {"name": "x"}}, False),
    ],
)  # fmt: skip
def test_volumes_on_the_node_are_local(volume: dict[str, Any], is_local: bool) -> None:
    body = made()
    body["spec"]["volumes"] = [{"name": "cache", **volume}]
    assert objects.parse_pod(body).local_volume == ("cache" if is_local else "")


@pytest.mark.parametrize(
    ("status", "part"),
    [
        ({"observedGeneration": 1}, "not observed yet"),
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 3}, "1 of 3 replicas are"),
        ({"observedGeneration": 2, "replicas": 4, "updatedReplicas": 3, "availableReplicas": 3}, "rolled out"),
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}, "2 of 3 replicas are"),
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}, ""),
    ],
)
def test_a_deployment_at_rest_has_all_replicas_of_its_newest_template(status: dict[str, int], part: str) -> None:
    found = objects.parse_deployment(
        {
            "metadata": {"namespace": "default", "name": "web", "uid": "u", "generation": 2},
            "spec": {"replicas": 3}, "status": status,
        }
    )  # fmt: skip
    assert bool(found.unsettled) is bool(part) and part in found.unsettled


@pytest.mark.parametrize(
    ("strategy", "recreates"), [({"type": "Recreate"}, True), ({"type": "RollingUpdate"}, False), (None, False)]
)
def test_a_deployment_says_whether_it_recreates(strategy: dict[str, str] | None, recreates: bool) -> None:
    metadata = {"namespace": "default", "name": "web", "uid": "u"}
    assert objects.parse_deployment({"metadata": metadata, "spec": {"strategy": strategy}}).recreates is recreates


def test_only_a_deployment_is_one() -> None:
    owner = {"kind": "Rollout", "name": "web", "uid": "u", "controller": True}
    found = objects.parse_replica_set({"metadata": {**REPLICA_SET["metadata"], "ownerReferences": [owner]}, "spec": {}})
    assert (found.owner, found.deployment, found.replicas) == ("Rollout", "", 1)
