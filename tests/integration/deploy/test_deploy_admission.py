"""The shipped admission policies on a real API server."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import yaml

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from tests.tools import waiting

ADMISSION = pathlib.Path(__file__).parents[3] / "deploy/admission"
GROUP = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "MutatingAdmissionPolicy": f"{GROUP}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{GROUP}/mutatingadmissionpolicybindings",
}


@contextlib.asynccontextmanager
async def applied(api: api_client.KubeClient, file: str, **namespaces: dict[str, str]) -> AsyncIterator[None]:
    """A policy, and namespaces with these labels."""
    documents = list(yaml.safe_load_all((ADMISSION / file).read_text()))
    try:
        for name, labels in namespaces.items():
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            await api.request("POST", "/api/v1/namespaces", body=body)
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            with contextlib.suppress(errors.Conflict):
                await api.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", body=account)
        for document in documents:
            await api.request("POST", PATHS[document["kind"]], body=document)
        yield
    finally:
        for document in documents:
            await api.request("DELETE", f"{PATHS[document['kind']]}/{document['metadata']['name']}")


async def made(api: api_client.KubeClient, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return the specification that a Pod gets. Nothing is stored, so that no scheduler sees it."""
    found = await created(api, namespace, **spec)
    return dict(found["spec"])


async def created(api: api_client.KubeClient, namespace: str, **spec: Any) -> dict[str, Any]:
    """Return the Pod as the API server would store it."""
    body: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"},
        "spec": {"containers": [{"name": "main", "image": "pi"}], "automountServiceAccountToken": False} | spec,
    }  # fmt: skip
    path = f"/api/v1/namespaces/{namespace}/pods"
    return dict(await api.request("POST", path, body=body, params={"dryRun": "All"}))


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds: the API server takes a new policy in within seconds."""
    async with asyncio.timeout(waiting.WAIT_S):
        while not await check():
            await asyncio.sleep(0.2)


async def test_the_pods_of_a_labelled_namespace_name_carico(real_api: api_client.KubeClient) -> None:
    async def schedulers(namespace: str) -> list[str]:
        """Return the schedulerName of a Pod that names none, and of one that names volcano."""
        found = [await made(real_api, namespace, **spec) for spec in ({}, {"schedulerName": "volcano"})]
        return [each["schedulerName"] for each in found]

    async def is_sent() -> bool:
        return await schedulers("sent") == ["carico", "volcano"]

    async with applied(real_api, "scheduler-name.yaml", sent={"carico.dev/scheduler": "carico"}, left={}):
        await until(is_sent)
        assert await schedulers("left") == ["default-scheduler", "volcano"]


ONE_MILLICORE = {"requests": {"cpu": "1m"}}


async def test_a_pod_without_requests_becomes_burstable_and_no_other_changes(real_api: api_client.KubeClient) -> None:
    async def resources(namespace: str, **spec: Any) -> list[dict[str, Any]]:
        return [each["resources"] for each in (await made(real_api, namespace, **spec))["containers"]]

    async def is_burstable() -> bool:
        return await resources("burstable") == [ONE_MILLICORE]

    two = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "resources": {"requests": {"memory": "64Mi"}}}]
    init = [{"name": "i", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
    async with applied(real_api, "burstable.yaml", burstable={"carico.dev/burstable": "true"}, **{"as-it-was": {}}):
        await until(is_burstable)
        assert await resources("burstable", containers=[two[0], {"name": "c", "image": "i"}]) == [ONE_MILLICORE, {}]
        assert await resources("burstable", containers=two) == [{}, {"requests": {"memory": "64Mi"}}]
        assert await resources("burstable", initContainers=init) == [{}]
        assert await resources("burstable", resources={"requests": {"cpu": "1"}}) == [{}]
        assert await resources("as-it-was") == [{}]
        # By the mark the webhook knows that it may replace the request.
        marked = [
            (await created(real_api, "burstable", containers=containers))["metadata"].get("annotations")
            for containers in (two[:1], two)
        ]
        assert marked == [{"carico.dev/token-request": "cpu"}, None]
        # Claims for devices are no requests, and stay.
        device = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}]}
        holds = [{"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]
        found = await resources("burstable", containers=holds, **device)
        assert found == [ONE_MILLICORE | {"claims": [{"name": "gpu"}]}]
