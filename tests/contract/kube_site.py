"""The APIs that CARICO's client is tested on: the in-memory one, the embedded one and a real one."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, api_client, list_watch, paged_lists
from carico_core.runtime.process import clock as clocks
from tests.contract.kubernetes import control_planes, shapes
from tests.tools import waiting
from tests.tools.memory import memory_kube

OPTIONS = list_watch.Options(watch_s=20.0, backoff_first_s=0.02, backoff_most_s=0.2)
PATIENCE_S = waiting.WAIT_S
_NUMBERS = itertools.count(1)
Client = api_client.KubeClient | memory_kube.MemoryKube


class Site:
    """One API under test."""

    def __init__(self, client: Client, *, restart: Callable[[], Awaitable[None]]) -> None:
        self.client = client
        # Breaks every connection off; the API is away for a moment and comes back with all it knew.
        self.restart = restart
        self.namespace = f"contract-{next(_NUMBERS)}"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"

    async def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """A new Pod."""
        made: dict[str, Any] = await self.client.request("POST", self.pods, body=shapes.pod(name, **spec))
        return made

    async def delete(self, name: str) -> None:
        """The Pod is gone at once."""
        body = {"gracePeriodSeconds": 0}
        await self.client.request("DELETE", f"{self.pods}/{name}", body=body)

    def mirror(self, api: paged_lists.Api | None = None) -> AsyncGenerator[list_watch.MirrorEvent, None]:
        """A mirror of the namespace's Pods."""
        return list_watch.mirror(
            api or self.client,
            self.pods,
            params={},
            clock=clocks.SystemClock(),
            rng=random.Random(1),
            options=OPTIONS,
        )

    async def bind(self, pod: dict[str, Any], *, uid: str | None = None, node: str = "") -> None:
        """Binds the Pod as a scheduler does."""
        metadata = pod["metadata"]
        await api_actions.bind(
            self.client,
            namespace=self.namespace,
            name=metadata["name"],
            uid=uid or metadata["uid"],
            node=node or self.namespace,
        )


@contextlib.asynccontextmanager
async def memory_site(_: pytest.FixtureRequest) -> AsyncIterator[Site]:
    client = memory_kube.MemoryKube(clock=clocks.SystemClock())

    async def restart() -> None:
        client.go_away()
        await asyncio.sleep(0.3)
        client.come_back()

    yield Site(client, restart=restart)
    await client.close()


@contextlib.asynccontextmanager
async def embedded_site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    async with api_site(request.getfixturevalue("embedded")) as site:
        yield site


@contextlib.asynccontextmanager
async def real_site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    plane = request.getfixturevalue("real_control_plane")
    async with api_site(control_planes.real(plane, None)) as site:
        yield site


@contextlib.asynccontextmanager
async def api_site(api: control_planes.KubeApi) -> AsyncIterator[Site]:
    settings = api_client.KubeSettings(kubeconfig=str(api.kubeconfig))
    client = await api_client.connect(settings, clock=clocks.SystemClock(), user_agent="contract")
    assert api.kill_and_restart is not None
    kill = api.kill_and_restart

    async def restart() -> None:
        await asyncio.to_thread(kill)

    site = Site(client, restart=restart)
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": site.namespace}})
    # A real API refuses Pods until its controllers have made the namespace's account.
    async with asyncio.timeout(PATIENCE_S):
        while await _is_absent(client, f"/api/v1/namespaces/{site.namespace}/serviceaccounts/default"):
            await asyncio.sleep(0.05)
    yield site
    await client.close()


async def _is_absent(client: api_client.KubeClient, path: str) -> bool:
    try:
        await client.request("GET", path)
    except errors.NotFound:
        return True
    return False


SITES = {"memory": memory_site, "embedded": embedded_site, "real": real_site}
