"""What clients read apart from objects: discovery, OpenAPI, Tables, health, the logs of a kubelet."""

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(kube_api: KubeApi, path: str) -> None:
    answer = kube_api.request("GET", path, accept="*/*")
    assert (answer.code, answer.body) == (200, "ok")


def test_version_names_a_release(kube_api: KubeApi) -> None:
    body = kube_api.request("GET", "/version").body
    assert body["major"] == "1"
    assert body["gitVersion"].startswith("v1.")


def test_discovery_lists_what_is_served(kube_api: KubeApi) -> None:
    assert "v1" in kube_api.request("GET", "/api").body["versions"]
    groups = {group["name"] for group in kube_api.request("GET", "/apis").body["groups"]}
    assert {"coordination.k8s.io", "events.k8s.io"} <= groups
    core = {item["name"]: item for item in kube_api.request("GET", "/api/v1").body["resources"]}
    assert {"pods", "pods/status", "pods/binding", "pods/log", "pods/eviction", "nodes", "namespaces"} <= set(core)
    assert core["pods"]["shortNames"] == ["po"]
    assert {"watch", "patch", "deletecollection"} <= set(core["pods"]["verbs"])
    leases = kube_api.request("GET", "/apis/coordination.k8s.io/v1").body
    assert leases["groupVersion"] == "coordination.k8s.io/v1"


def test_discovery_in_one_document(kube_api: KubeApi) -> None:
    body = kube_api.request("GET", "/api", accept=f"{AGGREGATED},application/json").body
    assert body["kind"] == "APIGroupDiscoveryList"
    served = {entry["resource"] for version in body["items"][0]["versions"] for entry in version["resources"]}
    assert {"pods", "nodes", "events"} <= served


def test_openapi_describes_pods_and_how_their_lists_merge(kube_api: KubeApi) -> None:
    index = kube_api.request("GET", "/openapi/v3").body["paths"]
    address = index["api/v1"]["serverRelativeURL"].partition("?")[0]
    schemas = kube_api.request("GET", address).body["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    kinds = schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"]
    assert {"group": "", "version": "v1", "kind": "Pod"} in kinds


def test_tables_of_pods(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    table = kube_api.request("GET", shapes.pods(namespace), accept=shapes.TABLE).body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    row = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert (row["Name"], row["Ready"], row["Status"]) == ("p", "0/1", "Pending")
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/namespaces", "/api/v1/events"])
def test_tables_of_other_kinds(kube_api: KubeApi, path: str, node: str) -> None:
    table = kube_api.request("GET", path, accept=f"{shapes.TABLE},application/json").body
    assert table["kind"] == "Table"
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])


def test_a_running_pod_reads_running_in_a_watched_table(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    version = kube_api.request("GET", shapes.pods(namespace)).body["metadata"]["resourceVersion"]
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": state}
    status = {"phase": "Running", "containerStatuses": [container]}
    with kube_api.watch(shapes.pods(namespace), accept=shapes.TABLE, resourceVersion=version) as events:
        kube_api.request("PATCH", shapes.pods(namespace, "p", "status"), {"status": status}, content_type=shapes.MERGE)
        event = next(events)
    assert (event["type"], event["object"]["kind"]) == ("MODIFIED", "Table")
    assert event["object"]["rows"][0]["cells"][:3] == ["p", "1/1", "Running"]


def test_what_cannot_be_given_is_not_acceptable(kube_api: KubeApi, namespace: str) -> None:
    answer = kube_api.request("GET", shapes.pods(namespace), accept="application/x-unheard-of")
    assert (answer.code, answer.body["reason"]) == (406, "NotAcceptable")


def test_verbs_that_are_not_served(kube_api: KubeApi, namespace: str) -> None:
    assert kube_api.request("PUT", shapes.pods(namespace), shapes.pod()).code == 405


def test_bodies_in_another_format_are_refused(kube_api: KubeApi, namespace: str) -> None:
    refused = kube_api.request("POST", shapes.pods(namespace), raw=b"a: b", content_type="text/plain")
    assert (refused.code, refused.body["reason"]) == (415, "UnsupportedMediaType")


def test_a_body_too_large_is_refused(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    body["metadata"]["annotations"] = {"a": "x" * 4_000_000}
    assert kube_api.request("POST", shapes.pods(namespace), body).code == 413


def test_logs_come_from_the_kubelet(kube_api: KubeApi, namespace: str, kubelet: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", kubelet))
    answer = kube_api.request("GET", shapes.pods(namespace, "p", "log"), accept="*/*", tailLines=2)
    assert (answer.code, answer.body) == (200, f"/containerLogs/{namespace}/p/main?tailLines=2\nlast line\n")
    assert answer.headers.get("Content-Type", "").startswith("text/plain")
    assert kube_api.request("GET", shapes.pods(namespace, "p", "log"), container="other").code == 400
    assert kube_api.request("GET", shapes.pods(namespace, "none", "log")).code == 404


def test_logs_of_a_node_that_does_not_answer(kube_api: KubeApi, namespace: str, node: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", node))
    answer = kube_api.request("GET", shapes.pods(namespace, "p", "log"))
    assert answer.code >= 400
    assert answer.body["kind"] == "Status"
