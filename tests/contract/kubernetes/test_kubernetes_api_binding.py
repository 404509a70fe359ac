"""Binding Pods once, and deleting them gracefully."""

import concurrent.futures
import functools
from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi
from tests.tools import waiting


def bound(api: KubeApi, namespace: str, node: str, **spec: Any) -> dict[str, dict[str, str]]:
    """A Pod with a node, as it was created.

    kube-apiserver begins a delete with the Pod of its watch cache: one without a node is deleted without a grace
    period, even though the binding is stored already. So the cache must have the binding.
    """
    pod: dict[str, dict[str, str]] = api.request("POST", shapes.pods(namespace), shapes.pod(**spec)).body
    assert api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", node)).code == 201
    cached = functools.partial(api.request, "GET", shapes.pods(namespace, "p"), resourceVersion="0")
    waiting.until_now(lambda: cached().body["spec"].get("nodeName") == node)
    return pod


def test_a_binding_sets_node_condition_and_annotations(kube_api: KubeApi, namespace: str, node: str) -> None:
    pod = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    binding = shapes.binding("p", node, uid=pod["metadata"]["uid"], annotations={"carico.dev/decision": "7"})
    answer = kube_api.request("POST", shapes.pods(namespace, "p", "binding"), binding)
    assert (answer.code, answer.body["status"]) == (201, "Success")
    after = kube_api.request("GET", shapes.pods(namespace, "p")).body
    assert after["spec"]["nodeName"] == node
    assert after["metadata"]["annotations"]["carico.dev/decision"] == "7"
    conditions = {item["type"]: item["status"] for item in after["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


def test_a_bindings_annotations_join_the_pods_in_the_write_that_gives_it_its_node(
    kube_api: KubeApi, namespace: str, node: str
) -> None:
    body = shapes.pod()
    body["metadata"]["annotations"] = {"example.com/own": "kept", "example.com/by": "of another Pod"}
    since = kube_api.request("POST", shapes.pods(namespace), body).body["metadata"]["resourceVersion"]
    binding = shapes.binding("p", node, annotations={"example.com/by": "00000000000000a1-7"})
    assert kube_api.request("POST", shapes.pods(namespace, "p", "binding"), binding).code == 201
    # As an agent sees it, who follows the Pods of its node: not there, and then there with both.
    selected = {"fieldSelector": f"spec.nodeName={node}", "resourceVersion": since}
    with kube_api.watch(shapes.pods(namespace), **selected) as events:
        shown = next(events)
    assert (shown["type"], shown["object"]["spec"]["nodeName"]) == ("ADDED", node)
    assert shown["object"]["metadata"]["annotations"] == {
        "example.com/own": "kept", "example.com/by": "00000000000000a1-7"
    }  # fmt: skip


def test_a_second_bind_is_refused(kube_api: KubeApi, namespace: str, node: str) -> None:
    bound(kube_api, namespace, node)
    for target in (node, "another"):
        refused = kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", target))
        assert (refused.code, refused.body["reason"]) == (409, "Conflict")
        assert f'pod p is already assigned to node "{node}"' in refused.body["message"]


def test_of_many_binds_at_once_one_wins(kube_api: KubeApi, namespace: str, node: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())

    def bind(_: int) -> int:
        return kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", node)).code

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        codes = list(threads.map(bind, range(16)))
    assert sorted(codes) == [201] + [409] * 15


def test_a_bind_of_another_uid_is_refused(kube_api: KubeApi, namespace: str, node: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    binding = shapes.binding("p", node, uid="00000000-0000-0000-0000-000000000000")
    refused = kube_api.request("POST", shapes.pods(namespace, "p", "binding"), binding)
    assert refused.code == 409
    assert "UID in precondition" in refused.body["message"]
    assert "nodeName" not in kube_api.request("GET", shapes.pods(namespace, "p")).body["spec"]


def test_invalid_bindings_are_refused(kube_api: KubeApi, namespace: str, node: str) -> None:
    assert kube_api.request("POST", shapes.pods(namespace, "none", "binding"), shapes.binding("none", node)).code == 404
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    # kube-apiserver wraps this validation error in a 500.
    nowhere = kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", ""))
    assert nowhere.code in (422, 500)
    assert "Required value" in nowhere.body["message"]
    assert kube_api.request("POST", shapes.pods(namespace, "p", "binding"), raw=b"{").code == 400


def test_a_pod_without_a_node_goes_at_once(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    assert kube_api.request("DELETE", shapes.pods(namespace, "p")).code == 200
    assert kube_api.request("GET", shapes.pods(namespace, "p")).code == 404


def test_a_bound_pod_waits_for_its_kubelet(kube_api: KubeApi, namespace: str, node: str) -> None:
    uid = bound(kube_api, namespace, node)["metadata"]["uid"]
    going = kube_api.request("DELETE", shapes.pods(namespace, "p"), gracePeriodSeconds=20).body
    assert going["metadata"]["deletionGracePeriodSeconds"] == 20
    assert going["metadata"]["deletionTimestamp"]
    again = kube_api.request("DELETE", shapes.pods(namespace, "p")).body
    assert again["metadata"]["resourceVersion"] == going["metadata"]["resourceVersion"]
    shorter = kube_api.request("DELETE", shapes.pods(namespace, "p"), gracePeriodSeconds=5).body
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    assert shorter["metadata"]["deletionTimestamp"] < going["metadata"]["deletionTimestamp"]
    forced = {"gracePeriodSeconds": 0, "preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    assert kube_api.request("DELETE", shapes.pods(namespace, "p"), forced).code == 409
    forced["preconditions"] = {"uid": uid}
    assert kube_api.request("DELETE", shapes.pods(namespace, "p"), forced).code == 200
    assert kube_api.request("GET", shapes.pods(namespace, "p")).code == 404


def test_the_specs_grace_period_is_the_default(kube_api: KubeApi, namespace: str, node: str) -> None:
    bound(kube_api, namespace, node, terminationGracePeriodSeconds=7)
    going = kube_api.request("DELETE", shapes.pods(namespace, "p")).body
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(kube_api: KubeApi, namespace: str, node: str, phase: str) -> None:
    bound(kube_api, namespace, node)
    kube_api.request(
        "PATCH", shapes.pods(namespace, "p", "status"), {"status": {"phase": phase}}, content_type=shapes.MERGE
    )
    kube_api.request("DELETE", shapes.pods(namespace, "p"))
    assert kube_api.request("GET", shapes.pods(namespace, "p")).code == 404


def test_a_pod_being_deleted_is_not_bound(kube_api: KubeApi, namespace: str, node: str) -> None:
    body = shapes.pod()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    kube_api.request("POST", shapes.pods(namespace), body)
    kube_api.request("DELETE", shapes.pods(namespace, "p"))
    refused = kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", node))
    assert (refused.code, "being deleted" in refused.body["message"]) == (409, True)
    kube_api.request(
        "PATCH", shapes.pods(namespace, "p"), {"metadata": {"finalizers": None}}, content_type=shapes.MERGE
    )
    assert kube_api.request("GET", shapes.pods(namespace, "p")).code == 404


def test_an_eviction_is_a_graceful_delete(kube_api: KubeApi, namespace: str, node: str) -> None:
    bound(kube_api, namespace, node)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}}
    answer = kube_api.request("POST", shapes.pods(namespace, "p", "eviction"), eviction)
    assert (answer.code, answer.body["status"]) == (201, "Success")
    assert kube_api.request("GET", shapes.pods(namespace, "p")).body["metadata"]["deletionGracePeriodSeconds"] == 30


def test_a_collection_is_deleted_by_selector(kube_api: KubeApi, namespace: str) -> None:
    for name, labels in (("a", {"job": "x"}), ("b", {"job": "x"}), ("c", {"job": "y"})):
        kube_api.request("POST", shapes.pods(namespace), shapes.pod(name, labels=labels))
    assert kube_api.request("DELETE", shapes.pods(namespace), labelSelector="job=x").code == 200
    left = kube_api.request("GET", shapes.pods(namespace)).body["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


def test_a_delete_names_a_policy_that_there_is(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    refused = kube_api.request("DELETE", shapes.pods(namespace, "p"), {"propagationPolicy": "Sometimes"})
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "propagationPolicy")
    assert kube_api.request("DELETE", shapes.pods(namespace, "p"), {"propagationPolicy": "Background"}).code == 200


def test_deletes_of_other_kinds_answer_with_a_status(kube_api: KubeApi) -> None:
    kube_api.request("POST", "/api/v1/nodes", {"metadata": {"name": "leaving"}})
    answer = kube_api.request("DELETE", "/api/v1/nodes/leaving")
    assert (answer.code, answer.body["kind"], answer.body["details"]["name"]) == (200, "Status", "leaving")


def test_a_huge_grace_period_is_accepted(kube_api: KubeApi, namespace: str, node: str) -> None:
    bound(kube_api, namespace, node)
    for grace_s, codes in ((2**62, {200}), (2**63, {400})):
        assert kube_api.request("DELETE", shapes.pods(namespace, "p"), {"gracePeriodSeconds": grace_s}).code in codes
    assert kube_api.request("GET", shapes.pods(namespace, "p")).body["metadata"]["deletionTimestamp"]
