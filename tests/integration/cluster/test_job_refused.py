"""Why a real Job has no Pods, as its real controller says: what `carico submit --wait` and `carico explain` tell."""

import asyncio
from typing import Any

import pytest

from carico_cli.jobs import refusals
from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_local.jobs import job as jobs
from tests.tools import waiting

QUOTA = {"kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}}}
LIMIT = {"kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": "100m"}}]}}


async def is_there(api: api_client.KubeClient, path: str, *, of_status: str = "") -> bool:
    try:
        found = await api.request("GET", path)
    except errors.NotFound:
        return False
    return not of_status or of_status in found.get("status", {})


async def refusal(api: api_client.KubeClient, job: jobs.Job) -> str | None:
    return await refusals.of_job(api, await refusals.find_job(api, job.namespace, job.name))


@pytest.mark.parametrize(
    ("rule", "path", "status", "said"),
    [
        (QUOTA, "resourcequotas", "hard", "exceeded quota: rule, requested: pods=1, used: pods=1, limited: pods=1"),
        (LIMIT, "limitranges", "", "maximum cpu usage per Pod is 100m"),
    ],
    ids=["quota", "limit"],
)
async def test_what_refuses_a_jobs_pods_is_read_from_its_controllers_events(
    real_api: api_client.KubeClient, rule: dict[str, Any], path: str, status: str, said: str
) -> None:
    namespace = f"refused-{path}"
    below = f"/api/v1/namespaces/{namespace}"
    await real_api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    try:
        body = {"apiVersion": "v1", "metadata": {"name": "rule"}, **rule}
        await real_api.request("POST", f"{below}/{path}", body=body)
        async with asyncio.timeout(waiting.WAIT_S):
            # Without either a Pod is refused for the want of it.
            while not await is_there(real_api, f"{below}/serviceaccounts/default"):
                await asyncio.sleep(0.1)
            while not await is_there(real_api, f"{below}/{path}/rule", of_status=status):
                await asyncio.sleep(0.1)
        job = jobs.Job(
            name="j", workload=jobs.Workload.PI, pods=3, namespace=namespace, scheduler_name="nobody",
            request_millicores=500,
        )  # fmt: skip
        assert await refusal(real_api, job) is None
        await jobs.submit(real_api, job, batch=True)
        async with asyncio.timeout(waiting.WAIT_S):
            while (found := await refusal(real_api, job)) is None or said not in found:
                await asyncio.sleep(0.1)
        assert not found.startswith("pods")
    finally:
        await real_api.request("DELETE", f"/api/v1/namespaces/{namespace}")
