"""The Pods bound to the agent's Node, as the Kubernetes API lists and changes them."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Protocol

from carico_agent import settings
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks

PODS = "/api/v1/pods"


class Api(Protocol):
    """What is needed of a client."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncGenerator[api_client.MirrorEvent, None]:
        """List and watch for ever."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...


Connect = Callable[[], Awaitable[Api]]


def connector(
    chosen: settings.AgentSettings, *, clock: clocks.Clock, observe: api_client.Observe | None = None
) -> Connect:  # fmt: skip
    """Return what connects to the API that these settings name."""
    wanted = api_client.KubeSettings(kubeconfig=chosen.kubeconfig, context=chosen.kube_context)
    return lambda: api_client.connect(wanted, clock=clock, user_agent=settings.PROGRAM, observe=observe)


async def follow(node: str, connect: Connect, take: Callable[[api_client.MirrorEvent], None]) -> None:
    """Pass each event of the node's Pods to `take` until cancelled. Raises `KubeconfigError`."""
    api = await connect()
    try:
        async with contextlib.aclosing(api.mirror(PODS, params={"fieldSelector": f"spec.nodeName={node}"})) as events:
            async for event in events:
                take(event)
    finally:
        await api.close()
