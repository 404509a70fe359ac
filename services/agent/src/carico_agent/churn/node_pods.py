"""The Pods bound to the agent's Node, as the Kubernetes API lists and changes them."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Protocol

from carico_agent import settings
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube

PODS = "/api/v1/pods"


class Api(Protocol):
    """What is needed of a client."""

    def mirror(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncGenerator[kube.MirrorEvent, None]:
        """List and watch for ever."""
        ...

    async def close(self) -> None:
        """Nothing; it is not used any more."""
        ...


Connect = Callable[[], Awaitable[Api]]


def connector(
    chosen: settings.AgentSettings, *, clock: clocks.Clock, observe: kube.Observe | None = None
) -> Connect:  # fmt: skip
    """What connects to the API that these settings name."""
    wanted = kube.KubeSettings(kubeconfig=chosen.kubeconfig, context=chosen.kube_context)
    return lambda: kube.connect(wanted, clock=clock, user_agent=settings.PROGRAM, observe=observe)


async def follow(node: str, connect: Connect, take: Callable[[kube.MirrorEvent], None]) -> None:
    """Never returns; `take` is given each event of the node's Pods. Raises `KubeconfigError`."""
    api = await connect()
    try:
        async with contextlib.aclosing(api.mirror(PODS, params={"fieldSelector": f"spec.nodeName={node}"})) as events:
            async for event in events:
                take(event)
    finally:
        await api.close()
