"""The class of a Pod, read alone, is that of the whole Pod."""

from typing import Any

import pytest

from carico_core.domain import names
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes.pods import pod_class


def pod(**metadata: Any) -> dict[str, Any]:
    named = {"name": "p", "namespace": "shop", "uid": "u", "creationTimestamp": "2025-01-01T00:00:00Z"}
    return {"metadata": {**named, **metadata}, "spec": {"containers": [{"name": "c", "image": "registry/web:1"}]}}


def owned(kind: str, name: str, *, controller: bool = True) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": name, "uid": "o", "controller": controller}]


HASH = {"pod-template-hash": "5d4f8c7b6"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(), "image/shop/registry/web:1"),
        (pod(labels={"app.kubernetes.io/name": "web"}), "app/shop/web"),
        (pod(ownerReferences=owned("ReplicaSet", "web-5d4f8c7b6"), labels=HASH), "ReplicaSet/shop/web"),
        (
            pod(ownerReferences=owned("ReplicaSet", "web-5d4f8c7b6", controller=False), labels=HASH),
            "ReplicaSet/shop/web",
        ),
        (pod(ownerReferences=owned("Job", "web-5d4f8c7b6", controller=False)), "image/shop/registry/web:1"),
        (pod(ownerReferences=owned("Job", "night-28391040")), "Job/shop/night"),
        ({**pod(), "spec": {"containers": []}}, "image/shop/"),
    ],
)  # fmt: skip
def test_the_class_is_that_of_the_whole_pod(found: dict[str, Any], expected: str) -> None:
    assert pod_class.parse_class(found) == names.class_of(api_objects.parse_pod(found)) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": {}}, pod(labels=[]), pod(labels={"a": 1}), pod(ownerReferences={}), {**pod(), "spec": []},
        pod(ownerReferences=[{"controller": True}]), {**pod(), "spec": {"containers": [{"image": 1}]}},
    ],
)  # fmt: skip
def test_what_is_no_pod_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"metadata|spec"):
        pod_class.parse_class(wrong)
