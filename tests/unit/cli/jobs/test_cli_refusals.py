"""Why the API refuses a Job's Pods, from the Events of its controller as Kubernetes 1.33 writes them."""

from collections.abc import Mapping
from typing import Any

import pytest

from carico_cli.jobs import refusals
from carico_core.domain import errors

JOB = "/apis/batch/v1/namespaces/shop/jobs/j"
EVENTS = "/api/v1/namespaces/shop/events"


class Api:
    """An API with the Job `j`, and these Events about it; who asks may not read `forbidden`."""

    def __init__(self, *events: Mapping[str, Any], forbidden: str = "") -> None:
        self._events = events
        self._forbidden = forbidden

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        if path == self._forbidden:
            raise errors.Forbidden(status=403, reason="Forbidden", message="it is", request=path)
        if path == EVENTS:
            assert params == {"fieldSelector": "involvedObject.uid=u,reason=FailedCreate", "limit": "500"}
            return {"items": list(self._events)}
        if path != JOB:
            raise errors.NotFound(status=404, reason="NotFound", message="no such object", request=path)
        return {"metadata": {"uid": "u", "namespace": "shop"}}


async def refusal(api: Api, name: str = "j") -> str | None:
    return await refusals.of_job(api, await refusals.find_job(api, "shop", name))


def event(message: str, second: int) -> dict[str, Any]:
    return {"metadata": {}, "lastTimestamp": f"2026-01-01T00:00:{second:02d}Z", "message": message}


async def test_the_newest_refusal_is_reported() -> None:
    api = Api(event("Error creating: b", 7), event("Error creating: c", 9), event("Error creating: a", 1))
    assert await refusal(api) == "c"


async def test_without_a_refusal_and_without_the_job_there_is_nothing_to_tell() -> None:
    assert await refusal(Api()) is None
    assert await refusal(Api(event("Error creating: a", 1)), "another") is None


@pytest.mark.parametrize("forbidden", [JOB, EVENTS])
async def test_who_may_not_read_jobs_or_events_gets_no_reason(forbidden: str) -> None:
    """As a user of one namespace: that a job has no Pods is the answer, and not an error of the API."""
    assert await refusal(Api(event("Error creating: a", 1), forbidden=forbidden)) is None


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            'Error creating: pods "j-0-x7k2p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2',
            "exceeded quota: q, requested: pods=1, used: pods=2",
        ),
        (
            '(combined from similar events): Error creating: pods "j-1-x" is forbidden: [most cpu per Container is 1]',
            "[most cpu per Container is 1]",
        ),
        (
            'Error creating: Pod "j-1-x" is invalid: spec.containers[0].image: Required value',
            "is invalid: spec.containers[0].image: Required value",
        ),
        (
            'Error creating: admission webhook "guard.example" denied the request: no\n  image of ours',
            'admission webhook "guard.example" denied the request: no image of ours',
        ),
    ],
)  # fmt: skip
def test_what_every_refusal_has_is_left_out(message: str, words: str) -> None:
    assert refusals.why(message) == words
