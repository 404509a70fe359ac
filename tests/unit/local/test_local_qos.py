"""What a kubelet makes of requests and limits: class, weight at the CPU, who is ended first without memory."""

from typing import Any

import pytest

from carico_local import qos
from carico_local.node.spec import pod as podspec

FULL = {"cpu": "1", "memory": "1Gi"}
NODE_BYTES = 8_000_000_000.0


def spec(*resources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": f"c{n}", "resources": each} for n, each in enumerate(resources)], **more}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (spec({}), "BestEffort"),
        # Not valid, as the API says once it has looked at all of it.
        ({}, "BestEffort"),
        # What is neither CPU nor memory, or nothing of it, makes no class.
        (spec({"requests": {"cpu": "0", "example.com/gpu": "1", "ephemeral-storage": "1Gi"}}), "BestEffort"),
        (spec({"requests": {"cpu": "1"}}), "Burstable"),
        (spec({"limits": FULL}), "Guaranteed"),
        (spec({"limits": FULL, "requests": {"cpu": "1000m", "memory": "1024Mi"}}), "Guaranteed"),
        (spec({"limits": FULL, "requests": {"cpu": "500m"}}), "Burstable"),
        (spec({"limits": FULL, "requests": {"cpu": "0"}}), "Burstable"),
        (spec({"limits": {"memory": "1Gi"}}), "Burstable"),
        (spec({"limits": FULL}, {}), "Burstable"),
        (spec({"limits": FULL}, initContainers=[{"name": "i", "resources": {"limits": FULL}}]), "Guaranteed"),
        (spec({"limits": FULL}, initContainers=[{"name": "i"}]), "Burstable"),
        (spec({}, resources={"limits": FULL}), "Guaranteed"),
        (spec({"limits": FULL}, resources={"requests": {}}), "Guaranteed"),
        (spec({"limits": FULL}, resources={"requests": {"cpu": "2"}}), "Burstable"),
    ],
)
def test_the_class_of_a_pod(found: dict[str, Any], expected: str) -> None:
    assert qos.pod_class(found) == expected


@pytest.mark.parametrize(
    ("cores", "shares"),
    [(0.0, 2), (0.001, 2), (0.002, 2), (0.0021, 3), (0.1, 102), (0.3, 307), (1.0, 1024), (4.0, 4096), (300.0, 2**18)],
)
def test_shares_of_a_request(cores: float, shares: int) -> None:
    assert qos.cpu_shares(cores) == shares


# Of kubernetes/pkg/kubelet/qos/policy_test.go, on its node of 8 GB.
@pytest.mark.parametrize(
    ("of_class", "request_bytes", "expected"),
    [
        ("Guaranteed", 10e9, -997),
        ("BestEffort", 0.0, 1000),
        ("Burstable", 0.0, 999),
        ("Burstable", NODE_BYTES / 2, 500),
        ("Burstable", NODE_BYTES - 1, 3),
        ("Burstable", NODE_BYTES * 2, 3),
    ],
)
def test_who_is_ended_first_without_memory(of_class: str, request_bytes: float, expected: int) -> None:
    assert qos.oom_score_adj(of_class, request_bytes=request_bytes, node_bytes=NODE_BYTES) == expected


def parsed(*, status: dict[str, Any] | None = None, **of_spec: Any) -> podspec.PodSpec:
    whole = {"nodeName": "n", "containers": [{"name": "c"}], **of_spec}
    return podspec.parse({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": whole, "status": status})


def test_a_pod_weighs_what_its_containers_ask_for_together() -> None:
    side = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}
    first = {"name": "first", "resources": {"requests": {"cpu": "100m"}}}
    found = parsed(**spec({"requests": {"cpu": "200m"}}, {"limits": {"cpu": "1"}}, {}, initContainers=[first, side]))
    assert found.request_cores == pytest.approx(1.25)
    assert [each.request_cores for each in found.containers] == [0.2, 1.0, 0.0]
    assert found.qos_class == "Burstable"
    assert parsed(status={"qosClass": "Guaranteed"}).qos_class == "Guaranteed"


def test_each_container_of_a_burstable_pod_has_the_score_of_its_own_request() -> None:
    def asking(name: str, memory: str) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"memory": memory}}}

    found = parsed(containers=[asking("a", "800M"), asking("b", "1600M")], initContainers=[asking("first", "80M")])
    every = (*found.init_containers, *found.containers)
    adj = {each.name: found.oom_score_adj(each, node_bytes=NODE_BYTES) for each in every}
    assert adj == {"first": 990, "a": 900, "b": 800}
