"""A Pod that is parsed with what was known of it equals the same Pod parsed whole, whatever has changed."""

import copy
import random
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, names
from carico_core.domain import constraints as limits
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes.pods import constraints, pod_requests

Object = dict[str, Any]
OWNER = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs"}
SPREAD = {
    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"],
    "labelSelector": {"matchLabels": {"app": "web"}},
}  # fmt: skip
# Each changes an object as the API, a controller, a kubelet or a user does.
EDITS: dict[str, Callable[[Object], object]] = {
    "bound": lambda obj: obj["spec"].update(nodeName="node-1"),
    "bound by": lambda obj: obj["metadata"]["annotations"].update({names.BOUND_BY: "scheduler-1-00000000000000a1/7"}),
    "topology labels": lambda obj: obj["metadata"]["labels"].update(zone="a"),
    "label": lambda obj: obj["metadata"]["labels"].update(app="db"),
    "surge": lambda obj: obj["metadata"]["labels"].update({names.SURGE_LABEL: "x"}),
    "no labels": lambda obj: obj["metadata"].update(labels={}),
    "adopted": lambda obj: obj["metadata"].update(ownerReferences=[OWNER | {"controller": True}]),
    "deleted": lambda obj: obj["metadata"].update(deletionTimestamp="2026-01-01T00:01:00Z"),
    "gang": lambda obj: obj["metadata"]["annotations"].update({"carico.dev/gang-min-member": "3"}),
    "in a gang": lambda obj: obj["metadata"]["labels"].update({"scheduling.x-k8s.io/pod-group": "train"}),
    "mirror": lambda obj: obj["metadata"].update(
        annotations={"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "static"},
        ownerReferences=[{"kind": "Node", "name": "node-1", "uid": "n", "controller": True}],
    ),
    "refused": lambda obj: obj["status"].update(
        conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    ),
    "scheduled": lambda obj: obj["status"].update(
        conditions=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}]
    ),
    "nominated": lambda obj: obj["status"].update(nominatedNodeName="node-2"),
    "running": lambda obj: obj["status"].update(
        phase="Running",
        containerStatuses=[{"name": "c", "containerID": "cri://1", "resources": {"requests": {"cpu": "3"}}}],
    ),
    "stuck": lambda obj: obj["status"].update(
        containerStatuses=[{"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}]
    ),
    "failed": lambda obj: obj["status"].update(phase="Failed"),
    "new version": lambda obj: obj["metadata"].update(resourceVersion="8"),
    "resized": lambda obj: change_spec(obj, containers=[container("2")]),
    "tolerates": lambda obj: change_spec(obj, tolerations=[{"operator": "Exists"}]),
    "no gates": lambda obj: change_spec(obj, schedulingGates=[]),
    "new image": lambda obj: change_spec(obj, containers=[container("1") | {"image": "web:2"}]),
}


def container(cpu: str) -> Object:
    return {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}


def change_spec(obj: Object, **spec: Any) -> None:
    obj["spec"].update(spec)
    if "generation" in obj["metadata"]:
        obj["metadata"]["generation"] += 1


def pod(rng: random.Random) -> Object:
    spec: Object = {"containers": [container("1")], "schedulingGates": [{"name": "quota"}]}
    if rng.random() < 0.5:
        spec["topologySpreadConstraints"] = [SPREAD]
    metadata: Object = {
        "namespace": "default", "name": "web-1-a", "uid": "u-1", "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}, "annotations": {},
    }  # fmt: skip
    if rng.random() < 0.8:
        metadata["generation"] = 1
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


@hypothesis.settings(max_examples=400, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32), edits=st.lists(st.sampled_from(sorted(EDITS)), min_size=1, max_size=6))
def test_a_pod_that_has_changed_equals_the_same_pod_parsed_whole(seed: int, edits: list[str]) -> None:
    obj = pod(random.Random(seed))
    known = api_objects.parse_pod(obj)
    for name in edits:
        obj = copy.deepcopy(obj)
        EDITS[name](obj)
        known, whole = api_objects.parse_pod(obj, known), api_objects.parse_pod(obj)
        assert known == whole, name


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names what is parsed of a spec, each time."""
    seen: list[str] = []
    parse_requests, parse_constraints = pod_requests.pod_requests, constraints.parse_constraints

    def requests_of(obj: Object) -> pod_requests.Amounts:
        seen.append("requests")
        return parse_requests(obj)

    def constraints_of(spec: Object, **pod: Any) -> limits.Constraints | None:
        seen.append("constraints")
        return parse_constraints(spec, **pod)

    monkeypatch.setattr(pod_requests, "pod_requests", requests_of)
    monkeypatch.setattr(constraints, "parse_constraints", constraints_of)
    return seen


def test_what_a_bind_leaves_as_it_is_is_not_parsed_again(parsed: list[str]) -> None:
    obj = pod(random.Random(1))
    obj["metadata"]["generation"] = 1
    known = api_objects.parse_pod(obj)
    parsed.clear()
    EDITS["bound"](obj)
    assert api_objects.parse_pod(obj, known).node_name == "node-1"
    assert parsed == []
    api_objects.parse_pod(obj, known._replace(uid="u-2"))
    assert parsed == ["constraints"]


def test_what_pods_of_one_template_state_is_parsed_once(parsed: list[str]) -> None:
    obj = pod(random.Random(1))
    obj["spec"]["containers"] = [container("17") | {"volumeMounts": [{"name": "token-a"}]}]
    obj["spec"]["volumes"] = [{"name": "token-a"}]
    first = api_objects.parse_pod(obj)
    other = copy.deepcopy(obj)
    other["metadata"].update(name="web-1-b", uid="u-2")
    other["spec"]["containers"][0]["volumeMounts"] = other["spec"]["volumes"] = [{"name": "token-b"}]
    assert api_objects.parse_pod(other) == first._replace(name="web-1-b", uid="u-2")
    assert parsed.count("requests") == 1
    other["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "18"
    assert api_objects.parse_pod(other).request_cores == 18.0


def test_another_pod_of_the_name_takes_nothing_over() -> None:
    obj = pod(random.Random(1))
    known = api_objects.parse_pod(obj)
    obj["metadata"]["uid"] = "u-2"
    assert api_objects.parse_pod(obj, known) == known._replace(uid="u-2")
    assert isinstance(known, cluster.Pod)
