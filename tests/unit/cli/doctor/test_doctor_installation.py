"""`carico doctor`: whether the parts that were installed in Kubernetes are ready, and what they lack."""

import dataclasses
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from carico_cli.doctor import findings, installation, places
from carico_cli.live import addresses
from carico_core.domain import errors
from carico_core.runtime.kube import api_client

APPS = "/apis/apps/v1/namespaces/carico"
PODS = "/api/v1/namespaces/carico/pods"
EVENTS = "/api/v1/namespaces/carico/events"
Level = findings.Level
AT = dataclasses.replace(addresses.OF_SHELL, kube=api_client.KubeSettings(context="prod"))
PLACE = places.Place.of(AT, "carico")


class Api:
    """An API that answers from a table; what is not in it is an empty list."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        timeout_s: float = 10.0,
    ) -> Any:  # fmt: skip
        answer = self.answers.get(path, [])
        if isinstance(answer, Exception):
            raise answer
        return {"items": answer}

    def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:  # fmt: skip
        raise AssertionError("nothing here is a long list")


def parts(*, scheduler: int = 1, agents: int = 3) -> dict[str, Any]:
    """A scheduler of one replica, and agents on three nodes; so many of each are ready."""
    return {
        f"{APPS}/deployments": [
            {"metadata": {"name": "carico-scheduler"}, "spec": {"replicas": 1}, "status": {"readyReplicas": scheduler}}
        ],
        f"{APPS}/daemonsets": [
            {"metadata": {"name": "carico-agent"}, "status": {"desiredNumberScheduled": 3, "numberReady": agents}}
        ],
    }


def pod(*, waiting: Mapping[str, str] | None = None, conditions: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    """A Pod whose container waits, or that has no node."""
    containers = [] if waiting is None else [{"name": "agent", "state": {"waiting": dict(waiting)}}]
    return {"metadata": {"name": "x"}, "status": {"containerStatuses": containers, "conditions": list(conditions)}}


async def look(answers: Mapping[str, Any]) -> findings.Finding:
    """The one finding."""
    (found,) = await installation.check(Api(answers), PLACE)
    return found


@pytest.mark.parametrize("answer", [["x"], [None], [{"metadata": 5}], {"a": 1}, "text"])
async def test_an_answer_that_is_no_list_of_objects_is_an_error_of_the_api(answer: Any) -> None:
    """It was a traceback."""
    with pytest.raises(errors.ApiUnavailable, match="not a list of objects"):
        await look({f"{APPS}/deployments": answer})


async def test_all_parts_are_ready() -> None:
    found = await look(parts())
    assert (found.level, found.detail) == (Level.OK, "all 2 parts in the namespace carico are ready")


async def test_before_an_install_there_is_nothing() -> None:
    found = await look({})
    assert found.level is Level.SKIP
    assert "--namespace names another" in found.detail


async def test_an_api_without_these_kinds_and_a_missing_right_are_no_findings_about_carico() -> None:
    missing = errors.NotFound(status=404, reason="NotFound", message="no such page", request="GET /")
    assert await installation.check(Api({f"{APPS}/deployments": missing}), PLACE) == []
    forbidden = errors.Forbidden(status=403, reason="Forbidden", message="no", request="GET /")
    assert (await look({f"{APPS}/daemonsets": forbidden})).level is Level.SKIP


async def test_parts_that_are_not_ready_are_counted() -> None:
    found = await look({**parts(scheduler=0, agents=2)})
    assert found.level is Level.WARN
    assert found.detail == "carico-scheduler: 0 of 1 ready, carico-agent: 2 of 3 ready"
    assert "`kubectl --context prod -n carico get pods`" in found.do


@pytest.mark.parametrize(
    "answers",
    [
        {
            EVENTS: [
                {"reason": "FailedMount", "message": 'MountVolume.SetUp failed for volume "tls" : secret "s" not found'}
            ]
        },
        {PODS: [pod(waiting={"reason": "CreateContainerConfigError", "message": 'secret "s" not found'})]},
    ],
    ids=["as a volume", "as variables"],
)
async def test_a_missing_secret_is_named_with_what_creates_it(answers: Mapping[str, Any]) -> None:
    found = await look({**parts(agents=0), **answers})
    assert found.level is Level.FAIL
    assert found.detail == "carico-agent: 0 of 3 ready; missing: secret s"
    assert "secrets.sh DIRECTORY | kubectl --context prod apply -f -`" in found.do


@pytest.mark.parametrize(
    ("waits", "named"),
    [
        (pod(waiting={"reason": "ImagePullBackOff", "message": "no such image"}), "ImagePullBackOff: no such image"),
        (pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]), "0/3 nodes"),
        (pod(waiting={"reason": "ContainerCreating"}), ""),
    ],
)
async def test_the_reason_of_a_pod_is_shown(waits: Mapping[str, Any], named: str) -> None:
    found = await look({**parts(scheduler=0), PODS: [waits]})
    assert found.detail == "; ".join(filter(None, ("carico-scheduler: 0 of 1 ready", named)))
