"""Creating, reading, listing and updating objects."""

from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi


def pods(namespace: str, *rest: str) -> str:
    return "/".join((f"/api/v1/namespaces/{namespace}/pods", *rest))


def test_a_new_pod_has_identity_and_defaults(kube_api: KubeApi, namespace: str) -> None:
    made = kube_api.request("POST", pods(namespace), shapes.pod())
    assert made.code == 201
    metadata, spec, status = made.body["metadata"], made.body["spec"], made.body["status"]
    assert made.body["kind"] == "Pod"
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["creationTimestamp"].endswith("Z")
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["terminationGracePeriodSeconds"]) == (
        "Always",
        "ClusterFirst",
        30,
    )
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert spec["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    assert {toleration["key"] for toleration in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }
    assert (status["phase"], status["qosClass"]) == ("Pending", "BestEffort")


def test_the_default_scheduler_is_named_where_none_is(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    del body["spec"]["schedulerName"]
    assert kube_api.request("POST", pods(namespace), body).body["spec"]["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": "100m"}}, "Burstable"),
        ({"limits": {"cpu": 1, "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_quality_of_service_follows_from_resources(
    kube_api: KubeApi, namespace: str, resources: dict[str, object], expected: str
) -> None:
    body = shapes.pod()
    body["spec"]["containers"][0]["resources"] = resources
    made = kube_api.request("POST", pods(namespace), body).body
    assert made["status"]["qosClass"] == expected
    assert all(
        isinstance(v, str) for side in made["spec"]["containers"][0]["resources"].values() for v in side.values()
    )


def test_generate_name_makes_distinct_names(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    body["metadata"] = {"generateName": "batch-"}
    names = {kube_api.request("POST", pods(namespace), body).body["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("batch-") and len(name) == 11 for name in names)


def test_a_second_pod_of_the_name_is_refused(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", pods(namespace), shapes.pod())
    refused = kube_api.request("POST", pods(namespace), shapes.pod())
    assert (refused.code, refused.body["reason"]) == (409, "AlreadyExists")
    assert refused.body["details"] == {"name": "p", "kind": "pods"}


def test_what_is_not_there_is_a_404_status(kube_api: KubeApi, namespace: str) -> None:
    missing = kube_api.request("GET", pods(namespace, "none"))
    assert (missing.code, missing.body["kind"], missing.body["reason"]) == (404, "Status", "NotFound")
    assert missing.body["message"] == 'pods "none" not found'
    assert kube_api.request("GET", "/api/v1/nonsense").code == 404
    assert kube_api.request("GET", f"/api/v1/namespaces/{namespace}/nonsense").code == 404


def test_a_pod_in_an_absent_namespace_is_refused(kube_api: KubeApi) -> None:
    assert kube_api.request("POST", pods("absent"), shapes.pod()).code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"spec": {"containers": []}}, "spec.containers"),
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
    refused = kube_api.request("POST", pods(namespace), shapes.pod() | change)
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
def test_wishes_without_sense_are_refused(kube_api: KubeApi, namespace: str, spec: dict[str, Any], field: str) -> None:
    refused = kube_api.request("POST", pods(namespace), shapes.pod(**spec))
    assert (refused.code, refused.body["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in refused.body["details"]["causes"]}


def test_finalizers_have_a_domain(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    body["metadata"]["finalizers"] = ["hold"]
    refused = kube_api.request("POST", pods(namespace), body)
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "metadata.finalizers[0]")


def test_taints_are_unique(kube_api: KubeApi, node: str) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    path = f"/api/v1/nodes/{node}"
    refused = kube_api.request("PATCH", path, {"spec": {"taints": [taint, taint]}}, content_type=shapes.MERGE)
    assert (refused.code, refused.body["details"]["causes"][0]["reason"]) == (422, "FieldValueDuplicate")
    changed = [{**taint, "effect": "NoExecute"}, taint]
    assert kube_api.request("PATCH", path, {"spec": {"taints": changed}}, content_type=shapes.MERGE).code == 200


def test_gates_may_go_and_not_come(kube_api: KubeApi, namespace: str, node: str) -> None:
    made = kube_api.request("POST", pods(namespace), shapes.pod(schedulingGates=[{"name": "example.com/wait"}])).body
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert kube_api.request("POST", pods(namespace, "p", "binding"), shapes.binding("p", node)).code == 409
    more = {"spec": {"schedulingGates": [{"name": "example.com/more"}]}}
    refused = kube_api.request("PATCH", pods(namespace, "p"), more, content_type=shapes.STRATEGIC)
    assert refused.code == 422, refused.body
    none = {"spec": {"schedulingGates": None}}
    assert kube_api.request("PATCH", pods(namespace, "p"), none, content_type=shapes.MERGE).code == 200
    assert kube_api.request("POST", pods(namespace, "p", "binding"), shapes.binding("p", node)).code == 201


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
def test_new_events_say_all_that_they_must(
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
    refused = kube_api.request("POST", pods(namespace), raw=raw)
    assert refused.code in (400, 415, 422), refused.body
    assert refused.body["kind"] == "Status"
    assert refused.body["status"] == "Failure"


def test_unknown_fields_vanish_with_a_warning(kube_api: KubeApi, namespace: str) -> None:
    made = kube_api.request("POST", pods(namespace), shapes.pod(colour="red"))
    assert made.code == 201
    assert "colour" not in made.body["spec"]
    assert "spec.colour" in made.headers["Warning"]
    strict = kube_api.request("POST", pods(namespace), shapes.pod("q", colour="red"), fieldValidation="Strict")
    assert strict.code == 400
    assert 'unknown field "spec.colour"' in strict.body["message"]


def test_a_dry_run_leaves_nothing(kube_api: KubeApi, namespace: str) -> None:
    assert kube_api.request("POST", pods(namespace), shapes.pod(), dryRun="All").code == 201
    assert kube_api.request("GET", pods(namespace, "p")).code == 404


def test_put_replaces_only_the_version_it_read(kube_api: KubeApi, namespace: str) -> None:
    first = kube_api.request("POST", pods(namespace), shapes.pod()).body
    first["metadata"]["labels"] = {"a": "1"}
    assert kube_api.request("PUT", pods(namespace, "p"), first).code == 200
    stale = kube_api.request("PUT", pods(namespace, "p"), first)
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in stale.body["message"]


def test_put_of_another_uid_is_refused(kube_api: KubeApi, namespace: str) -> None:
    body = kube_api.request("POST", pods(namespace), shapes.pod()).body
    body["metadata"] |= {"uid": "00000000-0000-0000-0000-000000000000"}
    del body["metadata"]["resourceVersion"]
    assert kube_api.request("PUT", pods(namespace, "p"), body).code == 409


def test_a_pods_spec_is_immutable_but_for_its_images(kube_api: KubeApi, namespace: str) -> None:
    body = kube_api.request("POST", pods(namespace), shapes.pod()).body
    body["spec"]["containers"][0]["image"] = "example.invalid/image:2"
    changed = kube_api.request("PUT", pods(namespace, "p"), body)
    assert changed.code == 200
    body = changed.body
    body["spec"]["containers"][0]["command"] = ["false"]
    refused = kube_api.request("PUT", pods(namespace, "p"), body)
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "spec")


def test_status_is_written_through_its_subresource_alone(kube_api: KubeApi, namespace: str) -> None:
    body = kube_api.request("POST", pods(namespace), shapes.pod()).body
    body["status"]["phase"] = "Running"
    body["spec"]["containers"][0]["image"] = "example.invalid/image:2"
    by_main = kube_api.request("PUT", pods(namespace, "p"), body).body
    assert by_main["status"]["phase"] == "Pending"
    body["metadata"]["resourceVersion"] = by_main["metadata"]["resourceVersion"]
    body["spec"]["containers"][0]["image"] = "example.invalid/image:3"
    by_status = kube_api.request("PUT", pods(namespace, "p", "status"), body).body
    assert by_status["status"]["phase"] == "Running"
    assert by_status["spec"]["containers"][0]["image"] == "example.invalid/image:2"


def test_an_update_that_changes_nothing_keeps_the_version(kube_api: KubeApi, namespace: str) -> None:
    made = kube_api.request("POST", pods(namespace), shapes.pod()).body
    again = kube_api.request("PUT", pods(namespace, "p"), made).body
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


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
        kube_api.request("POST", pods(namespace), shapes.pod(name, labels=labels))
    found = kube_api.request("GET", pods(namespace), labelSelector=selector).body
    assert found["kind"] == "PodList"
    assert {item["metadata"]["name"] for item in found["items"]} == expected


def test_field_selectors(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", pods(namespace), shapes.pod("a", nodeName="there"))
    kube_api.request("POST", pods(namespace), shapes.pod("b", schedulerName="other"))

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
    assert kube_api.request("GET", pods(namespace), **query).code == 400


def test_pages_show_one_moment(kube_api: KubeApi, namespace: str) -> None:
    for number in range(5):
        kube_api.request("POST", pods(namespace), shapes.pod(f"p{number}"))
    first = kube_api.request("GET", pods(namespace), limit=2).body
    assert [item["metadata"]["name"] for item in first["items"]] == ["p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 3
    kube_api.request("DELETE", pods(namespace, "p3"), gracePeriodSeconds=0)
    kube_api.request("POST", pods(namespace), shapes.pod("p9"))
    names, token = [], first["metadata"]["continue"]
    while token:
        page = kube_api.request("GET", pods(namespace), **{"limit": 2, "continue": token}).body
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert names == ["p2", "p3", "p4"]


def test_list_items_do_not_repeat_their_kind(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", pods(namespace), shapes.pod())
    assert "kind" not in kube_api.request("GET", pods(namespace)).body["items"][0]


def test_leases_are_optimistic_locks(kube_api: KubeApi, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.123456Z"}
    lease = kube_api.request("POST", path, {"metadata": {"name": "leader"}, "spec": spec}).body
    assert lease["spec"]["renewTime"] == "2026-01-01T00:00:00.123456Z"
    taken = {**lease, "spec": {**spec, "holderIdentity": "b"}}
    assert kube_api.request("PUT", f"{path}/leader", taken).code == 200
    assert kube_api.request("PUT", f"{path}/leader", {**lease, "spec": {**spec, "holderIdentity": "c"}}).code == 409
    assert kube_api.request("GET", f"{path}/leader").body["spec"]["holderIdentity"] == "b"


def test_events_are_one_kind_under_two_names(kube_api: KubeApi, namespace: str) -> None:
    pod = kube_api.request("POST", pods(namespace), shapes.pod()).body
    made = kube_api.request("POST", f"/api/v1/namespaces/{namespace}/events", shapes.event("e", namespace, pod))
    assert made.code == 201
    grouped = kube_api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/e").body
    assert (grouped["apiVersion"], grouped["note"]) == ("events.k8s.io/v1", "placed by contract")
    assert grouped["regarding"]["uid"] == pod["metadata"]["uid"]
    new = {
        "metadata": {"name": "f"},
        "regarding": grouped["regarding"],
        "reason": "Bound",
        "note": "from the other side",
        "type": "Normal",
        "action": "Binding",
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "contract.example/test",
        "reportingInstance": "one",
    }
    assert kube_api.request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", new).code == 201
    found = kube_api.request(
        "GET", f"/api/v1/namespaces/{namespace}/events", fieldSelector=f"involvedObject.uid={pod['metadata']['uid']}"
    ).body
    assert {item["metadata"]["name"]: item["message"] for item in found["items"]} == {
        "e": "placed by contract",
        "f": "from the other side",
    }


def test_a_namespace_takes_its_content_along(kube_api: KubeApi) -> None:
    kube_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "passing"}})
    ended = kube_api.request("DELETE", "/api/v1/namespaces/passing")
    assert ended.code == 200
    assert ended.body["status"]["phase"] == "Terminating"
