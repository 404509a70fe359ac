"""Templates of Pods, and which Pods have failed."""

from typing import Any

import pytest

from carico_core.domain import usage
from carico_core.wire.kubernetes import status, template


def pod(*containers: dict[str, Any], **found: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)}, "status": found}


def test_a_template_has_containers_images_and_requests() -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": {"memory": "1Mi"}}
    found = template.parse_template(
        pod({"name": "a", "image": "x", "resources": resources}, {"name": "b", "image": "y"})
    )
    assert (found.containers, found.requests) == (("a", "b"), {"cpu": 0.1, "memory": 2.0**20})
    other = template.parse_template(pod({"name": "a", "image": "x"}, {"name": "b", "image": "z"}))
    assert found.image != other.image and len(found.image) == 16
    assert other == usage.Template(image=other.image, containers=("a", "b"), requests={})


@pytest.mark.parametrize("wrong", [{"spec": {"containers": [{}]}}, {"spec": {"containers": 1}}])
def test_a_pod_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"spec\.containers"):
        template.parse_template(wrong)


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
    ],
)
def test_a_pod_has_failed_if_it_says_so_or_ran_out_of_memory(found: dict[str, Any], expected: bool) -> None:
    assert status.has_failed(pod(**found)) is expected
