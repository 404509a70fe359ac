"""Creating, reading and updating objects."""

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi


def test_a_new_pod_has_identity_and_defaults(kube_api: KubeApi, namespace: str) -> None:
    made = kube_api.request("POST", shapes.pods(namespace), shapes.pod())
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
    assert kube_api.request("POST", shapes.pods(namespace), body).body["spec"]["schedulerName"] == "default-scheduler"


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
    made = kube_api.request("POST", shapes.pods(namespace), body).body
    assert made["status"]["qosClass"] == expected
    assert all(
        isinstance(v, str) for side in made["spec"]["containers"][0]["resources"].values() for v in side.values()
    )


def test_generate_name_makes_distinct_names(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    body["metadata"] = {"generateName": "batch-"}
    names = {kube_api.request("POST", shapes.pods(namespace), body).body["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("batch-") and len(name) == 11 for name in names)


def test_a_second_pod_of_the_name_is_refused(kube_api: KubeApi, namespace: str) -> None:
    kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    refused = kube_api.request("POST", shapes.pods(namespace), shapes.pod())
    assert (refused.code, refused.body["reason"]) == (409, "AlreadyExists")
    assert refused.body["details"] == {"name": "p", "kind": "pods"}


def test_what_is_not_there_is_a_404_status(kube_api: KubeApi, namespace: str) -> None:
    missing = kube_api.request("GET", shapes.pods(namespace, "none"))
    assert (missing.code, missing.body["kind"], missing.body["reason"]) == (404, "Status", "NotFound")
    assert missing.body["message"] == 'pods "none" not found'
    assert kube_api.request("GET", "/api/v1/nonsense").code == 404
    assert kube_api.request("GET", f"/api/v1/namespaces/{namespace}/nonsense").code == 404


def test_a_dry_run_leaves_nothing(kube_api: KubeApi, namespace: str) -> None:
    assert kube_api.request("POST", shapes.pods(namespace), shapes.pod(), dryRun="All").code == 201
    assert kube_api.request("GET", shapes.pods(namespace, "p")).code == 404


def test_put_replaces_only_the_version_it_read(kube_api: KubeApi, namespace: str) -> None:
    first = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    first["metadata"]["labels"] = {"a": "1"}
    assert kube_api.request("PUT", shapes.pods(namespace, "p"), first).code == 200
    stale = kube_api.request("PUT", shapes.pods(namespace, "p"), first)
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    assert "the object has been modified" in stale.body["message"]


def test_put_of_another_uid_is_refused(kube_api: KubeApi, namespace: str) -> None:
    body = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    body["metadata"] |= {"uid": "00000000-0000-0000-0000-000000000000"}
    del body["metadata"]["resourceVersion"]
    assert kube_api.request("PUT", shapes.pods(namespace, "p"), body).code == 409


def test_a_pods_spec_is_immutable_but_for_its_images(kube_api: KubeApi, namespace: str) -> None:
    body = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    body["spec"]["containers"][0]["image"] = "example.invalid/image:2"
    changed = kube_api.request("PUT", shapes.pods(namespace, "p"), body)
    assert changed.code == 200
    body = changed.body
    body["spec"]["containers"][0]["command"] = ["false"]
    refused = kube_api.request("PUT", shapes.pods(namespace, "p"), body)
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (422, "spec")


def test_status_is_written_through_its_subresource_alone(kube_api: KubeApi, namespace: str) -> None:
    body = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    body["status"]["phase"] = "Running"
    body["spec"]["containers"][0]["image"] = "example.invalid/image:2"
    by_main = kube_api.request("PUT", shapes.pods(namespace, "p"), body).body
    assert by_main["status"]["phase"] == "Pending"
    body["metadata"]["resourceVersion"] = by_main["metadata"]["resourceVersion"]
    body["spec"]["containers"][0]["image"] = "example.invalid/image:3"
    by_status = kube_api.request("PUT", shapes.pods(namespace, "p", "status"), body).body
    assert by_status["status"]["phase"] == "Running"
    assert by_status["spec"]["containers"][0]["image"] == "example.invalid/image:2"


def test_an_update_that_changes_nothing_keeps_the_version(kube_api: KubeApi, namespace: str) -> None:
    made = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    again = kube_api.request("PUT", shapes.pods(namespace, "p"), made).body
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


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
    pod = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
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


def test_deleting_a_namespace_deletes_its_content(kube_api: KubeApi) -> None:
    kube_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "passing"}})
    ended = kube_api.request("DELETE", "/api/v1/namespaces/passing")
    assert ended.code == 200
    assert ended.body["status"]["phase"] == "Terminating"


def test_an_event_of_the_new_group_is_seen_through_the_old_one(kube_api: KubeApi, namespace: str) -> None:
    about = kube_api.request("POST", shapes.pods(namespace), shapes.pod()).body
    body = {
        "metadata": {"name": "e", "namespace": namespace},
        "regarding": {"kind": "Pod", "namespace": namespace, "name": "p", "uid": about["metadata"]["uid"]},
        "eventTime": "2026-01-01T00:00:00.000001Z", "reason": "Placed", "action": "Binding", "type": "Normal",
        "note": "on a node", "reportingController": "example.com/contract", "reportingInstance": "c-0",
    }  # fmt: skip
    made = kube_api.request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body)
    assert made.code == 201, made.body
    seen = kube_api.request("GET", f"/api/v1/namespaces/{namespace}/events/e").body
    # The old times are there, and empty: a writer of the new group may not set them.
    assert {"firstTimestamp": None, "lastTimestamp": None}.items() <= seen.items()
    assert (seen["eventTime"], seen["message"]) == ("2026-01-01T00:00:00.000001Z", "on a node")
    assert {"deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None}.items() <= made.body.items()
    # What kubectl prints falls back on the new time.
    table = kube_api.request("GET", f"/api/v1/namespaces/{namespace}/events", accept=shapes.TABLE).body
    (row,) = [row["cells"] for row in table["rows"] if row["cells"][2] == "Placed"]
    assert row[0] not in ("<unknown>", "")
