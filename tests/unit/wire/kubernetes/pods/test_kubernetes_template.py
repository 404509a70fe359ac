"""Templates of Pods, and which Pods have failed."""

import tracemalloc
from typing import Any

import pytest

from carico_core.domain import messages, usage
from carico_core.wire import fields, subjects
from carico_core.wire import messages as wire
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes.pods import constraints, containers, status, template
from tests.unit.scheduler import objects


def pod(**spec: Any) -> dict[str, Any]:
    made = objects.pod_object("p", **spec)
    made["metadata"]["uid"] = "1"
    return made


def test_a_template_has_containers_images_and_requests() -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": {"memory": "1Mi"}}
    containers = [{"name": "a", "image": "x", "resources": resources}, {"name": "b", "image": "y"}]
    found = api_objects.parse_pod(pod(containers=containers)).template
    assert found is not None
    assert (found.containers, found.requests) == (("a", "b"), {"cpu": 0.1, "memory": 2.0**20})
    other = template.template_of([{"name": "a", "image": "x"}, {"name": "b", "image": "z"}], {})
    assert other is not None
    assert found.image != other.image and len(found.image) == 16
    assert other == usage.Template(image=other.image, containers=("a", "b"), requests={})


def test_a_remembered_template_takes_some_kilobytes() -> None:
    made = [pod(containers=[{"name": "a", "image": f"{index:01200}"}]) for index in range(100)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for each in made:
            api_objects.parse_pod(each)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100 * 12_000


def test_a_template_has_what_scopes_of_quotas_go_by() -> None:
    affinity = {"podAffinity": {constraints.REQUIRED: [{"topologyKey": "zone", "namespaces": ["other"]}]}}
    made = pod(priorityClassName="urgent", activeDeadlineSeconds=0, affinity=affinity)
    found = api_objects.parse_pod(made).template
    assert found is not None and (found.priority_class, found.has_deadline) == ("urgent", True)
    assert found.crosses_namespaces
    plain = api_objects.parse_pod(pod()).template
    assert plain is not None and (plain.priority_class, plain.has_deadline) == ("", False)
    assert not plain.crosses_namespaces
    sent = messages.Roster(
        node="n", boot="0" * 16, seq=1, ts_ns=1, pods={"u1": "c"}, templates={"u1": found}, failed=frozenset()
    )
    assert wire.decode_roster(wire.encode_roster(sent), subject=subjects.roster("n")) == sent
    assert template.template_of([], {}, priority_class="x" * 254) is None


# As usesCrossNamespacePodAffinity of pkg/quota/v1/evaluator/core/pods.go decides.
@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, False),
        ({"namespaces": []}, False),
        ({"namespaces": ["default"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": None}, False),
    ],
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("way", [constraints.REQUIRED, constraints.PREFERRED])
def test_a_pod_whose_affinity_names_namespaces_crosses_them(
    term: dict[str, Any], expected: bool, kind: str, way: str
) -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, **term}
    item = term if way == constraints.REQUIRED else {"weight": 1, "podAffinityTerm": term}
    other = {"topologyKey": "zone"} if way == constraints.REQUIRED else {"weight": 1, "podAffinityTerm": {}}
    found = api_objects.parse_pod(pod(affinity={kind: {way: [other, item]}})).template
    assert found is not None and found.crosses_namespaces is expected


@pytest.mark.parametrize(("containers", "memory"), [(fields.CONTAINERS_MAX + 1, 0.0), (1, 2.0 * fields.QUANTITY_MAX)])
def test_a_template_that_no_message_holds_is_not_known(containers: int, memory: float) -> None:
    named = [{"name": f"c{index}", "image": "x"} for index in range(containers)]
    assert template.template_of(named, {"memory": memory}) is None


def test_a_template_of_the_largest_size_is_in_a_roster() -> None:
    named = [{"name": f"c{index}", "image": "x"} for index in range(fields.CONTAINERS_MAX)]
    largest = template.template_of(named, {"memory": fields.QUANTITY_MAX})
    assert largest is not None
    sent = messages.Roster(
        node="n", boot="0" * 16, seq=1, ts_ns=1, pods={"uid": "image/x"}, templates={"uid": largest},
        failed=frozenset(),
    )  # fmt: skip
    found = wire.decode_roster(wire.encode_roster(sent), subject=subjects.roster("n"))
    assert found.templates == {"uid": largest}


def test_containers_of_a_pod_with_several_are_known_once_they_have_started() -> None:
    made = pod(containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "y"}])
    whole = "0123456789ab" + "c" * 52
    made["status"] = {
        "containerStatuses": [{"name": "a", "containerID": f"containerd://{whole}"}, {"name": "b", "containerID": ""}]
    }
    assert api_objects.parse_pod(made).containers == (("0123456789ab", "a"),)
    made["spec"]["containers"].pop()
    assert api_objects.parse_pod(made).containers == ()


def test_pods_of_two_images_have_two_templates_in_a_roster() -> None:
    old, new = (template.template_of([{"name": "a", "image": image}], {}) for image in ("x:1", "x:2"))
    assert old is not None and new is not None
    sent = messages.Roster(
        node="n", boot="0" * 16, seq=1, ts_ns=1, pods={"u1": "c", "u2": "c", "u3": "c"},
        templates={"u1": old, "u2": new}, containers={"u2": {"0123456789ab": "a"}},
    )  # fmt: skip
    assert wire.decode_roster(wire.encode_roster(sent), subject=subjects.roster("n")) == sent


def test_long_templates_are_not_kept() -> None:
    long = [{"name": "a", "image": "x" * 4096}]
    assert template.template_of(long, {}) is not template.template_of(long, {})
    short = [{"name": "a", "image": "x"}]
    assert template.template_of(short, {}) is template.template_of(short, {})


@pytest.mark.parametrize("wrong", [{"containers": [{"name": 1}]}, {"containers": 1}])
def test_a_pod_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"spec\.containers"):
        api_objects.parse_pod(pod(**wrong))


def crashing(exit_code: int) -> dict[str, Any]:
    return {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": exit_code}}, "restartCount": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, False),
        ({"phase": "Succeeded"}, False),
        ({"phase": "Failed"}, True),
        ({"containerStatuses": [{"state": {"running": {}}}]}, False),
        ({"containerStatuses": [{"lastState": {"terminated": {"reason": "Error"}}}]}, False),
        ({"containerStatuses": [{"lastState": {"terminated": {"reason": "OOMKilled"}}}]}, True),
        ({"initContainerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, True),
        ({"phase": "Running", "containerStatuses": [crashing(1)]}, True),
        ({"initContainerStatuses": [crashing(137)]}, True),
        ({"phase": "Running", "containerStatuses": [crashing(0)]}, False),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, False),
    ],
)
def test_a_pod_has_failed_if_it_says_so_or_crashes_or_ran_out_of_memory(found: dict[str, Any], expected: bool) -> None:
    assert status.has_failed(found, is_leaving=False) is expected
    # What is told to end fails for Kubernetes, unless it ends with 0.
    assert status.has_failed(found, is_leaving=True) is (expected and found.get("phase") != "Failed")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, ""),
        ({"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}, ""),
        ({"initContainerStatuses": [{"name": "a", "ready": True, "state": {"terminated": {"exitCode": 0}}}]}, ""),
        ({"containerStatuses": [{"name": "a", "state": {"waiting": {}}}]}, ""),
        (
            {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
            "container a waits: ContainerCreating",
        ),
        (
            {
                "initContainerStatuses": [{"name": "a", "ready": True, "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [
                    {"name": "b", "state": {"waiting": {"reason": "ErrImagePull", "message": "not\nfound"}}},
                    {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}},
                ],
            },
            "container b waits: ErrImagePull: not found",
        ),
        (
            {
                "containerStatuses": [{
                    "name": "a", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 3}},
                }]
            },
            "container a ended with exit code 3, and was started again 5 times; CrashLoopBackOff",
        ),
    ],
)  # fmt: skip
def test_why_a_container_does_not_run_is_stated_in_a_line(found: dict[str, Any], expected: str) -> None:
    assert containers.stuck_of(found) == expected
    assert api_objects.parse_pod(pod() | {"status": found}).stuck == expected


def test_why_a_container_does_not_run_is_kept_in_few_characters() -> None:
    waits = {"waiting": {"reason": "CreateContainerError", "message": "x" * 2**20}}
    found = containers.stuck_of({"containerStatuses": [{"name": "a", "state": waits}]})
    assert len(found) == containers.STUCK_CHARS and found.startswith("container a waits: CreateContainerError: xxx")


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": {"waiting": {"reason": 1}}}, {"state": {"waiting": "x"}}, {"name": 1, "state": {"waiting": {"a": 1}}},
        {"state": {"waiting": {"reason": "x"}}, "restartCount": "5"},
        {"state": {"waiting": {"reason": "x"}}, "restartCount": 5, "lastState": {"terminated": {"exitCode": "3"}}},
    ],
)  # fmt: skip
def test_a_malformed_state_of_a_container_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        containers.stuck_of({"containerStatuses": [wrong]})
