"""ConfigMaps and Secrets: what is kept of what is sent, what is refused, and who may read them."""

import base64
import json
from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import Answer, KubeApi
from tests.tools import waiting


def path(namespace: str, kind: str, *rest: str) -> str:
    return "/".join((f"/api/v1/namespaces/{namespace}/{kind}", *rest))


def spelled(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def make(api: KubeApi, namespace: str, kind: str, **body: Any) -> Answer:
    return api.request("POST", path(namespace, kind), {"metadata": {"name": "o"}} | body)


def fields(refused: Answer) -> set[str]:
    assert (refused.code, refused.body["reason"]) == (422, "Invalid"), refused.body
    return {cause.get("field", "") for cause in refused.body["details"]["causes"]}


def test_string_data_becomes_data(kube_api: KubeApi, namespace: str) -> None:
    made = make(kube_api, namespace, "secrets", data={"a": spelled("1"), "b": spelled("2")}, stringData={"b": "two"})
    assert made.code == 201
    assert (made.body["kind"], made.body["type"]) == ("Secret", "Opaque")
    assert made.body["data"] == {"a": spelled("1"), "b": spelled("two")}
    assert "stringData" not in made.body
    body = {"stringData": {"c": "3"}}
    changed = kube_api.request("PATCH", path(namespace, "secrets", "o"), body, content_type=shapes.MERGE)
    assert changed.body["data"] == {"a": spelled("1"), "b": spelled("two"), "c": spelled("3")}
    assert "stringData" not in kube_api.request("GET", path(namespace, "secrets", "o")).body


def test_config_maps_keep_texts_and_binaries(kube_api: KubeApi, namespace: str) -> None:
    made = make(kube_api, namespace, "configmaps", data={"a": "1"}, binaryData={"b": "/w\n=="})
    assert (made.body["data"], made.body["binaryData"]) == ({"a": "1"}, {"b": "/w=="})
    emptied = kube_api.request(
        "PUT", path(namespace, "configmaps", "o"), {"metadata": {"name": "o"}, "data": {}, "binaryData": {}}
    ).body
    assert not {"data", "binaryData"} & emptied.keys()


def test_invalid_base64_is_refused(kube_api: KubeApi, namespace: str) -> None:
    for value in ("not base64!", "YQ", 5):
        refused = make(kube_api, namespace, "secrets", data={"a": value})
        assert (refused.code, refused.body["reason"]) == (400, "BadRequest"), refused.body
    assert "illegal base64 data at input byte 3" in make(
        kube_api, namespace, "secrets", data={"a": "not base64!"}
    ).body["message"]  # fmt: skip


@pytest.mark.parametrize("key", ["a b", "a/b", "..", "..x", "", "k" * 254])
def test_keys_of_config_maps_and_secrets_are_checked(kube_api: KubeApi, namespace: str, key: str) -> None:
    assert f"data[{key}]" in fields(make(kube_api, namespace, "configmaps", data={key: "1"}))
    assert f"data[{key}]" in fields(make(kube_api, namespace, "secrets", stringData={key: "1"}))


def test_a_key_is_either_in_data_or_in_binary_data(kube_api: KubeApi, namespace: str) -> None:
    refused = make(kube_api, namespace, "configmaps", data={"k": "1"}, binaryData={"k": "/w=="})
    assert fields(refused) == {"data[k]"}


def test_config_maps_and_secrets_have_a_size_limit(kube_api: KubeApi, namespace: str) -> None:
    text = "x" * (1024 * 1024)
    assert fields(make(kube_api, namespace, "configmaps", data={"k": text + "x"})) == {"[]"}
    assert fields(make(kube_api, namespace, "secrets", stringData={"k": text + "x"})) == {"data"}
    assert make(kube_api, namespace, "secrets", stringData={"k": text}).code == 201


def test_the_type_of_a_secret_is_kept(kube_api: KubeApi, namespace: str) -> None:
    body = make(kube_api, namespace, "secrets", type="example.com/mine", stringData={"a": "1"}).body
    assert body["type"] == "example.com/mine"
    refused = kube_api.request("PUT", path(namespace, "secrets", "o"), body | {"type": "Opaque"})
    assert fields(refused) == {"type"}


@pytest.mark.parametrize("kind", ["configmaps", "secrets"])
def test_immutable_objects_cannot_be_changed(kube_api: KubeApi, namespace: str, kind: str) -> None:
    value = "1" if kind == "configmaps" else spelled("1")
    body = make(kube_api, namespace, kind, data={"a": value}).body
    body = kube_api.request("PUT", path(namespace, kind, "o"), body | {"immutable": True}).body
    refused = kube_api.request("PUT", path(namespace, kind, "o"), body | {"data": {"b": value}, "immutable": False})
    assert fields(refused) == {"data", "immutable"}
    assert fields(kube_api.request("PUT", path(namespace, kind, "o"), body | {"data": {}})) == {"data"}
    body["metadata"]["labels"] = {"may": "change"}
    assert kube_api.request("PUT", path(namespace, kind, "o"), body).code == 200
    gone = kube_api.request("DELETE", path(namespace, kind, "o"))
    assert (gone.code, gone.body["kind"], gone.body["details"]["kind"]) == (200, "Status", kind)


def test_secrets_are_chosen_by_their_type(kube_api: KubeApi, namespace: str) -> None:
    make(kube_api, namespace, "secrets", type="example.com/mine")
    found = kube_api.request("GET", path(namespace, "secrets"), fieldSelector="type=example.com/mine").body
    assert [item["metadata"]["name"] for item in found["items"]] == ["o"]
    assert not kube_api.request("GET", path(namespace, "secrets"), fieldSelector="type=Opaque").body["items"]


@pytest.mark.parametrize(
    ("kind", "columns", "cells"),
    [
        ("configmaps", ["Name", "Data", "Age"], ["o", 2]),
        ("secrets", ["Name", "Type", "Data", "Age"], ["o", "Opaque", 2]),
    ],
)
def test_tables_count_keys_and_show_none(
    kube_api: KubeApi, namespace: str, kind: str, columns: list[str], cells: list[Any]
) -> None:
    make(kube_api, namespace, kind, data={"a": spelled("hidden"), "b": ""})
    table = kube_api.request("GET", path(namespace, kind), accept=shapes.TABLE, fieldSelector="metadata.name=o").body
    assert [column["name"] for column in table["columnDefinitions"]] == columns
    assert table["rows"][0]["cells"][:-1] == cells
    assert spelled("hidden") not in json.dumps(table)


def test_a_watch_reports_changes(kube_api: KubeApi, namespace: str) -> None:
    version = kube_api.request("GET", path(namespace, "configmaps")).body["metadata"]["resourceVersion"]
    with kube_api.watch(
        path(namespace, "configmaps"), resourceVersion=version, fieldSelector="metadata.name=o"
    ) as events:
        make(kube_api, namespace, "configmaps", data={"a": "1"})
        kube_api.request(
            "PATCH", path(namespace, "configmaps", "o"), {"data": {"a": "2"}}, content_type=shapes.STRATEGIC
        )
        told = [next(events) for _ in range(2)]
    assert [(event["type"], event["object"]["data"]["a"]) for event in told] == [("ADDED", "1"), ("MODIFIED", "2")]


def test_variables_name_a_key(kube_api: KubeApi, namespace: str) -> None:
    body = shapes.pod()
    body["spec"]["containers"][0] |= {
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "o", "key": ""}}}],
        "envFrom": [{"configMapRef": {"name": ""}}],
    }
    assert fields(kube_api.request("POST", path(namespace, "pods"), body)) >= {
        "spec.containers[0].env[0].valueFrom.secretKeyRef.key", "spec.containers[0].envFrom[0].configMapRef.name",
    }  # fmt: skip


# The embedded API knows one user.
@pytest.mark.parametrize("kube_api", ["real"], indirect=True, scope="session")
def test_a_node_may_read_what_its_own_pods_name(kube_api: KubeApi, namespace: str) -> None:
    """The right that an emulated node's identity needs."""
    for name in ("named", "other"):
        kube_api.request("POST", path(namespace, "configmaps"), {"metadata": {"name": name}})
    body = shapes.pod(nodeName="reader", volumes=[{"name": "v", "configMap": {"name": "named"}}])
    assert kube_api.request("POST", path(namespace, "pods"), body).code == 201

    def code(*rest: str) -> int:
        who = {"Impersonate-User": "system:node:reader", "Impersonate-Group": "system:nodes"}
        headers = who | {"Authorization": f"Bearer {kube_api.token}"}
        address = kube_api.url + path(namespace, "configmaps", *rest)
        return int(kube_api.pool.request("GET", address, headers=headers, timeout=60.0).status)

    waiting.until_now(lambda: code("named") == 200)
    assert (code("other"), code()) == (403, 403)
