"""What no node has of what a Pod asks for, and which names are probably meant."""

from typing import Any

import pytest

from carico_core.domain import cluster, judgement, names
from carico_core.wire.kubernetes import api_objects
from tests.unit.scheduler import objects


def node(
    name: str, *, taints: tuple[str, ...] = (), cpu: str = "4", memory: str = "8Gi", **labels: str
) -> cluster.Node:  # fmt: skip
    found = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {
            "taints": [
                {"key": key, "value": value, "effect": "NoSchedule"}
                for key, _, value in (each.partition("=") for each in taints)
            ]
        },
        "status": {"allocatable": {"cpu": cpu, "memory": memory}},
    }
    return api_objects.parse_node(found)


NODES = [node("node-1", disk="ssd"), node("node-2", taints=("example.com/gpu", "dedicated=batch"))]


def pod(requests: dict[str, str] | None = None, **spec: Any) -> cluster.Pod:
    containers = [{"name": "a", "image": "a", "resources": {"requests": requests or {}}}]
    found = objects.pod_object("a", **{"containers": containers, **spec})
    found["metadata"]["uid"] = "uid-a"
    return api_objects.parse_pod(found)


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [each]} for each in expressions]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("asked", "never", "hints"),
    [
        (pod(), (), ()),
        (pod({"cpu": "4", "memory": "8Gi"}), (), ()),
        (
            pod({"cpu": "100", "memory": "1Ti"}),
            ("100 cores (node-1 has the most: 4 cores)", "1 Ti of memory (node-1 has the most: 8 Gi)"), (),
        ),
        (pod({"nvidia.com/gpu": "1"}), ("1 nvidia.com/gpu (none has any)",), ()),
        (
            pod(nodeSelector={"kubernetes.io/hostnam": "node-1"}), ("the label kubernetes.io/hostnam",),
            ("did you mean kubernetes.io/hostname?",),
        ),
        (
            pod(nodeSelector={"kubernetes.io/hostname": "node1"}), ("the label kubernetes.io/hostname=node1",),
            ("did you mean kubernetes.io/hostname=node-1?",),
        ),
        (pod(nodeSelector={"disk": "ssd", "zone": "a"}), ("the label zone",), ()),
        (
            pod(affinity=required({"key": "disk", "operator": "In", "values": ["sdd", "nvme"]})),
            ("the label disk in (sdd, nvme)",), ("did you mean disk=ssd?",),
        ),
        (pod(nodeSelector={"disk": "nvme"}), ("the label disk=nvme",), ()),
        # Terms are alternatives: one that a node may meet is enough.
        (pod(affinity=required({"key": "disc", "operator": "Exists"}, {"key": "disk", "operator": "Exists"})), (), ()),
        (pod(affinity=required({"key": "disc", "operator": "DoesNotExist"})), (), ()),
        (
            pod(affinity=required({"key": "disc", "operator": "Exists"})), ("the label disc",),
            ("did you mean disk?",),
        ),
        (
            pod(topologySpreadConstraints=[{"topologyKey": "kubernetes.io/host"}]),
            ("the topology's label kubernetes.io/host",), ("did you mean kubernetes.io/hostname?",),
        ),
        (pod(topologySpreadConstraints=[{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]), (), ()),
        (
            pod(tolerations=[{"key": "example.com/gpus"}, {"key": "node.kubernetes.io/not-ready"}]), (),
            ("toleration example.com/gpus: did you mean example.com/gpu?",),
        ),
        (
            pod(tolerations=[{"key": "dedicated", "value": "batsh"}]), (),
            ("toleration dedicated: did you mean dedicated=batch?",),
        ),
        (pod(tolerations=[{"key": "dedicated", "value": "batch"}]), (), ()),
        (pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]), (), ()),
    ],
)  # fmt: skip
def test_everything_that_no_node_has_is_named(
    asked: cluster.Pod, never: tuple[str, ...], hints: tuple[str, ...]
) -> None:
    assert judgement.judge(asked, NODES) == judgement.Judgement(never=never, hints=hints)
    assert judgement.judge(asked, []) == judgement.Judgement(never=(), hints=())


def test_resources_that_no_node_has_together() -> None:
    small, large = node("cpus", cpu="64"), node("memories", memory="256Gi")
    asked = pod({"cpu": "32", "memory": "128Gi"})
    assert judgement.judge(asked, [small, large]).never == ("32 cores together with 128 Gi of memory",)


@pytest.mark.parametrize(
    ("got", "meant"),
    [
        ("pi-39", "pi-91513550-39"),
        ("crow", "crowd-23"),
        ("zone", "topology.kubernetes.io/zone"),
        ("ip-10-0-0-1", "ip-10-0-0-1.ec2.internal"),
        ("helo-1", "hello-1"),
        ("39-pi", None),
        ("x", None),
    ],
)
def test_the_name_that_is_meant_may_be_longer_or_misspelt(got: str, meant: str | None) -> None:
    known = [
        "pi-91513550-38", "pi-91513550-39", "crowd-23", "topology.kubernetes.io/zone", "ip-10-0-0-1.ec2.internal",
        "hello-1",
    ]  # fmt: skip
    assert names.nearest(got, known, most=1) == ([] if meant is None else [meant])


def test_a_text_that_is_longer_than_any_name_is_compared_with_none() -> None:
    """A reader of the bus may ask for 64 KiB, and an affinity has values of a megabyte: seconds of a scheduler."""
    known = iter(["node-1"])
    assert names.nearest("-".join("a" * 30_000), known) == []
    assert next(known) == "node-1"


def test_a_pod_with_thousands_of_terms_is_judged_by_the_first() -> None:
    nodes = [node(f"node-{number}") for number in range(200)]
    named = {f"kubernetes.io/hostname-{number}": "x" for number in range(2000)}
    terms = required(*({"key": f"disk-{number}", "operator": "In", "values": ["a", "b"]} for number in range(8)))
    tolerations = [{"key": f"example.com/gpu-{number}"} for number in range(8)]
    asked = pod(affinity=terms, tolerations=tolerations)
    # More than a reader of the API's objects lets through.
    asked = asked._replace(node_selector=named, tolerations=asked.tolerations * 250)
    judged = judgement.judge(asked, nodes)
    assert len(judged.never) == 9 and judged.never[-1] == "2000 more"
    assert judged.hints == ("did you mean kubernetes.io/hostname?",)
