"""Pods of one owner, or of one template where owners are generated, are one class."""

from typing import Any

import pytest

from carico_core.domain import cluster, names
from carico_core.wire import fields
from tests.unit.scheduler import objects

HASH = {"pod-template-hash": "5d4f8c7b6"}


def owned(kind: str, name: str, **changes: Any) -> cluster.Pod:
    return objects.make_pod(owner=cluster.Owner(kind=kind, name=name, uid="1"), **changes)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (owned("Job", "pi"), "Job/default/pi"),
        (owned("ReplicaSet", "web-5d4f8c7b6", labels=HASH), "ReplicaSet/default/web"),
        (
            owned("ReplicaSet", "web-5d4f8c7b6", labels={"pod-template-hash": "other"}),
            "ReplicaSet/default/web-5d4f8c7b6",
        ),
        (owned("Rollout", "a-long-name", labels=HASH), "Rollout/default/a-long-name"),
        (owned("StatefulSet", "db"), "StatefulSet/default/db"),
        (owned("Job", "backup-28391040"), "Job/default/backup"),
        (owned("Workflow", "train-x7k2p"), "Workflow/default/train"),
        (owned("Job", "step-10"), "Job/default/step-10"),
        (objects.make_pod(image="registry/pi:1"), "image/default/registry/pi:1"),
        (objects.make_pod(labels={"app.kubernetes.io/name": "pi"}), "app/default/pi"),
    ],
)
def test_class_of(pod: cluster.Pod, expected: str) -> None:
    assert names.class_of(pod) == expected


def test_pods_of_two_namespaces_are_never_of_one_class() -> None:
    """Otherwise one tenant could choose what the Pods of another are thought to need."""
    victim = objects.make_pod(namespace="victim", image="library/nginx")
    same_image = objects.make_pod(namespace="library", image="library/nginx")
    owner = cluster.Owner(kind="image/victim", name="nginx", uid="u")
    forged = objects.make_pod(namespace="library", owner=owner)
    assert len({names.class_of(each) for each in (victim, same_image, forged)}) == 3


@pytest.mark.parametrize("kind", ["K" * 505, "K" * 5000, "\u4e2d" * 5000, "/" * 600])
def test_a_class_keeps_its_namespace_whatever_its_owner_is(kind: str) -> None:
    """Of too many classes those of the namespace with most give way: nobody may count as another one."""
    assert names.namespace_of(names.class_of(owned(kind, "web", namespace="shop-evil"))) == "shop-evil"


def test_a_class_has_a_bounded_name() -> None:
    assert len(names.class_of(objects.make_pod(image="x" * 5000))) == names.CLASS_MAX
    assert names.CLASS_MAX <= fields.CLASS_NAME_MAX, "else every reader of the bus would refuse it"


@pytest.mark.parametrize("text", ["\N{SLIGHTLY SMILING FACE}", "\x01", "\u4e2d", "a\u0301"])
def test_the_name_of_a_class_is_bounded_in_bytes(text: str) -> None:
    """An advertisement names 48 classes that others run: with longer names no node could advertise any more."""
    found = names.class_of(owned("Job", text * 5000))
    assert names.CLASS_MAX - 4 <= len(found.encode()) <= names.CLASS_MAX
    assert found.isprintable()


@pytest.mark.parametrize("text", ["a\tb", "a\u200bb", "a\x1b[2J"])
def test_a_class_has_a_printable_name(text: str) -> None:
    for pod in (objects.make_pod(image=text), owned(text, "pi"), owned("Job", text)):
        found = names.class_of(pod)
        assert found.isprintable() and "\ufffd" in found, "else every reader of the bus would refuse the message"


def test_of_too_many_classes_each_namespace_keeps_some() -> None:
    pods = {f"Job/many/{number:03}": 9 for number in range(600)} | {"Job/shop/web": 1, "Job/shop/cart": 2, "*": 3}
    kept = names.largest(pods, 512)
    assert len(kept) == 512 and {"Job/shop/web", "Job/shop/cart", "*"} <= set(kept)
    # While all have room, and among those of one namespace, only Pods count.
    assert names.largest(pods, 1000) == sorted(pods, key=lambda name: (-pods[name], name))
    assert names.largest({"Job/a/x": 1, "Job/a/y": 2, "Job/a/z": 2}, 2) == ["Job/a/y", "Job/a/z"]
    # What no longer runs makes room for what does, whoever's it is.
    assert names.largest({"Job/a/x": 2, "Job/a/y": 1, "Job/b/z": 0}, 2) == ["Job/a/x", "Job/a/y"]
