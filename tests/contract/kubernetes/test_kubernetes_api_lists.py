"""Lists: selectors, pages."""

from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=web", {"a"}),
        ("tier==web", {"a"}),
        ("tier!=web", {"b", "c"}),
        ("tier", {"a", "b"}),
        ("!tier", {"c"}),
        ("tier in (web, db)", {"a", "b"}),
        ("tier notin (web)", {"b", "c"}),
        ("tier,rank>1", {"b"}),
        ("rank<2", {"a"}),
        ("tier=web,rank=1", {"a"}),
    ],
)
def test_label_selectors(kube_api: KubeApi, namespace: str, selector: str, expected: set[str]) -> None:
    for name, labels in (("a", {"tier": "web", "rank": "1"}), ("b", {"tier": "db", "rank": "2"}), ("c", {})):
        kube_api.request("POST", shapes.pods(namespace), shapes.pod(name, labels=labels))
    found = kube_api.request("GET", shapes.pods(namespace), labelSelector=selector).body
    assert found["kind"] == "PodList"
    assert {item["metadata"]["name"] for item in found["items"]} == expected


def test_field_selectors(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod("a", nodeName="there"))
    kube_api.request("POST", shapes.pods(namespace), shapes.pod("b", schedulerName="other"))

    def names(selector: str) -> set[str]:
        found = kube_api.request("GET", "/api/v1/pods", fieldSelector=f"{selector},metadata.namespace={namespace}")
        return {item["metadata"]["name"] for item in found.body["items"]}

    assert names("spec.nodeName=there") == {"a"}
    assert names("spec.nodeName=") == {"b"}
    assert names("spec.schedulerName!=other") == {"a"}
    assert names("status.phase=Pending") == {"a", "b"}
    assert names("metadata.name=b") == {"b"}


@pytest.mark.parametrize("query", [{"fieldSelector": "spec.colour=red"}, {"labelSelector": "a=(b"}, {"limit": "many"}])
def test_queries_that_cannot_be_read_are_refused(kube_api: KubeApi, namespace: str, query: dict[str, Any]) -> None:
    assert kube_api.request("GET", shapes.pods(namespace), **query).code == 400


def test_pages_of_a_list_are_of_one_revision(kube_api: KubeApi, namespace: str) -> None:
    for number in range(5):
        kube_api.request("POST", shapes.pods(namespace), shapes.pod(f"p{number}"))
    first = kube_api.request("GET", shapes.pods(namespace), limit=2).body
    assert [item["metadata"]["name"] for item in first["items"]] == ["p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 3
    kube_api.request("DELETE", shapes.pods(namespace, "p3"), gracePeriodSeconds=0)
    kube_api.request("POST", shapes.pods(namespace), shapes.pod("p9"))
    names, token = [], first["metadata"]["continue"]
    while token:
        page = kube_api.request("GET", shapes.pods(namespace), **{"limit": 2, "continue": token}).body
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert names == ["p2", "p3", "p4"]


def test_list_items_do_not_repeat_their_kind(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    assert "kind" not in kube_api.request("GET", shapes.pods(namespace)).body["items"][0]
