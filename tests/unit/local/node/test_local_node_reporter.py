"""Statuses on their way to the API: the newest alone, again until it took, deletion last."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest
import structlog

from carico_core.domain import errors
from carico_local.node.reporting import reporter


class FakeApi:
    """Notes requests; `fail` maps the how-manieth request to an error."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.fail: list[Exception | None] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "",
        timeout_s: float = 10.0,
    ) -> Any:
        await self.gate.wait()
        self.requests.append((method, path.rpartition("/")[2], body))
        error = self.fail.pop(0) if self.fail else None
        if error is not None:
            raise error
        return {}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def put(target: reporter.Reporter, phase: str) -> None:
    target.put("u", namespace="n", name="p", status={"phase": phase})


async def test_only_the_newest_of_what_waits_is_sent(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    target = reporter.Reporter(api, random.Random(1))
    api.gate.clear()
    put(target, "Pending")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    put(target, "Running")
    put(target, "Succeeded")
    api.gate.set()
    await target.drain()
    assert [body["status"]["phase"] for _, _, body in api.requests] == ["Pending", "Succeeded"]
    assert all(body["metadata"]["uid"] == "u" for _, _, body in api.requests)


async def test_an_api_that_is_away_gets_the_latest_when_it_is_back(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "RETRY_FIRST_S", 0.001)
    api.fail = [errors.ApiUnavailable("away"), errors.ApiUnavailable("away")]
    target = reporter.Reporter(api, random.Random(1))
    put(target, "Succeeded")
    target.delete("u", namespace="n", name="p")
    await target.drain()
    assert [method for method, _, _ in api.requests] == ["PATCH", "PATCH", "PATCH", "DELETE"]
    deletion = api.requests[-1][2]
    assert (deletion["gracePeriodSeconds"], deletion["preconditions"]) == (0, {"uid": "u"})


@pytest.mark.parametrize("kind", [errors.NotFound, errors.Conflict])
async def test_a_pod_that_is_gone_is_let_go(api: FakeApi, kind: type[errors.ApiError]) -> None:
    api.fail = [kind(status=0, reason="", message="", request="")]
    target = reporter.Reporter(api, random.Random(1))
    put(target, "Running")
    target.delete("u", namespace="n", name="p")
    with structlog.testing.capture_logs() as said:
        await target.drain()
    assert len(api.requests) == 1
    assert not said


async def test_a_refusal_is_logged_and_does_not_stop_the_deletion(api: FakeApi) -> None:
    api.fail = [errors.Invalid(status=422, reason="Invalid", message="", request="")]
    target = reporter.Reporter(api, random.Random(1))
    put(target, "Running")
    target.delete("u", namespace="n", name="p")
    with structlog.testing.capture_logs() as said:
        await target.drain()
    assert [(each["event"], each["pod"]) for each in said] == [("status_refused", "n/p")]
    assert [method for method, _, _ in api.requests] == ["PATCH", "DELETE"]
