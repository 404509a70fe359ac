"""Image locality: the same score as kube-scheduler's, and what it changes in decisions."""

import random
from typing import Any

import numpy as np
import pytest

from carico_core.domain import cluster
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes.pods import images
from carico_scheduler.decide import cycle
from carico_scheduler.nodes import fleet
from carico_scheduler.nodes import images as node_images
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects

MB = 2**20
NOW_S = 1000.0


def image(name: str, size_mb: int) -> cluster.NodeImage:
    return cluster.NodeImage((name, f"{name}@sha256:0"), size_mb * MB)


def kube_score(wanted: cluster.Images, nodes: list[dict[str, int]], index: int) -> int:
    """kube-scheduler's score from 0 to 100, in its own integers: pkg/scheduler/framework/plugins/imagelocality."""
    total = 0
    for name in wanted.names:
        if name in nodes[index]:
            spread = sum(name in each for each in nodes) / len(nodes)
            total += int(nodes[index][name] * spread)
    most = 1000 * MB * wanted.containers
    return 100 * (max(min(total, most), 23 * MB) - 23 * MB) // (most - 23 * MB)


@pytest.mark.parametrize("seed", range(20))
def test_the_score_is_that_of_kube_scheduler(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"image-{index}:1" for index in range(6)]
    held = [{name: rng.randrange(2000) * MB for name in names if rng.random() < 0.4} for _ in range(9)]
    known = node_images.Images()
    for slot, each in enumerate(held):
        known.put(slot, [cluster.NodeImage((name,), size) for name, size in each.items()])
    containers = rng.randint(1, 3)
    wanted = cluster.Images(tuple(rng.choices(names, k=containers + rng.randint(0, 1))), containers)
    found = known.present(wanted, np.ones(len(held), dtype=np.bool_))
    expected = [kube_score(wanted, held, slot) for slot in range(len(held))]
    if found is None:
        assert max(expected) - min(expected) <= 1
    else:
        assert [round(100 * each, 6) // 1 for each in found] == pytest.approx(expected, abs=1.01)


def make_fleet(held: dict[str, list[cluster.NodeImage]], rules: policy.Policy | None = None) -> fleet.Fleet:
    made = fleet.Fleet(rules or policy.Policy())
    for name, each in held.items():
        made.put_node(objects.make_node(name, images=tuple(each)), reservations.Load())
        made.put_advertisement(objects.make_advertisement(name, 4.0), NOW_S)
    return made


def scores(made: fleet.Fleet, *names: str) -> dict[str, float]:
    """The score of each node for a Pod of these images."""
    demand = demands.demand_of(objects.make_pod(images=cluster.Images(names, len(names))))
    view = made.snapshot(NOW_S)
    found = cycle.Cycle(made.policy).explain(view, demand)
    return {name: float(found.values[slot]) for name in made.names() if (slot := made.slot_of(name)) is not None}


def test_the_node_with_a_large_image_is_preferred() -> None:
    held: dict[str, list[cluster.NodeImage]] = {"a": [], "b": [image("model:1", 2000)]}
    found = scores(make_fleet(held), "model:1")
    assert found["a"] < found["b"]
    # Half of what other preferences count, since it is the only one and nobody has asked for it.
    assert found["a"] >= 0.75 * found["b"]
    without = scores(make_fleet(held, policy.Policy(image_locality=False)), "model:1")
    assert without["a"] == without["b"]


@pytest.mark.parametrize(
    "held",
    [
        {"a": [], "b": []},
        {"a": [], "b": [image("model:1", 22)]},
        {"a": [image("model:1", 500)], "b": [image("model:1", 500)]},
        {"a": [], "b": [image("other:1", 500)]},
    ],
    ids=["no images", "small", "everywhere", "another image"],
)
def test_what_changes_nothing(held: dict[str, list[cluster.NodeImage]]) -> None:
    made = make_fleet(held)
    assert made.images.present(cluster.Images(("model:1",), 1), made.snapshot(NOW_S).present) is None
    found = scores(made, "model:1")
    assert found["a"] == found["b"]


def test_images_come_and_go() -> None:
    made = make_fleet({"a": [], "b": []})
    assert made.put_node(objects.make_node("b", images=(image("model:1", 900),)), reservations.Load()) is False
    assert scores(made, "model:1")["b"] > scores(made, "model:1")["a"]
    made.put_node(objects.make_node("b"), reservations.Load())
    assert scores(made, "model:1")["b"] == scores(made, "model:1")["a"]
    made.put_node(objects.make_node("b", images=(image("model:1", 900),)), reservations.Load())
    made.remove_node("b")
    # Its slot goes to another node.
    made.put_node(objects.make_node("c"), reservations.Load())
    made.put_advertisement(objects.make_advertisement("c", 4.0), NOW_S)
    assert scores(made, "model:1")["c"] == scores(made, "model:1")["a"]


def test_memory_is_bounded_and_names_are_not_kept() -> None:
    many = tuple(image(f"registry.example/{'x' * 200}-{index}:1", 900) for index in range(500))
    made = make_fleet({f"node-{index}": list(many) for index in range(3)})
    row = made.snapshot(NOW_S).row(0)
    assert row.node.images == ()
    assert made.images._names.nbytes + made.images._sizes.nbytes <= 1300 * 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [("pi", "pi:latest"), ("host:5000/pi", "host:5000/pi:latest"), ("pi:1", "pi:1"), ("pi@sha256:0", "pi@sha256:0")],
)
def test_a_name_without_a_tag_means_latest(name: str, expected: str) -> None:
    assert images.with_tag(name) == expected


def pod(**spec: Any) -> dict[str, Any]:
    made = objects.pod_object("pod-0", **spec)
    made["metadata"]["uid"] = "uid-0"
    return made


def test_images_are_read_from_pods_and_nodes() -> None:
    spec = {
        "initContainers": [{"name": "init", "image": "tool"}],
        "containers": [{"name": "main", "image": "model:1"}, {"name": "bare"}],
        "volumes": [{"name": "data", "image": {"reference": "data"}}, {"name": "other", "emptyDir": {}}],
    }
    assert api_objects.parse_pod(pod(**spec)).images == cluster.Images(("tool:latest", "model:1", "data:latest"), 3)
    made = objects.node_object("node-0")
    made["status"]["images"] = [{"names": ["model:1", "model@sha256:0"], "sizeBytes": 9}, {"names": None}]
    read = api_objects.parse_node(made)
    assert read.images == (cluster.NodeImage(("model:1", "model@sha256:0"), 9), cluster.NodeImage((), 0))


@pytest.mark.parametrize("bad", [[{"names": "x"}], [{"sizeBytes": "9"}], ["x"], "x"])
def test_images_of_the_wrong_type_are_refused(bad: object) -> None:
    made = objects.node_object("node-0")
    made["status"]["images"] = bad
    with pytest.raises(ValueError, match=r"images|names|sizeBytes"):
        api_objects.parse_node(made)
