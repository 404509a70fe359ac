"""Which gang a Pod is in, and what PodGroups and annotations ask for."""

from typing import Any

import pytest

from carico_core.domain import gangs
from carico_core.wire.kubernetes import api_objects, pod_groups
from tests.unit.scheduler import objects


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A Pod as the API holds it."""
    made = objects.pod_object("pod-0", **(spec or {}))
    made["metadata"] |= {"uid": "u", **metadata}
    made["status"] |= status or {}
    return made


def group(spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A PodGroup as the API holds it."""
    return {"metadata": {"namespace": "default", "name": "train", "annotations": annotations}, "spec": spec}


LABELLED = {"labels": {pod_groups.LABEL: "train"}}


def test_a_pod_without_label_is_in_no_gang() -> None:
    assert api_objects.parse_pod(pod()).gang is None
    assert api_objects.parse_pod(pod(labels={pod_groups.LABEL: ""})).gang is None


def test_kubernetes_own_field_comes_before_the_label() -> None:
    by_label = api_objects.parse_pod(pod(**LABELLED)).gang
    assert by_label is not None
    assert by_label.key == gangs.Key("default", "train")
    own = api_objects.parse_pod(pod({"schedulingGroup": {"podGroupName": "own"}}, **LABELLED)).gang
    assert own is not None
    assert own.key == gangs.Key("default", "own", is_native=True)
    assert str(own.key) == "default/own"


def test_annotations_of_a_pod_state_what_it_asks_for() -> None:
    annotations = {pod_groups.MIN_MEMBER: "4", pod_groups.TIMEOUT: "12.5", pod_groups.TOPOLOGY_KEY: "zone"}
    found = api_objects.parse_pod(pod(**LABELLED, annotations=annotations)).gang
    assert found is not None
    assert found.asks == gangs.Asks(4, 12.5, "zone")


def test_a_bound_pod_has_the_time_of_its_bind() -> None:
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:07Z"}]
    found = api_objects.parse_pod(pod({"nodeName": "node-0"}, {"conditions": conditions}, **LABELLED)).gang
    assert found is not None
    assert found.bound_at_s == 7.0


def test_kubernetes_own_pod_group() -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 3}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}
    }  # fmt: skip
    key = gangs.Key("default", "train", is_native=True)
    assert pod_groups.parse_native(group(spec)) == gangs.PodGroup(key, gangs.Asks(3, None, "rack"))
    assert pod_groups.parse_native(group({"schedulingPolicy": {"basic": {}}})) == gangs.PodGroup(key, None)
    found = pod_groups.parse_native(group({"schedulingPolicy": {"gang": {"minCount": 3}}}, **{pod_groups.TIMEOUT: "9"}))
    assert found.asks == gangs.Asks(3, 9.0)


def test_a_pod_group_of_scheduler_plugins() -> None:
    found = pod_groups.parse_pod_group(
        group({"minMember": 3, "scheduleTimeoutSeconds": 10}, **{pod_groups.TOPOLOGY_KEY: "rack"})
    )  # fmt: skip
    assert found == gangs.PodGroup(gangs.Key("default", "train"), gangs.Asks(3, 10.0, "rack"))


@pytest.mark.parametrize("least", [0, -1, 10_001])
def test_a_minimum_out_of_bounds_is_wrong(least: int) -> None:
    asks = pod_groups.parse_pod_group(group({"minMember": least})).asks
    assert asks is not None
    assert asks.wrong == f"spec.minMember: got {least}, expected an integer from 1 to 10000"


@pytest.mark.parametrize("text", ["", "two", "1.5", "-3", "\u0663", "nan", "9" * 5000])
def test_an_annotation_that_is_no_count_is_wrong(text: str) -> None:
    found = api_objects.parse_pod(pod(**LABELLED, annotations={pod_groups.MIN_MEMBER: text})).gang
    assert found is not None
    assert found.asks is not None
    assert found.asks.wrong.startswith("annotation carico.dev/gang-min-member: got ")
    assert len(found.asks.wrong) < 200, "the API refuses Events with long texts"


@pytest.mark.parametrize("text", ["soon", "nan", "inf", "0", "-1", "1e9"])
def test_an_annotation_that_is_no_time_is_wrong(text: str) -> None:
    annotations = {pod_groups.MIN_MEMBER: "2", pod_groups.TIMEOUT: text}
    found = api_objects.parse_pod(pod(**LABELLED, annotations=annotations)).gang
    assert found is not None
    assert found.asks is not None
    assert found.asks.wrong.startswith("annotation carico.dev/gang-timeout-seconds: got ")
    if text == "-1":
        assert "got -1, expected" in found.asks.wrong


def test_a_topology_key_that_is_too_long_for_a_label_is_wrong() -> None:
    annotations = {pod_groups.MIN_MEMBER: "2", pod_groups.TOPOLOGY_KEY: "z" * 1000}
    found = api_objects.parse_pod(pod(**LABELLED, annotations=annotations)).gang
    assert found is not None
    assert found.asks is not None
    assert "'zzz" in found.asks.wrong
    assert len(found.asks.wrong) < 200
