"""Patches of the two kinds that kubectl and our clients use."""

from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import Answer, KubeApi


def patch_status(api: KubeApi, namespace: str, status: Any, kind: str = shapes.STRATEGIC) -> Any:
    answer = api.request("PATCH", shapes.pods(namespace, "p", "status"), {"status": status}, content_type=kind)
    assert answer.code == 200, answer.body
    return answer.body["status"]


def patch(api: KubeApi, namespace: str, body: Any, kind: str) -> Answer:
    return api.request("PATCH", shapes.pods(namespace, "p"), body, content_type=kind)


def test_merge_patch_sets_and_removes(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod(labels={"a": "1", "b": "2"}))
    answer = patch(kube_api, namespace, {"metadata": {"labels": {"a": None, "c": "3"}}}, shapes.MERGE)
    assert answer.body["metadata"]["labels"] == {"b": "2", "c": "3"}


def test_strategic_patch_joins_conditions_by_type(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    patch_status(kube_api, namespace, {"conditions": [{"type": "Ready", "status": "False"}]})
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True", "reason": "Up"}]
    status = patch_status(kube_api, namespace, {"phase": "Running", "conditions": conditions})
    assert status["phase"] == "Running"
    found = {item["type"]: item["status"] for item in status["conditions"]}
    assert found == {"Ready": "True", "Initialized": "True"}
    status = patch_status(kube_api, namespace, {"conditions": [{"type": "Ready", "$patch": "delete"}]})
    assert [item["type"] for item in status["conditions"]] == ["Initialized"]


def test_merge_patch_replaces_lists_whole(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    patch_status(kube_api, namespace, {"conditions": [{"type": "A", "status": "True"}]}, shapes.MERGE)
    status = patch_status(kube_api, namespace, {"conditions": [{"type": "B", "status": "True"}]}, shapes.MERGE)
    assert [item["type"] for item in status["conditions"]] == ["B"]


def test_strategic_patch_reaches_containers_by_name(kube_api: KubeApi, namespace: str) -> None:
    two = [{"name": "a", "image": "example.invalid/a:1"}, {"name": "b", "image": "example.invalid/b:1"}]
    kube_api.request("POST", shapes.pods(namespace), shapes.pod(containers=two))
    body = {"spec": {"containers": [{"name": "b", "image": "example.invalid/b:2"}]}}
    answer = patch(kube_api, namespace, body, shapes.STRATEGIC)
    assert answer.code == 200
    images = [item["image"] for item in answer.body["spec"]["containers"]]
    assert images == ["example.invalid/a:1", "example.invalid/b:2"]


def test_strategic_patch_of_container_statuses_is_atomic(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())

    def state(name: str) -> dict[str, Any]:
        return {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0}

    patch_status(kube_api, namespace, {"containerStatuses": [state("main")]})
    status = patch_status(kube_api, namespace, {"containerStatuses": [state("other")]})
    assert [item["name"] for item in status["containerStatuses"]] == ["other"]


def test_strategic_patch_treats_finalizers_as_a_set(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    body["metadata"]["finalizers"] = ["example.com/a"]
    kube_api.request("POST", shapes.pods(namespace), body)
    added = patch(kube_api, namespace, {"metadata": {"finalizers": ["example.com/b"]}}, shapes.STRATEGIC)
    assert set(added.body["metadata"]["finalizers"]) == {"example.com/a", "example.com/b"}
    removal = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    assert patch(kube_api, namespace, removal, shapes.STRATEGIC).body["metadata"]["finalizers"] == ["example.com/b"]
    patch(kube_api, namespace, {"metadata": {"finalizers": None}}, shapes.MERGE)


def test_strategic_patch_replaces_on_a_directive(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod(labels={"a": "1", "b": "2"}))
    body = {"metadata": {"labels": {"$patch": "replace", "c": "3"}}}
    assert patch(kube_api, namespace, body, shapes.STRATEGIC).body["metadata"]["labels"] == {"c": "3"}


def test_a_patch_can_assume_a_version(kube_api: KubeApi, namespace: str) -> None:
    made = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    body = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"a": "1"}}}
    assert patch(kube_api, namespace, body, shapes.MERGE).code == 200
    body["metadata"]["labels"] = {"a": "2"}
    assert patch(kube_api, namespace, body, shapes.MERGE).code == 409


def test_a_patch_does_not_reach_another_pod_of_the_name(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    body = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"phase": "Failed"}}
    for kind in (shapes.STRATEGIC, shapes.MERGE):
        refused = kube_api.request("PATCH", shapes.pods(namespace, "p", "status"), body, content_type=kind)
        assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "metadata.uid")
    assert kube_api.request("GET", shapes.pods(namespace, "p")).body["status"]["phase"] == "Pending"


def test_a_patch_does_not_move_a_pod(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    assert patch(kube_api, namespace, {"spec": {"nodeName": "elsewhere"}}, shapes.STRATEGIC).code == 422
    assert patch(kube_api, namespace, {"metadata": {"name": "q"}}, shapes.MERGE).code == 400


@pytest.mark.parametrize(
    ("kind", "raw", "codes"),
    [
        (shapes.MERGE, b"[]", {400}),
        (shapes.MERGE, b"{", {400}),
        (shapes.MERGE, b'{"metadata": 5}', {422}),
        (shapes.STRATEGIC, b'{"spec": {"containers": [{"image": "no-name"}]}}', {400, 422, 500}),
        (shapes.STRATEGIC, b'{"spec": {"containers": "c"}}', {422}),
        ("text/plain", b"{}", {415}),
    ],
)
def test_malformed_patches_are_refused(
    kube_api: KubeApi, namespace: str, kind: str, raw: bytes, codes: set[int]
) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    refused = kube_api.request("PATCH", shapes.pods(namespace, "p"), raw=raw, content_type=kind)
    assert refused.code in codes, refused.body
    assert refused.body["kind"] == "Status"


def test_a_nodes_status_and_spec_are_patched_apart(kube_api: KubeApi, node: str) -> None:
    path = f"/api/v1/nodes/{node}"
    body = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "4", "pods": "110"}}}
    cordoned = kube_api.request("PATCH", path, body, content_type=shapes.STRATEGIC).body
    assert cordoned["spec"]["unschedulable"] is True
    assert "capacity" not in cordoned.get("status", {})
    reported = kube_api.request("PATCH", f"{path}/status", body, content_type=shapes.STRATEGIC).body
    assert reported["status"]["capacity"] == {"cpu": "4", "pods": "110"}
