"""Server-side apply, bodies in YAML, and the two views of an Event."""

import json
from typing import Any

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import Answer, KubeApi

APPLY = "application/apply-patch+yaml"
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {LABELS}
spec:
  schedulerName: contract
  containers:
    - name: main
      image: example.invalid/image:1
      env: [{ENV}]
"""


def manifest(labels: str = "a: one", env: str = "") -> bytes:
    return POD.replace("LABELS", labels).replace("{ENV}", env).encode()


def apply(api: KubeApi, namespace: str, raw: bytes, *, manager: str = "m", **query: Any) -> Answer:
    return api.request(
        "PATCH", shapes.pods(namespace, "p"), raw=raw, content_type=APPLY, **({"fieldManager": manager} | query)
    )


def test_apply_creates_then_joins_and_takes_back_what_it_no_longer_states(kube_api: KubeApi, namespace: str) -> None:
    made = apply(kube_api, namespace, manifest("a: one, b: two"))
    assert made.code == 201, made.body
    assert made.body["metadata"]["labels"] == {"a": "one", "b": "two"}
    kube_api.request(
        "PATCH", shapes.pods(namespace, "p"), {"metadata": {"labels": {"c": "3"}}}, content_type=shapes.MERGE
    )
    again = apply(kube_api, namespace, manifest("a: other"))
    assert again.code == 200, again.body
    # Not what somebody else has put there.
    assert again.body["metadata"]["labels"] == {"a": "other", "c": "3"}
    assert again.body["spec"]["containers"][0]["image"] == "example.invalid/image:1"


def test_an_apply_that_changes_nothing_is_no_write(kube_api: KubeApi, namespace: str) -> None:
    first = apply(kube_api, namespace, manifest()).body["metadata"]
    second = apply(kube_api, namespace, manifest()).body["metadata"]
    assert first["resourceVersion"] == second["resourceVersion"]


def test_managed_fields_name_the_applier_and_its_fields(kube_api: KubeApi, namespace: str) -> None:
    metadata = apply(kube_api, namespace, manifest(), manager="mine").body["metadata"]
    (entry,) = [each for each in metadata["managedFields"] if each["manager"] == "mine"]
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Apply", "v1", "FieldsV1")
    assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {"f:a": {}}}
    container = entry["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"main"}']
    assert {".", "f:name", "f:image"} <= container.keys()
    # An update by anybody leaves them there.
    path = shapes.pods(namespace, "p")
    kube_api.request("PATCH", path, {"metadata": {"labels": {"c": "3"}}}, content_type=shapes.MERGE)
    kept = kube_api.request("GET", path).body["metadata"]["managedFields"]
    assert entry in kept


def test_two_appliers_of_one_field_conflict_unless_one_insists(kube_api: KubeApi, namespace: str) -> None:
    apply(kube_api, namespace, manifest("a: one"), manager="first")
    refused = apply(kube_api, namespace, manifest("a: two"), manager="second")
    assert (refused.code, refused.body["reason"]) == (409, "Conflict")
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "first": .metadata.labels.a'
    assert refused.body["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    same = apply(kube_api, namespace, manifest("a: one"), manager="second")
    assert same.code == 200, same.body
    forced = apply(kube_api, namespace, manifest("a: two"), manager="second", force="true")
    assert forced.body["metadata"]["labels"] == {"a": "two"}
    # Taken over: the first one may state it no more than the second.
    back = apply(kube_api, namespace, manifest("a: one"), manager="first")
    assert back.code == 409


def test_apply_needs_a_manager_a_kind_and_no_fields_of_others(kube_api: KubeApi, namespace: str) -> None:
    path = shapes.pods(namespace, "p")
    nobody = kube_api.request("PATCH", path, raw=manifest(), content_type=APPLY)
    assert nobody.code == 422
    assert "fieldManager" in nobody.body["message"]
    assert apply(kube_api, namespace, b"metadata: {name: p}").code == 400
    assert apply(kube_api, namespace, b"a: [").code == 400
    owned = b"{apiVersion: v1, kind: Pod, metadata: {name: p, managedFields: [{manager: x}]}}"
    assert apply(kube_api, namespace, owned).code == 400


def test_a_dry_apply_keeps_nothing(kube_api: KubeApi, namespace: str) -> None:
    assert apply(kube_api, namespace, manifest(), dryRun="All").code == 201
    assert kube_api.request("GET", shapes.pods(namespace, "p")).code == 404


def test_bodies_in_yaml_are_read(kube_api: KubeApi, namespace: str) -> None:
    # A label that looks like a time is text.
    made = kube_api.request(
        "POST", shapes.pods(namespace), raw=manifest('a: "2026-01-01"'), content_type="application/yaml"
    )
    assert made.code == 201, made.body
    assert made.body["metadata"]["labels"] == {"a": "2026-01-01"}
    made.body["metadata"]["labels"] = {"b": "two"}
    raw = json.dumps(made.body).encode()  # JSON is YAML
    put = kube_api.request("PUT", shapes.pods(namespace, "p"), raw=raw, content_type="application/yaml")
    assert put.code == 200, put.body
    assert put.body["metadata"]["labels"] == {"b": "two"}


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
