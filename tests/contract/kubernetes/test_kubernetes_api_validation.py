"""What is refused of a body, and which field is named."""

from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi


def test_a_pod_in_an_absent_namespace_is_refused(kube_api: KubeApi) -> None:
    assert kube_api.request("POST", shapes.pods("absent"), shapes.pod()).code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"spec": {"containers": []}}, "spec.containers"),
        ({"spec": {}}, "spec.containers"),
        ({"metadata": {"name": "Not_A_Name"}}, "metadata.name"),
        ({"spec": {"containers": [{"name": "a"}]}}, "spec.containers[0].image"),
        (
            {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]}},
            "spec.containers[1].name",
        ),
        ({"spec": {"containers": [{"name": "a", "image": "i"}], "restartPolicy": "Once"}}, "spec.restartPolicy"),
        ({"metadata": {"name": "ok", "labels": {"a": "not a value"}}}, "metadata.labels"),
    ],
)
def test_rules_that_are_broken_are_named(
    kube_api: KubeApi, namespace: str, change: dict[str, object], field: str
) -> None:
    refused = kube_api.request("POST", shapes.pods(namespace), shapes.pod() | change)
    assert (refused.code, refused.body["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in refused.body["details"]["causes"]}


_BROKEN = [
    (
        {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]},
        "spec.containers[0].resources.requests",
    ),
    ({"containers": [{"name": "a", "image": "i", "env": [{"name": "A=B"}]}]}, "spec.containers[0].env[0].name"),
    (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        "spec.topologySpreadConstraints[0].maxSkew",
    ),
    (
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Maybe"}]},
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
    ),
    (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
    ),
    (
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
                    }
                }
            }
        },
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        ".matchExpressions[0].operator",
    ),
    (
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"a": "b"}}}]
                }
            }
        },
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
    ),
    (
        {
            "affinity": {
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "podAffinityTerm": {"topologyKey": "z", "labelSelector": {}}}
                    ]
                }
            }
        },
        "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
    ),
]


@pytest.mark.parametrize(("spec", "field"), _BROKEN, ids=[field.rpartition(".")[2] for _, field in _BROKEN])
def test_invalid_placement_preferences_are_refused(
    kube_api: KubeApi, namespace: str, spec: dict[str, Any], field: str
) -> None:
    refused = kube_api.request("POST", shapes.pods(namespace), shapes.pod(**spec))
    assert (refused.code, refused.body["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in refused.body["details"]["causes"]}


def test_a_pod_of_an_unknown_priority_class_is_refused(kube_api: KubeApi, namespace: str) -> None:
    refused = kube_api.request("POST", shapes.pods(namespace), shapes.pod("p", priorityClassName="idle"))
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    assert 'pods "p" is forbidden: no PriorityClass with name idle was found' in refused.body["message"]


def test_finalizers_have_a_domain(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    body["metadata"]["finalizers"] = ["hold"]
    refused = kube_api.request("POST", shapes.pods(namespace), body)
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "metadata.finalizers[0]")


def test_taints_are_unique(kube_api: KubeApi, node: str) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    path = f"/api/v1/nodes/{node}"
    refused = kube_api.request("PATCH", path, {"spec": {"taints": [taint, taint]}}, content_type=shapes.MERGE)
    assert (refused.code, refused.body["details"]["causes"][0]["reason"]) == (422, "FieldValueDuplicate")
    changed = [{**taint, "effect": "NoExecute"}, taint]
    assert kube_api.request("PATCH", path, {"spec": {"taints": changed}}, content_type=shapes.MERGE).code == 200


def test_scheduling_gates_can_only_be_removed(kube_api: KubeApi, namespace: str, node: str) -> None:
    made = kube_api.request(
        "POST", shapes.pods(namespace), shapes.pod(schedulingGates=[{"name": "example.com/wait"}])
    ).body
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", node)).code == 409
    more = {"spec": {"schedulingGates": [{"name": "example.com/more"}]}}
    refused = kube_api.request("PATCH", shapes.pods(namespace, "p"), more, content_type=shapes.STRATEGIC)
    assert refused.code == 422, refused.body
    none = {"spec": {"schedulingGates": None}}
    assert kube_api.request("PATCH", shapes.pods(namespace, "p"), none, content_type=shapes.MERGE).code == 200
    assert kube_api.request("POST", shapes.pods(namespace, "p", "binding"), shapes.binding("p", node)).code == 201


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"reason": "R" * 129}, "reason"),
        ({"note": "n" * 1025}, "message"),
        ({"type": "Odd"}, "type"),
        ({"action": ""}, "action"),
        ({"reportingInstance": ""}, "reportingInstance"),
        ({"reportingController": ""}, "reportingController"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_new_events_need_all_required_fields(
    kube_api: KubeApi, namespace: str, change: dict[str, Any], field: str
) -> None:
    event = {
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "namespace": namespace, "name": "p"}, "reason": "Bound",
        "type": "Normal", "action": "Binding", "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "contract.example/test", "reportingInstance": "one",
    }  # fmt: skip
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    refused = kube_api.request("POST", path, event | change)
    assert refused.code == 422
    assert field in {cause["field"] for cause in refused.body["details"]["causes"]}
    assert kube_api.request("POST", path, event).code == 201


def test_micro_times_have_six_digits(kube_api: KubeApi, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15}
    for time, code in (("2026-01-01T00:00:00Z", 400), ("2026-01-01T00:00:00.5Z", 400),
                       ("2026-01-01T00:00:00.500000Z", 201)):  # fmt: skip
        body = {"metadata": {"name": "l"}, "spec": {**spec, "renewTime": time}}
        assert kube_api.request("POST", path, body).code == code


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b'{"metadata": 5}',
        b'{"metadata": {"name": "a"}, "spec": []}',
        b'{"metadata": {"name": "a", "labels": {"x": 1}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}',
        b'{"metadata": {"name": "a"}, "spec": {"containers": [null]}}',
        b'{"metadata": {"name": "a"}, "spec": {"containers": "c"}}',
        b'{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}',
        b'{"metadata": {"name": "a"}, "spec": {"nodeName": NaN}}',
        b"\xff\xfe",
    ],
)
def test_malformed_bodies_are_refused_by_a_status(kube_api: KubeApi, namespace: str, raw: bytes) -> None:
    refused = kube_api.request("POST", shapes.pods(namespace), raw=raw)
    assert refused.code in (400, 415, 422), refused.body
    assert refused.body["kind"] == "Status"
    assert refused.body["status"] == "Failure"


def test_unknown_fields_vanish_with_a_warning(kube_api: KubeApi, namespace: str) -> None:
    made = kube_api.request("POST", shapes.pods(namespace), shapes.pod(colour="red"))
    assert made.code == 201
    assert "colour" not in made.body["spec"]
    assert "spec.colour" in made.headers["Warning"]
    strict = kube_api.request("POST", shapes.pods(namespace), shapes.pod("q", colour="red"), fieldValidation="Strict")
    assert strict.code == 400
    assert 'unknown field "spec.colour"' in strict.body["message"]
